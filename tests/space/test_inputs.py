"""Training rows as a fit sees them: canonical form, precision, variance and scales."""

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal

from bayespoint import BayesPointClassifier
from bayespoint._support.threads import open_threads
from bayespoint.space.inputs import (
    GramInputs,
    Inputs,
    canonical,
    same_precision,
    warn_about_scales,
)
from bayespoint.space.kernels import Kernel, scale_gamma


@pytest.fixture(name="X")
def make_points():
    X = np.random.default_rng(0).normal(2.0, 3.0, size=(40, 5))
    X[X < 0] = 0.0
    return X


@pytest.mark.parametrize("kind", [np.asarray, sp.csr_matrix])
def test_the_variance_is_that_of_all_values_with_weights_as_copies(kind, X):
    copies = np.arange(40) % 4
    found = Inputs(kind(X)).variance(copies.astype(float))
    assert_allclose(found, np.repeat(X, copies, axis=0).var(), rtol=1e-12)
    assert abs(found - X.var()) > 1e-3 * found  # weights matter here
    assert_allclose(scale_gamma(5, found), 1 / (5 * found))


def test_a_width_from_the_data_needs_a_variance():
    assert scale_gamma(3, 0.0) == 1.0
    for variance in (np.inf, np.nan, 1e-320):
        with pytest.raises(ValueError, match="gamma from the data"):
            scale_gamma(3, variance)


def test_sparse_rows_are_brought_to_one_form():
    parts = (np.array([3.0, 1.0, 0.0, 2.0]), np.array([2, 2, 0, 1], np.int64), [0, 3, 4])
    given = sp.csr_matrix(parts, shape=(2, 3))  # an entry twice, a stored zero
    kept = given.copy()
    found = canonical(given)
    assert_array_equal(found.toarray(), [[0, 0, 4], [0, 2, 0]])
    assert found.nnz == 2
    assert found.has_canonical_format
    assert found.indices.dtype == found.indptr.dtype == np.int32
    assert_array_equal(given.data, kept.data)  # the caller's is left alone
    dense = np.eye(2)
    assert canonical(dense) is dense


def test_new_points_take_the_precision_of_the_model(X):
    for points in (X, sp.csr_matrix(X)):
        assert same_precision(points, np.float32).dtype == np.float32
        assert same_precision(points.astype(np.float32), np.float64).dtype == np.float64
    for points in (np.array([[1e300]]), sp.csr_matrix([[1e300]])):
        with pytest.raises(ValueError, match=r"too large for the .*float32"):
            same_precision(points, np.float32)


def test_rows_can_be_taken_with_all_that_goes_with_them(X):
    index = np.array([7, 3, 3])
    assert_array_equal(Inputs(X).take(index).X, X[index])
    assert Inputs(X).diagonal() is None
    K = X @ X.T
    gram = GramInputs(K)
    assert_array_equal(gram.take(index).X, K[np.ix_(index, index)])
    assert_array_equal(gram.diagonal(), K.diagonal())
    assert gram.support_vectors(index).shape == (3, 0)


def test_rows_of_the_gram_matrix_come_from_points_or_from_the_matrix_itself(X):
    K = X @ X.T + 1.0
    with open_threads(1) as threads:
        for inputs, kernel in (
            (Inputs(X), Kernel("linear", bias=1.0, normalize=False)),
            (GramInputs(K), Kernel("precomputed", normalize=False)),
        ):
            rows = inputs.rows(inputs.fit_layout(kernel), 10**6, threads)
            assert_allclose(rows.matrix(), K, rtol=1e-12)
            assert_allclose(inputs.lengths(kernel), np.sqrt(K.diagonal()))


@pytest.mark.parametrize("parallel", [1e-9, 0.2])
def test_points_on_one_line_are_found_with_their_signs(parallel):
    X = np.array([[1.0, 0.0], [0.0, 2.0], [-3.0, 0.0], [1.0, 0.1], [0.0, 0.5]])
    kernel = Kernel("linear", normalize=False).fit_layout(X)
    with open_threads(1) as threads:
        rows = Inputs(X).rows(kernel, 10**6, threads)
        rows.matrix()
        found = {
            int(i): dict(zip(later.tolist(), sign.tolist(), strict=True))
            for i, later, sign in rows.coinciding(parallel)
            if len(later)
        }
    # Who was found beside an earlier point is not named again.
    also = {} if parallel < 0.1 else {3: 1.0}
    assert found == {0: {2: -1.0, **also}, 1: {4: 1.0}}


@pytest.mark.parametrize("kind", [np.asarray, sp.csr_matrix])
def test_columns_that_hardly_count_are_told(kind, X):
    scaled = X * [1.0, 1e-4, 1e-4, 1e-4, 1.0]
    assert_allclose(Inputs(kind(scaled)).deviations(), scaled.std(axis=0), rtol=1e-12)
    with pytest.warns(UserWarning, match=r"3 of 5 columns vary less .* column [04] .*Scaler"):
        warn_about_scales(Inputs(kind(scaled)))
    warn_about_scales(Inputs(kind(X)))
    warn_about_scales(Inputs(kind(X * [1.0, 1e-4, 1e-4, 1.0, 1.0])))  # fewer than half
    warn_about_scales(Inputs(kind(X[:, :1])))


def test_columns_of_a_data_frame_are_named():
    pandas = pytest.importorskip("pandas")
    rng = np.random.default_rng(0)
    frame = pandas.DataFrame(rng.normal(size=(30, 3)) * [1e6, 1, 1], columns=["income", "a", "b"])
    y = frame["a"] > 0
    clf = BayesPointClassifier(gamma=0.5, softness=0.1, bias=1.0)
    with pytest.warns(UserWarning, match="hundredth of column 'income'"):
        clf.fit(frame, y)
    with pytest.raises(ValueError, match=r"NaN in columns 'b', in rows .*, and BayesPoint"):
        clf.fit(frame.assign(b=np.nan), y)
    with pytest.raises(ValueError, match=r"infinity .*in columns 'b', in rows \[1\]"):
        clf.fit(frame.assign(b=[1.0, np.inf, *[0.0] * (len(frame) - 2)]), y)
    with pytest.raises(ValueError, match=r"words .*in columns 'colour', and"):
        clf.fit(frame.assign(colour="red"), y)
    with pytest.raises(ValueError, match=r"datetime64.* in columns 'day': .*TableEncoder"):
        clf.fit(frame.assign(day=pandas.Timestamp("2023-05-17")), y)
