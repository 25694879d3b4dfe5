"""Costs that can be computed with and make little sense: warnings, and what they stand beside."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from scipy.optimize import linprog

from bayespoint._support.checks import warn
from bayespoint._support.types import Array
from bayespoint.estimators.confidence import class_weights_of
from bayespoint.estimators.costs import REJECT

# What to look at first where costs lead to decisions that nobody wants.
ASK = "are rows the true classes, and gains negative?"
# Rejecting may cost more than a class by this share of the largest cost: a tie, up to rounding.
ROUNDING = 1e-9


def warn_of_odd(costs: Array, names: Sequence[Any]) -> bool:
    """Warn of decisions that are never made, or of gains instead of costs; say if there are.

    Parameters
    ----------
    costs : ndarray of shape (n_classes, n_decisions) or (n, n_classes, n_decisions)
    names : sequence
        Classes.

    Returns
    -------
    bool
    """
    texts: list[str] = []
    for looked_for in (_useless, _gains, _never_rejected):  # the first is the likeliest mistake
        texts = texts or list(looked_for(costs, names))
    for text in texts:
        warn(text)
    return bool(texts)


def warn_that_none_is_decided(n_cases: int) -> None:
    """Say that rejecting is the cheapest for all held-out cases."""
    warn(
        f"costs makes rejecting the cheapest for all {n_cases} held-out cases, by their "
        f"probabilities, so that few or no cases will be decided; raise its column ({ASK})"
    )


def _useless(costs: Array, names: Sequence[Any]) -> Iterator[str]:
    """Words on decisions that another one makes useless."""
    n = len(names)
    decisions = [*map(repr, names), REJECT]
    costs = costs.reshape(-1, costs.shape[-1])  # true classes, of each row where rows have costs
    if costs.shape[1] > n and np.all(costs[:, n:] <= costs[:, :n]):
        yield (
            "costs makes rejecting never more expensive than any decision, for all true classes, "
            f"so every case is rejected; raise its column, or leave it out ({ASK})"
        )
        return
    if np.all(costs == costs[:, :1]):
        yield (
            f"costs has all decisions cost the same, so every case is labelled {decisions[0]}; "
            f"{ASK}"
        )
    for useless in range(costs.shape[1]):
        other = costs[:, [useless]]
        cheaper = np.all(costs <= other, axis=0) & np.any(costs < other, axis=0)
        if cheaper.any():
            yield (
                f"costs has decision {decisions[useless]} never cheaper than "
                f"{decisions[cheaper.argmax()]}, and more expensive for some true classes, so "
                f"there is no reason to make it; {ASK}"
            )


def _gains(costs: Array, names: Sequence[Any]) -> Iterator[str]:
    """Words on classes whose right decision is the dearest of all, as if costs were gains."""
    n = len(names)
    right = np.diagonal(costs[..., :n], axis1=-2, axis2=-1)[..., None]
    wrong = np.where(np.eye(n, dtype=bool), -np.inf, costs[..., :n])
    dearest = np.all(right > wrong, axis=-1).reshape(-1, n).all(axis=0)
    if dearest.any():
        shown = ", ".join(repr(names[c]) for c in np.flatnonzero(dearest).tolist())
        yield (
            f"costs has the right decision cost more than any wrong one for true class {shown}, so "
            "wrong labels are preferred; if these are gains, change their signs."
        )


def _never_rejected(costs: Array, names: Sequence[Any]) -> Iterator[str]:
    """Words on rejecting that a mixture of decisions makes useless, by one matrix for all rows."""
    if costs.ndim == 2 and costs.shape[1] > len(names) and not _ever_rejects(costs):
        yield (
            "costs makes rejecting never the cheapest, whatever the probabilities of the classes, "
            "so no case is rejected; lower its column, or leave it out."
        )


def _ever_rejects(costs: Array) -> bool:
    """Whether there are probabilities with which no class costs less than rejecting.

    Rejecting saves t if p . (c_d - c_reject) >= t for every class d. If even the largest t, over
    all probabilities p, is below 0, some mixture of decisions costs less than rejecting, whatever
    the true class (by duality).
    """
    n = len(costs)
    costs = costs / np.abs(costs).max()
    saved = (costs[:, :n] - costs[:, n:]).T  # by decision and true class
    found = linprog(
        np.append(np.zeros(n), -1.0), A_ub=np.column_stack((-saved, np.ones(n))), b_ub=np.zeros(n),
        A_eq=np.append(np.ones(n), 0.0)[None], b_eq=[1.0], bounds=[(0, 1)] * n + [(None, None)],
    )  # fmt: skip
    return found.status != 0 or bool(-found.fun >= -ROUNDING)


def check_beside(estimator: Any, reject_cost: Any = None, confidence: Any = "auto") -> None:
    """Refuse parameters that would say again, or otherwise, what decisions cost."""
    if reject_cost is not None:
        raise ValueError(
            f"reject_cost={reject_cost} is given together with costs; leave it out, and give "
            "costs a column for rejecting"
        )
    if not (isinstance(confidence, str) and confidence == "auto"):
        raise ValueError(
            f"confidence={confidence!r} has no effect with costs, where the expected cost decides; "
            'use confidence="auto"'
        )
    for name, value in class_weights_of(estimator).items():
        raise ValueError(
            f"{name}={value!r} of the estimator shifts its probabilities, and would count "
            "twice with costs; set it to None, and say in costs what mistakes cost"
        )
