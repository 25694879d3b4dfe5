"""Fitted models of every kind, for files."""

from dataclasses import is_dataclass

import numpy as np
import scipy.sparse as sp
from sklearn.datasets import make_classification

from bayespoint import BayesPointClassifier

FIXED = {"gamma": 0.2, "softness": 0.1, "bias": 1.0, "n_draws": 8, "random_state": 0}


def data(n_classes=2, n=60):
    X, y = make_classification(
        n, 5, n_informative=4, n_redundant=0, n_classes=n_classes, n_clusters_per_class=1,
        random_state=3,
    )  # fmt: skip
    return X, y


def fitted(X=None, y=None, **params):
    if X is None:
        X, y = data()
    return BayesPointClassifier(**{**FIXED, **params}).fit(X, y)


def assert_same(one, other, where=""):
    """Equal in type, dtype, order in memory and every bit."""
    assert type(one) is type(other), where
    if isinstance(one, np.ndarray):
        assert (one.dtype, one.shape) == (other.dtype, other.shape), where
        if one.dtype == object:
            assert_same(one.tolist(), other.tolist(), where)
        else:
            assert one.tobytes() == other.tobytes(), where
            same_order = one.flags.f_contiguous == other.flags.f_contiguous
            assert same_order or one.ndim < 2, where
    elif sp.issparse(one):
        assert one.shape == other.shape, where
        for name in ("data", "indices", "indptr"):
            assert_same(getattr(one, name), getattr(other, name), f"{where}.{name}")
    elif isinstance(one, dict):
        assert list(map(repr, one)) == list(map(repr, other)), where
        for key in one:
            assert_same(one[key], other[key], f"{where}.{key}")
    elif isinstance(one, list | tuple):
        assert len(one) == len(other), where
        for left, right in zip(one, other, strict=True):
            assert_same(left, right, f"{where}[]")
    elif hasattr(one, "get_params") or is_dataclass(one):
        # What was given to fit stays with the model in memory.
        left, right = ({k: v for k, v in vars(x).items() if k != "_given"} for x in (one, other))
        assert left.keys() == right.keys(), where
        for key, value in left.items():
            assert_same(value, right[key], f"{where}.{key}")
    elif isinstance(one, np.random.RandomState):
        assert_same(one.get_state(), other.get_state(), where)
    else:
        assert repr(one) == repr(other), where
