"""What a classifier takes and refuses for every ``inference=``: labels, layouts, weights, noise."""

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from helpers.classifiers import (
    FIXED,
    INFERENCES,
    by_hand,
    classifier,
    error_of,
    fitted,
    flowers,
    in_turn,
    noise_of,
    takes_noise,
    votes_by_hand,
    with_noise,
)
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.metrics.pairwise import rbf_kernel

from bayespoint import BayesPointClassifier, EmptyVersionSpaceError
from bayespoint.inference.methods import METHODS

each_inference = pytest.mark.parametrize("inference", INFERENCES)
NOISY = [name for name in INFERENCES if takes_noise(name)]
X, Y, NEW, NEW_LABELS = flowers(3, step=6)


def read_only(array):
    array = array.copy()
    array.flags.writeable = False
    return array


# ---------------------------------------------------------------------- labels


LABELS = {
    "str": (np.array(["no", "maybe", "yes"]), list),
    "bool": (np.array([False, True]), np.asarray),
    "float": (np.array([0.0, 2.0, 7.0]), pd.Series),
    "object": (np.array(["b", "a", "c"], dtype=object), np.asarray),
    "negative": (np.array([-5, -1, 3]), pd.Categorical),
    "int8": (np.array([1, -1], dtype=np.int8), np.asarray),
}


@pytest.mark.parametrize(("inference", "kind"), in_turn(INFERENCES, LABELS, 12))
def test_labels_of_any_type_and_order(inference, kind):
    names, container = LABELS[kind]
    known = len(names) > Y
    rows, y = X[known], names[Y[known]]
    clf = classifier(inference=inference).fit(rows, container(y))
    assert_array_equal(clf.classes_, np.unique(names))
    assert np.mean(clf.predict(rows) == y) > 0.85
    assert clf.score(rows, y) > 0.85
    # The same as for numbers in the order of the classes.
    code = np.searchsorted(clf.classes_, y)
    plain = classifier(inference=inference).fit(rows, code)
    assert_array_equal(clf.predict_proba(rows), plain.predict_proba(rows))
    first = names.tolist()[0]
    weighted = classifier(inference=inference, class_weight={first: 1e12}).fit(rows, container(y))
    assert np.all(weighted.predict(rows) == first)


@each_inference
def test_classes_of_one_point(inference):
    points = np.array([[0.0, 0.0], [1.0, 0.2], [0.1, 1.0]])
    for y, decision in (([0, 1, 2], "auto"), (["a", "b", "b"], "bayes_point")):
        clf = classifier(inference=inference, decision=decision, gamma=2.0, n_draws=100)
        assert clf.fit(points, y).predict(points).tolist() == y
        assert np.all(np.isfinite(clf.predict_proba(points + 1)))


# ---------------------------------------------------------------------- layouts


@each_inference
def test_layouts_in_memory_change_nothing(inference, tmp_path):
    rows, y = np.round(10 * X), read_only(Y)
    np.save(tmp_path / "X.npy", rows)
    expected = classifier(inference=inference).fit(rows, y).predict_proba(rows)
    for one in [
        rows.astype(np.int8), np.asfortranarray(rows), read_only(rows), rows.tolist(),
        np.load(tmp_path / "X.npy", mmap_mode="r"), np.repeat(rows, 2, axis=1)[:, ::2],
        rows.astype(object), rows.astype(">f8"),
    ]:  # fmt: skip
        clf = classifier(inference=inference).fit(one, y)
        assert_array_equal(clf.predict_proba(one), expected)
        assert_array_equal(np.asarray(one, dtype=float), rows)  # left as it was


@each_inference
@pytest.mark.parametrize(
    ("kernel", "dtype"),
    [("linear", np.float64), ("poly", np.float32), ("rbf", np.float32), ("laplacian", np.float64)],
)
def test_sparse_rows_by_hand(inference, kernel, dtype):
    rng = np.random.default_rng(0)
    rows = (rng.integers(-2, 3, size=(40, 6)) * (rng.random((40, 6)) < 0.4)).astype(dtype)
    rows = np.unique(rows, axis=0)
    y = rows[:, :3].sum(axis=1) > rows[:, 3:].sum(axis=1)
    noise = noise_of(inference)
    clf = classifier(inference=inference, kernel=kernel, label_noise=noise)
    clf.fit(sp.csc_array(rows), y)
    assert sp.issparse(clf.support_vectors_)
    assert clf.support_vectors_.dtype == dtype
    assert_array_equal(clf.support_vectors_.toarray(), rows[clf.support_])
    same = 1e-9 if dtype == np.float64 else 1e-4
    K = by_hand(clf, rows, rows[clf.support_])[0]
    assert_allclose(clf.cosines(sp.csr_matrix(rows)), K @ clf.dual_coef_[0], atol=same)
    gram = K[clf.support_] + clf.softness_ * np.eye(len(clf.support_))
    assert clf.dual_coef_[0] @ gram @ clf.dual_coef_[0] == pytest.approx(1, abs=same)
    assert clf.score(rows, y) > 0.8
    expected = clf.predict_proba(rows)
    for new in (sp.csr_matrix(rows), sp.coo_matrix(rows, dtype=np.float32), rows.astype(float)):
        assert_allclose(clf.predict_proba(new), expected, atol=1e-4)


@each_inference
def test_data_frames_and_feature_names(inference):
    names = ["a", "b", "c", "d"]
    frame = pd.DataFrame(X, columns=names)
    clf = classifier(inference=inference).fit(frame, pd.Series(Y))
    assert_array_equal(clf.feature_names_in_, names)
    assert_array_equal(clf.predict_proba(frame), fitted(inference).predict_proba(X))
    with pytest.raises(ValueError, match="feature names"):
        clf.predict(frame[["b", "a", "c", "d"]])


@pytest.mark.parametrize(
    ("inference", "decision"), [*((name, "auto") for name in INFERENCES), ("perceptron", "vote")]
)
def test_precomputed_and_callable_kernels(inference, decision):
    noise = noise_of(inference)
    settings = {"inference": inference, "decision": decision, "label_noise": noise}
    named = classifier(gamma=0.5, **settings).fit(X, Y)
    called = classifier(kernel=lambda A, B: rbf_kernel(A, B, 0.5), **settings).fit(X, Y)
    assert_allclose(called.predict_proba(NEW), named.predict_proba(NEW), atol=1e-6)
    given = classifier(kernel="precomputed", **settings).fit(read_only(rbf_kernel(X, X, 0.5)), Y)
    cross = rbf_kernel(NEW, X, 0.5)
    # Points of a Gram matrix keep their order, so that its draws are others.
    assert np.mean(given.predict(cross) == named.predict(NEW)) > 0.8
    K, _ = by_hand(named, NEW, X[given.support_])
    assert_allclose(given.cosines(cross), K @ given.dual_coef_.T, atol=1e-9)
    if given.decision_ == "vote" and not METHODS[given.inference_].closed_form:
        votes = votes_by_hand(named, X, NEW, given.posterior).mean(axis=0)
        assert_allclose(given.predict_proba(cross), with_noise(votes, noise, Y), atol=1e-8)
    elif given.decision_ != "bayes_point":
        assert_allclose(given.predict_proba(cross), named.predict_proba(NEW), atol=1e-3)


# ---------------------------------------------------------------------- weights


@each_inference
def test_a_weight_means_that_many_copies_in_any_order(inference):
    rng = np.random.default_rng(0)
    weight = rng.integers(0, 4, size=len(Y))
    copies = np.repeat(np.arange(len(Y)), weight)[rng.permutation(weight.sum())]
    kept = np.flatnonzero(weight)
    noise = noise_of(inference, [0.1, 0.0, 0.3])
    settings = {"inference": inference, "class_weight": "balanced", "label_noise": noise}
    weighted = classifier(**settings).fit(X, Y, sample_weight=read_only(weight))
    assert not set(weighted.support_) & set(np.flatnonzero(weight == 0))
    for rows, weights in ((kept, weight[kept]), (copies, None)):
        other = classifier(**settings).fit(X[rows], Y[rows], weights)
        assert_array_equal(weighted.dual_coef_, other.dual_coef_)
        assert_array_equal(weighted.predict_proba(NEW), other.predict_proba(NEW))
        assert_array_equal(X[weighted.support_], X[rows][other.support_])
    draws = other.posterior(0).draws()  # merged copies have no coefficient
    assert draws.shape[2] == len(copies)
    assert not np.any(np.delete(draws, np.unique(copies, return_index=True)[1], axis=2))


@each_inference
def test_weights_change_draws_only_where_they_mean_something(inference):
    weight = 1.0 + (np.arange(len(Y)) % 2)
    for noise in {0.0, noise_of(inference)}:
        plain, weighted = (
            classifier(inference=inference, gamma=0.5, label_noise=noise).fit(X, Y, w)
            for w in (None, weight)
        )
        same = np.array_equal(plain.dual_coef_, weighted.dual_coef_)
        assert same == (noise == 0 and not METHODS[plain.inference_].closed_form)


@each_inference
def test_rows_of_weight_0_do_not_count_at_all(inference):
    clf = classifier(inference=inference).fit(X, Y, sample_weight=Y != 1)
    assert_array_equal(clf.classes_, [0, 2])
    assert clf.decision_function(X).shape == (len(X),)
    wild = np.vstack([X, [[1e9, 0, 0, 0]]])  # would be a warning about scales
    weight = np.append(np.ones(len(Y)), 0)
    other = classifier(inference=inference).fit(wild, np.append(Y, 7), sample_weight=weight)
    assert_array_equal(other.dual_coef_, fitted(inference).dual_coef_)
    weight = np.arange(len(Y)) % 3 > 0
    K = X @ X.T + 1
    left, right = (classifier(inference=inference, kernel="precomputed") for _ in range(2))
    left.fit(K, Y, sample_weight=weight)
    right.fit(K[np.ix_(weight, weight)], Y[weight])
    assert_allclose(left.predict_proba(K), right.predict_proba(K[:, weight]), atol=1e-12)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@each_inference
def test_weights_may_be_small(inference):
    """As those that sum to one, which AdaBoost gives."""
    clf = classifier(inference=inference)
    assert clf.fit(X, Y, sample_weight=np.full(len(Y), 1 / len(Y))).score(X, Y) > 0.8
    clf.fit(X, Y, sample_weight=np.random.default_rng(0).random(len(Y)) * 1e-4)
    assert np.all(np.isfinite(clf.predict_proba(X)))


# ---------------------------------------------------------------------- label noise


RATES = [
    (0.1, 0.1), (0, 0.0), (np.float32(0.25), 0.25), ([0.1, 0.1, 0.1], 0.1),
    (read_only(np.array([0.2, 0.1, 0.0])), [0.2, 0.1, 0.0]),
    ({"setosa": 0.1, "versicolor": 0.2, "virginica": 0.3}, [0.1, 0.2, 0.3]),
    ({"virginica": 0.3}, [0.0, 0.0, 0.3]), ({}, 0.0),
]  # fmt: skip


def test_rates_of_label_noise_in_every_form():
    y = np.array(["setosa", "versicolor", "virginica"])[Y]
    for label_noise, expected in RATES:
        clf = classifier(inference="auto", label_noise=label_noise).fit(X, y)
        assert clf.label_noise is label_noise
        assert_array_equal(clf.label_noise_, expected)
        assert isinstance(clf.label_noise_, np.ndarray if np.ndim(expected) else float)


@pytest.mark.parametrize("inference", NOISY)
def test_rates_by_name_are_those_in_order(inference):
    y = np.array(["setosa", "versicolor", "virginica"])[Y]
    p = [
        classifier(inference=inference, label_noise=rates).fit(X, y).predict_proba(NEW)
        for rates in ({"virginica": 0.3}, [0.0, 0.0, 0.3], [0.3, 0.0, 0.0], 0.0)
    ]
    assert_array_equal(p[0], p[1])
    assert np.all(np.abs(np.subtract(p[2:], p[0])).max(axis=(1, 2)) > 0.01)


BAD_RATES = [
    0.5, 0.7, -0.1, np.nan, np.inf, True, "0.1", None, [0.1] * 2, [0.1] * 4, [0.1, 0.1, 0.5],
    [[0.1, 0.1, 0.1]], [0.1, None, 0.1], ["a", "b", "c"], np.full((3, 1), 0.1), {0: 0.5}, [],
    {0: -0.1, 1: 0.1}, {"no such class": 0.1}, {0: 0.1, 1: 0.1, 2: 0.1, 3: 0.1}, {0: "a"},
]  # fmt: skip


@pytest.mark.parametrize("inference", NOISY)
def test_bad_rates_of_label_noise(inference):
    for label_noise in BAD_RATES:
        error = error_of(classifier(inference=inference, label_noise=label_noise), X, Y)
        assert isinstance(error, ValueError), f"{label_noise!r} was taken"
        assert "label_noise" in str(error)
    for label_noise, message in [
        (0.5, r"\[0, 0\.5\).*got 0\.5"), ([0.1, 0.1], r"each of the 3 classes.*got shape \(2,\)"),
        ({7: 0.1}, r"names \[7\].*classes \[0, 1, 2\]"),
    ]:  # fmt: skip
        with pytest.raises(ValueError, match=message):
            classifier(inference=inference, label_noise=label_noise).fit(X, Y)


@pytest.mark.parametrize("inference", [name for name in INFERENCES if name not in NOISY])
def test_methods_that_take_every_label_as_right_say_so(inference):
    for label_noise in (0.1, [0.0, 0.0, 0.1], {2: 1e-9}):
        with pytest.raises(ValueError, match=rf"{inference}.*label_noise.*billiard.*auto"):
            classifier(inference=inference, label_noise=label_noise).fit(X, Y)
    classifier(inference=inference, label_noise=[0.0, 0.0, 0.0]).fit(X, Y)


# ---------------------------------------------------------------------- no room


@each_inference
def test_an_empty_version_space_names_its_rows(inference):
    rows, y = np.vstack([X, X[:1]]), np.append(Y, (Y[0] + 1) % 3)
    with pytest.raises(EmptyVersionSpaceError, match=r"\[0, 25\].*softness > 0") as caught:
        classifier(inference=inference, softness=0, gamma=1.0).fit(rows, y)
    assert_array_equal(caught.value.points, [0, len(Y)])
    assert classifier(inference=inference).fit(rows, y).score(rows, y) > 0.8  # softness: room
    if takes_noise(inference):  # so does noise
        clf = classifier(inference=inference, softness=0, label_noise=0.05, gamma=1.0).fit(rows, y)
        assert clf.score(rows, y) > 0.8
    # One class can be told from the rest, the other two cannot be told apart.
    linear = classifier(inference=inference, kernel="linear", softness=0)
    points = np.array([[0.0, 0], [1, 1], [0, 1], [1, 0], [9, 9], [9, 8]])
    labels = np.array([1, 1, 2, 2, 0, 0])
    with pytest.raises(EmptyVersionSpaceError, match=r"for class [12] against the rest") as caught:
        linear.fit(points, labels)
    part, own = caught.value.points, int(str(caught.value).split("for class ")[1][0])
    with pytest.raises(EmptyVersionSpaceError):  # those rows do contradict each other
        linear.fit(points[part], labels[part] == own)
    xor = np.array([[1.0, 0], [0, 0], [0, 0], [1, 1], [0, 1]])
    with pytest.raises(EmptyVersionSpaceError, match="4 training points") as caught:
        linear.fit(xor, [1, 0, 0, 0, 1])
    assert sorted(caught.value.points) == [0, 1, 3, 4]


@each_inference
@pytest.mark.parametrize("decision", ["bayes_point", "vote"])
def test_too_little_memory_is_one_clear_error(inference, decision):
    method, n_voting = METHODS[inference if inference != "auto" else "billiard"], 3
    needed = method.needed_bytes(len(X), 8, n_voting if decision == "vote" else 0)
    enough = max(needed, 32 * len(X) ** 2 if decision == "vote" else 0) / 1e6
    settings = {"inference": inference, "decision": decision, "label_noise": noise_of(inference)}
    if enough:
        message = rf"{method.name}'.*needs .* MB for 25 distinct.*cache_size=.*Raise cache_size, or"
        with pytest.raises(ValueError, match=message) as caught:
            classifier(cache_size=0.99 * enough, **settings).fit(X, Y)
        assert "inference='perceptron'" in str(caught.value)  # the remedy
        assert ("decision='bayes_point'" in str(caught.value)) == (decision == "vote")
    clf = classifier(cache_size=max(1.001 * enough, 0.001), **settings).fit(X, Y)
    assert clf.inference_ == method.name
    assert clf.score(X, Y) > 0.8


@each_inference
def test_a_failed_fit_leaves_the_model_that_was_there(inference):
    def failing_kernel(A, B):  # noqa: ARG001
        raise RuntimeError("no kernel today")

    clf = BayesPointClassifier(
        inference=inference, n_draws=4, random_state=0, **FIXED
    ).fit(X, Y)  # fmt: skip
    before = clf.predict_proba(NEW)
    for settings, rows in [
        ({"warm_start": True}, X + 1), ({"kernel": failing_kernel}, X + 1),
        ({"class_weight": {"no such class": 2.0}}, 2 * X), ({"label_noise": [0.1, 0.1]}, 2 * X),
        ({"decision": "vote", "cache_size": 0.01}, 2 * X),
        ({"kernel": "linear", "softness": 0}, np.round(X)),
    ]:  # fmt: skip
        usual = {name: clf.get_params()[name] for name in settings}
        assert error_of(clf.set_params(**settings), rows, Y) is not None, settings
        clf.set_params(**usual)
        assert_array_equal(clf.predict_proba(NEW), before)
    assert clf.set_params(warm_start=True, n_draws=8).fit(X, Y).n_draws_ == 8
