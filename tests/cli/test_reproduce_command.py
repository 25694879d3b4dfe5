"""``reproduce``: items into a folder, whatever fails or is interrupted on the way."""

import json
import re
from dataclasses import replace

import pytest
from helpers.cli import run

from bayespoint.papers import reproduction
from bayespoint.papers.reproduction import folder
from bayespoint.papers.reproduction.item import Claim

ONE, OTHER = "jmlr-figure-12", "jmlr-figure-5"


def reproduce(*arguments, status=0):
    """Run the command; return what it said, without colours, on one line."""
    result = run("reproduce", *arguments)
    assert result.exit_code == status, result.output
    assert "Traceback" not in result.output
    return " ".join(re.sub(r"\x1b\[[0-9;]*m", "", result.output).split())


def record(path, name=ONE):
    return json.loads((path / f"{name}.json").read_text(encoding="utf-8"))


def sketch(_, figure):
    figure.set_size_inches(1, 1)


def stop(_):
    raise KeyboardInterrupt


def fail(_):
    raise LookupError("no [data] set")


@pytest.fixture
def items(monkeypatch):
    """Items that are run in place of the real ones: quick, and with pictures of nothing."""
    known = {
        name: replace(
            reproduction.load(name), measure=lambda run: {"quick": run.quick}, draw=sketch,
            thoughts="", compare=lambda _: [Claim("x", True, "seen")],
        )
        for name in reproduction.NAMES
    }  # fmt: skip
    monkeypatch.setattr(folder, "load", known.__getitem__)
    return known


def test_list_prints_one_line_an_item():
    lines = run("reproduce", "--list").output.splitlines()
    assert [line.split()[0] for line in lines] == list(reproduction.NAMES)


def test_one_item_writes_numbers_picture_and_page_and_is_drawn_again(tmp_path):
    new = tmp_path / "new"
    assert "reproduced" in reproduce(ONE, "--quick", "--output", new)
    names = sorted(path.name for path in new.iterdir())
    assert names == ["index.md", f"{ONE}.json", f"{ONE}.png", "jmlr.md"]
    first = record(new)
    assert first["quick"]
    assert first["verdict"] == "reproduced"
    assert "Small runs" in (new / "index.md").read_text(encoding="utf-8")
    first["data"]["shift"] = 0.2
    (new / f"{ONE}.json").write_text(json.dumps(first), encoding="utf-8")
    reproduce(ONE, "--redraw", "--output", new)
    again = record(new)
    assert again["verdict"] == "open"  # a small run refutes nothing
    first["quick"] = False
    (new / f"{ONE}.json").write_text(json.dumps(first), encoding="utf-8")
    reproduce(ONE, "--redraw", "--output", new)
    assert record(new)["verdict"] == "refuted"
    assert again["data"] == first["data"]  # stored numbers only
    assert "without --redraw first" in reproduce(OTHER, "--redraw", "--output", new, status=1)


def test_options_reach_the_run(tmp_path, items):
    items[ONE] = replace(items[ONE], measure=lambda run: {"run": [run.seed, run.n_jobs]})
    reproduce(ONE, "--seed", 7, "--n-jobs", 3, "--output", tmp_path)
    found = record(tmp_path)
    assert found["data"]["run"] == [7, 3]
    assert (found["seed"], found["n_jobs"], found["quick"]) == (7, 3, False)


def test_an_item_that_fails_does_not_stop_the_others(tmp_path, items):
    items[OTHER] = replace(items[OTHER], measure=fail)
    said = reproduce(OTHER, ONE, "--quick", "--output", tmp_path, status=1)
    assert "no [data] set" in said
    assert (tmp_path / f"{ONE}.json").is_file()
    assert "1 of 2 items did not run" in said


def test_verdicts_do_not_change_the_exit_status(tmp_path, items):
    items[ONE] = replace(items[ONE], compare=lambda _: [Claim("x", False, "seen")])
    assert "refuted" in reproduce(ONE, "--output", tmp_path)
    asked = Claim("x", False, "seen", ours=True)
    items[ONE] = replace(items[ONE], compare=lambda _: [asked, replace(asked, holds=True)])
    said = reproduce(ONE, "--output", tmp_path)
    assert f"{ONE}: answered" in said
    assert "2 questions of our own: 1 yes, 1 no." in said


def test_all_means_all_and_names_are_taken_once(tmp_path, items):
    for name in items:
        items[name] = replace(items[name], measure=fail)
    said = reproduce("all", "--output", tmp_path, status=1)
    n = len(reproduction.NAMES)
    assert f"{n} of {n} items did not run: {', '.join(reproduction.NAMES)}" in said
    said = reproduce(ONE, ONE, "--output", tmp_path, status=1)
    assert "1 of 1 items did not run" in said


def test_a_folder_that_cannot_be_written_is_refused_before_any_item(tmp_path, items):
    items[ONE] = replace(items[ONE], measure=stop)  # were it run, the status would be another
    (tmp_path / "file").write_text("", encoding="utf-8")
    for output in (tmp_path / "file", tmp_path / "file" / "new"):
        assert "cannot write" in reproduce(ONE, "--quick", "--output", output, status=2)
    reproduce(ONE, "--redraw", "--output", tmp_path / "none", status=2)
    assert not (tmp_path / "none").exists()


@pytest.mark.usefixtures("items")
def test_small_runs_do_not_replace_full_ones(tmp_path):
    reproduce(ONE, "--output", tmp_path)
    before = record(tmp_path)
    assert "another" in reproduce(ONE, "--quick", "--output", tmp_path, status=2)
    assert record(tmp_path) == before
    # Other items, and the same as a small run of before, may go there.
    reproduce(OTHER, "--quick", "--output", tmp_path)
    reproduce(OTHER, "--quick", "--output", tmp_path)
    assert record(tmp_path, OTHER)["data"] == {"quick": True}


def test_interrupted_runs_keep_what_is_done(tmp_path, items):
    items[OTHER] = replace(items[OTHER], measure=stop)
    said = reproduce(ONE, OTHER, "--quick", "--output", tmp_path, status=130)
    assert f"items done: {ONE}" in said
    assert ONE in (tmp_path / "index.md").read_text(encoding="utf-8")
    said = reproduce(OTHER, "--quick", "--output", tmp_path / "empty", status=130)
    assert "items done: none" in said
