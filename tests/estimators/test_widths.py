"""A width for each feature: when it is taken, in which units, and what it is worth."""

from copy import copy

import numpy as np
import pytest
import scipy.sparse as sp
from helpers.refusals import assert_refused
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import ndtr
from sklearn.base import clone
from sklearn.datasets import make_moons

from bayespoint import BayesPointClassifier, OnionClassifier
from bayespoint.estimators import width_learning, widths
from bayespoint.io import model_file


def table(n, seed=0, n_idle=8, scale=None):
    """Rows whose first two columns decide, and what they decide; all others are noise."""
    X = np.random.default_rng(seed).standard_normal((n, 2 + n_idle))
    y = (X[:, 0] * X[:, 1] > 0).astype(int)
    return (X if scale is None else X * scale), y


NEW, LABELS = table(500, seed=1)
GIVEN = {"softness": 0.1, "bias": 1.0}  # where only widths are asked for


def fitted(X, y, **settings):
    return BayesPointClassifier(**{"random_state": 0, **settings}).fit(X, y)


@pytest.mark.parametrize("settings", [{}, {"inference": "perceptron"}, {"gamma": "evidence"}])
def test_columns_far_from_the_origin_are_no_wider(settings):
    """Metres of a map: what columns have in common is no distance."""
    X, y = make_moons(200, noise=0.2, random_state=0)
    near, far = 100 * X, 100 * X + [500_000, 5_300_000]
    gamma = [fitted(Z, y, **settings).gamma_ for Z in (near, far)]
    assert 0.5 < gamma[1] / gamma[0] < 2


def test_the_default_takes_widths_where_few_features_matter():
    clf = fitted(*table(150))
    assert clf.gamma_choice_["chosen"] == "full widths"
    assert min(clf.gamma_[:2]) > 10 * max(clf.gamma_[2:])
    one = fitted(*table(150), gamma="scale")
    assert clf.score(NEW, LABELS) > one.score(NEW, LABELS) + 0.1
    figures = clf.gamma_choice_
    assert figures["rows"] == 150
    assert figures["gain"]["full widths"][0] > 1.5 * figures["gain"]["full widths"][1] > 0
    assert figures["log_proba"]["full widths"] > figures["log_proba"]["one width"]


def test_widths_must_win_by_more_than_chance(monkeypatch):
    def choice():
        return fitted(*table(150), kernel="rbf", **GIVEN).gamma_choice_

    gain = choice()["gain"]
    won = max(np.divide(*gain[name]) for name in ("full widths", "shrunk widths"))
    for bound, chosen in (
        (won - 0.1, {"full widths", "shrunk widths"}),
        (won + 0.1, {"one width"}),
    ):
        monkeypatch.setattr(widths, "CHANCE", 2 * ndtr(-bound))  # of two candidates
        assert choice()["chosen"] in chosen


def test_the_default_keeps_one_width_where_all_features_matter_alike():
    X = np.random.default_rng(0).standard_normal((150, 5))
    clf = fitted(X, np.sum(X**2, axis=1) > 4.35)
    assert clf.gamma_choice_["chosen"] == "one width"
    assert isinstance(clf.gamma_, float)


@pytest.mark.parametrize("inference", ["perceptron", "billiard", "ep", "gibbs"])
def test_every_method_takes_widths(inference):
    X, y = table(100, n_idle=4)
    clf = fitted(X, y, inference=inference, gamma="ard", n_draws=20, **GIVEN)
    assert clf.gamma_.shape == (6,)
    assert min(clf.gamma_[:2]) > 5 * max(clf.gamma_[2:])
    assert clf.score(NEW[:, :6], LABELS) > 0.8
    again = fitted(X, y, inference=inference, gamma=clf.gamma_, n_draws=20, **GIVEN)
    assert_allclose(again.predict_proba(NEW[:, :6]), clf.predict_proba(NEW[:, :6]), atol=1e-6)


@pytest.fixture
def small_cells(monkeypatch):
    """Widths are learnt and compared on several cells, made anew in each round."""
    for name in ("LEARNT_SIZE", "WHOLE_SIZE"):
        monkeypatch.setattr(width_learning, name, 100)
    monkeypatch.setattr(widths, "COMPARED_SIZE", 100)


@pytest.mark.usefixtures("small_cells")
def test_many_rows_by_cells():
    X, y = table(240, n_idle=2)
    clf = fitted(X, y, cell_size=100, inference="ep", n_jobs=2, n_landmarks=0, **GIVEN)
    assert clf.settings_.cells.cell_size == 100
    assert min(clf.gamma_[:2]) > 5 * max(clf.gamma_[2:])
    assert clf.score(NEW[:, :4], LABELS) > 0.85
    one = clone(clf).set_params(n_jobs=1).fit(X, y)
    assert_array_equal(one.gamma_, clf.gamma_)


def test_rows_far_from_all_others_have_probabilities():
    """Their outputs without themselves are exactly 0, and no link is fitted to them."""
    X = np.arange(36.0)[:, None] % 9 * [1.0, 1.0]
    X[:28] += 1e3 * np.arange(28)[:, None]
    clf = fitted(X, np.arange(36) % 3, gamma=1.0, softness=0.1, bias=0.0, inference="ep")
    assert clf.held_out_proba_.shape == (36, 3)
    assert_allclose(clf.held_out_proba_.sum(axis=1), 1.0, rtol=1e-6)


# ------------------------------------------------------------------------------ kernels


def steps(n, seed=0):
    """Rows whose label is told by a threshold in each of six columns; two more are noise."""
    X = np.random.default_rng(seed).random((n, 8))
    above = X[:, :6] > np.linspace(0.2, 0.8, 6)
    return X, (np.sum(above, axis=1) > 3).astype(int)


def test_thresholds_ask_for_the_laplacian_kernel(tmp_path):
    X, y = steps(200)
    clf = fitted(X, y)
    assert clf.kernel_ == "laplacian"
    assert clf.gamma_choice_["chosen"].endswith(", Laplacian")
    new, labels = steps(1_000, seed=1)
    assert clf.score(new, labels) > fitted(X, y, kernel="rbf").score(new, labels) + 0.02
    again = clf.settled().fit(X, y)
    assert again.kernel == again.kernel_ == "laplacian"
    assert_allclose(again.predict_proba(new), clf.predict_proba(new), atol=1e-6)
    assert np.max(clf.feature_importances_[6:]) < np.min(clf.feature_importances_[:6])
    model_file.save(tmp_path / "m.bpm", clf)
    loaded = model_file.load(tmp_path / "m.bpm").classifier
    assert (loaded.kernel, loaded.kernel_) == ("auto", "laplacian")
    assert_array_equal(loaded.predict_proba(new), clf.predict_proba(new))


def ring(n):
    X = np.random.default_rng(0).standard_normal((n, 2))
    return X, np.sum(X**2, axis=1) > 1.4


def test_smooth_boundaries_keep_the_rbf_kernel():
    clf = fitted(*ring(250))
    assert clf.kernel_ == "rbf"
    assert any(name.endswith(", Laplacian") for name in clf.gamma_choice_["log_proba"])


@pytest.mark.parametrize(("rows", "learnt"), [(steps(200), True), (ring(250), False)])
def test_of_many_rows_laplacian_widths_are_learnt_where_they_are_likely(monkeypatch, rows, learnt):
    monkeypatch.setattr(widths.WidthSearch, "_part", lambda _: True)
    assert ("full widths, Laplacian" in fitted(*rows).gamma_choice_["log_proba"]) == learnt


@pytest.mark.parametrize(
    "settings", [{"kernel": "rbf"}, {"gamma": 1.0}, {"gamma": [1.0] * 8}, {"gamma": "scale"}]
)
def test_only_the_data_ask_for_another_kernel(settings):
    clf = fitted(*steps(120), **{**GIVEN, **settings})
    assert clf.kernel_ == "rbf"
    names = clf.settings_.gamma_choice["log_proba"] if clf.settings_.gamma_choice else ()
    assert not any("Laplacian" in name for name in names)


def test_few_or_many_columns_and_sparse_rows_keep_the_rbf_kernel():
    X, y = steps(60)
    wide = np.hstack([X, np.random.default_rng(0).standard_normal((60, 195))])
    for Z in (sp.csr_matrix(X), X[:, :1], wide, X[:45]):
        clf = fitted(Z, y[: Z.shape[0]], **GIVEN)
        assert clf.kernel_ == "rbf"
        assert not any("Laplacian" in name for name in clf.gamma_choice_["log_proba"])
    assert "full widths, Laplacian" in fitted(X, y, gamma="ard", **GIVEN).gamma_choice_["log_proba"]
    onion = OnionClassifier("auto", softness=1.0, depth=1, n_draws=50, random_state=0)
    assert onion.fit(X, y).kernel_ in ("rbf", "laplacian")


@pytest.mark.parametrize("unit", [1e-85, 1e80])
def test_huge_and_tiny_units_leave_the_choice_as_it_is(unit):
    X, y = steps(150)
    one, other = (fitted(Z, y, **GIVEN) for Z in (X, X * unit))
    assert other.kernel_ == one.kernel_ == "laplacian"
    assert other.gamma_choice_["chosen"] == one.gamma_choice_["chosen"]


def test_warm_start_holds_to_the_kernel_that_was_asked_for():
    X, y = steps(150)
    clf = fitted(X, y, inference="perceptron", n_draws=4, warm_start=True, **GIVEN)
    assert clf.kernel_ == "laplacian"
    assert clf.set_params(n_draws=8).fit(X, y).kernel_ == "laplacian"
    assert clf.n_draws_ == 8
    with pytest.raises(ValueError, match=r"\['kernel'\] changed"):
        clf.set_params(kernel="rbf").fit(X, y)


def test_columns_of_two_values_are_the_same_to_both_kernels():
    X, y = steps(120)
    two = 3.0 * (X > 0.5)
    clf = fitted(two, y, **GIVEN)
    assert not any("Laplacian" in name for name in clf.gamma_choice_["log_proba"])
    one = fitted(two, y, kernel="rbf", gamma=np.linspace(0.1, 0.8, 8), **GIVEN)
    other = fitted(two, y, kernel="laplacian", gamma=3 * np.linspace(0.1, 0.8, 8), **GIVEN)
    assert_allclose(other.predict_proba(two), one.predict_proba(two), atol=1e-9)


# ------------------------------------------------------------------------------- units


@pytest.mark.parametrize(("gamma", "size"), [("ard", 80), ("held-out", 100), ("ard", 200)])
@pytest.mark.usefixtures("small_cells")
def test_units_of_columns_do_not_matter(gamma, size):
    """But for rounding, which is that of single precision where there are several cells."""
    scale = np.array([1.0, 1e6, 1e-3, 1.0, 40.0, 1.0])
    X, y = table(size, n_idle=4, scale=np.array([1, 1, 1, 1, 1, 1e3]))
    settings = {"gamma": gamma, "inference": "ep", "cell_size": 110, **GIVEN}
    new = NEW[:, :6] * np.array([1, 1, 1, 1, 1, 1e3])
    one = fitted(X, y, **settings)
    other = fitted(X * scale + 7.0, y, **settings)
    assert other.kernel_ == one.kernel_
    power = 2 if one.kernel_ == "rbf" else 1
    assert_allclose(other.gamma_ * scale**power, one.gamma_, rtol=1e-3)
    assert_allclose(other.predict_proba(new * scale + 7), one.predict_proba(new), atol=5e-3)


def test_a_column_a_billion_away_tells_as_much():
    """Seconds since 1970: rounding is felt by the order of rows, and so by folds, alone."""
    X, y = table(150, n_idle=2)
    away = np.array([1e9, 0, 0, 0])
    near, far = (
        fitted(X + shift, y, **GIVEN).predict_proba(NEW[:, :4] + shift) for shift in (0.0, away)
    )
    losses = [-np.log(p[np.arange(len(LABELS)), LABELS]) for p in (near, far)]
    assert losses[0].mean() < 0.5
    assert losses[1].mean() == pytest.approx(losses[0].mean(), abs=0.05)


def test_given_units_stay():
    X, y = table(80, n_idle=2)
    scale = np.array([1.0, 1.0, 20.0, 1.0])
    for settings in ({"gamma": 0.5}, {"gamma": "scale"}, {"kernel": "linear"}):
        one, other = (fitted(Z, y, softness=0.1, **settings) for Z in (X, X * scale))
        away = one.predict_proba(NEW[:, :4]) - other.predict_proba(NEW[:, :4] * scale)
        assert np.max(np.abs(away)) > 1e-3


@pytest.mark.parametrize(("size", "comparable"), [(1e-3, True), (1.0, True), (1e3, False)])
@pytest.mark.parametrize("sign", [1, -1])
def test_columns_that_hardly_vary_may_be_small(size, comparable, sign):
    X, y = table(200, n_idle=2)
    rare = sign * np.where(np.arange(200) % 20 == 0, size, 0.0)
    tried = fitted(np.column_stack([X, rare]), y, **GIVEN).gamma_choice_
    assert ("one width" in tried["log_proba"]) == comparable


def test_constant_columns_take_no_part():
    X, y = table(100, n_idle=2)
    constant = np.hstack([X, np.full((100, 1), 3.0)])
    for gamma in ("ard", "held-out"):
        one, other = (fitted(Z, y, gamma=gamma, **GIVEN) for Z in (X, constant))
        assert_allclose(np.broadcast_to(other.gamma_, 5)[:4], one.gamma_, rtol=1e-5)
    assert other.gamma_[-1] == 0
    nearly = np.hstack([X, np.where(np.arange(100)[:, None] % 2, 0.1, np.nextafter(0.1, 1))])
    assert fitted(nearly, y, gamma="ard", **GIVEN).gamma_[-1] == 0
    far = np.hstack([NEW[:, :4], np.full((500, 1), 1e3)])  # which was never seen to matter
    assert_allclose(other.predict_proba(far), one.predict_proba(NEW[:, :4]), atol=1e-5)


def test_widths_follow_rows_and_columns():
    X, y = table(80, n_idle=3)
    clf = fitted(X, y, gamma="ard", **GIVEN)
    order = np.random.default_rng(0).permutation(80)
    moved = fitted(X[order], y[order], gamma="ard", **GIVEN)
    assert_allclose(moved.gamma_, clf.gamma_, rtol=1e-9)
    sparse = fitted(sp.csr_matrix(X), y, gamma="ard", **GIVEN)
    assert_allclose(sparse.gamma_, clf.gamma_, rtol=1e-4)
    turned = fitted(X[:, ::-1], y, gamma="ard", **GIVEN).gamma_[::-1]
    assert_allclose(turned, clf.gamma_, rtol=1e-4)  # sums in single precision


# --------------------------------------------------------------------- files and refusals


def test_files_and_the_onion(tmp_path):
    X, y = table(80, n_idle=2)
    for clf in (fitted(X, y, gamma="ard"), fitted(X, y, gamma=[1.0, 1.0, 0.0, 0.1], **GIVEN)):
        model_file.save(tmp_path / "m.bpm", clf)
        loaded = model_file.load(tmp_path / "m.bpm").classifier
        assert_array_equal(loaded.gamma_, clf.gamma_)
        assert_array_equal(loaded.predict_proba(X), clf.predict_proba(X))
        assert loaded.settings_.gamma_choice == clf.settings_.gamma_choice
    onion = OnionClassifier(gamma="ard", softness=1.0, depth=1, n_draws=50, random_state=0)
    assert onion.fit(X, y).gamma_.shape == (4,)


def test_what_cannot_have_widths_says_why():
    X, y = table(60, n_idle=0)
    wide = sp.random(60, 1_001, density=0.02, format="csr", random_state=0)
    cases = [
        ({"gamma": "ard", "kernel": "precomputed", "X": X @ X.T}, "'ard'.*kernel='precomputed'"),
        ({"gamma": "ard", "kernel": "poly"}, r"gamma='ard'.*kernel='poly'"),
        ({"gamma": "ard", "X": wide}, r"gamma='ard'.*1001 columns"),
        ({"gamma": [1.0, 1.0, 1.0]}, r"gamma must hold one width for each of the 2 features"),
        ({"gamma": [1.0, 2.0], "kernel": "poly"}, r"gamma.*kernel='rbf' or 'laplacian'"),
    ]
    assert_refused(fitted, cases, X=X, y=y)
    with pytest.raises(AttributeError, match="gamma_choice_ is available after"):
        _ = fitted(X, y, gamma=1.0).gamma_choice_


# ------------------------------------------------------------------- which features matter


def friedman(seed, n=300, n_idle=5):
    """Five features that matter, one of them the same both ways."""
    rng = np.random.default_rng(seed)
    X = rng.random((n, 5 + n_idle))
    f = 10 * np.sin(np.pi * X[:, 0] * X[:, 1]) + 20 * (X[:, 2] - 0.5) ** 2
    f += 10 * X[:, 3] + 5 * X[:, 4]
    return X, (f > np.median(f)).astype(int)


def test_importances_find_what_matters():
    X, y = friedman(0)
    clf = fitted(X, y, n_jobs=2)
    found, error = clf.feature_importances_, clf.feature_importances_std_
    assert set(np.argsort(-found)[:4]) <= set(range(5))
    assert np.all(found[[0, 1, 3]] > 3 * error[[0, 1, 3]])
    assert np.all(np.abs(found[5:]) < 3 * error[5:])
    assert clf.feature_importances_ is found  # computed once
    given = fitted(X, y, gamma=clf.gamma_, bias=clf.bias_, softness=clf.softness_, n_jobs=1)
    assert_allclose(given.feature_importances_, found, atol=1e-6)


def test_a_column_that_takes_no_part_is_surely_worth_nothing():
    X, y = table(80, n_idle=2)
    X[:, 3] = 5.0
    given = {"gamma": [1.0, 1.0, 0.0, 1.0], "softness": 0.1, "bias": 1.0}
    clf = fitted(X, y, **given)
    assert clf.feature_importances_[2:].tolist() == [0.0, 0.0]
    assert clf.feature_importances_std_[2:].tolist() == [0.0, 0.0]
    assert np.all(clf.feature_importances_[:2] > 2 * clf.feature_importances_std_[:2])
    assert np.all(clf.feature_importances_std_[:2] > 0)


def test_labels_at_random_leave_no_feature_important():
    """Bonferroni's bound of ten features is 2.8; the errors are wide of what was measured."""
    X, _ = friedman(0, n=200)
    y = np.random.default_rng(0).integers(0, 2, 200)
    clf = fitted(X, y)
    assert np.max(clf.feature_importances_ / clf.feature_importances_std_) < 2.8


@pytest.mark.parametrize("kernel", ["linear", "poly"])
def test_importances_of_other_kernels_and_methods(kernel):
    X, y = table(80, n_idle=2)
    clf = fitted(X, X[:, 0] > 0, kernel=kernel, inference="perceptron", n_draws=5)
    assert np.argmax(clf.feature_importances_) == 0
    assert y.shape == (80,)


def test_importances_need_the_data_of_the_fit(tmp_path):
    X, y = table(60, n_idle=0)
    clf = fitted(X, y, gamma=1.0, softness=0.1)
    model_file.save(tmp_path / "m.bpm", clf)
    for other in (copy(clf), clone(clf), model_file.load(tmp_path / "m.bpm").classifier):
        with pytest.raises(AttributeError, match="not available before fit, nor in copies"):
            _ = other.feature_importances_
    X[0, 0] += 1.0
    with pytest.raises(AttributeError, match="have changed since"):
        _ = clf.feature_importances_
    gram = fitted(X @ X.T, y, kernel="precomputed", softness=0.1)
    with pytest.raises(AttributeError, match="precomputed"):
        _ = gram.feature_importances_


def test_large_weights_and_columns_that_are_nearly_equal():
    """Single precision is too coarse for them."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal(120)
    X = np.column_stack([x, x + 1e-9 * rng.standard_normal(120)])
    clf = BayesPointClassifier(gamma="ard", softness=0.1, bias=1.0, random_state=0)
    clf.fit(X, x > 0, np.full(120, 1e6))
    assert clf.score(X, x > 0) > 0.97


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_no_time_to_learn_widths_is_said(clock):
    clock.step = 0.25
    X, y = table(60, n_idle=2)
    with pytest.warns(UserWarning, match="no time to learn widths"):
        fitted(X, y, gamma="ard", softness=0.1, bias=1.0, max_time=1)
