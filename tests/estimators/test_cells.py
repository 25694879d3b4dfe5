"""EP by cells as a classifier: exact answers where both apply, any data, files and refusals."""

import os
import pickle
import tracemalloc
from types import SimpleNamespace

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.datasets import make_blobs, make_moons
from sklearn.exceptions import ConvergenceWarning

from bayespoint import BayesPointClassifier, RejectingClassifier
from bayespoint.estimators import cells
from bayespoint.estimators.making import votes_link
from bayespoint.inference.ep.cells import method, prediction
from bayespoint.inference.ep.cells.method import Cells
from bayespoint.io import model_file
from bayespoint.space.inputs import Inputs

GIVEN = {"gamma": 2.0, "softness": 0.1, "bias": 1.0, "inference": "ep", "random_state": 0}
CELLS = {"cell_size": 60, "n_landmarks": 0, "n_trees": 2}
X, Y = make_moons(300, noise=0.3, random_state=0)
NEW, LABELS = make_moons(300, noise=0.3, random_state=1)


def fitted(X=X, y=Y, weight=None, **settings):
    return BayesPointClassifier(**GIVEN | CELLS | settings).fit(X, y, weight)


def log_loss(clf, X=NEW, y=LABELS):
    return -np.mean(
        np.log(clf.predict_proba(X)[np.arange(len(y)), np.searchsorted(clf.classes_, y)])
    )


# ---------------------------------------------------------------- the exact answer


def test_one_cell_is_exact_ep():
    exact = BayesPointClassifier(**GIVEN).fit(X, Y)
    one = fitted(cell_size=300)
    assert_array_equal(one.predict_proba(NEW), exact.predict_proba(NEW))
    assert one.log_evidence_ == exact.log_evidence_


def test_more_landmarks_and_larger_cells_come_closer_to_it():
    exact = BayesPointClassifier(**GIVEN | {"decision": "vote"}).fit(X, Y)
    wanted, given = exact.predict_proba(NEW), {"decision": "vote", "n_trees": 1}

    def error(**settings):
        return np.mean(np.abs(fitted(**given | settings).predict_proba(NEW) - wanted))

    by_landmarks = [error(n_landmarks=n) for n in (0, 20, 150)]
    assert by_landmarks[0] > 2 * by_landmarks[1] > 4 * by_landmarks[2]
    assert by_landmarks[2] < 2e-3
    by_size = [error(cell_size=n) for n in (30, 150)]
    assert by_size[0] > 1.5 * by_size[1]
    evidence = [fitted(**given, n_landmarks=n).log_evidence_ for n in (0, 150)]
    assert abs(evidence[1] - exact.log_evidence_) < 0.1 < abs(evidence[0] - exact.log_evidence_)


@pytest.mark.parametrize(
    ("bias", "normalize", "sparse"), [(1.0, True, False), (100.0, False, True), (0.0, True, False)]
)
def test_linear_kernels_are_exact_whatever_the_cells(bias, normalize, sparse):
    rng = np.random.default_rng(0)
    X, new = np.split(rng.standard_normal((400, 5)) * [1, 1, 1, 0.3, 10], 2)
    y = X[:, 0] + 0.2 * X[:, 4] + 0.5 * rng.standard_normal(200) > 0
    X, new = (sp.csr_matrix(Z) if sparse else Z for Z in (X, new))
    given = {"kernel": "linear", "bias": bias, "normalize_kernel": normalize, "decision": "vote"}
    wanted = BayesPointClassifier(**GIVEN | given).fit(X, y).predict_proba(new)

    def error(n_landmarks):
        clf = fitted(X, y, **given, n_landmarks=n_landmarks)
        return np.max(np.abs(clf.predict_proba(new) - wanted))

    assert error("auto") < 3e-3
    assert error(0) > 1e-2


def test_many_small_steps_add_up():
    """Each row of many says little of one weight: cells rest when outputs do, not when rows do."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((400, 1))
    y = X[:, 0] + 0.3 * rng.standard_normal(400) > 0
    given = {"kernel": "linear", "normalize_kernel": False, "softness": 0.01, "decision": "vote"}
    exact = BayesPointClassifier(**GIVEN | given).fit(X, y)
    clf = fitted(X, y, **given, n_landmarks="auto", cell_size=10, tol=0.1)
    assert_allclose(clf.predict_proba(X), exact.predict_proba(X), atol=3e-3)
    assert_allclose(clf.log_evidence_, exact.log_evidence_, atol=0.01)


@pytest.mark.parametrize("normalize", [False, True])
def test_linear_kernels_with_many_columns(normalize):
    rng = np.random.default_rng(0)
    X = rng.random((120, 500))
    y = X[:, :250].sum(axis=1) > X[:, 250:].sum(axis=1)
    given = {"kernel": "linear", "normalize_kernel": normalize, "decision": "vote"}
    wanted = BayesPointClassifier(**GIVEN | given).fit(X, y).predict_proba(X)
    clf = fitted(X, y, **given, n_landmarks="auto", cell_size=40)
    assert_allclose(clf.predict_proba(X), wanted, atol=5e-3)


# Without the row cells are cut elsewhere: without landmarks, means of four trees.
@pytest.mark.parametrize(("n_landmarks", "n_trees"), [(0, 4), (40, 1)])
def test_what_it_says_of_a_row_is_what_a_fit_without_it_says(n_landmarks, n_trees):
    """With a narrow kernel, where the label of a row itself says much."""
    given = {"decision": "vote", "n_landmarks": n_landmarks, "n_trees": n_trees}
    given |= {"gamma": 20.0, "softness": 0.05}
    clf, refitted = fitted(**given), np.empty(12)
    for i in range(12):
        weight = np.ones(300)
        weight[i] = 0
        refitted[i] = fitted(weight=weight, **given).predict_proba(X[[i]])[0, 1]
    told, seen = clf.held_out_proba_[:12, 1], clf.predict_proba(X[:12])[:, 1]
    assert np.mean(np.abs(told - refitted)) < 0.5 * np.mean(np.abs(seen - refitted))


def test_settled_has_the_cells_and_what_is_given_stays():
    clf = fitted(n_landmarks="auto", n_trees=4)
    assert clf.settings_.cells.n_trees == 4
    again = clf.settled()
    assert (again.cell_size, again.n_trees) == (60, 4)
    assert again.n_landmarks == clf.settings_.cells.n_landmarks


def test_few_rows_have_more_trees(monkeypatch):
    for n_rows, with_landmarks, without in ((300 * 9, 6, 6), (300 * 4, 4, 4), (300 * 2, 2, 3)):
        monkeypatch.setattr(cells, "ROWS_OF_TREES", n_rows)
        for n_landmarks, n_trees in ((20, with_landmarks), (0, without)):
            clf = fitted(n_landmarks=n_landmarks, n_trees="auto")
            assert clf.settings_.cells.n_trees == n_trees
    many = np.arange(300) % 5  # as many machines
    for n_rows, n_trees in ((300 * 5 * 2, 2), (300 * 4, 1)):
        monkeypatch.setattr(cells, "ROWS_OF_TREES", n_rows)
        clf = fitted(y=many, n_landmarks=20, n_trees="auto")
        assert clf.settings_.cells.n_trees == n_trees


def test_labels_at_random_cannot_be_told():
    rng = np.random.default_rng(0)
    y = rng.integers(2, size=300)  # at most 185 are told with probability 1 - 3e-5
    for n_landmarks in (0, 40):
        clf = fitted(y=y, softness=0.01, gamma=20.0, n_landmarks=n_landmarks)
        assert np.sum(clf.held_out_proba_.argmax(axis=1) == y) <= 185


def test_draws_have_the_probabilities_as_their_mean():
    for n_landmarks in (0, 40):
        clf = fitted(decision="vote", n_landmarks=n_landmarks, n_trees=1)
        drawn = clf.sample_proba(NEW[:10], 400, random_state=0)
        spread = drawn[:, :, 1].std(axis=0) / np.sqrt(400)
        away = np.abs(drawn[:, :, 1].mean(axis=0) - clf.predict_proba(NEW[:10])[:, 1])
        assert np.all(away < 5 * spread + 1e-3)


# ---------------------------------------------------------------- any data


def test_many_classes():
    X, y = make_blobs(500, centers=4, cluster_std=2.0, random_state=0)
    (X, new), (y, label) = np.split(X, [250]), np.split(y, [250])
    clf = fitted(X, y, gamma=0.1, n_landmarks=60)
    exact = BayesPointClassifier(**GIVEN | {"gamma": 0.1}).fit(X, y)
    assert log_loss(clf, new, label) < log_loss(exact, new, label) + 0.02
    assert_allclose(clf.predict_proba(new).sum(axis=1), 1)
    assert_array_equal(clf.predict(new), clf.classes_[clf.decision_function(new).argmax(axis=1)])


def test_weights_are_copies_and_class_weights_shift():
    rng = np.random.default_rng(0)
    weight = rng.integers(1, 4, size=300)
    copied = fitted(np.repeat(X, weight, axis=0), np.repeat(Y, weight))
    weighted = fitted(weight=weight.astype(float))
    assert_allclose(copied.predict_proba(NEW), weighted.predict_proba(NEW), atol=1e-12)
    assert np.max(np.abs(weighted.predict_proba(NEW) - fitted().predict_proba(NEW))) > 0.01
    shifted = fitted(class_weight={0: 1.0, 1: 5.0}).decision_function(NEW)
    assert_allclose(shifted - fitted().decision_function(NEW), np.log(5), atol=1e-8)


@pytest.mark.parametrize("n_landmarks", [0, 60])
def test_weights_below_one_count_less(n_landmarks):
    """As the exact answer has it."""
    weight = np.full(300, 0.1)
    given = {"decision": "vote", "n_landmarks": n_landmarks, "cell_size": 150}
    clf = fitted(weight=weight, **given)
    exact = BayesPointClassifier(**GIVEN | {"decision": "vote"}).fit(X, Y, weight)
    away = np.mean(np.abs(clf.predict_proba(NEW) - exact.predict_proba(NEW)))
    assert away < (0.005 if n_landmarks else 0.05)
    unweighted = fitted(**given).predict_proba(NEW)
    assert np.mean(np.abs(clf.predict_proba(NEW) - unweighted)) > 0.05


def test_layouts_order_and_threads_change_nothing():
    clf = fitted()
    p = clf.predict_proba(NEW)
    order = np.random.default_rng(0).permutation(300)
    assert_array_equal(fitted(X[order], Y[order]).predict_proba(NEW), p)
    assert_array_equal(fitted(n_jobs=2).predict_proba(NEW), p)
    assert_allclose(fitted(sp.csr_matrix(X)).predict_proba(sp.csr_matrix(NEW)), p, atol=1e-5)
    # Rows in another precision have other hashes, and are divided elsewhere.
    assert log_loss(fitted(np.float32(X)), np.float32(NEW)) == pytest.approx(
        log_loss(clf), abs=0.03
    )
    assert_allclose([clf.predict_proba(row[None])[0] for row in NEW[:20]], p[:20], atol=1e-6)
    other = fitted(random_state=1).predict_proba(NEW)
    assert 0 < np.max(np.abs(other - p)) < 0.3


@pytest.mark.parametrize("kernel", ["linear", "poly", "laplacian", lambda A, B: (A @ B.T + 1) ** 2])
def test_every_kernel_that_can_be_evaluated(kernel):
    clf = fitted(kernel=kernel, gamma=1.0, n_landmarks=40)
    exact = BayesPointClassifier(**GIVEN | {"kernel": kernel, "gamma": 1.0}).fit(X, Y)
    assert abs(log_loss(clf) - log_loss(exact)) < 0.05


def test_odd_data_have_sensible_answers():
    repeated = fitted(np.repeat(X[:100], 50, axis=0), np.repeat(Y[:100], 50), cell_size=30)
    assert np.mean(repeated.predict(NEW) == LABELS) > 0.8
    both = np.vstack([X, X[:50]]), np.append(Y, 1 - Y[:50])  # contradictory copies
    p = fitted(*both).predict_proba(X[:50])
    assert np.all(np.isfinite(p))
    few = np.where(np.arange(300) < 3, 2, Y)  # a class of three rows
    p = fitted(y=few).predict_proba(NEW)
    assert p.shape == (300, 3)
    assert 1e-6 < p[:, 2].mean() < 0.05
    constant, new = (np.column_stack([Z, np.full(300, 3.0)]) for Z in (X, NEW))
    assert log_loss(fitted(constant), new) == pytest.approx(log_loss(fitted()), abs=0.03)
    apart = np.where(np.arange(300) < 150, X.T + 50, X.T).T  # cells of one class
    sure = fitted(apart, (np.arange(300) < 150).astype(int))
    assert sure.score(apart, (np.arange(300) < 150).astype(int)) == 1


def test_label_noise_and_label_errors():
    y = Y.copy()
    wrong = np.random.default_rng(0).choice(300, 20, replace=False)
    y[wrong] = 1 - y[wrong]
    clf = fitted(y=y, label_noise=0.07)
    doubted = np.argsort(-clf.label_error_proba_)[:20]
    assert len(np.intersect1d(doubted, wrong)) >= 8
    assert clf.score(NEW, LABELS) > 0.85


# ---------------------------------------------------------------- files, stops and refusals


@pytest.mark.parametrize("n_landmarks", [0, 40])
@pytest.mark.parametrize("sparse", [False, True])
def test_models_travel(tmp_path, n_landmarks, sparse):
    train = sp.csr_matrix(X) if sparse else X
    new = sp.csr_matrix(NEW) if sparse else NEW
    clf = fitted(train, n_landmarks=n_landmarks)
    p = clf.predict_proba(new)
    model_file.save(tmp_path / "m.bpm", clf)
    for again in (model_file.load(tmp_path / "m.bpm").classifier, pickle.loads(pickle.dumps(clf))):
        assert_array_equal(again.predict_proba(new), p)
        assert_array_equal(again.sample_proba(new, 3, random_state=0),
                           clf.sample_proba(new, 3, random_state=0))  # fmt: skip


def test_a_warm_start_begins_with_the_old_sites():
    clf = fitted(warm_start=True, n_landmarks=40)
    p = clf.predict_proba(NEW)
    assert_allclose(clf.set_params(softness=0.11).fit(X, Y).predict_proba(NEW), p, atol=0.05)
    assert_allclose(
        clf.predict_proba(NEW), fitted(n_landmarks=40, softness=0.11).predict_proba(NEW), atol=0.02
    )


def test_a_warm_start_with_one_cell_after_many_begins_anew():
    clf = fitted(warm_start=True).set_params(cell_size="auto").fit(X, Y)
    assert_allclose(
        clf.predict_proba(NEW), BayesPointClassifier(**GIVEN).fit(X, Y).predict_proba(NEW)
    )


def test_no_tolerance_goes_on_to_the_last_visit():
    with pytest.warns(ConvergenceWarning, match="have not converged"):
        clf = fitted(n_landmarks=20, tol=0.0, verbose=1)
    assert clf.score(NEW, LABELS) > 0.85


def test_the_cache_is_new_after_a_fork():
    clf, p = fitted(), fitted().predict_proba(NEW)
    with prediction.CACHE.lock:  # as another thread may
        child = os.fork()
        if not child:
            os._exit(int(not np.array_equal(clf.predict_proba(NEW), p)))
    assert os.waitpid(child, 0)[1] == 0


def test_rejection_takes_one_fit():
    clf = RejectingClassifier(
        BayesPointClassifier(**GIVEN | CELLS), coverage=0.8, reject_label=-1
    ).fit(X, Y)
    assert np.mean(clf.predict(NEW) >= 0) == pytest.approx(0.8, abs=0.1)


def test_time_that_is_up_leaves_a_usable_fit(clock, monkeypatch):
    grow, grown, clock.step = method.grow, [], 1.0
    monkeypatch.setattr(method, "grow", lambda *given: grown.append(1) or grow(*given))
    clf = fitted(max_time=20.0, n_trees=400)
    assert clf.score(NEW, LABELS) > 0.5
    assert len(clf.predictor_.model.roots) <= len(grown) < 20


@pytest.mark.parametrize("n_landmarks", [0, 20])
def test_no_time_at_all_leaves_finite_probabilities(clock, n_landmarks):
    X, y = make_moons(990, noise=0.3, random_state=0)  # with more, a fit of some would be kept
    clock.step = 10.0
    with pytest.warns(ConvergenceWarning, match="cells have not converged"):
        clf = fitted(X, y, cell_size=30, max_time=1.0, n_landmarks=n_landmarks)
    assert np.all(np.isfinite(clf.predict_proba(NEW)))
    # Labels that nobody looked at are as good as tossed.
    assert clf.log_evidence_ < -0.5 * len(y) * np.log(2)


def test_the_link_does_not_mind_rows_that_nobody_looked_at():
    rng = np.random.default_rng(0)
    z, label = rng.standard_normal((1, 300)), rng.integers(2, size=300)

    def link(z, label):
        distinct = SimpleNamespace(label=label, weight=np.ones(len(label)))
        data = SimpleNamespace(distinct=distinct, inputs=Inputs(np.empty((len(label), 1))))
        return votes_link(Cells(None, None, np.stack([z, z]), None), data, 0.0).link

    more = np.append(label, np.ones(200, dtype=int))
    for unseen in (0.0, 1e-12):  # and those far from all others, but for rounding
        found = link(np.append(z, np.full((1, 200), unseen), axis=1), more)
        assert_array_equal(found.offset, link(z, label).offset)
    assert abs(link(np.append(z, np.full((1, 200), 1e-8), axis=1), more).offset[0]) > 0.1


@pytest.mark.slow
def test_a_million_rows():
    """As good as any of its parts; what is learnt of a row takes a few numbers."""
    X, y = make_moons(1_000_000, noise=0.3, random_state=0)
    clf = fitted(np.float32(X), y, cell_size=100, n_trees=1)
    assert log_loss(clf) < log_loss(fitted(np.float32(X[:1000]), y[:1000], cell_size=100)) + 0.01
    assert len(pickle.dumps(clf)) < 300 * len(X)


@pytest.mark.parametrize("n_landmarks", [0, 60])
def test_memory_is_bounded_by_cache_size_and_changes_nothing(n_landmarks):
    """Beside rows and model; one tree's factors would take 4 MB, several cells at once more."""
    X, y = make_moons(2000, noise=0.3, random_state=0)
    given = {"cell_size": 250, "n_landmarks": n_landmarks, "n_trees": 1}
    fitted(X[:300], y[:300], **given)  # what is loaded or compiled once
    found = {}
    for cache_size in (5.2, 2000.0):
        tracemalloc.start()
        clf = fitted(X, y, cache_size=cache_size, n_jobs=4, **given)
        kept, most = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        found[cache_size] = clf.predict_proba(NEW), most - kept
    assert_array_equal(found[5.2][0], found[2000.0][0])
    assert found[5.2][1] < 5.2e6


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"cache_size": 0.1}, "needs 0.2 MB for a cell of 60 rows with 0 landmarks"),
        ({"cache_size": 0.3, "n_landmarks": 50}, "lower cell_size or n_landmarks"),
        ({"cell_size": 1}, "cell_size must be 'auto' or a whole number >= 2"),
        ({"n_trees": 0}, "n_trees must be 'auto'"),
        ({"n_landmarks": -1}, "n_landmarks must be 'auto'"),
        ({"decision": "bayes_point"}, "decision='calibrated' or 'vote'"),
        ({"label_noise": "evidence"}, "label_noise='evidence' is not available"),
        ({"gamma": "evidence"}, "gamma='evidence' is not available"),
    ],
)  # fmt: skip
def test_refusals(settings, message):
    with pytest.raises(ValueError, match=message):
        fitted(**settings)


def test_what_has_no_single_bayes_point_says_what_to_use():
    clf = fitted()
    with pytest.raises(AttributeError, match="cosines"):
        clf.dual_coef_  # noqa: B018
    with pytest.raises(ValueError, match="sample_proba"):
        clf.posterior()
    with pytest.raises(ValueError, match="compress"):
        clf.compress()
    K = np.exp(-np.sum((X[:, None] - X) ** 2, axis=-1))
    with pytest.raises(ValueError, match="name a kernel"):
        fitted(K, kernel="precomputed")
    assert clf.cosines(NEW).shape == (300,)
