"""Merging of duplicates: by content, whatever the layout and the order of the rows."""

import itertools

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal

from bayespoint.space.inputs import Inputs
from bayespoint.space.merging import contradictions, encoded, merge_duplicates, of_each_class

ONE = np.ones


def make_data(seed=0, n_rows=200, dtype=np.float64):
    """Rows on a coarse grid, so that many are equal, some with different labels."""
    rng = np.random.default_rng(seed)
    X = rng.integers(-1, 2, size=(n_rows, 4)).astype(dtype) / 3
    return X, rng.integers(0, 3, size=n_rows), rng.integers(0, 4, size=n_rows).astype(float)


def table(X, label, distinct):
    """The merged points by content, a dictionary from (row, label) to weight."""
    X = X.toarray() if sp.issparse(X) else X
    assert_array_equal(distinct.label, label[distinct.row])
    keys = [(*(X[row] + 0.0).tolist(), int(c)) for row, c in zip(*distinct[:2], strict=True)]
    assert len(set(keys)) == len(keys)
    return dict(zip(keys, distinct.weight.tolist(), strict=True))


def expected_table(X, label, weight):
    X = X.toarray() if sp.issparse(X) else X
    total = {}
    for x, c, w in zip(X + 0.0, label.tolist(), weight.tolist(), strict=True):
        if w > 0:
            total[*x.tolist(), c] = total.get((*x.tolist(), c), 0.0) + w
    return total


def merged(X, label, weight, **options):
    return merge_duplicates(Inputs(X), label, weight, **options)


def as_layout(X, layout):
    return sp.csr_matrix(X) if layout == "csr" else X


@pytest.mark.parametrize(
    ("layout", "dtype", "keep_order"),
    [("dense", np.float64, False), ("csr", np.float32, False), ("csr", np.float64, True),
     ("dense", np.float32, True)],
)  # fmt: skip
def test_weights_of_equal_rows_are_summed_and_weight_zero_is_dropped(layout, dtype, keep_order):
    X, label, weight = make_data(dtype=dtype)
    X = as_layout(X, layout)
    distinct = merged(X, label, weight, keep_order=keep_order)
    assert table(X, label, distinct) == expected_table(X, label, weight)
    assert len(distinct.row) < np.count_nonzero(weight)  # or nothing was there to merge


def test_each_point_stands_at_its_first_row_of_positive_weight():
    X = np.array([[1.0], [1.0], [2.0], [1.0]])
    distinct = merged(X, np.zeros(4, int), np.array([0.0, 2.0, 1.0, 5.0]))
    assert sorted(zip(distinct.row.tolist(), distinct.weight.tolist(), strict=True)) == [
        (1, 7.0),
        (2, 1.0),
    ]


def test_minus_zero_is_zero():
    X = np.array([[0.0, 1.0], [-0.0, 1.0], [0.0, -1.0]])
    stored = sp.csr_matrix(X)
    stored_zero = sp.csr_matrix((np.array([-0.0, 1.0, 1.0, -1.0]), [0, 1, 1, 1], [0, 2, 3, 4]))
    for same in (X, X.astype(np.float32), stored, stored_zero):
        distinct = merged(same, np.zeros(3, int), ONE(3))
        assert sorted(distinct.weight.tolist()) == [1.0, 2.0]


def test_almost_equal_rows_stay_apart():
    X = np.array([[1.0, 2.0], [1.0, np.nextafter(2.0, 3.0)], [2.0, 1.0], [1.0, -2.0]])
    assert len(merged(X, np.zeros(4, int), ONE(4)).row) == 4


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_dense_and_csr_give_the_same_points_in_the_same_order(dtype):
    X, label, weight = make_data(1, dtype=dtype)
    dense = merged(X, label, weight)
    sparse = merged(sp.csr_matrix(X), label, weight)
    for left, right in zip(dense, sparse, strict=True):
        assert_array_equal(left, right)


@pytest.mark.parametrize("layout", ["dense", "csr"])
def test_the_order_of_the_input_sets_nothing(layout):
    X, label, weight = make_data(2)
    reference = merged(as_layout(X, layout), label, weight)
    for seed in range(5):
        order = np.random.default_rng(seed).permutation(len(X))
        distinct = merged(as_layout(X[order], layout), label[order], weight[order])
        assert_array_equal(X[order][distinct.row], X[reference.row])
        assert_array_equal(distinct.label, reference.label)
        assert_array_equal(distinct.weight, reference.weight)
        assert distinct.fingerprint == reference.fingerprint


def test_keep_order_is_the_order_of_first_rows():
    X, label, weight = make_data(3)
    distinct = merged(X, label, weight, keep_order=True)
    assert np.all(np.diff(distinct.row) > 0)


def test_weights_that_are_fractions_are_summed_to_rounding():
    X, label, _ = make_data(4)
    weight = np.random.default_rng(0).random(len(X))
    distinct = merged(X, label, weight)
    expected = expected_table(X, label, weight)
    found = table(X, label, distinct)
    assert_allclose([found[key] for key in expected], list(expected.values()), rtol=1e-14)


def test_the_fingerprint_sees_rows_labels_and_weights():
    X, label, weight = make_data(5)
    weight += 1.0
    other_X, other_label, other_weight = X.copy(), label.copy(), weight.copy()
    other_X[7, 2] += 1e-12
    other_label[7] = (label[7] + 1) % 3
    other_weight[7] += 0.5
    variants = [
        (X, label, weight),
        (other_X, label, weight),
        (X, other_label, weight),
        (X, label, other_weight),
        (X[:, ::-1].copy(), label, weight),
    ]
    prints = [merged(*variant).fingerprint for variant in variants]
    assert len(set(prints)) == len(prints)


@pytest.mark.parametrize("layout", ["dense", "csr"])
def test_contradictions_are_named_by_input_row(layout):
    X = np.array([[0.0, 1.0], [1.0, 1.0], [0.0, 1.0], [2.0, 0.0], [1.0, 1.0], [0.0, 1.0]])
    label = np.array([0, 1, 1, 0, 1, 2])
    distinct = merged(as_layout(X, layout), label, ONE(6))
    assert_array_equal(contradictions(distinct), [0, 2, 5])


def test_no_contradiction_without_positive_weight_on_both_sides():
    X = np.array([[1.0], [1.0], [2.0]])
    label = np.array([0, 1, 1])
    assert len(contradictions(merged(X, label, np.array([1.0, 0.0, 1.0])))) == 0
    assert len(contradictions(merged(X, label, ONE(3)))) == 2


class OneHash(Inputs):
    """Rows that all share a hash, and must be told apart by comparing them."""

    def hashes(self):
        return np.zeros(self.shape[0], dtype=np.uint64)


@pytest.mark.parametrize("layout", ["dense", "csr"])
def test_rows_that_share_a_hash_are_told_apart(layout):
    X, label, weight = make_data(6)
    X[X == 0] = -0.0
    X = as_layout(X, layout)
    distinct = merge_duplicates(OneHash(X), label, weight)
    assert table(X, label, distinct) == expected_table(X, label, weight)


def test_the_order_of_rows_that_share_a_hash_sets_nothing():
    X = np.array(list(itertools.product([0.0, 1.0, 2.0], repeat=3)))
    label = np.arange(len(X)) % 2
    reference = merge_duplicates(OneHash(X), label, ONE(len(X)))
    order = np.random.default_rng(0).permutation(len(X))
    distinct = merge_duplicates(OneHash(X[order]), label[order], ONE(len(X)))
    assert_array_equal(X[order][distinct.row], X[reference.row])


def test_contradictions_among_rows_that_share_a_hash_are_named():
    X = np.array([[3.0], [1.0], [2.0], [1.0]])
    distinct = merge_duplicates(OneHash(X), np.array([0, 1, 1, 0]), ONE(4))
    assert_array_equal(contradictions(distinct), [1, 3])


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_rows_of_simple_numbers_do_not_share_hashes(dtype):
    # Small whole numbers are words with many zero bits; a collision costs the slow comparison.
    X = np.array(list(itertools.product([0.0, 1.0, -1.0, 2.0, 0.5], repeat=5)), dtype=dtype)
    assert len(np.unique(Inputs(X).hashes())) == len(X)


class NeverDense(sp.csr_matrix):
    def toarray(self, *_args, **_kwargs):
        raise AssertionError("made dense")


def test_sparse_data_is_never_made_dense():
    X = NeverDense(sp.random(2000, 500, density=0.02, format="csr", random_state=0))
    X.data[:] = 1.0
    with pytest.raises(AssertionError, match="made dense"):
        X[:3].toarray()
    merged(X, np.zeros(2000, int), ONE(2000))


@pytest.mark.parametrize("kind", ["i1", "u1", "i2", "i8", "u8", "bool", "U3", "f8"])
def test_labels_are_numbered_as_numpy_does(kind):
    rng = np.random.default_rng(0)
    values = [rng.integers(0, 5, 400)]
    if np.dtype(kind).kind in "iu":
        ends = np.iinfo(kind)
        values += [np.array([ends.min, ends.max], kind)[values[0] % 2]]
        values += [np.array([ends.max - 2, ends.max], kind)[values[0] % 2]]
        values += [np.array([ends.min, ends.min + 3], kind)[values[0] % 2]]
    if kind == "i1":
        values += [np.where(values[0] > 2, 100, -100)]
    for value in values:
        y = value.astype(kind)
        labels, number = encoded(y)
        expected, inverse = np.unique(y, return_inverse=True)
        assert labels.dtype == y.dtype
        assert_array_equal(labels, expected)
        assert_array_equal(number, inverse)


def test_copies_are_left_where_merging_is_not_wanted():
    X = np.array([[1.0], [2.0], [1.0], [3.0]])
    weight = np.array([2.0, 1.0, 1.2, 0.0])
    distinct = merged(X, np.zeros(4, int), weight, merge=False)
    found = sorted(zip(distinct.row.tolist(), distinct.weight.tolist(), strict=True))
    assert found == [(0, 1.0), (0, 1.0), (1, 1.0), (2, 1.2)]
    assert distinct.member[3] == -1
    assert_array_equal(distinct.row[distinct.member[:3]], [0, 1, 2])


def test_rows_know_which_point_they_became():
    X, label, weight = make_data(7)
    for keep_order in (False, True):
        distinct = merged(X, label, weight, keep_order=keep_order)
        assert_array_equal(distinct.member == -1, weight == 0)
        kept = np.flatnonzero(weight)
        stands_for = distinct.row[distinct.member[kept]]
        assert_array_equal(X[stands_for], X[kept])
        assert_array_equal(label[stands_for], label[kept])


def test_every_class_keeps_its_share_of_a_sample():
    label = np.repeat([0, 1, 2], [900, 99, 1])
    chosen = of_each_class(label, 100, np.random.SeedSequence(0))
    assert_array_equal(np.bincount(label[chosen]), [90, 9, 1])
    assert len(np.unique(chosen)) == len(chosen)
    assert np.any(np.diff(chosen[:90]) < 0)  # not the first ones
