"""Points that the posterior is least sure of, and that do not say the same twice."""

from copy import copy

import numpy as np
from scipy.special import entr
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from bayespoint.classifier import BayesPointClassifier
from bayespoint.points import merge_duplicates
from bayespoint.rejection import unwrapped
from bayespoint.validation import canonical, check_positive_integer, check_seed

STRATEGIES = ("entropy", "bald")

# Single classifiers that BALD averages over.
MEMBERS = 200

# Points looked at for a batch: the most useful ones, so many for each that is asked for, and at
# least so many.
CANDIDATES_EACH = 50
LEAST_CANDIDATES = 1000

# What is left of the variance of a point, as a share, once its copy is in the batch.
COPY = 1e-6


def query(clf, X_pool, n=1, *, strategy="entropy", random_state=None):
    """Choose points of a pool to have labelled.

    Points are chosen one after the other, by their utility times the share of their posterior
    variance that the points chosen before leave open: copies and near-copies of a point that is
    in the batch have next to none left.

    Parameters
    ----------
    clf : BayesPointClassifier
        Fitted on the points labelled so far, or a pipeline that ends in one. Best with
        ``inference="billiard"``: its votes know what the labelled points leave open.
    X_pool : array-like or sparse matrix of shape (n_pool, n_features)
    n : int, default=1
        Number of points.
    strategy : {"entropy", "bald"}, default="entropy"
        As for `utilities`.
    random_state : int, RandomState or None
        For "bald".

    Returns
    -------
    ndarray of int, shape (n,)
        Rows of ``X_pool``, the most useful first; fewer than ``n`` only if there are no more
        distinct points.

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
    return query_with_utilities(clf, X_pool, n, strategy, random_state)[0]


def query_with_utilities(clf, X_pool, n, strategy, random_state):
    """Do as `query`, and return what each point was worth when each of them was chosen.

    The utilities, (n_chosen, n_pool), are zero for points that are not among the most useful ones
    by themselves and for copies of those chosen, NaN for those chosen before.
    """
    check_positive_integer("n", n)
    check_seed(random_state)
    values = utilities(clf, X_pool, strategy=strategy, random_state=random_state)
    last, X_last = _last_step(clf, X_pool)
    row, member = _distinct(X_last)
    most = min(len(row), max(CANDIDATES_EACH * n, LEAST_CANDIDATES))
    best = np.argsort(-values[row], kind="stable")[:most]
    # Where nothing is doubtful, points still differ in what they leave open of each other.
    values = np.maximum(values[row[best]], np.finfo(float).eps)
    variance, column = last._posterior_covariance(X_last[row[best]])
    chosen, worth = _greedy(values, variance, column, min(n, len(best)))
    everywhere = np.zeros((len(chosen), len(row)))
    everywhere[:, best] = worth
    everywhere = everywhere[:, member]
    copies = np.ones(len(member), dtype=bool)
    copies[row] = False
    everywhere[:, copies] = np.nan_to_num(everywhere[:, copies])
    return row[best[chosen]], everywhere


def _distinct(X):
    """Rows of X that are no copies of others before them, and which of these each row is."""
    label, weight = np.zeros(X.shape[0], dtype=np.int64), np.ones(X.shape[0])
    points = merge_duplicates(canonical(X), label, weight, keep_order=True)
    return points.row, points.member


def utilities(clf, X_pool, *, strategy="entropy", random_state=None):
    """How useful the labels of points would be.

    Parameters
    ----------
    clf : BayesPointClassifier
        Fitted, or a pipeline that ends in one.
    X_pool : array-like or sparse matrix of shape (n_pool, n_features)
    strategy : {"entropy", "bald"}, default="entropy"
        "entropy": of the probabilities that the posterior gives to the classes (query by
        committee). "bald": what the label would tell about the classifier, the entropy less
        the mean entropy of single classifiers, whose labels softness and label noise make
        uncertain. Without softness and with one rate of noise both rank points alike.
    random_state : int, RandomState or None
        Seed of the single classifiers for "bald".

    Returns
    -------
    ndarray of shape (n_pool,)
        In nats.

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
    if not isinstance(strategy, str) or strategy not in STRATEGIES:
        raise ValueError(f"strategy must be one of {STRATEGIES}; got {strategy!r}.")
    last, X = _last_step(clf, X_pool)
    if strategy == "entropy":
        if last._decision_ == "bayes_point":
            proba = last.sample_proba(X, last.n_draws_, 0).mean(axis=0)
        else:
            proba = last.predict_proba(X)
        return entr(proba).sum(axis=-1)
    members = last._committee(X, MEMBERS, check_random_state(random_state))
    total = entr(members.mean(axis=0)).sum(axis=-1)
    return np.maximum(total - entr(members).sum(axis=-1).mean(axis=0), 0.0)


def _last_step(clf, X_pool):
    check_is_fitted(clf)
    last, X = unwrapped(clf, X_pool)
    if not isinstance(last, BayesPointClassifier):
        raise ValueError(f"clf must be a BayesPointClassifier; got {type(last).__name__}.")
    X = last._checked(X)
    last = copy(last)
    last.__dict__.pop("feature_names_in_", None)  # they are checked; the array has none
    return last, X


def _greedy(values, variance, column, n):
    """Choose points by value times the share of variance that those before leave.

    ``column(i)``: covariance of all points with point i. Where nothing is left (there are more
    points than dimensions), a new round begins with the points that are no copies. Returns
    numbers and the products, NaN for points chosen before.
    """
    scale = np.where(variance > 0, variance, 1.0)
    copies = np.zeros(len(values), dtype=bool)
    left, fresh = variance.copy(), False
    chosen: list = []
    products: list = []
    rows: list = []
    while len(chosen) < n:
        share = left / scale
        worth = values * np.where(share > COPY, share, 0.0)
        worth[chosen] = np.nan
        new = int(np.nanargmax(worth))
        if worth[new] == 0:
            if fresh:
                break
            left, rows, fresh = np.where(copies, 0.0, scale), [], True
            continue
        fresh = False
        chosen.append(new)
        products.append(worth)
        covariance = column(new)
        copies |= covariance**2 > (1 - COPY) * variance * variance[new]
        copies[new] = True
        row = covariance - sum(r[new] * r for r in rows)
        rows.append(row / np.sqrt(max(left[new], np.finfo(float).tiny)))
        left = np.maximum(left - rows[-1] ** 2, 0.0)
    return np.array(chosen), np.array(products)
