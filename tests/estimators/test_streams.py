"""Rows that keep coming: what is learnt from them, in what memory, and how models are merged."""

import pickle
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.datasets import make_blobs, make_moons
from sklearn.exceptions import NotFittedError

from bayespoint import BayesPointClassifier
from bayespoint.estimators import classifier as module
from bayespoint.estimators import fitting

GIVEN = {"gamma": 2.0, "softness": 0.1, "bias": 1.0, "inference": "ep", "random_state": 0}
CELLS = {"cell_size": 60, "n_landmarks": 0, "n_trees": 2}
LINEAR = {"kernel": "linear", "softness": 0.1, "bias": 1.0, "random_state": 0}
COLUMNS = LINEAR | {"n_landmarks": "auto"}
X, Y = make_moons(240, noise=0.3, random_state=0)
NEW, LABELS = make_moons(300, noise=0.3, random_state=1)


def moons(**settings):
    return BayesPointClassifier(**GIVEN | CELLS | settings)


def fed(clf, X=X, y=Y, size=60, **options):
    """Give rows in batches."""
    for first in range(0, len(y), size):
        clf.partial_fit(X[first : first + size], y[first : first + size], **options)
    return clf


def log_loss(clf, X=NEW, y=LABELS):
    label = np.searchsorted(clf.classes_, y)
    return -np.mean(np.log(clf.predict_proba(X)[np.arange(len(y)), label]))


def n_held(clf):
    return clf.absorb().support_vectors_.shape[0]


# ---------------------------------------------------------------------- the answer of all rows


def ellipse(n, n_idle=0):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, 4 + n_idle)) * [1, 1, 0.3, 3, *[0.1] * n_idle]
    return X, X[:, 0] + 0.2 * X[:, 3] + 0.5 * rng.standard_normal(n) > 0.3


def direction(clf, X):
    """Unit vector of a linear classifier, from its outputs."""
    outputs = clf.cosines(X) * np.sqrt(np.sum(X**2, axis=1) + 1.0)
    w = np.linalg.lstsq(np.column_stack([X, np.ones(len(X))]), outputs, rcond=None)[0]
    return w / np.linalg.norm(w)


@pytest.mark.parametrize(
    ("sizes", "cell_size"),
    [([60, 1, 59], 30), ([40] * 3, "auto"), ([3, 117], "auto"), ([3, 117], 30)],
    ids=str,
)
def test_linear_rows_that_are_held_give_the_batch_answer(sizes, cell_size):
    X, y = ellipse(120)
    exact = BayesPointClassifier(**LINEAR, inference="ep").fit(X, y)
    clf, first = BayesPointClassifier(**LINEAR, cell_size=cell_size), 0
    for size in sizes:
        clf.partial_fit(X[first : first + size], y[first : first + size], classes=[False, True])
        first += size
        clf.predict(X[:1])  # which may not matter
    assert np.linalg.norm(direction(clf, X) - direction(exact, X)) < 1e-3
    fewer = BayesPointClassifier(**LINEAR, inference="ep").fit(X[:110], y[:110])
    assert np.linalg.norm(direction(fewer, X) - direction(exact, X)) > 1e-3


@pytest.mark.parametrize(("n_landmarks", "cell_size"), [(0, 60), (40, 60), (0, "auto")])
def test_as_good_as_one_fit(n_landmarks, cell_size):
    given = {"n_landmarks": n_landmarks, "cell_size": cell_size, "decision": "vote"}
    at_once, clf = moons(**given).fit(X, Y), fed(moons(**given))
    assert abs(log_loss(clf) - log_loss(at_once)) < 0.01
    assert log_loss(moons(**given).fit(X[:60], Y[:60])) > log_loss(at_once) + 0.03
    assert n_held(clf) == len(X)


def test_one_cell_that_grows_becomes_several():
    clf = moons(cell_size=100, n_trees=3, decision="vote").partial_fit(X[:80], Y[:80])
    exact = BayesPointClassifier(**GIVEN | {"decision": "vote"}).fit(X[:80], Y[:80])
    assert_allclose(clf.predict_proba(NEW), exact.predict_proba(NEW))
    clf.partial_fit(X[80:110], Y[80:110])  # still one, and exact
    exact = exact.fit(X[:110], Y[:110])
    assert_allclose(clf.predict_proba(NEW), exact.predict_proba(NEW), atol=5e-3)
    fed(clf, X[110:], Y[110:], 40).absorb()
    assert len(clf.diagnostics_["cells"]) == 3
    assert all(2 <= n <= 5 for n in clf.diagnostics_["cells"])
    assert abs(log_loss(clf) - log_loss(BayesPointClassifier(**GIVEN).fit(X, Y))) < 0.03


def test_it_goes_on_after_fit_and_fit_starts_anew():
    clf = moons().fit(X[:120], Y[:120])
    with pytest.raises(AttributeError, match="after partial_fit"):
        clf.log_predictive_  # noqa: B018
    clf.partial_fit(X[120:], Y[120:])
    assert clf.log_predictive_.shape == (1,)
    assert n_held(clf) == len(X)
    again = clf.fit(X[:120], Y[:120])
    assert_array_equal(again.predict_proba(NEW), moons().fit(X[:120], Y[:120]).predict_proba(NEW))
    assert not hasattr(again, "log_predictive_")


def test_each_batch_is_predicted_before_it_is_learnt():
    clf = moons().partial_fit(X[:120], Y[:120])
    proba = clf.predict_proba(X[120:180])
    clf.partial_fit(X[120:180], Y[120:180])
    wanted = np.mean(np.log(proba[np.arange(60), Y[120:180]]))
    assert_allclose(clf.log_predictive_, [np.nan, wanted])
    clf.partial_fit(X[:60], 1 - Y[:60])
    assert clf.log_predictive_[2] < wanted - 1  # wrong labels surprise


def test_the_link_follows_what_predictions_were_worth():
    """Labels at random after labels that are clear."""
    clear = (X[:, 0] > 0.5).astype(int)
    clf = moons(softness=0.01).partial_fit(X[:120], clear[:120])
    before = clf.predict_proba(NEW).max(axis=1).mean()
    rng = np.random.default_rng(0)
    for _ in range(3):
        clf.partial_fit(rng.standard_normal((100, 2)), rng.integers(2, size=100))
    assert clf.predict_proba(NEW).max(axis=1).mean() < before - 0.1


def test_equal_rows_and_weights_are_copies():
    one_cell = {"cell_size": 300, "decision": "vote"}
    copied = fed(moons(**one_cell), np.repeat(X, 3, axis=0), np.repeat(Y, 3), 360)
    again = fed(fed(fed(moons(**one_cell), size=120), size=240), size=120)
    weighted = moons(**one_cell)
    for first in range(0, len(X), 120):
        rows = slice(first, first + 120)
        weighted.partial_fit(X[rows], Y[rows], sample_weight=np.full(120, 3.0))
    wanted = moons(**one_cell).fit(X, Y, np.full(len(X), 3.0)).predict_proba(NEW)
    for clf in (copied, again, weighted):
        assert n_held(clf) == len(X)
        assert_allclose(clf.predict_proba(NEW), wanted, atol=1e-2)
    assert np.max(np.abs(fed(moons(**one_cell), size=120).predict_proba(NEW) - wanted)) > 0.05


def test_small_weights_are_not_old_rows():
    clf = moons()
    for first in range(0, len(X), 60):
        rows = slice(first, first + 60)
        clf.partial_fit(X[rows], Y[rows], sample_weight=np.full(60, 1e-3))
    assert n_held(clf) == len(X)


# ---------------------------------------------------------------------- settings


def count_searches(monkeypatch):
    seen, settle = [], fitting.settle

    def counted(parameters, data, *given, **options):
        seen.append(data.n_samples)
        return settle(parameters, data, *given, **options)

    monkeypatch.setattr(fitting, "settle", counted)
    return seen


def test_settings_are_looked_at_again_when_rows_double(monkeypatch):
    seen = count_searches(monkeypatch)
    clf = BayesPointClassifier("rbf", gamma="scale", bias=1.0, random_state=0)
    fed(clf, X[:120], Y[:120], size=30)
    assert seen == [30, 60, 120]
    anew = BayesPointClassifier("rbf", gamma="scale", bias=1.0, random_state=0).fit(
        X[:120], Y[:120]
    )
    assert clf.softness_ == anew.softness_
    assert len(clf.log_predictive_) == 4


def test_given_numbers_are_not_looked_at_again(monkeypatch):
    seen = count_searches(monkeypatch)
    assert fed(moons(), size=30).softness_ == 0.1
    assert seen == [30]


def test_rows_that_come_again_are_no_reason_to_look_again(monkeypatch):
    seen = count_searches(monkeypatch)
    clf = BayesPointClassifier("rbf", gamma="scale", bias=1.0, random_state=0)
    for _ in range(6):
        clf.partial_fit(X[:40], Y[:40])
    assert len(seen) <= 2
    assert n_held(clf) == 40


# ---------------------------------------------------------------------- memory, and rules that turn


@pytest.mark.parametrize(
    "kind", ["columns", pytest.param("landmarks", marks=pytest.mark.slow), "alone"]
)
def test_memory_is_bounded_and_what_was_dropped_is_not_forgotten(kind):
    X, y = ellipse(360, n_idle=24 if kind == "landmarks" else 0)
    given = LINEAR | {"n_landmarks": 0 if kind == "alone" else "auto", "cell_size": 30}
    given |= {"inference": "ep", "decision": "vote"}
    cache_size = 0.32 if kind == "landmarks" else 0.07  # for 200 rows or so
    if kind == "landmarks":
        given |= {"kernel": "rbf", "gamma": 0.02, "n_landmarks": 40, "n_trees": 1}
    clf = fed(BayesPointClassifier(**given, cache_size=cache_size), X, y, 90)
    held = n_held(clf)
    assert 90 <= held <= 240
    all_rows = BayesPointClassifier(**given).fit(X, y).cosines(X)
    few = BayesPointClassifier(**given).fit(X[-held:], y[-held:]).cosines(X)
    away, without = (np.mean(np.abs(found - all_rows)) for found in (clf.cosines(X), few))
    if kind == "alone":
        assert away > 0.5 * without  # nobody else has heard of them
    else:
        assert away < 0.5 * without


def turning(n, seed=0):
    """A rule that turns halfway."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, (n, 2)).astype(np.float32)
    sign = np.where(np.arange(n) < n // 2, 1, -1)
    return X, (sign * X[:, 0] + 0.3 * rng.standard_normal(n) > 0).astype(int)


def errors_in_turn(X, y, size, **settings):
    """Predict each batch, then learn it."""
    clf = BayesPointClassifier(
        gamma=0.5, softness=0.3, bias=1.0, inference="ep", random_state=0, n_landmarks=0,
        n_trees=1, **settings,
    ).partial_fit(X[:size], y[:size])  # fmt: skip
    wrong = [np.zeros(size)]
    for first in range(size, len(y), size):
        rows = slice(first, first + size)
        wrong.append(clf.predict(X[rows]) != y[rows])
        clf.partial_fit(X[rows], y[rows])
    return np.concatenate(wrong), clf


@pytest.mark.parametrize(
    ("n", "half_life", "size"),
    [(800, 40, 40), pytest.param(16_000, 1000, 500, marks=pytest.mark.slow)],
    ids=["short", "long"],
)
def test_a_half_life_follows_a_rule_that_turns(n, half_life, size):
    X, y = turning(n)
    back = n // 2 + 5 * half_life
    for given, ratio in ((half_life, (0.0, 1.5)), (None, (2.0, np.inf))):
        wrong, clf = errors_in_turn(X, y, size, cell_size=100, half_life=given)
        before = np.mean(wrong[n // 4 : n // 2])
        after = np.mean(wrong[back : back + 5 * half_life])
        assert before < 0.2
        assert ratio[0] <= after / before <= ratio[1], (given, before, after)
    assert n_held(clf) == n
    assert np.mean(wrong[n // 2 : n // 2 + 100]) > 0.5  # it has turned


@pytest.mark.parametrize("n_landmarks", [0, 20])
def test_a_row_counts_half_after_a_half_life(n_landmarks):
    given = {"cell_size": 300, "n_landmarks": n_landmarks, "decision": "vote"}
    clf = fed(moons(half_life=80.0, **given))
    age = np.arange(240)[::-1]  # rows that came later
    weighted, plain = moons(**given).fit(X, Y, 0.5 ** (age / 80)), moons(**given).fit(X, Y)
    away = [
        np.max(np.abs(clf.predict_proba(NEW) - m.predict_proba(NEW))) for m in (weighted, plain)
    ]
    assert away[0] < 0.01 < 0.05 < away[1]


def test_rows_of_long_ago_are_dropped():
    clf = fed(moons(half_life=5.0, n_landmarks=30), size=20)
    assert n_held(clf) <= 80
    for half_life in (1e-3, 0.05):  # weights that vanish
        clf = fed(moons(half_life=half_life, n_landmarks=30), size=60)
        assert np.all(np.isfinite(clf.predict_proba(NEW)))
        assert n_held(clf) == 60
    with pytest.raises(ValueError, match="half_life"):
        moons(half_life=0.0).partial_fit(X, Y)


# ---------------------------------------------------------------------- models that are merged


@pytest.mark.parametrize(
    ("given", "apart", "differ"),
    [
        (CELLS, 0.1, 0.03),  # cells are divided at other rows
        (CELLS | {"n_landmarks": 30, "n_trees": 4}, 0.015, 0.01),
        (COLUMNS, 1e-6, 0.0),
    ],
)
def test_merged_models_know_all_rows(given, apart, differ):
    clf = BayesPointClassifier(**GIVEN | {"decision": "vote"} | given).partial_fit(X[:80], Y[:80])
    others = [clf.fresh(), clf.fresh()]
    for number, other in enumerate(others):
        fed(other, X[80 + number :: 2], Y[80 + number :: 2], 50)
    together = fed(pickle.loads(pickle.dumps(clf)), X[80:], Y[80:], 50)
    before = log_loss(clf)
    clf.merge(pickle.loads(pickle.dumps(others[0]))).merge(others[1])
    assert n_held(clf) == len(X)
    assert len(clf.log_predictive_) == 5
    assert_array_equal(np.isnan(clf.log_predictive_), [True, True, False, True, False])
    assert np.mean(np.abs(clf.cosines(NEW) - together.cosines(NEW))) < apart
    assert np.mean(clf.predict(NEW) != together.predict(NEW)) <= differ
    assert log_loss(clf) < before
    assert abs(log_loss(clf) - log_loss(together)) < 0.01


@pytest.mark.slow
def test_merged_models_are_as_good_as_one_fit():
    """Within a tenth of a point."""
    X, y = make_moons(6000, noise=0.3, random_state=2)
    new, label = make_moons(100_000, noise=0.3, random_state=3)
    given = {"cell_size": 300, "n_trees": 3}
    clf = moons(**given).partial_fit(X[:2000], y[:2000])
    others = [fed(clf.fresh(), X[k::2], y[k::2], 500) for k in (2000, 2001)]
    for other in others:
        clf.merge(other)
    assert abs(clf.score(new, label) - moons(**given).fit(X, y).score(new, label)) < 1e-3


def test_a_fresh_model_knows_nothing_but_settings():
    clf = fed(moons(gamma="scale", softness="held-out"))
    before, other = clf.predict_proba(NEW), clf.fresh()
    assert_array_equal(clf.predict_proba(NEW), before)
    assert (other.gamma_, other.softness_) == (clf.gamma_, clf.softness_)
    assert_allclose(other.cosines(NEW), 0)
    assert n_held(other) == 0
    fed(other, NEW, LABELS)
    assert other.softness_ == clf.softness_  # whatever their rows say
    assert_array_equal(clf.predict_proba(NEW), before)
    assert clf.merge(clf.fresh()) is clf  # nothing to add
    assert_array_equal(clf.predict_proba(NEW), before)


def test_what_cannot_be_merged_is_refused():
    clf = fed(moons())
    other = clf.fresh().partial_fit(X[:50] + 0.01, Y[:50])
    before, p = n_held(clf), clf.predict_proba(NEW)
    late = clf.fresh().partial_fit(X[:3], [2, 2, 2])
    narrow = clf.fresh().partial_fit(X[:50], Y[:50])
    for refused, reason in (
        (fed(moons()), "not made by fresh"),
        (clf, "one and the same"),
        (fed(moons(gamma=1.0)).fresh().partial_fit(X, 1 - Y), "settings differ"),
        (fed(moons(), NEW, LABELS).fresh().partial_fit(X, Y), "of another model"),
        (late, "classes differ"),
    ):
        with pytest.raises(ValueError, match=f"cannot be merged: .*{reason}"):
            clf.merge(refused)
    with pytest.raises(TypeError, match="BayesPointClassifier"):
        clf.merge("model.bpm")
    with pytest.raises(NotFittedError):
        clf.merge(moons())
    with pytest.raises(NotFittedError):
        moons().fresh()
    assert n_held(clf) == before
    assert_array_equal(clf.predict_proba(NEW), p)
    assert n_held(other.merge(narrow)) == 100  # two of one origin
    assert n_held(clf.merge(other)) == len(X) + 50  # and the rows that both have are copies


# ---------------------------------------------------------------------- threads


def test_threads_that_predict_while_rows_wait():
    rows = make_blobs(200, centers=3, cluster_std=2.0, random_state=0)
    clf = fed(moons(gamma=0.1, n_trees=1), *rows, size=100)
    clf.partial_fit(rows[0][:15] + 0.1, rows[1][:15])
    wanted = pickle.loads(pickle.dumps(clf)).predict_proba(rows[0])
    ready = threading.Barrier(4)

    def ask(_):
        ready.wait()
        return clf.predict_proba(rows[0])

    with ThreadPoolExecutor(4) as pool:
        for found in pool.map(ask, range(4)):
            assert_array_equal(found, wanted)


def test_models_that_wait_for_nothing_predict_while_another_learns():
    clf, asked = fed(moons()), []
    clf.predict(NEW)
    with module.ABSORBING:  # as a thread that learns holds it
        thread = threading.Thread(target=lambda: asked.append(clf.predict(NEW)))
        thread.start()
        thread.join(30)
    assert len(asked) == 1
