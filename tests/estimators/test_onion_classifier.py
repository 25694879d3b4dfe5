"""The onion from an estimator: what it chooses, what it keeps, and what it refuses."""

import pickle
from functools import cache

import numpy as np
import pytest
from helpers.refusals import assert_refused
from helpers.stops import press_ctrl_c
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import expit
from sklearn.base import clone
from sklearn.metrics import log_loss
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.multiclass import OneVsRestClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from bayespoint import BayesPointClassifier, OnionClassifier, VersionSpace, onion
from bayespoint.displays import OnionDisplay

GAMMA = 0.5


def make_data(n=40, seed=0, flipped=2, n_classes=2):
    """Two features, a curved boundary, and some labels turned round."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 2))
    score = X[:, 0] + 0.7 * X[:, 1] ** 2 - 0.5
    y = np.digitize(score, np.quantile(score, np.linspace(0, 1, n_classes + 1)[1:-1]))
    y[rng.permutation(n)[:flipped]] = 0
    return X, y


@cache
def fitted(**options):
    """A fit to look at, not to change."""
    X, y = make_data()
    settings = {"gamma": GAMMA, "depth": 2, "n_draws": 500, "random_state": 0} | options
    return OnionClassifier(**settings).fit(X, y)


def test_its_table_is_that_of_sample_onion():
    X, y = make_data()
    clf = fitted(n_draws=2000)
    K = (rbf_kernel(X, gamma=GAMMA) + 1) / 2
    table = onion.sample_onion(VersionSpace(K, 2 * y - 1, 0.1), 2, 2000, random_state=1)
    assert_allclose(clf.log_volume_, table.log_volume, atol=0.5)
    assert clf.counts_.sum() <= 2000
    X_new, y_new = make_data(seed=1, n=300)
    signs = [clf.with_shells(cell).cosines(X_new) > 0 for cell in np.ndindex(3, 3)]
    ours = np.sum(signs != y_new, axis=1).reshape(3, 3)
    cross = (rbf_kernel(X_new, X, gamma=GAMMA) + 1) / 2
    assert np.abs(ours - table.errors(cross, 2 * y_new - 1).sum(axis=2)).max() <= 15


@pytest.mark.parametrize("class_weight", [None, {0: 1, 1: 5}], ids=["plain", "weighted"])
def test_its_table_counts_what_the_classifier_of_each_shell_decides(class_weight):
    X_new, y_new = make_data(seed=1, n=300)
    clf = clone(fitted(shells=(0, 1))).set_params(class_weight=class_weight).fit(*make_data())
    table = clf.error_table(X_new, y_new)
    for cell in np.ndindex(3, 3):
        wrong = clf.with_shells(cell).predict(X_new) != y_new
        assert_array_equal(table[cell], [np.sum(wrong[y_new == c]) for c in clf.classes_])
    assert table[0, 1].sum() == np.sum(clf.predict(X_new) != y_new)
    # Links move boundaries here: signs of the centres make other errors.
    signs = [clf.with_shells(cell).cosines(X_new) > 0 for cell in np.ndindex(3, 3)]
    assert np.any(table.sum(axis=2).ravel() != np.sum(signs != y_new, axis=1))


@pytest.mark.parametrize("shells", ["best", (0, 1), 0.05])
def test_other_shells_of_the_same_run_decide_as_if_asked_for_at_once(shells):
    X_new, _ = make_data(seed=1)
    asked, changed = fitted(shells=shells), fitted(shells=(2, 2)).with_shells(shells)
    assert changed.shells_ == asked.shells_
    assert_allclose(changed.dual_coef_, asked.dual_coef_, rtol=1e-10)
    assert_allclose(changed.predict_proba(X_new), asked.predict_proba(X_new), rtol=1e-6)
    assert changed.shells == shells


def test_changing_shells_leaves_the_first_classifier_as_it_was():
    clf = fitted(shells=(2, 2))
    before = pickle.dumps(clf)
    clf.with_shells((2, 1))
    assert pickle.dumps(clf) == before


def test_a_shell_decides_by_its_centre():
    clf = fitted(shells=(0, 1))
    assert clf.shells_ == (0, 1)
    assert_allclose(clf.dual_coef_[0], clf.centres_[0, 1], rtol=1e-10)


def test_the_best_shell_has_the_fewest_leave_one_out_errors():
    clf = fitted(shells="best")
    assert clf.loo_errors_[clf.shells_].sum() == np.nanmin(clf.loo_errors_.sum(axis=2))


def test_with_one_shell_and_no_errors_it_is_the_bayes_point_machine():
    X, y = make_data()
    clf = fitted(depth=0, shells=(0, 0), n_draws=2000)
    bpm = BayesPointClassifier(
        gamma=GAMMA, inference="billiard", decision="bayes_point", n_draws=1000, random_state=1
    ).fit(X, y)
    cosine = clf.dual_coef_[0] @ (
        ((rbf_kernel(X, gamma=GAMMA) + 1) / 2 + 0.1 * np.eye(len(X)))[
            np.ix_(clf.support_, bpm.support_)
        ]
        @ bpm.dual_coef_[0]
    )
    assert cosine > 0.995


def test_probabilities_are_as_steep_as_leave_one_out_outputs_ask_for():
    """Outputs are cosines: taken as they are, probabilities would all be near one half."""
    X_new, y_new = make_data(seed=1, n=300)
    clf = fitted()
    plain = log_loss(y_new, expit(clf.cosines(X_new)))
    assert log_loss(y_new, clf.predict_proba(X_new)[:, 1]) < 0.8 * plain


def test_the_committee_agrees_with_the_centre():
    X_new, _ = make_data(seed=1, n=200)
    clf = fitted()
    votes = clf.sample_proba(X_new, n_samples=100, random_state=0)[:, :, 1].mean(axis=0)
    assert np.mean((votes > 0.5) == (clf.predict(X_new) == 1)) > 0.9
    with pytest.raises(ValueError, match="holds no draws"):
        clf.with_shells("best").sample_proba(X_new)


def test_contradictory_copies_are_no_obstacle():
    X, y = make_data(flipped=0)
    X, y = np.vstack([X, X[:1]]), np.append(y, 1 - y[0])
    clf = OnionClassifier(
        gamma=GAMMA, softness=0.0, depth=2, n_draws=500, random_state=0
    ).fit(X, y)  # fmt: skip
    assert clf.counts_[0, 0] == 0
    assert np.isnan(clf.loo_errors_[0, 0]).all()
    assert clf.counts_.sum() > 0
    assert clf.score(X, y) > 0.9
    with pytest.raises(ValueError, match="no draw fell into the shells"):
        clf.with_shells((0, 0))


def test_settings_from_the_evidence_come_with_it():
    clf = fitted(gamma="evidence")
    assert clf.gamma_ != GAMMA
    assert np.isfinite(clf.log_evidence_)
    assert not hasattr(fitted(), "log_evidence_")


def test_seeds_and_threads():
    one, two = fitted(), fitted(n_jobs=2)
    assert_array_equal(one.dual_coef_, two.dual_coef_)
    assert np.any(fitted(random_state=1).dual_coef_ != one.dual_coef_)


def test_a_copy_that_was_pickled_decides_alike():
    X_new, _ = make_data(seed=1)
    clf = fitted()
    again = pickle.loads(pickle.dumps(clf))
    assert_array_equal(again.predict_proba(X_new), clf.predict_proba(X_new))
    assert again.with_shells((0, 0)).shells_ == (0, 0)


def test_a_precomputed_kernel_decides_as_the_kernel_it_comes_from():
    X, y = make_data()
    X_new, _ = make_data(seed=1)
    K, cross = rbf_kernel(X, gamma=GAMMA), rbf_kernel(X_new, X, gamma=GAMMA)
    given = OnionClassifier("precomputed", depth=1, n_draws=2000, random_state=0).fit(K, y)
    by_name = OnionClassifier(gamma=GAMMA, depth=1, n_draws=2000, random_state=0).fit(X, y)
    difference = given.cosines(cross) - by_name.cosines(X_new)
    assert np.abs(difference).max() < 0.1


def test_more_than_two_classes_are_refused_with_the_remedy():
    X, y = make_data(n_classes=3)
    clf = OnionClassifier(gamma=GAMMA, depth=1, n_draws=200, random_state=0)
    with pytest.raises(ValueError, match="OneVsRestClassifier"):
        clf.fit(X, y)
    assert OneVsRestClassifier(clf).fit(X, y).score(X, y) > 0.7


BAD = [
    ({"depth": -1}, "depth must be a whole number >= 0"),
    ({"depth": 1.5}, "depth must be a whole number"),
    ({"depth": (1, 2, 3)}, "depth must be a whole number or a pair"),
    ({"shells": "all"}, "shells must be 'noise', 'best', a pair"),
    ({"shells": (3, 0)}, r"up to \(2, 2\)"),
    ({"shells": 0.5}, r"a rate in \[0, 0.5\)"),
    ({"shells": None}, "shells must be"),
    ({"n_draws": 0}, "n_draws must be a whole number"),
    ({"softness": -1}, "softness must be"),
    ({"cache_size": 0.01}, "Raise cache_size or lower n_draws"),
    ({"kernel": "cosine"}, "kernel must be one of"),
]


def test_a_wrong_argument_is_one_error_that_names_it():
    X, y = make_data()
    assert_refused(lambda **bad: OnionClassifier(depth=bad.pop("depth", 2), **bad).fit(X, y), BAD)


def test_data_that_no_shell_fits_are_an_error_with_the_remedy(monkeypatch):
    # More find nothing either.
    monkeypatch.setattr("bayespoint.inference.onion.exact.MAX_ROUNDS", 40)
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(40, 1)), rng.integers(2, size=40)
    clf = OnionClassifier("linear", softness=0.0, depth=1, n_draws=100, random_state=0)
    with pytest.raises(ValueError, match="found no classifier that makes at most"):
        clf.fit(X, y)


def test_the_error_table_checks_its_labels():
    X, y = make_data()
    with pytest.raises(ValueError, match="y must hold one label"):
        fitted().error_table(X, y + 1)
    with pytest.raises(ValueError, match="y must hold one label"):
        fitted().error_table(X, y[:-1])


def test_time_and_interruption_leave_a_usable_fit(clock):
    X, y = make_data()
    clf = clone(fitted(n_draws=2000, random_state=2)).set_params(max_time=1.0)
    clock.looks = 0  # of this fit, if it was made now
    whole = clf.fit(X, y).diagnostics_["n_draws"]  # time stands still
    looks, clock.step = clock.looks, 1.02 / clock.looks  # up soon after the first draws
    assert clf.fit(X, y).score(X, y) > 0.8
    assert 0 < clf.diagnostics_["n_draws"] < whole
    clock.step, clock.looks, clock.events = 0.0, 0, {looks - 20: press_ctrl_c}
    with pytest.raises(KeyboardInterrupt):
        clf.fit(X, y)
    assert 0 < clf.diagnostics_["n_draws"] < whole
    assert clf.score(X, y) > 0.8


def test_copies_outvote_wrong_labels():
    X = np.repeat([[0.0], [5.0], [10.0]], 10, axis=0)
    y = np.repeat([0, 1, 0], 10)
    y[[0, 10, 20]] = 1 - y[[0, 10, 20]]
    clf = OnionClassifier(gamma=1.0, softness=0.0, depth=3, n_draws=500, random_state=0).fit(X, y)
    assert clf.counts_[0, 0] == 0  # version space is empty
    assert_array_equal(clf.predict([[0.0], [5.0], [10.0]]), [0, 1, 0])
    once, weight = np.unique(np.column_stack([X, y]), axis=0, return_counts=True)
    weighted = clone(clf).fit(once[:, :1], once[:, 1].astype(int), sample_weight=weight)
    assert_allclose(weighted.decision_function(X), clf.decision_function(X), atol=1e-9)


@pytest.mark.parametrize(
    ("kernel", "X", "y"),
    [
        ("linear", [[-1.0, -1.0], [1.0, 1.0], [-1.0, 1.0], [1.0, -1.0]], [0, 0, 1, 1]),
        ("rbf", [[0.0], [0.0]], [0, 1]),
    ],
)
def test_an_empty_version_space_is_no_obstacle_by_default(kernel, X, y):
    clf = OnionClassifier(kernel, softness=0.0, n_draws=200, random_state=0).fit(X, y)
    assert clf.counts_[0, 0] == 0
    assert clf.shells_ > 0


def test_a_compressed_classifier_has_no_shells():
    X, y = make_data()
    small = fitted().compress(0.3)
    assert small.predict(X).shape == y.shape
    for call in (lambda: small.with_shells("best"), lambda: small.error_table(X, y)):
        with pytest.raises(ValueError, match="holds no shells"):
            call()


def test_the_share_of_the_deepest_shells_is_told():
    clf = fitted(shells=0.05)
    weight = 0.05 / 0.95
    mass = np.exp(clf.log_volume_) * weight ** np.add.outer(np.arange(3), np.arange(3))
    assert_allclose(clf.edge_share_, 1 - mass[:2, :2].sum() / mass.sum(), rtol=1e-9)
    assert fitted(shells=(0, 1)).edge_share_ == 0


# ---------------------------------------------------------------------- the picture


@pytest.fixture
def plt():
    plt = pytest.importorskip("matplotlib.pyplot")
    yield plt
    plt.close("all")


@pytest.mark.usefixtures("plt")
def test_the_picture_shows_the_table():
    X_new, y_new = make_data(seed=1)
    clf = fitted(shells=(0, 1))
    display = OnionDisplay.from_estimator(clf, X_new, y_new)
    errors = clf.error_table(X_new, y_new)
    for cell in np.ndindex(3, 3):
        minus, plus = errors[cell]
        assert display.text_[cell].get_text() == f"{minus + plus:.0f}\n({minus:.0f}, {plus:.0f})"
        assert display.text_[cell].get_position() == (cell[1], cell[0])
    assert_array_equal(display.image_.get_array(), errors.sum(axis=2))
    assert display.ax_.get_xlabel() == "Training errors allowed, class 1"
    assert display.ax_.get_ylabel() == "Training errors allowed, class 0"
    (frame,) = display.ax_.patches
    assert_allclose(np.add(frame.get_xy(), 0.46), (1, 0))


def test_without_data_it_shows_leave_one_out_errors(plt):
    X, y = make_data()
    pipe = make_pipeline(StandardScaler(), OnionClassifier(depth=1, n_draws=500, random_state=0))
    display = OnionDisplay.from_estimator(pipe.fit(X, y))
    assert_array_equal(display.errors, pipe[-1].loo_errors_)
    assert "by the sign of the centre" in display.name  # the link may decide otherwise
    assert not display.ax_.patches  # all shells decide
    table = onion.sample_onion(VersionSpace(np.eye(4), [1, 1, -1, -1]), 1, 500, random_state=0)
    display = OnionDisplay.from_onion(table)
    assert_array_equal(display.errors, table.leave_one_out_errors())
    cross, labels = np.eye(4), [1, 1, -1, -1]
    display = OnionDisplay.from_onion(table, cross, labels, ax=plt.subplots()[1])
    assert display.errors[0, 0].sum() == 0


@pytest.mark.usefixtures("plt")
def test_a_shell_without_draws_is_a_dash():
    errors = np.ones((2, 2, 2))
    errors[0, 1] = np.nan
    assert OnionDisplay(errors=errors).plot().text_[0, 1].get_text() == "–"


@pytest.mark.usefixtures("plt")
def test_labels_of_a_small_table_are_not_cut():
    display = OnionDisplay.from_estimator(fitted(depth=1))
    figure = display.figure_
    figure.canvas.draw()
    for label in (display.ax_.xaxis.label, display.ax_.yaxis.label, figure.axes[1].yaxis.label):
        box = label.get_window_extent()
        assert figure.bbox.x0 <= box.x0 < box.x1 <= figure.bbox.x1
        assert figure.bbox.y0 <= box.y0 < box.y1 <= figure.bbox.y1


@pytest.mark.usefixtures("plt")
def test_the_picture_refuses_what_it_cannot_draw():
    X, y = make_data()
    with pytest.raises(ValueError, match="give both X and y"):
        OnionDisplay.from_estimator(fitted(), X)
    with pytest.raises(ValueError, match="must be an OnionClassifier; got BayesPointClassifier"):
        OnionDisplay.from_estimator(BayesPointClassifier(n_draws=2).fit(X, y), X, y)
    with pytest.raises(ValueError, match="errors must have shape"):
        OnionDisplay(errors=np.zeros((2, 2)))
    with pytest.raises(ValueError, match="must be an Onion"):
        OnionDisplay.from_onion(fitted())
