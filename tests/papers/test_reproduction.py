"""Items, verdicts, folder and command of ``bayespoint reproduce``."""

import json
import re
from dataclasses import replace

import numpy as np
import pytest
from helpers.paths import ROOT
from typer.testing import CliRunner

from bayespoint.cli import reproduce
from bayespoint.cli.app import app
from bayespoint.displays.style import pyplot
from bayespoint.papers import reproduction
from bayespoint.papers.reproduction import folder
from bayespoint.papers.reproduction.item import BY_CONSTRUCTION, Claim, Quantity, Run, overall

DOCS = ROOT / "docs" / "reproduction"

# Tables, figures and statements of the papers, in the order of each paper.
WANTED = {
    "LSB": ["figure 1", "figure 2", "question"],
    "JMLR": ["figure 2", *(f"figure {k}" for k in (5, 6, 7, 8, 9, 10, 12)), "table 1"],
    "KGS": ["figure 1", "figure 3", "figure 4"],
    "RM": [*(f"figure 18.{k}" for k in (1, 2, 3, 4, 11, 12, 13)), "table 18.1", "breast cancer"],
}


def run(*arguments):
    return CliRunner().invoke(app, ["reproduce", *map(str, arguments)])


def no_colour(text):
    return re.sub(r"\x1b\[[0-9;]*m", "", text)


# ---------------------------------------------------------------------- the rule


@pytest.mark.parametrize(
    ("measured", "better", "verdict"),
    [
        (1.0, "lower", "reproduced"),
        (1.19, "lower", "reproduced"),
        (1.21, "lower", "not reproduced"),
        (0.79, "lower", "better"),
        (1.21, "higher", "better"),
        (0.79, "higher", "not reproduced"),
        (0.79, None, "not reproduced"),
        (1.21, None, "not reproduced"),
        (float("nan"), "lower", "not reproduced"),
    ],
)
def test_a_number_is_reproduced_within_two_standard_errors(measured, better, verdict):
    errors = {"published_error": 0.06, "measured_error": 0.08}  # 0.1 together
    assert Quantity("x", 1.0, measured, **errors, better=better).verdict == verdict


def test_a_tolerance_adds_to_chance():
    row = Quantity("x", 1.0, 1.25, measured_error=0.1, tolerance=0.05 + 1e-9)
    assert row.verdict == "reproduced"
    assert replace(row, tolerance=0.04).verdict == "not reproduced"
    assert "within 0.04" in replace(row, tolerance=0.04).cells()[1]


def test_a_tolerance_may_have_one_side():
    row = Quantity("x", 100.0, 102.0, measured_error=0.1, tolerance=(0.0, 2.5), better=None)
    assert row.verdict == "reproduced"
    assert replace(row, measured=98.0).verdict == "not reproduced"
    assert replace(row, measured=99.9).verdict == "reproduced"  # chance has two
    assert replace(row, measured=98.0, tolerance=(2.5, 0.0)).verdict == "reproduced"
    assert replace(row, tolerance=(2.5, 0.0)).verdict == "not reproduced"
    assert "within 0 below and 2.5 above" in row.cells()[1]


@pytest.mark.parametrize("error", ["published_error", "measured_error"])
@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_without_a_standard_error_nothing_is_reproduced(error, value):
    for measured in (0.5, 1.0, 1.5):
        assert Quantity("x", 1.0, measured, **{error: value}).verdict == "not reproduced"


def test_without_errors_numbers_must_be_equal():
    assert Quantity("x", 3, 3).verdict == "reproduced"
    assert Quantity("x", 3, 4).verdict == "not reproduced"


def test_an_item_is_as_good_as_its_worst_row():
    good, better = Claim("a", True, ""), Quantity("b", 1, 0)
    bad = Claim("c", False, "")
    assert overall([good, good]) == "reproduced"
    assert overall([good, better]) == "better"
    assert overall([good, better, bad]) == "not reproduced"


def test_what_holds_by_construction_does_not_count():
    sure, bad = Claim("a", True, "", by_construction=True), Claim("b", False, "")
    assert sure.verdict == BY_CONSTRUCTION
    assert replace(sure, holds=False).verdict == "not reproduced"  # a mistake of ours
    assert overall([sure, Claim("c", True, "")]) == "reproduced"
    rows = [{"verdict": row.verdict} for row in (sure, sure, bad, Claim("c", True, ""))]
    record = {"verdict": overall([sure, bad]), "rows": rows}
    assert folder.share([record]) == (
        "Reproduced: 0 of 1 items (0%); 1 of 2 numbers and statements (50%)."
    )


def test_errors_are_printed():
    cells = Quantity("x", 25.4, 26.071, 0.4, 0.31).cells()
    assert cells == ("x", "25.40 ± 0.40", "26.07 ± 0.31", "reproduced")


# ---------------------------------------------------------------------- runs


def double(x, y):
    return 2 * x + y


def test_a_run_seeds_by_item_and_key():
    one, other = Run("a"), Run("b")
    draws = {tuple(r.rng(*key).random(3)) for r in (one, other) for key in ((), (1,), (2,))}
    assert len(draws) == 6
    assert np.array_equal(one.rng(1).random(3), Run("a").rng(1).random(3))
    assert one.integer(1) != Run("a", seed=1).integer(1)


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_map_keeps_the_order_and_tells_progress(n_jobs):
    told = []
    settings = Run("a", n_jobs=n_jobs, on_progress=lambda *done: told.append(done))
    assert settings.map(double, [(k, 1) for k in range(5)]) == [1, 3, 5, 7, 9]
    assert told == [(k, 5) for k in range(1, 6)]


def test_numbers_are_stored_as_strict_json():
    data = {"a": np.array([1.0, np.nan]), "b": (np.int64(2), np.inf), 3: {"c": 0.123456789}}
    plain = folder.plain(data)
    assert plain == {"a": [1.0, None], "b": [2, None], "3": {"c": 0.1234568}}
    json.dumps(plain, allow_nan=False)


# ---------------------------------------------------------------------- items


def test_every_item_of_the_list_is_there():
    items = [reproduction.load(name) for name in reproduction.NAMES]
    assert {paper: [i.place for i in items if i.paper == paper] for paper in WANTED} == WANTED
    assert [item.name for item in items] == list(reproduction.NAMES)


@pytest.mark.parametrize("name", reproduction.NAMES)
def test_items_say_what_they_do(name):
    item = reproduction.load(name)
    for text in (item.title, item.then, item.now, item.alt):
        assert len(text.strip()) > 10
    assert "\n" not in item.title
    assert len(item.title) < 90


@pytest.mark.parametrize("name", reproduction.NAMES)
def test_thoughts_quote_the_stored_numbers(name):
    record = json.loads((DOCS / f"{name}.json").read_text(encoding="utf-8"))
    text = reproduction.load(name).why(record["data"])
    assert len(text) > 100
    assert "{" not in text
    assert "nan" not in re.findall(r"\w+", text)


def test_titles_keep_their_capitals():
    page = (DOCS / folder.PAGE).read_text(encoding="utf-8")
    assert "### Figure 2: MNIST by ten" in page
    assert "### Breast cancer: Wisconsin" in page


def test_unknown_items_are_named():
    with pytest.raises(ValueError, match="no item 'jmlr-figure-1'"):
        reproduction.load("jmlr-figure-1")


# ---------------------------------------------------------------------- the stored run


def stored():
    return folder.read_folder(DOCS)


def test_the_documented_run_is_complete_and_as_published():
    records = stored()
    assert [record["name"] for record in records] == list(reproduction.NAMES)
    assert not any(record["quick"] for record in records)


def test_the_page_is_what_its_numbers_give():
    assert (DOCS / folder.PAGE).read_text(encoding="utf-8") == folder.page(stored())


@pytest.mark.parametrize("name", reproduction.NAMES)
def test_verdicts_follow_from_the_stored_numbers(name):
    record = json.loads((DOCS / f"{name}.json").read_text(encoding="utf-8"))
    rows = reproduction.load(name).compare(record["data"])
    assert [row.verdict for row in rows] == [row["verdict"] for row in record["rows"]]
    assert [list(row.cells()) for row in rows] == record["cells"]
    assert overall(rows) == record["verdict"]


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=() if k % 4 == 0 else pytest.mark.slow)
     for k, name in enumerate(reproduction.NAMES)],
)  # fmt: skip
def test_pictures_are_drawn_from_the_stored_numbers(name, tmp_path):
    pyplot("a test").switch_backend("Agg")
    record = json.loads((DOCS / f"{name}.json").read_text(encoding="utf-8"))
    picture = tmp_path / "picture.png"
    folder.draw_item(reproduction.load(name), record["data"], picture)
    assert picture.stat().st_size > 5_000
    assert (DOCS / f"{name}.png").is_file()


# ---------------------------------------------------------------------- the command


def test_list_prints_one_line_an_item():
    result = run("--list")
    assert result.exit_code == 0
    lines = result.output.splitlines()
    assert [line.split()[0] for line in lines] == list(reproduction.NAMES)


def test_one_item_writes_numbers_picture_and_page(tmp_path):
    result = run("jmlr-figure-12", "--quick", "--output", tmp_path / "new")
    assert result.exit_code == 0, result.output
    assert "reproduced" in result.output
    names = sorted(path.name for path in (tmp_path / "new").iterdir())
    assert names == ["index.md", "jmlr-figure-12.json", "jmlr-figure-12.png"]
    record = json.loads((tmp_path / "new" / "jmlr-figure-12.json").read_text(encoding="utf-8"))
    assert record["quick"]
    assert "Small runs" in (tmp_path / "new" / "index.md").read_text(encoding="utf-8")


def test_redraw_uses_stored_numbers_only(tmp_path, monkeypatch):
    assert run("jmlr-figure-12", "--quick", "--output", tmp_path).exit_code == 0
    path = tmp_path / "jmlr-figure-12.json"
    record = json.loads(path.read_text(encoding="utf-8"))
    record["data"]["shift"] = 0.2
    path.write_text(json.dumps(record), encoding="utf-8")
    monkeypatch.setattr(folder, "run_item", None)
    result = run("jmlr-figure-12", "--redraw", "--output", tmp_path)
    assert result.exit_code == 0, result.output
    assert json.loads(path.read_text(encoding="utf-8"))["verdict"] == "not reproduced"


def test_redraw_without_numbers_fails(tmp_path):
    result = run("jmlr-figure-12", "--redraw", "--output", tmp_path)
    assert result.exit_code == 1
    assert "without --redraw first" in no_colour(result.output).replace("\n", " ")


def test_an_item_that_fails_does_not_stop_the_others(tmp_path, monkeypatch):
    item = reproduction.load("jmlr-figure-12")

    def fail(_):
        raise LookupError("no [data] set")

    broken = replace(item, measure=fail)
    load = {"jmlr-figure-12": item, "jmlr-figure-5": broken}.__getitem__
    monkeypatch.setattr(folder, "load", load)
    result = run("jmlr-figure-5", "jmlr-figure-12", "--quick", "--output", tmp_path)
    assert result.exit_code == 1
    assert "no [data] set" in result.output
    assert (tmp_path / "jmlr-figure-12.json").is_file()
    assert "1 of 2 items did not run" in no_colour(result.output)


def test_verdicts_do_not_change_the_exit_status(tmp_path, monkeypatch):
    item = reproduction.load("jmlr-figure-12")
    monkeypatch.setattr(
        folder, "load", lambda _: replace(item, compare=lambda _: [Claim("x", False, "seen")])
    )
    result = run("jmlr-figure-12", "--output", tmp_path)
    assert result.exit_code == 0
    assert "not reproduced" in result.output


def test_a_folder_that_cannot_be_written_is_refused_before_any_item(tmp_path, monkeypatch):
    monkeypatch.setattr(folder, "run_item", None)
    (tmp_path / "file").write_text("", encoding="utf-8")
    for output in (tmp_path / "file", tmp_path / "file" / "new"):
        result = run("jmlr-figure-12", "--quick", "--output", output)
        assert result.exit_code == 2
        assert "cannot write" in no_colour(result.output)
        assert "Traceback" not in result.output
    result = run("jmlr-figure-12", "--redraw", "--output", tmp_path / "none")
    assert result.exit_code == 2
    assert not (tmp_path / "none").exists()


def test_small_runs_do_not_replace_full_ones(tmp_path):
    assert run("jmlr-figure-12", "--output", tmp_path).exit_code == 0
    before = (tmp_path / "jmlr-figure-12.json").read_text(encoding="utf-8")
    result = run("jmlr-figure-12", "--quick", "--output", tmp_path)
    assert result.exit_code == 2
    assert "another" in no_colour(result.output)
    assert (tmp_path / "jmlr-figure-12.json").read_text(encoding="utf-8") == before
    # Other items, and the same as a small run of before, may go there.
    assert run("rm-figure-18.1", "--quick", "--output", tmp_path).exit_code == 0
    assert run("rm-figure-18.1", "--quick", "--output", tmp_path).exit_code == 0


def test_interrupted_runs_keep_what_is_done(tmp_path, monkeypatch):
    def stop(_):
        raise KeyboardInterrupt

    item = reproduction.load("jmlr-figure-12")
    items = {"jmlr-figure-12": item, "jmlr-figure-5": replace(item, measure=stop)}
    monkeypatch.setattr(folder, "load", items.__getitem__)
    result = run("jmlr-figure-12", "jmlr-figure-5", "--quick", "--output", tmp_path)
    assert result.exit_code == 130
    assert "items done: jmlr-figure-12" in no_colour(result.output)
    assert "jmlr-figure-12" in (tmp_path / "index.md").read_text(encoding="utf-8")
    first = run("jmlr-figure-5", "--quick", "--output", tmp_path / "empty")
    assert first.exit_code == 130
    assert "items done: none" in no_colour(first.output)


@pytest.mark.parametrize("arguments", [("jmlr-figure-1",), (), ("--seed", "-1", "all")])
def test_bad_usage(arguments):
    result = run(*arguments)
    assert result.exit_code == 2
    assert "Traceback" not in result.output


def test_names_are_taken_once_and_all_means_all():
    assert reproduce._checked(["all"]) == reproduction.NAMES
    assert reproduce._checked(["kgs-figure-1", "kgs-figure-1"]) == ("kgs-figure-1",)
