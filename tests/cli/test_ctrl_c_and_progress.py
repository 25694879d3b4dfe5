"""Ctrl-C while commands work, at chosen looks at the clock, and progress on a terminal."""

import io
import pickle
import sys
import warnings
from contextlib import contextmanager, redirect_stderr

import numpy as np
import pytest
from helpers.cli import FAST, predicted, reported, run, write
from helpers.stops import can_press, press_ctrl_c
from sklearn.exceptions import ConvergenceWarning

from bayespoint import BayesPointClassifier
from bayespoint._support.budget import Budget
from bayespoint._support.watching import watcher
from bayespoint.cli.fitted import cut_short
from bayespoint.cli.output import Output
from bayespoint.cli.progress import Lines, Pace
from bayespoint.estimators import cost_checks
from bayespoint.io.model_file import Model, load, save


def interrupted(clock, look, *arguments):
    """Run a command and press Ctrl-C at that look at the clock."""
    clock.looks = 0
    clock.events = {look: press_ctrl_c}
    result = run(*arguments)
    assert result.exit_code == 130, result.output
    assert "Traceback" not in result.output
    assert not clock.events
    return result


@can_press
@pytest.mark.parametrize("rejecting", [[], ["--coverage", 0.8]])
def test_ctrl_c_keeps_what_was_found(tmp_path, clock, rejecting):
    data = write(tmp_path / "d.csv", ["x", "y"], [[i, "ab"[i > 5]] for i in range(12)])
    train = [
        "train", data, "--target", "y", "--model", tmp_path / "m.bpm",
        "--inference", "perceptron", "--n-draws", 200, "--n-jobs", 1, "--max-time", 9, *rejecting,
    ]  # fmt: skip
    assert run(*train).exit_code == 0
    looks = clock.looks
    (tmp_path / "m.bpm").unlink()
    # The last third of the looks is between draws.
    done = interrupted(clock, looks * 5 // 6, *train)
    model = load(tmp_path / "m.bpm")
    classifier = model.classifier
    n_draws = (classifier.estimator_ if rejecting else classifier).n_draws_
    assert 0 < n_draws < 200
    assert model.about["interrupted"]
    said = " ".join(done.output.split())
    assert f"{n_draws} of 200 draws; unfinished: train longer before you use it" in said
    assert "Next:" not in said
    told = (
        f"training of this model was cut short: the model is what had been found until then: "
        f"{n_draws} of 200 draws; unfinished"
    )
    clock.events = {}
    _, _, said = predicted(data, tmp_path / "m.bpm", tmp_path / "p.csv")
    assert told in " ".join(said.split())
    page, _, said = reported(data, tmp_path / "m.bpm", tmp_path / "r.html", target="y")
    assert told in " ".join(said.split())
    top = " ".join(page.text.split()).partition("Which classes are mistaken")[0]
    assert top.count(told.capitalize()) == 1


def told_of(clf):
    return " ".join(cut_short(Model(clf, None, {})))


def test_a_model_says_that_time_ended_its_fit(clock):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(60, 2)), rng.integers(2, size=60)
    fixed = {"gamma": 0.5, "softness": 0.1, "bias": 1.0, "random_state": 0, "n_jobs": 1}

    def told(**settings):
        clf = BayesPointClassifier(**fixed, **settings)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            return told_of(clf.fit(X, y))

    clock.step = 0.01
    assert "it ended after" in told(inference="billiard", n_draws=5000, max_time=1)
    assert "expectation propagation had not converged" in told(inference="ep", max_time=0.02)
    clock.step = 0.0
    for inference in ("billiard", "ep", "perceptron"):
        assert not told(inference=inference, max_time=100, n_draws=20, tol=1)
        assert not told(inference=inference, n_draws=20)


def test_parameters_set_after_a_fit_do_not_count(tmp_path, clock):
    """What the fit remembers does, also in copies and files."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(60, 2)), rng.integers(2, size=60)
    fixed = {"gamma": 0.5, "softness": 0.1, "bias": 1.0, "random_state": 0, "n_jobs": 1}
    clf = BayesPointClassifier(inference="perceptron", n_draws=5, max_time=100, **fixed).fit(X, y)
    other = pickle.loads(pickle.dumps(clf)).set_params(n_draws=1000, tol=0.0)
    assert not told_of(other)
    clock.step = 0.01
    clf.set_params(inference="billiard", n_draws=5000, max_time=1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        clf.fit(X, y)
    save(tmp_path / "m.bpm", clf.set_params(n_draws=1, max_time=None, tol=1))
    for one in (clf, pickle.loads(pickle.dumps(clf)), load(tmp_path / "m.bpm").classifier):
        assert f"it ended after {clf.n_draws_:,} of 5,000 draws." in told_of(one)


def test_cells_that_time_left_moving_and_trees_that_it_left_out(tmp_path, clock):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 2))
    y = (X[:, 0] + rng.normal(size=300) > 0).astype(int)
    clf = BayesPointClassifier(
        inference="ep", gamma=0.5, softness=0.01, bias=1.0, cell_size=20, n_landmarks=0,
        n_trees=3, random_state=0, n_jobs=1,
    )  # fmt: skip
    assert not told_of(clf.fit(X, y))
    clock.step = 0.01
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        clf.set_params(n_trees=400, max_time=0.05).fit(X, y)
    (n_cells,), (n_moving,) = clf.diagnostics_["cells"], clf.diagnostics_["moving"]
    assert n_moving
    words = f"it ended after 1 of 400 trees, and {n_moving} of {n_cells} cells had not converged."
    save(tmp_path / "m.bpm", clf)
    for one in (clf, load(tmp_path / "m.bpm").classifier):
        assert words in told_of(one)


def test_few_rows_of_a_stream_are_one_cell_of_all_trees():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 2))
    clf = BayesPointClassifier(gamma=0.5, softness=0.1, bias=1.0, n_jobs=1, n_trees=4)
    for rows in (slice(0, 40), slice(40, 60)):
        clf.partial_fit(X[rows], (X[rows, 0] > 0).astype(int))
    clf.absorb()
    assert clf.settings_.cells.n_trees == 4
    assert not told_of(clf)


def test_what_train_noted_last_counts():
    """Notes of a file are anything; a model that was continued has those of the last time."""
    clf = BayesPointClassifier(gamma=0.5, softness=0.1, bias=1.0, inference="ep", n_jobs=1)
    clf.fit([[0.0], [1.0], [2.0], [3.0]], [0, 0, 1, 1])
    for about in (
        {}, {"notes": None}, {"notes": ["something"]}, {"notes": [3]}, {"continued": 3},
        {"notes": ["time was up; it has some rows"], "continued": {"notes": []}},
    ):  # fmt: skip
        assert cut_short(Model(clf, None, about)) == []
    for about in ({"notes": ["time was up; x"]}, {"continued": {"notes": ["time was up; x"]}}):
        assert cut_short(Model(clf, None, about)) == ["training of this model was cut short: x"]


@can_press
def test_ctrl_c_during_ep_says_nothing_of_draws(tmp_path, clock):
    """They are made when they are asked for."""
    data = write(tmp_path / "d.csv", ["x", "y"], [[i, "ab"[i % 3 > 1]] for i in range(40)])
    train = [
        "train", data, "--target", "y", "--model", tmp_path / "m.bpm", "--inference", "ep",
        "--gamma", 0.5, "--softness", 0.1, "--kernel", "rbf", "--n-jobs", 1, "--force",
    ]  # fmt: skip
    assert run(*train).exit_code == 0
    said = " ".join(interrupted(clock, clock.looks, *train).output.split())
    assert "the model is what had been found until then" in said
    assert "train longer before you use it" in said
    assert "draws" not in said


@can_press
def test_ctrl_c_leaves_no_model_without_a_draw_or_a_threshold(iris, tmp_path, clock):
    rng, model = np.random.default_rng(0), tmp_path / "m.bpm"
    noise = [[*rng.normal(size=2), "ab"[rng.integers(2)]] for _ in range(600)]  # learned slowly
    data = write(tmp_path / "d.csv", ["x", "z", "y"], noise)
    done = interrupted(clock, 2, "train", data, "--target", "y", "--model", model, *FAST)
    assert done.stderr == "stopped before one draw was complete; no model was written\n"
    train = ["train", iris.data, "--target", "species", "--model", model, *FAST]
    done = interrupted(clock, 2, *train, "--coverage", 0.9)
    words = "stopped before the threshold for --coverage was found; no model was written\n"
    assert done.stderr == words
    assert list(tmp_path.iterdir()) == [data]


def test_ctrl_c_with_costs_speaks_of_no_threshold(tmp_path, monkeypatch):
    def pressed(*_):
        raise KeyboardInterrupt

    data = write(tmp_path / "d.csv", ["x", "y"], [[i, "ab"[i > 5]] for i in range(12)])
    costs = write(
        tmp_path / "costs.csv", ["true", "a", "b", "reject"], [["a", 0, 1, 0.3], ["b", 9, 0, 0.3]]
    )
    train = ["train", data, "--target", "y", "--model", tmp_path / "m.bpm", "--costs", costs]
    monkeypatch.setattr(cost_checks, "warn_of_odd", pressed)  # after the fit
    done = run(*train, "--n-jobs", 1, *FAST)
    assert done.exit_code == 130
    assert done.stderr.endswith("stopped; no model was written\n")


@can_press
def test_ctrl_c_says_how_many_folds_were_done(iris, clock):
    command = ["cross-validate", iris.data, "--target", "species", *FAST, "--max-time", 9]
    done = interrupted(clock, 2, *command)
    assert done.stderr == "stopped after 0 of 5 folds\n"


class Terminal(io.StringIO):
    def isatty(self):
        return True


@contextmanager
def terminal():
    """Let standard error be a terminal; not a fixture, as pytest sets it again for each test."""
    with redirect_stderr(Terminal()) as stream:
        yield stream
        assert sys.stderr is stream


def test_progress_is_a_bar_on_a_terminal():
    with terminal() as shown, Output().progress("training"):
        budget = Budget(label="bayespoint")
        budget.show(0, 1, "choosing settings,")
        budget.show(100, 100, "draws,")
    assert "training: 100 of 100 draws" in shown.getvalue()


def test_time_left_is_that_expected_and_a_phase_may_know_better():
    pace = Pace("training")
    assert pace.take("\rbayespoint [##......] 0/1 choosing settings, 1.2 s" + " " * 20)
    assert (pace.words(), pace.reached()) == ("training: choosing settings", None)
    pace.expected = 1000.0
    assert pace.words() == "training: choosing settings, about 17 minutes left"
    assert 0 < pace.reached() < 0.1  # the bar moves from the start
    assert pace.take("\rbayespoint [##......] 25/100 % of cells, about 5 s left, 10.0 s   ")
    assert pace.words() == "training: 25 % of cells, about 5 s left"
    pace.expected = 1e-9
    assert pace.reached() == Pace.ALMOST
    assert not pace.take("something else")


def test_where_nobody_sees_a_bar_there_is_a_line_now_and_then(monkeypatch):
    monkeypatch.setattr(Lines, "FIRST", 0.0)
    with redirect_stderr(io.StringIO()) as shown, Output().progress("training"):
        for _ in range(100):
            Budget(label="bayespoint").show(1, 1, "draws,")
    lines = shown.getvalue().splitlines()
    assert 1 <= len(lines) < 20
    assert all(line.startswith("training: draws (") for line in lines)


def test_long_work_is_told_before_it_begins(capsys):
    output = Output()
    with output.progress("training"):
        watcher()("a fit on many rows", 130.0)
    said = " ".join(capsys.readouterr().out.split())
    assert said.startswith("This may take about 2 minutes: a fit on many rows. Ctrl-C ends it")
    assert watcher() is None


def test_long_work_is_told_on_standard_error_where_the_other_one_is_for_data(capsys):
    output = Output(to_stderr=True)
    with output.progress("training"):
        watcher()("a fit on many rows", 130.0)
    told = capsys.readouterr()
    assert told.out == ""
    assert "This may take about 2 minutes: a fit on many rows." in told.err


class Gone(io.StringIO):
    """A stream whose reader has gone away, as behind ``2>&1 | head``."""

    def write(self, _):
        raise BrokenPipeError


def test_words_that_nobody_reads_neither_end_the_work_nor_lose_data(monkeypatch, capsys):
    monkeypatch.setattr(Lines, "FIRST", 0.0)
    with redirect_stderr(Gone()):
        output = Output(to_stderr=True)
        output.say("text for people")
        with output.progress("training"):
            Budget(label="bayespoint").show(1, 1, "draws,")
    sys.stdout.write("data\n")
    assert capsys.readouterr().out == "data\n"


def test_no_progress_where_it_is_not_wanted():
    with terminal() as shown, Output(quiet=True).progress("training"):
        Budget(label="bayespoint").show(1, 1)
    assert shown.getvalue() == ""


def test_the_time_shown_runs_through_all_fits(monkeypatch):
    """A bar that is full ends the clock of rich; the last state is drawn when all is done."""
    shown = []
    monkeypatch.setattr("rich.progress.TimeElapsedColumn.render",
                        lambda _, task: shown.append(task.finished) or "")  # fmt: skip
    with terminal(), Output().progress("training"):
        for done in (50, 100, 20):
            Budget(label="bayespoint").show(done, 100, "draws,")
    assert len(shown) >= 2
    assert not any(shown)
