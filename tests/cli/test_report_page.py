"""The page of ``evaluate``: complete, readable offline, and harmless whatever the data say."""

import json
import re

import numpy as np
import pytest
from helpers.cli import FAST, assert_offline, fails, numbers, part, reported, well, write

from bayespoint.io.model_file import load, save


@pytest.mark.parametrize("name", ["two", "two_some", "three", "three_some"])
def test_report_shows_all_and_needs_no_network(labelled, tmp_path, name):
    kind = name.split("_")[0]
    files = labelled / f"{kind}.csv", labelled / f"{name}.bpm"
    page, html, said = reported(*files, tmp_path / "r.html")
    assert_offline(page, html)
    found = numbers(*files)
    flat = " ".join(page.text.split())
    for words in (
        f"{found['error']:.1%} of the labels are wrong", "Clopper-Pearson", "Class by class",
        "Which classes are mistaken", "What rejecting", "expected calibration error",
        "Most doubtful rows", "How the model was trained", f"{kind}_train.csv", "perceptron",
        f"{found['brier']:.4f}", f"line {found['doubtful'][0]['line']}",
    ):  # fmt: skip
        assert words in flat
    assert ("ROC" in flat) == (kind == "two")
    assert ("of the decided rows are wrong" in flat) == ("some" in name)
    trained = "some" not in name  # by the command, so that the model holds importances
    assert html.count("<svg") == (5 if kind == "two" else 3) + trained
    assert ("Which columns matter" in flat) == trained
    assert 'name="viewport"' in html
    assert "prefers-color-scheme: dark" in html
    assert f"{found['error']:.2%}" in said
    assert len(html) < 200_000
    assert [path.name for path in tmp_path.iterdir()] == ["r.html"]


@pytest.mark.usefixtures("given")
def test_no_rows_leaves_no_cells(tmp_path):
    rng = np.random.default_rng(0)
    rows = [[x, f"cell{i % 3}secret", "ab"[int(x > 0)]] for i, x in enumerate(rng.normal(size=60))]
    train = write(tmp_path / "t.csv", ["x", "note", "kind"], rows)
    rows[5][1] = "newsecret"
    rows[6][2] = "strangesecret"
    files = write(tmp_path / "e.csv", ["x", "note", "kind"], rows), tmp_path / "m.bpm"
    well("train", train, "--target", "kind", "--model", files[1], *FAST)
    page, html, said = reported(*files, tmp_path / "r.html")
    assert "newsecret" in html
    assert "cell1secret" in html
    assert "in the training data as well" in page.text
    page, html, said = reported(*files, tmp_path / "r.html", "--no-rows")
    assert "secret" not in html
    assert "Most doubtful" not in html
    assert "are left out of this report" in page.text
    assert "newsecret" in said  # the terminal tells still
    found = numbers(*files, "--no-rows")
    assert "doubtful" not in found
    assert "secret" not in json.dumps(found)


NASTY = [
    "<script>alert(1)</script>", '"&quot;', "${7*7}", "{{7*7}}", "\u202eabc", "\x1b[31mred",
    "'><svg onload=alert(3)>", "n" * 300,
]  # fmt: skip
NASTY_LABELS = [
    "<img sr\u200bc=x onerror=alert(2)>",
    "$\\frac{1}{2$ \x1b[2J",
    "{% raw %}" + "W" * 150,
]


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.usefixtures("given")
def test_hostile_text_is_shown_and_not_run(tmp_path, n_classes):
    rng = np.random.default_rng(0)
    target = "</title><script>"
    rows = []
    for i in range(24):
        label = i % n_classes
        text = NASTY[(i + label) % len(NASTY)] if i else "A<" * 5000
        rows.append([*(rng.normal(size=7) + label), text, NASTY_LABELS[label]])
    data, model = write(tmp_path / "<u>t&.csv", [*NASTY, target], rows), tmp_path / "m.bpm"
    well("train", data, "--target", target, "--model", model, *FAST)
    page, html, said = reported(data, model, tmp_path / "r.html", target=target)
    assert not {"script", "img", "u", "i"} & set(page.tags)
    assert page.tags.count("svg") == (6 if n_classes == 2 else 4)
    assert not any(name.startswith("on") or name == "src" for name, _ in page.attributes)
    assert "<script>alert(1)</script>" in page.text
    assert "{{7*7}}" in page.text
    assert "49" not in re.findall(r"[\w.]+", page.text.split("Most doubtful")[1][:600])
    for character in ("\u202e", "\x1b", "\u200b"):
        assert character not in html
        assert character not in said
    assert "A<" * 100 not in page.text
    assert "W" * 60 not in html
    if n_classes == 3:
        said = well("diagnose", "--model", model, "--plots", tmp_path / "p.svg").output
        assert "\x1b[2J" not in said
        assert (tmp_path / "p.svg").stat().st_size > 1000


def test_what_a_model_says_about_itself_may_be_anything(labelled, tmp_path):
    found = load(labelled / "three.bpm")
    about = {
        "file": ["<script>"], "classes": 3, "options": ["x"], "columns": {"a": 1},
        "seconds": "long", "notes": "<script>", "n_rows": None,
        "version": {"<script>": [1, None, True]},
    }  # fmt: skip
    model = tmp_path / "m.bpm"
    save(model, found.classifier, encoder=found.encoder, about=about)
    fails(2, "evaluate", labelled / "three.csv", "--model", model, words="--target is needed")
    page, html, _ = reported(labelled / "three.csv", model, tmp_path / "r.html")
    assert_offline(page, html)


def test_many_classes_are_listed(tmp_path, clock):
    clock.step = 0.01  # training is cut short
    rng = np.random.default_rng(0)
    n = 21
    rows = [[*np.eye(n)[i % n] + 0.5 * rng.normal(size=n), f"c{i % n}"] for i in range(4 * n)]
    data, model = tmp_path / "d.csv", tmp_path / "m.bpm"
    write(data, [*(f"x{i}" for i in range(n)), "kind"], rows)
    well("train", data, "--target", "kind", "--model", model, *FAST, "--max-time", 1)
    page, _, said = reported(data, model, tmp_path / "r.html")
    assert f"There are {n} classes and" in page.text
    assert f"and {n - 12} more classes" in said


@pytest.mark.parametrize("name", ["two", "three"])
def test_single_row(labelled, tmp_path, name):
    some = part(labelled / f"{name}.csv", tmp_path / "part.csv", lambda rows: rows[:1])
    page, html, _ = reported(some, labelled / f"{name}_some.bpm", tmp_path / "r.html")
    assert html.count("<svg") == 3  # no ROC of one class
    assert "1 rows" not in page.text
