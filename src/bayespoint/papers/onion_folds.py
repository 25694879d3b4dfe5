"""Cross-validation of all shells."""

from typing import Any

import numpy as np
from sklearn.model_selection import StratifiedKFold

from bayespoint._support.checks import check_positive_integer, check_seed, entropy_of
from bayespoint.inference.onion.exact import sample_onion
from bayespoint.inference.onion.table import check_depth, clipped
from bayespoint.papers.onion import published_onion
from bayespoint.space.rows import submatrix
from bayespoint.space.version_space import VersionSpace, check_space


def cross_validate_onion(space, depth=5, *, cv=10, method="exact", random_state=None, **options):
    """Table of cross-validation errors, folds sampled one after the other.

    For the exact onion `Onion.leave_one_out_errors` needs no further sampling.

    Parameters
    ----------
    space : VersionSpace
    depth : int or pair of int, default=5
    cv : int, default=10
        Folds, each with its share of both classes.
    method : {"exact", "published"}, default="exact"
    random_state : int, RandomState or None
    **options
        For `sample_onion` or `published_onion`.

    Returns
    -------
    ndarray of shape (n_minus + 1, n_plus + 1, 2)
        Errors among labels -1 and among labels +1, summed over folds; NaN where some fold had no
        draw.

    Examples
    --------
    >>> import numpy as np
    >>> from bayespoint import VersionSpace, papers
    >>> X = np.random.default_rng(0).normal(size=(20, 2))
    >>> space = VersionSpace(X @ X.T + 1, np.sign(X[:, 0]))
    >>> papers.cross_validate_onion(space, depth=1, cv=2, n_draws=500, random_state=0).shape
    (2, 2, 2)
    """
    check_space(space)
    check_seed(random_state)
    check_positive_integer("cv", cv)
    makers: dict[str, Any] = {"exact": sample_onion, "published": published_onion}
    if not isinstance(method, str) or method not in makers:
        raise ValueError(f"method must be one of {tuple(makers)}; got {method!r}.")
    fewest = int(min(np.sum(space.y < 0), np.sum(space.y > 0)))
    if not 2 <= cv <= fewest:
        raise ValueError(
            f"cv must be from 2 to {fewest}, the number of points of the smaller class; got {cv}."
        )
    depth, entropy = clipped(check_depth(depth), space.y), entropy_of(random_state)
    folds = StratifiedKFold(int(cv), shuffle=True, random_state=entropy % 2**32)
    K = submatrix(space.rows, np.arange(len(space)))
    total = np.zeros((*np.add(depth, 1), 2))
    for train, test in folds.split(space.y, space.y):
        part = VersionSpace(K[np.ix_(train, train)], space.y[train], space.softness)
        onion = makers[method](part, depth, random_state=entropy % 2**32, **options)
        errors = onion.errors(K[np.ix_(test, train)], space.y[test])
        part_of = np.full(total.shape, np.nan)  # shells that the smaller problem does not have
        part_of[: errors.shape[0], : errors.shape[1]] = errors
        total += part_of
    return total
