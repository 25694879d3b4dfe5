"""Small runs of items: their numbers are compared and drawn as the documented ones are."""

import json

import numpy as np
import pytest
from helpers.items import stored

from bayespoint.displays.style import pyplot
from bayespoint.papers import datasets, reproduction
from bayespoint.papers.reproduction import folder
from bayespoint.papers.reproduction.item import Run

# Less than a second each.
QUICK = ("jmlr-figure-2", "jmlr-figure-5", "jmlr-figure-6", "rm-figure-18.1", "rm-figure-18.2",
         "rm-figure-18.4")  # fmt: skip


class Smaller(Run):
    """A third of a small run."""

    def size(self, published, quick):
        return super().size(published, quick // 3)


def small_run(name, kind=Run):
    try:
        data = reproduction.load(name).measure(kind(name, quick=True))
    except datasets.DataNotFoundError as error:
        pytest.skip(str(error))
    return json.loads(json.dumps(folder.plain(data), allow_nan=False))


def check(name, data):
    """What holds whatever came out."""
    if name == "jmlr-figure-2":
        share, n = data["consistent"] / data["n_random"], data["n_random"]
        # Four standard errors.
        assert share == pytest.approx(data["area"], abs=4 * np.sqrt(data["area"] / n))
    elif name == "jmlr-figure-5":
        # Three points in the plane: the linear kernel's third eigenvalue is zero, so that the
        # longest axis is 1 / sqrt(lambda) before scaling; nothing but a ball is left at the end.
        assert data["linear_rank"] == 2
        assert data["rbf"]["ratio"][2][-1] <= np.sqrt(1 + 3 / data["lambdas"][-1])
    elif name == "jmlr-figure-6":
        regular, elongated = (data["shown"][k]["elongation"] for k in ("regular", "elongated"))
        assert 1 < regular < np.median(data["some"]["elongation"]) < elongated
    elif name == "rm-figure-18.1":
        assert data["areas"] == pytest.approx([data["area"] / 2] * 2, abs=1e-6)
    elif name == "rm-figure-18.2":
        for shape in data["shapes"].values():
            assert shape["bayes_rms"] <= shape["centre_rms"] + 1e-12
            assert shape["bayes_rms"] <= shape["least_worst"] + 1e-12
    elif name == "rm-figure-18.4":
        uneven = [row["uneven"] for row in data["balls"]]
        assert uneven == sorted(uneven, reverse=True)


@pytest.mark.parametrize("name", QUICK)
def test_small_runs_are_like_the_documented_one(name):
    kind = Smaller if name.startswith("jmlr") else Run
    data, item = small_run(name, kind), reproduction.load(name)
    assert data.keys() == stored(name).keys()
    assert len(item.compare(data)) == len(item.compare(stored(name)))
    check(name, data)


@pytest.mark.slow
@pytest.mark.parametrize("name", reproduction.NAMES)
def test_all_small_runs_are_compared_and_drawn(name, tmp_path):
    pyplot("a test").switch_backend("Agg")
    data, item = small_run(name), reproduction.load(name)
    assert data.keys() == stored(name).keys()
    assert item.compare(data)
    folder.draw_item(item, data, tmp_path / "picture.png")
    assert (tmp_path / "picture.png").stat().st_size > 5000
    check(name, data)
