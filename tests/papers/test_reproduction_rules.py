"""The rule by which a number or statement counts as reproduced, and how items are run."""

import json
from dataclasses import replace

import joblib
import numpy as np
import pytest

from bayespoint.papers.reproduction import folder, pages
from bayespoint.papers.reproduction.item import (
    BY_CONSTRUCTION,
    Claim,
    Quantity,
    Run,
    left_open,
    overall,
)

NAN, INF = float("nan"), float("inf")


def test_a_number_is_reproduced_within_two_standard_errors():
    errors = {"published_error": 0.06, "measured_error": 0.08}  # 0.1 together
    for measured, better, verdict in (
        (1.0, "lower", "reproduced"),
        (1.19, "lower", "reproduced"),
        (1.21, "lower", "refuted"),
        (0.79, "lower", "better"),
        (1.21, "higher", "better"),
        (0.79, "higher", "refuted"),
        (0.79, None, "refuted"),
        (1.21, None, "refuted"),
        (NAN, "lower", "refuted"),
    ):
        row = Quantity("x", 1.0, measured, **errors, better=better)
        assert row.verdict == verdict, row


def test_a_tolerance_adds_to_chance():
    row = Quantity("x", 1.0, 1.25, measured_error=0.1, tolerance=0.05 + 1e-9)
    assert row.verdict == "reproduced"
    assert replace(row, tolerance=0.04).verdict == "refuted"
    assert "within 0.04" in replace(row, tolerance=0.04).cells()[1]


def test_a_tolerance_may_have_one_side():
    row = Quantity("x", 100.0, 102.0, measured_error=0.1, tolerance=(0.0, 2.5), better=None)
    assert row.verdict == "reproduced"
    assert replace(row, measured=98.0).verdict == "refuted"
    assert replace(row, measured=99.9).verdict == "reproduced"  # chance has two
    assert replace(row, measured=98.0, tolerance=(2.5, 0.0)).verdict == "reproduced"
    assert replace(row, tolerance=(2.5, 0.0)).verdict == "refuted"
    assert "within 0 below and 2.5 above" in row.cells()[1]


def test_without_a_standard_error_nothing_is_reproduced():
    for error in ("published_error", "measured_error"):
        for value in (NAN, INF):
            for measured in (0.5, 1.0, 1.5):
                row = Quantity("x", 1.0, measured, **{error: value})
                assert row.verdict == "refuted", row


def test_without_errors_numbers_must_be_equal():
    assert Quantity("x", 3, 3).verdict == "reproduced"
    assert Quantity("x", 3, 4).verdict == "refuted"


def test_an_item_is_as_good_as_its_worst_row():
    good, better = Claim("a", True, ""), Quantity("b", 1, 0)
    bad = Claim("c", False, "")
    assert overall([good, good]) == "reproduced"
    assert overall([good, better]) == "better"
    assert overall([good, better, bad]) == "refuted"


def test_what_the_paper_leaves_out_makes_a_row_open_only_where_it_fails():
    good, better = Claim("a", True, ""), Quantity("b", 1, 0)
    bad, off = Claim("c", False, ""), Quantity("d", 1, 2)
    rows = left_open("no scaling is given", [good, better, bad, off])
    assert [row.verdict for row in rows] == ["reproduced", "better", "open", "open"]
    assert overall(rows) == "open"
    assert overall([*rows, bad]) == "refuted"


def test_our_questions_are_answered_and_counted_apart():
    good, asked = Claim("a", True, ""), Claim("b", False, "", ours=True)
    assert asked.cells()[1:] == ("our question", "", "no")
    assert replace(asked, holds=True).verdict == "yes"
    assert replace(asked, unsaid="why").verdict == "open"
    assert overall([good, asked]) == "reproduced"
    assert overall([replace(good, holds=False), asked]) == "refuted"
    rows = [{"verdict": row.verdict, "ours": row.ours} for row in (good, asked)]
    assert pages.share([{"verdict": "reproduced", "rows": rows}]) == (
        "1 item: 1 reproduced; 1 published number or statement: 1 reproduced; "
        "1 question of our own: 1 no."
    )


def test_an_item_that_only_asks_refutes_nothing():
    no = Claim("a", False, "", ours=True)
    yes, unclear = replace(no, holds=True), replace(no, unsaid="why")
    for rows in ([no], [yes], [yes, no, unclear]):
        assert overall(rows) == "answered"
    assert overall([unclear, unclear]) == "open"
    rows = [{"verdict": row.verdict, "ours": True} for row in (yes, no, unclear)]
    assert pages.share([{"verdict": "answered", "rows": rows}]) == (
        "1 item: 1 answered; 3 questions of our own: 1 yes, 1 no, 1 open."
    )


def test_what_holds_by_construction_does_not_count():
    sure, bad = Claim("a", True, "", by_construction=True), Claim("b", False, "")
    assert sure.verdict == BY_CONSTRUCTION
    assert replace(sure, holds=False).verdict == "refuted"  # a mistake of ours
    assert overall([sure, Claim("c", True, "")]) == "reproduced"
    rows = [{"verdict": row.verdict} for row in (sure, sure, bad, Claim("c", True, ""))]
    record = {"verdict": overall([sure, bad]), "rows": rows}
    assert pages.share([record]) == (
        "1 item: 1 refuted; 2 published numbers and statements: 1 reproduced, 1 refuted."
    )


def test_errors_are_printed():
    cells = Quantity("x", 25.4, 26.071, 0.4, 0.31).cells()
    assert cells == ("x", "25.40 ± 0.40", "26.07 ± 0.31", "reproduced")


def test_a_run_seeds_by_item_and_key():
    one, other = Run("a"), Run("b")
    draws = {tuple(r.rng(*key).random(3)) for r in (one, other) for key in ((), (1,), (2,))}
    assert len(draws) == 6
    assert np.array_equal(one.rng(1).random(3), Run("a").rng(1).random(3))
    assert one.integer(1) != Run("a", seed=1).integer(1)


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_map_keeps_the_order_and_tells_progress(n_jobs):
    told = []
    run = Run("a", n_jobs=n_jobs, on_progress=lambda *done: told.append(done))
    with joblib.parallel_config("threading"):  # processes take seconds to start
        assert run.map(lambda x, y: 2 * x + y, [(k, 1) for k in range(5)]) == [1, 3, 5, 7, 9]
    assert told == [(k, 5) for k in range(1, 6)]


def test_numbers_are_stored_as_strict_json():
    data = {"a": np.array([1.0, np.nan]), "b": (np.int64(2), np.inf), 3: {"c": 0.123456789}}
    plain = folder.plain(data)
    assert plain == {"a": [1.0, None], "b": [2, None], "3": {"c": 0.1234568}}
    json.dumps(plain, allow_nan=False)
