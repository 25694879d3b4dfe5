"""Damaged and odd data files are read right or refused, by an independent reading."""

import io

import pytest
from helpers.benchmarks import load_benchmark

from bayespoint.io.tables import read_table


@pytest.fixture(scope="module")
def fuzz():
    pytest.importorskip("pyarrow")
    return load_benchmark("fuzz_files")


@pytest.mark.parametrize(
    ("n_files", "n_commands"), [(76, 6), pytest.param(2850, 190, marks=pytest.mark.slow)]
)
def test_damaged_files_are_read_right_or_refused(fuzz, n_files, n_commands):
    said = io.StringIO()
    failures = fuzz.run(n_files, n_commands, seed=1, say=lambda text: said.write(text + "\n"))
    assert failures == 0, said.getvalue()


def test_a_wrong_reading_is_noticed(fuzz, tmp_path):
    case = fuzz.Case(b"a,b\n1,x\n2,y\n", ".csv")
    (tmp_path / "x.csv").write_bytes(case.data)
    table = read_table(tmp_path / "x.csv")
    fuzz.check_same(table, *fuzz.expected_columns(case, tmp_path / "x.csv"))
    with pytest.raises(AssertionError):
        fuzz.check_same(table, ["a", "b"], [[1.0, 3.0], ["x", "y"]])
    with pytest.raises(AssertionError, match="unsafe"):
        fuzz.check_message("red \x1b[31m")
