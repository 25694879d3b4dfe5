"""Points that the posterior is least sure of, and that do not say the same twice."""

from collections.abc import Callable
from dataclasses import replace
from reprlib import repr as short
from typing import Any

import numpy as np
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from bayespoint._support.checks import check_positive_integer, check_seed
from bayespoint._support.types import Array, Matrix, Seed
from bayespoint.estimators.base import KernelClassifier
from bayespoint.estimators.confidence import unwrapped
from bayespoint.estimators.predictors import VOTE_BLOCK, Asked, BayesPointPredictor, Predictor
from bayespoint.estimators.uncertainty import entropy, information
from bayespoint.space.given import check_answers
from bayespoint.space.inputs import Inputs, canonical
from bayespoint.space.merging import merge_duplicates

STRATEGIES = ("entropy", "bald")

# Points looked at for a batch: the most useful ones, so many for each that is asked for, and at
# least so many.
CANDIDATES_EACH = 10
LEAST_CANDIDATES = 1000

# What is left of the variance of a point, as a share, once its copy is in the batch.
COPY = 1e-6


def query(
    clf: Any, X_pool: Any, n: int = 1, *, strategy: str = "entropy", random_state: Seed = None
) -> Array:
    """Choose which points of a pool to label next.

    Points are chosen one after the other. Each is rated by its utility times the share of its
    posterior variance that would remain after the points chosen before it. So a batch has no
    copies or near-copies.

    Parameters
    ----------
    clf : BayesPointClassifier
        Classifier fitted on the points labelled so far, or a pipeline that ends with one. Best
        with ``inference="billiard"``, whose votes include what the labelled points leave open.
    X_pool : array-like or sparse matrix of shape (n_pool, n_features)
        Points without labels.
    n : int, default=1
        Number of points to choose.
    strategy : {"entropy", "bald"}, default="entropy"
        As for `utilities`.
    random_state : int, RandomState or None
        For "bald".

    Returns
    -------
    ndarray of int, shape (n,)
        Indices of rows of ``X_pool``, the most useful first; fewer than ``n`` only if there are
        fewer distinct points. (For a precomputed kernel, rows are compared by their kernel values.)

    Examples
    --------
    >>> import numpy as np
    >>> from bayespoint import BayesPointClassifier, active
    >>> X = np.array([[-2.0], [-1.0], [1.0], [2.0]])
    >>> clf = BayesPointClassifier(inference="billiard", gamma=1.0, random_state=0)
    >>> clf = clf.fit(X, [0, 0, 1, 1])
    >>> active.query(clf, [[-1.5], [0.0], [0.0], [1.5]])
    array([1])
    """
    chosen, _, _, _ = _query(clf, X_pool, n, strategy, random_state)
    return chosen


def query_with_utilities(
    clf: Any, X_pool: Any, n: int, strategy: str, random_state: Seed
) -> tuple[Array, Array]:
    """Do as `query`, and return what each point was worth when each of them was chosen.

    The utilities, (n_chosen, n_pool), are zero for points that are not among the most useful ones
    by themselves and for copies of those chosen, NaN for those chosen before.
    """
    chosen, worth, row, member = _query(clf, X_pool, n, strategy, random_state, keep=True)
    everywhere = worth[:, member]
    copies = np.ones(len(member), dtype=bool)
    copies[row] = False
    everywhere[:, copies] = np.nan_to_num(everywhere[:, copies])
    return chosen, everywhere


def _query(
    clf: Any, X_pool: Any, n: int, strategy: str, random_state: Seed, keep: bool = False
) -> tuple[Array, Array, Array, Array]:
    """Rows chosen; what distinct points were worth, if kept; their rows; whose copy each is."""
    check_positive_integer("n", n)
    check_seed(random_state)
    predictor, asked = _last_step(clf, X_pool)
    with asked.naming_rows():
        values = _utilities(predictor, asked, strategy, random_state)
    row, member = _distinct(asked.place.to_host(asked.X))
    most = min(len(row), max(CANDIDATES_EACH * n, LEAST_CANDIDATES))
    best = np.argsort(-values[row], kind="stable")[:most]
    # Where nothing is doubtful, points still differ in what they leave open of each other.
    values = np.maximum(values[row[best]], np.finfo(float).eps)
    variance, column = predictor.covariance(Asked(asked.X[row[best]], asked.place))
    check_answers("the posterior variance", variance)
    chosen, products = _greedy(values, variance, column, min(n, len(best)), keep)
    worth = np.zeros((len(products), len(row)))
    if keep:
        worth[:, best] = products
    return row[best[chosen]], worth, row, member


def _distinct(X: Matrix) -> tuple[Array, Array]:
    """Rows of X that are no copies of others before them, and which of these each row is."""
    label, weight = np.zeros(X.shape[0], dtype=np.int64), np.ones(X.shape[0])
    distinct = merge_duplicates(Inputs(canonical(X)), label, weight, keep_order=True)
    return distinct.row, distinct.member


def utilities(
    clf: Any, X_pool: Any, *, strategy: str = "entropy", random_state: Seed = None
) -> Array:
    """How useful the labels of points would be.

    Parameters
    ----------
    clf : BayesPointClassifier
        Fitted classifier, or a pipeline that ends with one.
    X_pool : array-like or sparse matrix of shape (n_pool, n_features)
        Points without labels.
    strategy : {"entropy", "bald"}, default="entropy"
        "entropy": the entropy of the class probabilities (query by committee). "bald": the
        information that the label gives about the classifier; the rest of the entropy comes from
        softness and label noise. With two classes, no softness and a single noise rate, both rank
        points in the same way. Neither depends on ``class_weight``.
    random_state : int, RandomState or None
        Seed of the classifiers that are drawn for "bald".

    Returns
    -------
    ndarray of shape (n_pool,)
        Utilities, in nats.

    Examples
    --------
    >>> import numpy as np
    >>> from bayespoint import BayesPointClassifier, active
    >>> X = np.array([[-2.0], [-1.0], [1.0], [2.0]])
    >>> clf = BayesPointClassifier(inference="billiard", gamma=1.0, random_state=0)
    >>> clf = clf.fit(X, [0, 0, 1, 1])
    >>> values = active.utilities(clf, [[-1.5], [0.0], [1.5]])
    >>> bool(values[1] > max(values[0], values[2]))
    True
    """
    predictor, asked = _last_step(clf, X_pool)
    with asked.naming_rows():
        return _utilities(predictor, asked, strategy, random_state)


def _utilities(predictor: Predictor, asked: Asked, strategy: str, random_state: Seed) -> Array:
    if not isinstance(strategy, str) or strategy not in STRATEGIES:
        raise ValueError(f"strategy must be one of {STRATEGIES}; got {strategy!r}.")
    check_seed(random_state)
    seed = check_random_state(random_state).randint(2**31 - 1)
    if strategy == "bald":
        return check_answers("utilities", information(predictor, asked, seed))
    values = [np.empty(0)]
    for start in range(0, asked.X.shape[0], VOTE_BLOCK):
        block = asked.part(start, start + VOTE_BLOCK)
        if isinstance(predictor, BayesPointPredictor):
            everyone = predictor.choose_members(predictor.n_draws, np.random.RandomState(0))
            proba = predictor.sample_proba(block, everyone).mean(axis=0)
        else:
            proba = predictor.predict_proba(block)
        values.append(entropy(proba))
    return check_answers("utilities", np.concatenate(values))


def _last_step(clf: Any, X_pool: Any) -> tuple[Predictor, Asked]:
    """Predictor of the classifier at the end of a pipeline, and the points as it gets them."""
    if isinstance(clf, type) or not hasattr(clf, "fit"):
        raise TypeError(f"clf must be a fitted BayesPointClassifier; got {short(clf)}.")
    if X_pool is None:
        raise ValueError("X_pool is None: give rows of numbers.")
    check_is_fitted(clf)
    last, X = unwrapped(clf, X_pool)
    if not isinstance(last, KernelClassifier):
        raise ValueError(f"clf must be a BayesPointClassifier; got {type(last).__name__}.")
    asked, predictor = last.prepared(X), last.predictor_
    # How sure it is, not what costs more.
    return replace(predictor, log_weight=np.zeros_like(predictor.log_weight)), asked


def _greedy(
    values: Array, variance: Array, column: Callable[[int], Array], n: int, keep: bool
) -> tuple[Array, Array]:
    """Choose points by value times the share of variance that those before leave.

    ``column(i)``: covariance of all points with point i. Where nothing is left (there are more
    points than dimensions), a new round begins, in which points still lose what they share with
    the one chosen that is most like them. Returns numbers and, if kept, the products, NaN for
    points chosen before.
    """
    scale = np.where(variance > 0, variance, 1.0)
    nearest = np.zeros(len(values))  # squared correlation with the chosen one most like it
    left, rows, n_rows, fresh = variance.copy(), np.empty((n, len(values))), 0, True
    chosen: list = []
    products: list = []
    while len(chosen) < n:
        share = np.minimum(left / scale, 1 - nearest)
        worth = values * np.where(share > COPY, share, 0.0)
        if fresh and not np.any(np.delete(worth, chosen)):  # no variance at all: by value
            worth = np.where(nearest > 1 - COPY, 0.0, values)
        worth[chosen] = np.nan
        new = int(np.nanargmax(worth)) if len(chosen) < len(values) else 0
        if not worth[new] > 0:
            if fresh:
                break
            left, n_rows, fresh = variance.copy(), 0, True
            continue
        fresh = False
        chosen.append(new)
        if keep:
            products.append(worth)
        covariance = column(new)
        nearest = np.maximum(nearest, np.minimum(covariance**2 / (scale * scale[new]), 1.0))
        nearest[new] = 1.0
        row = covariance - rows[:n_rows].T @ rows[:n_rows, new]
        rows[n_rows] = row / np.sqrt(max(left[new], np.finfo(float).tiny))
        left = np.maximum(left - rows[n_rows] ** 2, 0.0)
        n_rows += 1
    return np.array(chosen, dtype=np.int64), np.array(products)
