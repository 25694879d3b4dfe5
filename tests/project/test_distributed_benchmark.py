"""What a benchmark of fits on Dask finds is its exit status."""

import sys

import numpy as np
import pytest
from helpers.benchmarks import load_benchmark

pytest.importorskip("dask")


@pytest.mark.parametrize(
    ("found", "status"), [(None, 0), (True, 0), (np.True_, 0), (False, 1), (np.False_, 1)]
)
def test_the_status_is_what_a_part_finds(monkeypatch, found, status):
    benchmark = load_benchmark("distributed_fit")
    monkeypatch.setitem(benchmark.PARTS, "lost", lambda _: found)
    monkeypatch.setattr(sys, "argv", ["distributed_fit.py", "--part", "lost"])
    with pytest.raises(SystemExit) as ended:
        benchmark.main()
    assert int(ended.value.code or 0) == status
