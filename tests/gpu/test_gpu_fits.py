"""Fits with ``device="cuda"`` are those of the CPU, whatever the data look like."""

# ruff: noqa: E402

import joblib
import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal

torch = pytest.importorskip("torch")

from helpers.device_fits import assert_equal_fits, dense, fitted_pair, make, within
from helpers.thresholds import compare_means, two_stage

from bayespoint.gpu import inputs as gpu_inputs
from bayespoint.gpu import rows as gpu_rows
from bayespoint.inference import engines
from bayespoint.space.kernels import scale_gamma

KERNELS = {
    "rbf": {},
    "linear": {"softness": 0.2},
    "poly": {"degree": 2, "gamma": 0.1},
    "laplacian": {"gamma": 0.02},
    "poly, not normalised": {"normalize_kernel": False, "degree": 2, "gamma": 0.1},
}


def kernel_of(clf):
    return clf.predictor_.support.kernel


@pytest.mark.parametrize("kernel", KERNELS)
def test_perceptrons_are_those_of_the_cpu(digits, kernel):
    settings = {"kernel": kernel.split(",")[0], **KERNELS[kernel]}
    for dtype in (np.float32, np.float64):
        X, y, new = within((digits[0].astype(dtype), digits[1]), 150)
        theirs, ours = fitted_pair(X, y, **settings)
        assert_equal_fits(theirs, ours, new)
        assert ours.support_vectors_.dtype == dtype
        for c in (0, 9):
            found, expected = (clf.posterior(c).coef.toarray() for clf in (ours, theirs))
            assert_allclose(found, expected, atol=1e-5)
        assert ours.score(X, y) > 0.97
    # Negative control: another seed is seen.
    other = make(**{**settings, "random_state": 1}).fit(X, y)
    assert not np.array_equal(other.support_, ours.support_) or not np.allclose(
        other.dual_coef_, ours.dual_coef_, atol=1e-3
    )


def test_two_classes_with_names(cancer):
    X, y, new = within(cancer, 100)
    theirs, ours = fitted_pair(X, np.array(["benign", "malign"])[y])
    assert_equal_fits(theirs, ours, new)
    assert set(ours.predict(new)) <= {"benign", "malign"}


@pytest.mark.parametrize("how", ["held-out", "evidence", "scale"])
def test_settings_are_chosen_alike(cancer, how):
    X, y, new = within(cancer, 60)
    settings = {"gamma": how, "softness": "held-out" if how == "scale" else how, "bias": "auto"}
    theirs, ours = fitted_pair(X, y, **settings)
    for name in ("gamma_", "softness_", "bias_"):
        assert getattr(ours, name) == pytest.approx(getattr(theirs, name), rel=1e-3)
    assert_allclose(ours.predict_proba(new), theirs.predict_proba(new), atol=0.02)


def test_the_scale_of_large_numbers_is_that_of_the_cpu():
    X = (1e20 * np.random.default_rng(0).normal(size=(200, 3))).astype(np.float32)
    y = (X[:, 0] > 0).astype(int)
    gammas = []
    for device in ("cuda", "cpu"):
        place, clf = engines.place_of(device), make(device=device)
        inputs, _ = place.training_inputs(clf, X, y, precomputed=False)
        gammas.append(scale_gamma(3, inputs.variance(np.ones(200))))
    assert_allclose(*gammas, rtol=1e-9)


def test_given_gram_matrices(digits):
    X, y, new = within(digits, 100)
    for dtype in (np.float64, np.float32):
        K = ((X @ X.T + 1) ** 2).astype(dtype)
        theirs, ours = fitted_pair(K, y, kernel="precomputed", inference="perceptron")
        assert_equal_fits(theirs, ours, ((new @ X.T + 1) ** 2).astype(dtype))
    with pytest.raises(ValueError, match="square Gram matrix"):
        make(kernel="precomputed").fit(K[:, :9], y)
    K[3, 17] = K[17, 3] = 2 * K.max()
    for device in ("cpu", "cuda"):
        with pytest.raises(ValueError, match=r"sqrt.*in rows \[3, 17\] \(counted from 0\)\. Pass"):
            make(device=device, kernel="precomputed").fit(K, y)


def test_sparse_input(digits):
    X, y, new = within((digits[0].astype(np.float64), digits[1]), 100)
    X[X < 0.3] = 0.0
    expected = make().fit(X, y)
    for kind in (sp.csr_matrix, sp.csr_array, sp.coo_matrix):
        ours = make().fit(kind(X), y)
        assert_array_equal(ours.dual_coef_, expected.dual_coef_)
        assert_array_equal(ours.predict_proba(kind(new)), expected.predict_proba(new))
    assert_equal_fits(make(device="cpu").fit(sp.csr_matrix(X), y), ours, new)


def test_weights_and_copies(cancer):
    X, y, new = within(cancer, 100)
    weight = np.random.default_rng(0).integers(4, size=100).astype(float)
    X, y = np.vstack([X, X[:30], -0.0 * X[:1]]), np.append(y, [*y[:30], 0])
    weight = np.append(weight, np.ones(31))
    theirs, ours = fitted_pair(X, y, weight)
    assert_equal_fits(theirs, ours, new)
    assert ours.draws_.coef[0].shape[1] < np.count_nonzero(weight)
    copied = np.repeat(np.arange(len(X)), weight.astype(int))
    again = make().fit(X[copied], y[copied])
    assert_allclose(again.predict_proba(new), ours.predict_proba(new), atol=1e-6)
    balanced = fitted_pair(X, y, weight, class_weight="balanced")
    assert_equal_fits(*balanced, new)
    assert np.abs(balanced[1].decision_function(new) - ours.decision_function(new)).max() > 1e-3
    with pytest.raises(ValueError, match="sample_weight is zero for every row"):
        make().fit(X, y, 0 * weight)


@pytest.mark.parametrize("few", [False, True], ids=["all rows", "rows in blocks"])
def test_rows_that_do_not_fit_are_computed_in_blocks(digits, few, monkeypatch, memory):
    X, y, new = within(digits, 120)
    y, made = y > 4, []
    theirs = make(device="cpu").fit(X, y)

    class Recorded(gpu_rows.DeviceRows):
        def __init__(self, *args, **kwargs):
            super().__init__(*args, **kwargs)
            made.append(self)

    monkeypatch.setattr(gpu_inputs, "DeviceRows", Recorded)
    if few:
        memory(int(70 * 120 * 4 / gpu_rows.STORE_SHARE))
    ours = make().fit(X, y)
    assert made[0].whole != few
    assert (made[0].n_computed > 120) == few
    assert_equal_fits(theirs, ours, new)


@pytest.mark.usefixtures("no_warnings")
@pytest.mark.parametrize(
    ("inference", "kind"),
    [("perceptron", "array"), ("perceptron", "sparse"), ("billiard", "memory map"),
     ("ep", "memory map"), ("perceptron", "Gram matrix"), ("ep", "Gram matrix")],
)  # fmt: skip
def test_arrays_that_must_not_be_written_to(cancer, inference, kind, tmp_path):
    X, y, new = within(cancer, 30)
    settings = {"n_draws": 8, "decision": "vote" if inference == "billiard" else "bayes_point"}
    if kind == "Gram matrix":
        settings["kernel"], X, new = "precomputed", X @ X.T, new @ X.T
    given = sp.csr_matrix(X) if kind == "sparse" else X.copy()
    expected = make(inference, **settings).fit(given, y)
    if kind == "memory map":
        joblib.dump((given, y), tmp_path / "data")
        given, y = joblib.load(tmp_path / "data", mmap_mode="r")
    for array in (given.data, given.indices, given.indptr) if kind == "sparse" else (given,):
        array.flags.writeable = False
    clf = make(inference, **settings).fit(given, y)
    # A model whose arrays are mapped, too, and further draws from there.
    joblib.dump(clf, tmp_path / "model")
    clf = joblib.load(tmp_path / "model", mmap_mode="r")
    assert_array_equal(clf.predict_proba(new), expected.predict_proba(new))
    clf.set_params(warm_start=True, n_draws=16, tol=0).fit(given, y)
    assert clf.n_draws_ >= 16
    assert_array_equal(dense(given), X)


def test_the_same_fit_twice_has_the_same_bits(cancer):
    X, y, new = within(cancer, 30)
    for inference in ("perceptron", "billiard"):
        one, two = (make(inference, label_noise=0.0).fit(X, y) for _ in range(2))
        assert_array_equal(one.dual_coef_, two.dual_coef_)
        assert_array_equal(one.predict_proba(new), two.predict_proba(new))


def test_the_order_of_the_rows_sets_nothing(digits):
    X, y, new = within(digits, 100)
    order = np.random.default_rng(0).permutation(100)
    one, two = make().fit(X, y), make().fit(X[order], y[order])
    assert_allclose(one.predict_proba(new), two.predict_proba(new), atol=1e-6)


def test_ep(cancer):
    X, y, new = within(cancer, 60)
    theirs, ours = fitted_pair(X, y, inference="ep")
    assert_allclose(ours.predict_proba(new), theirs.predict_proba(new), atol=1e-3)
    assert ours.log_evidence_ == pytest.approx(theirs.log_evidence_, abs=1e-2)


# ---------------------------------------------------------------------- the billiard


def law(X, y, device, n_balls, length, seed):
    """Mean margins of some points over the draws of each ball."""
    clf = make("billiard", device, n_draws=n_balls * length, tol=0, random_state=seed).fit(X, y)
    assert clf.draws_.n_chains == n_balls
    K = kernel_of(clf)(X) + clf.softness_ * np.eye(len(X))
    return (clf.posterior().draws() @ K).mean(axis=1)[:, ::4]


def test_the_billiard_has_the_law_of_the_cpu(cancer):
    """Balls of one fit on a device against those of eight on the CPU."""
    X, y, _ = within(cancer, 24)

    def check(length, seed):
        seeds = np.random.SeedSequence(seed).generate_state(9).tolist()
        theirs = [law(X, y, "cpu", 4, length, one) for one in seeds[:8]]
        ours = law(X, y, "cuda", 32, length, seeds[8])
        return compare_means(ours - np.concatenate(theirs), 0.0)

    result = two_stage(check, length=40, seed=0)
    assert result.passed, result
    assert result.detectable < 0.15, result


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize(
    ("noise", "decision"), [(0.0, "vote"), (0.0, "bayes_point"), (0.1, "vote")]
)
def test_the_billiard_and_its_probabilities(cancer, noise, decision):
    X, y, new = within(cancer, 30)
    settings = {"n_draws": 160, "decision": decision, "label_noise": noise, "softness": 0.2}
    theirs, ours = fitted_pair(X, y, inference="billiard", **settings)
    # Monte-Carlo error of some hundred draws, which depend on each other with noise.
    assert np.abs(ours.predict_proba(new) - theirs.predict_proba(new)).mean() < 0.03
    assert_allclose(ours.label_error_proba_, theirs.label_error_proba_, atol=0.25 if noise else 0.1)
    assert set(ours.diagnostics_) == set(theirs.diagnostics_)
    assert np.all(ours.diagnostics_["bounces"] > 0)
    assert np.any(ours.diagnostics_["passes"]) == bool(noise)
    assert ours.n_draws_ >= 160
    post = ours.posterior()
    K = kernel_of(ours)(X)
    for source in ("kicks", "fit"):
        assert post.bayes_point(source) @ K @ theirs.posterior().bayes_point() > 0.7
    if not noise:
        outputs = post.draws().reshape(-1, 30) @ (K + ours.softness_ * np.eye(30))
        assert np.min(np.where(y == 1, 1, -1) * outputs) > -1e-7


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_the_billiard_in_several_classes(digits):
    X, y, new = within(digits, 60)
    y = y % 4
    theirs, ours = fitted_pair(X, y, inference="billiard", n_draws=100, label_noise=0.0)
    assert ours.diagnostics_["bounces"].shape == (4, ours.draws_.n_chains)
    assert ours.draws_.n_chains == 25
    assert np.mean(ours.predict(new) == theirs.predict(new)) > 0.9
    assert np.abs(ours.predict_proba(new) - theirs.predict_proba(new)).mean() < 0.03
    assert ours.sample_proba(new[:5], 3, 0).shape == (3, 5, 4)
