"""A fit on some rows comes first where time is limited, and is kept unless all rows do better."""

import numpy as np
import pytest
from helpers.stops import can_press, press_ctrl_c
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import log_loss

from bayespoint import BayesPointClassifier, PredictionSetClassifier, RejectingClassifier
from bayespoint._support.watching import watched_by
from bayespoint.estimators import first_fit
from bayespoint.io.model_file import load, save

GIVEN = {"gamma": 0.5, "softness": 0.1, "bias": 1.0, "inference": "ep", "cell_size": 50}


@pytest.fixture
def fits(monkeypatch):
    """Rows of each fit that is made; first fits have 80, and come before those of 240 or more."""
    rows, fit = [], first_fit.fit

    def counting(parameters, place, data, *others):
        rows.append(data.inputs.shape[0])
        return fit(parameters, place, data, *others)

    monkeypatch.setattr(first_fit, "fit", counting)
    monkeypatch.setattr(first_fit, "FIRST_ROWS", 80)
    return rows


def moons(n=400, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 2))
    score = X[:, 0] * X[:, 1] + 0.3 * rng.normal(size=n)
    return X, np.where(score > np.median(score), "in", "out")


def test_only_where_time_is_limited_and_rows_are_many(fits):
    X, y = moons()
    BayesPointClassifier(**GIVEN, random_state=0).fit(X, y)
    BayesPointClassifier(**GIVEN, random_state=0, max_time=600).fit(X[:150], y[:150])
    BayesPointClassifier(**GIVEN | {"inference": "billiard", "cell_size": "auto"}, n_draws=5,
                         random_state=0, max_time=600).fit(X, y)  # fmt: skip
    assert fits == [400, 150, 400]


def test_with_time_the_fit_on_all_rows_is_the_one_there_would_be_without(fits):
    X, y = moons()
    limited = BayesPointClassifier(**GIVEN, random_state=0, max_time=600).fit(X, y)
    assert fits == [80, 400]
    free = BayesPointClassifier(**GIVEN, random_state=0).fit(X, y)
    np.testing.assert_array_equal(limited.predict_proba(X), free.predict_proba(X))
    assert "kept" not in limited.inference_reason_


def test_without_time_the_first_fit_is_kept_and_said_to_be(fits, clock, tmp_path, monkeypatch):
    X, y = moons()
    clf = BayesPointClassifier(**GIVEN, random_state=0, max_time=10.0, n_jobs=1)
    clock.step, fit = 0.01, first_fit.fit

    def late(parameters, place, data, *others):
        """Let the time run once the first fit is made."""
        clock.step = 100.0 if data.inputs.shape[0] == 400 else 0.01
        return fit(parameters, place, data, *others)

    monkeypatch.setattr(first_fit, "fit", late)
    with pytest.warns(ConvergenceWarning) as said:
        clf.fit(X, y)
    assert any("on 80 rows, as max_time ended" in str(one.message) for one in said)
    assert fits == [80, 400]
    assert "this is the fit on 80 rows" in clf.inference_reason_
    assert len(clf.support_) == 80
    new, truth = moons(500, 1)
    assert log_loss(truth, clf.predict_proba(new)) < 0.6
    assert clf.held_out_proba_.shape == (400, 2)
    assert np.isfinite(clf.held_out_proba_).all()
    assert np.isfinite(clf.label_error_proba_).sum() == 80  # nothing is known of others' labels
    save(tmp_path / "m.bpm", clf)
    assert load(tmp_path / "m.bpm").classifier.inference_reason_ == clf.inference_reason_
    clf.set_params(warm_start=True, max_time=None).fit(X, y)  # which begins anew
    assert len(clf.support_) == 400


def test_with_little_time_all_rows_are_fitted_with_settings_of_the_first(fits, monkeypatch):
    X, y = moons()
    monkeypatch.setattr(first_fit, "about_seconds", lambda *_: 1e9)
    free = {name: value for name, value in GIVEN.items() if name == "bias"}
    clf = BayesPointClassifier(**free, random_state=0, max_time=600, n_jobs=1).fit(X, y)
    assert fits == [80, 400]
    assert clf.settings_.cells == first_fit.QUICK
    assert "little time" in clf.inference_reason_
    assert "this is the fit on all 400 rows, " in clf.inference_reason_
    assert clf.score(*moons(500, 1)) > 0.8
    with pytest.raises(AttributeError, match=r"gamma_choice_ is not there, as max_time=600 left"):
        _ = clf.gamma_choice_
    asked = clf.set_params(inference="ep").fit(X, y)
    assert asked.settings_.cells == first_fit.QUICK
    assert "asked for, but many rows and little time" in asked.inference_reason_
    told = BayesPointClassifier(**GIVEN, random_state=0, max_time=600, n_jobs=1).fit(X, y)
    assert told.settings_.cells.cell_size == 50  # as it was asked for


@can_press
def test_ctrl_c_keeps_the_better_one_where_somebody_watches(fits, clock, monkeypatch):
    X, y = moons()
    told = []
    monkeypatch.setattr(first_fit, "about_seconds", lambda *_: 100.0)
    clf = BayesPointClassifier(**GIVEN, random_state=0, n_jobs=1)
    with watched_by(lambda *words: told.append(words)):
        clf.fit(X, y)
        looks, clock.looks = clock.looks, 0
        clock.events = {looks // 2: press_ctrl_c}
        with pytest.raises(KeyboardInterrupt):
            clf.fit(X, y)
    assert fits[:3] == [80, 400, 80]
    assert len(told) == 2
    assert "400 rows" in told[0][0]
    assert told[0][1] == 100.0
    assert "this is the fit on" in clf.inference_reason_
    assert clf.score(X, y) > 0.7


@can_press
def test_ctrl_c_while_fits_are_compared_keeps_one(fits, monkeypatch):
    X, y = moons()
    chosen, of_each_class = [], first_fit.of_each_class

    def pressed(*given):
        chosen.append(given)
        if len(chosen) == 2:  # rows of the first fit, then those of the comparison
            press_ctrl_c()
        return of_each_class(*given)

    monkeypatch.setattr(first_fit, "of_each_class", pressed)
    clf = BayesPointClassifier(**GIVEN, random_state=0, n_jobs=1, max_time=600)
    with pytest.raises(KeyboardInterrupt):
        clf.fit(X, y)
    assert fits == [80, 400]
    assert "this is the fit on" in clf.inference_reason_


def test_copies_of_all_rows_leave_nothing_to_compare(fits):
    """What perceptrons say of a row without it is not known where a copy of it is there."""
    X, y = moons(240)
    clf = BayesPointClassifier(**GIVEN | {"inference": "perceptron", "cell_size": "auto"},
                               n_draws=10, random_state=0, max_time=600)  # fmt: skip
    clf.fit(np.tile(X, (2, 1)), np.tile(y, 2))
    assert fits == [80, 240]
    assert len(clf.support_) > 80


def test_what_is_told_is_what_is_done(fits, monkeypatch):
    X, y = moons()
    told = []
    monkeypatch.setattr(first_fit, "about_seconds", lambda *_: 100.0)
    with watched_by(lambda *words: told.append(words[0])):
        for n in (400, 150):
            BayesPointClassifier(**GIVEN, random_state=0, n_jobs=1).fit(X[:n], y[:n])
    assert fits == [80, 400, 150]
    assert told[0].startswith("a fit on 80 rows first, then settings are chosen")
    assert told[1].startswith("settings are chosen")


@can_press
@pytest.mark.parametrize(
    "wrapped", [{"coverage": 0.8}, {"max_risk": 0.3}, {"coverage": 0.8, "cv": 3}, None]
)
def test_ctrl_c_leaves_thresholds_that_take_no_more_fits(fits, clock, monkeypatch, wrapped):
    X, y = moons()
    monkeypatch.setattr(first_fit, "about_seconds", lambda *_: 100.0)
    inner = BayesPointClassifier(**GIVEN, random_state=0, n_jobs=1)
    clf = PredictionSetClassifier(inner) if wrapped is None else RejectingClassifier(inner)
    clf.set_params(**wrapped or {})
    with watched_by(lambda *_: None):
        inner.fit(X, y)
        looks, clock.looks = clock.looks, 0
        clock.events = {looks // 2: press_ctrl_c}
        with pytest.raises(KeyboardInterrupt):
            clf.fit(X, y)
    found = hasattr(clf, "coverage_")
    assert found == (clf.cv == "auto")  # folds would take as long again
    assert fits == [80, 400, 80, 400]
    if found:
        new, truth = moons(500, 1)
        share = np.mean(clf.predict_set(new).any(axis=1)) if wrapped is None else np.mean(
            ~clf.reject(new)
        )  # fmt: skip
        assert share > 0.5
        assert "this is the fit on" in clf.estimator_.inference_reason_
        assert np.mean(clf.estimator_.predict(new) == truth) > 0.7
