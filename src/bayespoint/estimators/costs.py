"""What decisions cost: matrices of costs, decisions of least expected cost, cost and rejection.

A matrix has a row per true class and a column per decision: the classes, and perhaps "reject".
With probabilities p the decision d costs sum_c p_c costs[c, d] on average.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from bayespoint._support.checks import FROM_0
from bayespoint._support.types import Array, ArrayLike
from bayespoint.estimators.risk import case_weights, checked, errors_of, numbers_of_labels

# Name of the decision not to decide, in data frames and mappings.
REJECT = "reject"
SHAPES = "true classes in rows and decisions in columns, in the order of classes_, rejecting last"


def named_costs(costs: Any) -> dict[Any, dict[Any, float]] | None:
    """Costs of a data frame or mapping, by true class and decision; None for other costs."""
    if isinstance(costs, Mapping):
        for true, row in costs.items():
            if not isinstance(row, Mapping):
                raise ValueError(
                    f"costs[{true!r}]={row!r} is not a mapping; give each true class a dict of "
                    "decisions and costs, or a matrix instead of the mapping"
                )
        return {true: dict(row) for true, row in costs.items()}
    if not (hasattr(costs, "columns") and hasattr(costs, "index") and hasattr(costs, "to_numpy")):
        return None
    rows, columns = list(costs.index), list(costs.columns)
    for what, names in (("row", rows), ("column", columns)):
        twice = [name for name in names if names.count(name) > 1]
        if twice:
            raise ValueError(f"costs has more than one {what} {twice[0]!r}; leave one")
    return {
        true: dict(zip(columns, values, strict=True))
        for true, values in zip(rows, costs.to_numpy().tolist(), strict=True)
    }


def cost_matrix(costs: Any, classes: Array, reject_label: Any = None) -> Array:
    """Costs as an array of shape (n_classes, n_decisions), checked.

    Parameters
    ----------
    costs : array-like, data frame or mapping
        With names, the column of rejecting is called "reject", or as ``reject_label``.
    classes : ndarray of shape (n_classes,)
    reject_label : object, optional

    Returns
    -------
    ndarray of shape (n_classes, n_classes) or (n_classes, n_classes + 1)
    """
    named, names = named_costs(costs), classes.tolist()
    if named is not None:
        costs = _ordered(named, names, reject_label)
    if np.ma.is_masked(costs):
        raise ValueError("costs has masked entries; give finite numbers for all")
    try:
        found = np.asarray(costs, dtype=np.float64)
    except (TypeError, ValueError):
        raise ValueError(f"costs={costs!r} are not numbers; give a matrix: {SHAPES}") from None
    n = len(names)
    if found.shape not in ((n, n), (n, n + 1)):
        raise ValueError(
            f"costs has shape {found.shape} for {n} classes, {names}; give ({n}, {n}), or "
            f"({n}, {n + 1}) with a column for rejecting: {SHAPES}"
        )
    if not np.isfinite(found).all():
        true, decision = np.argwhere(~np.isfinite(found))[0]
        raise ValueError(
            f"costs is {found[true, decision]} for true class {names[true]!r} and decision "
            f"{[*names, REJECT][decision]!r}; give finite numbers, and a large one for a decision "
            "that must not be taken"
        )
    return found


def _ordered(
    named: dict[Any, dict[Any, float]], classes: list[Any], reject_label: Any
) -> list[list[float]]:
    """Rows and columns in the order of the classes, rejecting last."""
    columns = list(dict.fromkeys(name for row in named.values() for name in row))
    decisions = list(classes)
    for reject in (REJECT,) if reject_label is None else (REJECT, reject_label):
        if reject in columns and reject not in classes and len(decisions) == len(classes):
            decisions.append(reject)
    _check_names("true class", named, classes, classes)
    for row in named.values():
        _check_names("decision", row, decisions, classes)
    return [[named[true][decision] for decision in decisions] for true in classes]


def _check_names(what: str, found: Any, wanted: list[Any], classes: list[Any]) -> None:
    unknown = [name for name in found if name not in wanted]
    if unknown:
        raise ValueError(
            f"costs names the {what} {unknown[0]!r}, which is not among the classes {classes}; "
            f"use their names, of the same type, and {REJECT!r} for rejecting"
        )
    missing = [name for name in wanted if name not in found]
    if missing:
        raise ValueError(f"costs does not have the {what} {missing[0]!r}; add it")


def costs_of_rows(costs: Any, X: Any, n_rows: int, n_classes: int) -> Array:
    """What a function says decisions about rows cost, (n_rows, n_classes, n_decisions), checked."""
    found = np.asarray(costs(X), dtype=np.float64)
    wanted = [(n_rows, n_classes, n_classes + more) for more in (0, 1)]
    if found.shape not in wanted:
        raise ValueError(
            f"costs(X) has shape {found.shape} for {n_rows} rows and {n_classes} classes; it must "
            f"give {wanted[0]}, or {wanted[1]} with a column for rejecting"
        )
    if not np.isfinite(found).all():
        row = int(np.argwhere(~np.isfinite(found))[0, 0])
        raise ValueError(f"costs(X) is not finite at row {row} {FROM_0}; give finite numbers")
    return found


class Choice(NamedTuple):
    """Decisions of least expected cost, one per row."""

    number: Array  # of the best class
    confidence: Array  # what deciding so saves: on rejecting, or, where that cannot be, on nothing
    rejected: Array  # whether rejecting costs no more
    cost: Array  # expected, of what is done


def cheapest(proba: Array, costs: Array) -> Choice:
    """Decide so that the expected cost is least; a tie with rejecting is rejected.

    Parameters
    ----------
    proba : ndarray of shape (n, n_classes)
    costs : ndarray of shape (n_classes, n_decisions) or (n, n_classes, n_decisions)

    Returns
    -------
    Choice
    """
    n_classes = proba.shape[1]
    expected = np.einsum("nc,cd->nd" if costs.ndim == 2 else "nc,ncd->nd", proba, costs)
    number = expected[:, :n_classes].argmin(axis=1)
    deciding = np.take_along_axis(expected, number[:, None], axis=1)[:, 0]
    if expected.shape[1] == n_classes:
        return Choice(number, -deciding, np.zeros(len(proba), dtype=bool), deciding)
    rejecting = expected[:, n_classes]
    rejected = ~(deciding < rejecting)
    return Choice(number, rejecting - deciding, rejected, np.minimum(deciding, rejecting))


def costs_of_labels(costs: Array, classes: Array, y: Any, labels: Any) -> tuple[Array, Array]:
    """What labels cost, given the true ones, and what rejecting costs; NaN where it has no column.

    Parameters
    ----------
    costs : ndarray of shape (n_classes, n_decisions) or (n, n_classes, n_decisions)
    classes : ndarray of shape (n_classes,)
    y, labels : array-like of shape (n,)

    Returns
    -------
    deciding, rejecting : ndarray of shape (n,)
    """
    errors_of(y, labels)  # refuses what is not labels, and text beside numbers
    true = numbers_of_labels("y", y, classes)
    decided = numbers_of_labels("labels", labels, classes)
    rows = costs[true] if costs.ndim == 2 else costs[np.arange(len(true)), true]  # (n, decisions)
    deciding = np.take_along_axis(rows, decided[:, None], axis=1)[:, 0]
    has_reject = rows.shape[1] > len(classes)
    return deciding, rows[:, -1].copy() if has_reject else np.full(len(rows), np.nan)


def cost_rejection_curve(
    cost: ArrayLike, reject_cost: ArrayLike, confidence: ArrayLike, *, sample_weight: Any = None
) -> tuple[Array, Array, Array]:
    """Mean cost of a case if the least confident cases are rejected, for every share of them.

    Parameters
    ----------
    cost : array-like of shape (n_samples,)
        What each case costs if it is decided.
    reject_cost : float or array-like of shape (n_samples,)
        What each case costs if it is rejected.
    confidence : array-like of shape (n_samples,)
        The larger, the surer. Cases of equal confidence are rejected together.
    sample_weight : array-like of shape (n_samples,), default=None
        Weights of the cases.

    Returns
    -------
    rejected : ndarray of shape (n_distinct + 1,)
        Share that is rejected, increasing from 0 to 1.
    mean_cost : ndarray of shape (n_distinct + 1,)
        Mean over all cases, rejected ones included.
    thresholds : ndarray of shape (n_distinct + 1,)
        Increasing from -inf; entry k decides the cases with ``confidence > thresholds[k]``.

    Examples
    --------
    >>> from bayespoint.estimators.costs import cost_rejection_curve
    >>> rejected, mean_cost, thresholds = cost_rejection_curve(
    ...     [0, 0, 5, 0], reject_cost=1, confidence=[0.9, 0.8, 0.5, 0.5])
    >>> rejected
    array([0.  , 0.5 , 0.75, 1.  ])
    >>> mean_cost
    array([1.25, 0.5 , 0.75, 1.  ])
    >>> thresholds
    array([-inf,  0.5,  0.8,  0.9])
    """
    n = len(np.asarray(confidence))
    sure = checked("confidence", confidence, n)
    decided = checked("cost", cost, n)
    rejecting = checked("reject_cost", np.broadcast_to(np.asarray(reject_cost, float), (n,)), n)
    weight = case_weights(sample_weight, n)
    order = np.argsort(sure, kind="stable")
    order = order[weight[order] > 0]
    sure, weight = sure[order], weight[order]
    more = np.cumsum(weight * (rejecting - decided)[order])
    group_end = np.append(sure[1:] != sure[:-1], True)
    share = np.cumsum(weight)[group_end] / weight.sum()
    start = np.average(decided[order], weights=weight)
    return (
        np.append(0.0, share), np.append(start, start + more[group_end] / weight.sum()),
        np.append(-np.inf, sure[group_end]),
    )  # fmt: skip
