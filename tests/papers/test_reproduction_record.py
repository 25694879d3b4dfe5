"""The documented run of the papers: complete, as published, and what its numbers give."""

import base64
import json
import re

import numpy as np
import pytest
from helpers.items import stored
from helpers.paths import ROOT
from scipy.interpolate import RegularGridInterpolator

from bayespoint.displays.style import pyplot
from bayespoint.papers import reproduction
from bayespoint.papers.reproduction import folder, pages
from bayespoint.papers.reproduction.item import BY_CONSTRUCTION, OPEN, REFUTED, overall

DOCS = ROOT / "docs" / "reproduction"

# Tables, figures and statements of the papers, in the order of each paper.
WANTED = {
    "LSB": ["figure 1", "figure 2", "question"],
    "JMLR": ["figure 2", *(f"figure {k}" for k in (5, 6, 7, 8, 9, 10, 12)), "table 1"],
    "KGS": ["figure 1", "figure 3", "figure 4"],
    "RM": [*(f"figure 18.{k}" for k in (1, 2, 3, 4, 11, 12, 13)), "table 18.1", "breast cancer"],
}


def test_every_item_of_the_list_is_there():
    items = [reproduction.load(name) for name in reproduction.NAMES]
    assert {paper: [i.place for i in items if i.paper == paper] for paper in WANTED} == WANTED
    assert [item.name for item in items] == list(reproduction.NAMES)
    with pytest.raises(ValueError, match="no item 'jmlr-figure-1'"):
        reproduction.load("jmlr-figure-1")


def test_the_documented_run_is_complete_and_as_published():
    records = folder.read_folder(DOCS)
    assert [record["name"] for record in records] == list(reproduction.NAMES)
    assert not any(record["quick"] for record in records)
    page = ""
    for paper in WANTED:
        theirs = [record for record in records if reproduction.load(record["name"]).paper == paper]
        written = (DOCS / pages.page_name(paper)).read_text(encoding="utf-8")
        assert written == pages.paper_page(paper, theirs)
        page += written
    assert (DOCS / pages.INDEX).read_text(encoding="utf-8") == pages.index(records)
    thoughts = [part.split("\n\n")[0] for part in page.split("\n*Why.* ")[1:]]
    assert len(thoughts) == len(records)
    for text in thoughts:
        assert len(text) > 100
        assert "{" not in text
        assert "nan" not in re.findall(r"\w+", text)
    # Titles keep their capitals.
    assert "## Figure 2: MNIST by ten" in page
    assert "## Breast cancer: Wisconsin" in page


def test_the_index_counts_every_row_once():
    records = folder.read_folder(DOCS)
    rows = [row for record in records for row in record["rows"]]
    counted = pages.counts(records).total() + pages.counts(records, ours=True).total()
    assert counted == sum(row["verdict"] != BY_CONSTRUCTION for row in rows)
    # What is open says why, and nothing is open without a reason.
    assert all(row["unsaid"] for row in rows if row["verdict"] == OPEN)
    assert not any(row["unsaid"] for row in rows if row["verdict"] == REFUTED)
    index = pages.index(records)
    for record in records:
        item = reproduction.load(record["name"])
        link = f"[{item.name}]({pages.page_name(item.paper)}#{pages.anchor(item.name)})"
        assert f"| {link} | {item.finding}" in index


# Of a second or two: their statements, and their thoughts on the page, have other tests.
LONG = ("lsb-figure-1", "kgs-figure-3")
SLOWLY_DRAWN = ("jmlr-figure-6", "jmlr-figure-10", "rm-figure-18.2", "rm-table-18.1")


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=pytest.mark.slow if name in LONG else ())
     for name in reproduction.NAMES],
)  # fmt: skip
def test_verdicts_and_picture_follow_from_the_stored_numbers(name):
    item = reproduction.load(name)
    for text in (item.title, item.then, item.now, item.alt, item.finding, item.source):
        assert len(text.strip()) > 10
    assert "\n" not in item.title
    assert len(item.title) < 90
    record = json.loads((DOCS / f"{name}.json").read_text(encoding="utf-8"))
    rows = item.compare(record["data"])
    assert [row.verdict for row in rows] == [row["verdict"] for row in record["rows"]]
    assert [list(row.cells()) for row in rows] == record["cells"]
    assert overall(rows) == record["verdict"]
    # Every number is explained; "x_error" is the standard error of "x".
    assert record["keys"] == item.keys
    assert set(item.keys) <= set(record["data"])
    assert {key.removesuffix("_error") for key in record["data"]} <= {
        key.removesuffix("_error") for key in item.keys
    }
    assert (DOCS / f"{name}.png").is_file()
    if name not in SLOWLY_DRAWN:
        plt = pytest.importorskip("matplotlib.figure")
        figure = plt.Figure(figsize=item.size, layout="constrained")
        item.draw(record["data"], figure)
        assert figure.axes


@pytest.mark.parametrize(
    ("name", "key"),
    [("kgs-figure-4", "rates"), ("kgs-figure-4", "slacks"), ("rm-figure-18.3", "stretches")],
)
def test_curves_are_drawn_at_the_stored_places(name, key):
    plt = pytest.importorskip("matplotlib.figure")
    data, figure = stored(name), plt.Figure()
    data[key] = [2 * x for x in data[key]]
    reproduction.load(name).draw(data, figure)
    drawn = [line.get_xdata() for axes in figure.axes for line in axes.lines]
    assert any(np.array_equal(x, data[key]) for x in drawn)


def test_boundaries_can_be_drawn_from_the_stored_numbers_alone():
    """Most points are on the side of their label; with a grid turned round it is half of them."""
    data = stored("kgs-figure-3")
    assert len(data["rates"]) == len(data["grids"]) == len(data["diversity"])
    y, x, right = data["grid_y"], data["grid_x"], []
    for text in data["grids"][-1]:
        roots = np.frombuffer(base64.b64decode(text), np.int8).reshape(len(y), len(x)) / 127
        outputs = RegularGridInterpolator((y, x), roots * np.abs(roots))
        right.append(outputs(np.array(data["X"])[:, ::-1]) * data["y"] > 0)
    assert np.mean(right) > 0.8


@pytest.mark.slow
@pytest.mark.parametrize("name", reproduction.NAMES)
def test_pictures_are_written(name, tmp_path):
    pyplot("a test").switch_backend("Agg")
    folder.draw_item(reproduction.load(name), stored(name), tmp_path / "picture.png")
    assert (tmp_path / "picture.png").stat().st_size > 5_000
