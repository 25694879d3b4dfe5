"""Links: from outputs of machines at a point to probabilities of classes.

A link is softmax(W f + b) of the outputs f of one machine for each class, or expit(w f + b) of the
output of one machine for two classes. It is fitted to outputs at points that the machines have not
seen. One positive number times the identity is a temperature; the full matrix lets classes that
one-against-the-rest machines confuse correct each other.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import minimize, minimize_scalar
from scipy.special import expit, log_ndtr, log_softmax, softmax

from bayespoint._support.types import Array
from bayespoint.space.decisions import agreeing, probability_from_odds

# Bounds of the logarithm of the steepness: from "says nothing" to "a step".
STEEPNESS_RANGE = (np.log(1e-2), np.log(1e5))

# Strength of the pull of W / steepness to the identity and of b to 0, in log-likelihood: ten rows
# outweigh a unit. Of few rows a matrix learns by heart: there labels left out of the link choose
# among stronger pulls.
PULL = 10.0
PULLS = (PULL, 1e2, 1e3, 1e4)
FEW_ROWS = 5_000
LINK_FOLDS = 5

# How far from the usual steepness it may be, in standard deviations.
FARTHEST = 6.0

# Of Gaussian posteriors: votes are about right, so the logarithm of their steepness is about 0.
VOTES_USUAL = (0.0, 0.5)

# Rows of each class that more than a temperature is fitted to: without its only row, nothing tells
# a class, and offsets would follow the others.
LEAST_ROWS = 2

# Steps of the fit; each is a few products of the outputs with W.
MAX_STEPS = 200


@dataclass(frozen=True, eq=False, repr=False)
class Link:
    """Scores W f + b, whose softmax are probabilities; one number each for two classes.

    Attributes
    ----------
    weights : ndarray of shape (n_classes, n_classes), or (1, 1) for two classes
    offset : ndarray of shape (n_classes,), or (1,)
    """

    weights: Array
    offset: Array

    def scores(self, outputs: Array) -> Array:
        """Scores of points, (..., n) or (..., n, n_classes), from outputs of that shape."""
        if len(self.offset) == 1:
            return self.weights[0, 0] * outputs + self.offset[0]
        return outputs @ self.weights.T + self.offset

    @classmethod
    def plain(cls, n_classes: int, steepness: float = 1.0) -> "Link":
        """Return a temperature: all outputs times a number."""
        n = 1 if n_classes == 2 else n_classes
        return cls(steepness * np.eye(n), np.zeros(n))


def shifted(scores: Array, log_weight: Array) -> Array:
    """Move scores so that p_c becomes proportional to weight_c p_c."""
    if len(log_weight) == 2:
        return scores + (log_weight[1] - log_weight[0])
    return scores + log_weight


def probabilities(scores: Array) -> Array:
    """Probabilities of the classes, (n, n_classes), from scores of one or of all classes."""
    if scores.ndim == 1:
        return probability_from_odds(scores)
    return agreeing(softmax(scores, axis=1), scores)


def votes_of(scores: Array, n_classes: int) -> Array:
    """Probabilities as votes, (..., n_classes), from scores of any shape before the classes."""
    if n_classes == 2:
        return np.stack([expit(-scores), expit(scores)], axis=-1)
    return softmax(scores, axis=-1)


def vote_outputs(z: Array) -> Array:
    """What a link takes of Gaussian posteriors: log-odds, or logarithms of one against the rest.

    The plain link of these gives the votes themselves.

    Parameters
    ----------
    z : ndarray of shape (n_machines, n)
        Means of outputs over their standard deviations.

    Returns
    -------
    ndarray of shape (n,) or (n, n_classes)
    """
    if len(z) == 1:
        return log_ndtr(z[0]) - log_ndtr(-z[0])
    return log_ndtr(z).T


def fit_steepness(
    outputs: Array, label: Array, weight: Array, *, noise: float = 0.0,
    usual: tuple[float, float] | None = None,
) -> tuple[float, float]:  # fmt: skip
    """Steepness of the temperature that makes labels most probable, and their log-probability.

    Parameters as for `fit_link`.
    """
    loss = LinkLoss(outputs, label, weight, noise, usual)
    best = loss.steepness()
    return float(np.exp(best.x)), -float(best.fun) / loss.scale


class FittedLink(NamedTuple):
    """A link, and others that have not seen some rows.

    What a matrix says of few rows of its own is too good.
    """

    link: Link
    fold: Array  # (n,), number of the link that has not seen each row
    without: list[Link]  # none for many rows, or two classes: then a link learns little of each


def fit_link(
    outputs: Array, label: Array, weight: Array, *, noise: float = 0.0,
    usual: tuple[float, float] | None = None,
) -> Link:  # fmt: skip
    """Fit a link to outputs at points that were left out.

    W is pulled to a temperature times the identity and b to 0, so that few rows fit little more
    than the temperature. Where nothing is known of that, the targets are Platt's: a class of total
    weight n has target (n + 1)/(n + 2), so that the link stays finite when the outputs separate
    the classes.

    Parameters
    ----------
    outputs : ndarray of shape (n,) or (n, n_classes)
    label : ndarray of shape (n,)
        Class numbers.
    weight : ndarray of shape (n,)
        Copies.
    noise : float
        Share of labels that are wrong, and any of the other classes.
    usual : tuple of two floats, optional
        Mean and standard deviation of the logarithm of the steepness, where these are known.

    Returns
    -------
    Link
    """
    return _fit(outputs, label, weight, noise, usual, PULL)


def fit_links(
    outputs: Array, label: Array, weight: Array, *, noise: float = 0.0,
    usual: tuple[float, float] | None = None,
) -> FittedLink:  # fmt: skip
    """Fit a link as `fit_link` does, of few rows with the pull that labels left out ask for."""
    pull, fold, without = _pulled(outputs, label, weight, noise, usual)
    return FittedLink(_fit(outputs, label, weight, noise, usual, pull), fold, without)


def _pulled(
    outputs: Array, label: Array, weight: Array, noise: float, usual: Any
) -> tuple[float, Array, list[Link]]:
    """Strength of the pull, folds of the rows, and links without each of these; none for many."""
    fold = np.zeros(len(label), dtype=np.int64)
    if outputs.ndim == 1 or len(label) > FEW_ROWS:
        return PULL, fold, []
    own = outputs[np.arange(len(label)), label]  # whatever the order of the rows
    fold[np.lexsort((own, label))] = np.arange(len(label)) % min(LINK_FOLDS, len(label))
    begin = LinkLoss(outputs, label, weight, noise, usual).steepness().x
    data = LinkLoss(outputs, label, weight, noise, (0.0, 1.0))
    best, least = (PULL, fold, list[Link]()), None
    for pull in PULLS:
        links, scores = [], np.empty_like(outputs)
        for k in range(int(fold.max()) + 1):
            rest = fold != k
            link = _fit(outputs[rest], label[rest], weight[rest], noise, usual, pull, begin)
            scores[~rest] = link.scores(outputs[~rest])
            links.append(link)
        losses = data.losses(log_softmax(scores, axis=1))
        # A stronger pull must be better by a standard error.
        if least is not None and np.sum(gain := least - losses) <= np.std(gain) * len(gain) ** 0.5:
            break
        best, least = (pull, fold, links), losses
    return best


def _fit(
    outputs: Array, label: Array, weight: Array, noise: float, usual: Any, pull: float,
    log_steepness: float | None = None,
) -> Link:  # fmt: skip
    """Fit a link; ``log_steepness``: where to begin, if not at the best temperature."""
    loss = LinkLoss(outputs, label, weight, noise, usual, pull)
    start = loss.start(loss.steepness().x if log_steepness is None else log_steepness)
    free = loss.free_of(np.bincount(label, minlength=loss.n_classes) >= LEAST_ROWS)
    if not np.any(free[1:]):
        return loss.link(start)
    best = minimize(
        loss, start, jac=True, method="L-BFGS-B",
        bounds=[(None, None) if move else (at, at) for move, at in zip(free, start, strict=True)],
        options={"maxiter": MAX_STEPS},
    )  # fmt: skip
    return loss.link(best.x)


class LinkLoss:
    """Minus the penalised log-likelihood of labels, and its gradient.

    A point is (log steepness, W / steepness, b), flat.
    """

    def __init__(
        self, outputs: Array, label: Array, weight: Array, noise: float,
        usual: tuple[float, float] | None, pull: float = PULL,
    ) -> None:  # fmt: skip
        self.pull = pull
        self.binary = outputs.ndim == 1
        self.outputs = outputs[:, None] if self.binary else outputs
        self.n = self.outputs.shape[1]
        self.n_classes = 2 if self.binary else self.n
        total = np.bincount(label, weights=weight, minlength=self.n_classes)
        right = np.ones(len(label)) if usual else ((total + 1) / (total + 2))[label]
        self.target = np.repeat(
            ((1 - right) / (self.n_classes - 1))[:, None], self.n_classes, axis=1
        )
        self.target[np.arange(len(label)), label] = right
        self.target *= weight[:, None]
        self.noise, self.usual = noise, usual
        self.scale = 1.0 / max(float(np.sum(weight)), 1.0)

    def steepness(self) -> Any:
        """Find the best logarithm of the steepness of a temperature."""
        bounds = STEEPNESS_RANGE
        if self.usual is not None:
            mean, deviation = self.usual
            bounds = mean - FARTHEST * deviation, mean + FARTHEST * deviation
        return minimize_scalar(
            lambda t: self(self.start(t))[0], bounds=bounds, method="bounded",
            options={"xatol": 1e-3},
        )  # fmt: skip

    def start(self, log_steepness: float) -> Array:
        """Return the point of a temperature."""
        return np.concatenate([[log_steepness], np.eye(self.n).ravel(), np.zeros(self.n)])

    def free_of(self, enough: Array) -> Array:
        """Which entries of a point may move: those of classes with enough rows.

        Outputs without the only row of a class know nothing of it.
        """
        if self.binary or enough.sum() < 2:
            enough = np.full(self.n, bool(enough.all()))
        return np.concatenate([[True], np.outer(enough, enough).ravel(), enough])

    def _parts(self, point: Array) -> tuple[float, Array, Array]:
        n = self.n
        return np.exp(point[0]), point[1 : 1 + n * n].reshape(n, n), point[1 + n * n :]

    def link(self, point: Array) -> Link:
        """Return the link of a point."""
        steepness, shape, offset = self._parts(point)
        return Link(steepness * shape, offset)

    def __call__(self, point: Array) -> tuple[float, Array]:
        """Loss and gradient at a point, a row's share of them."""
        steepness, shape, offset = self._parts(point)
        scores = steepness * (self.outputs @ shape.T) + offset
        if self.binary:
            scores = np.concatenate([np.zeros_like(scores), scores], axis=1)
        log_p = log_softmax(scores, axis=1)
        value, slope = self._data(log_p)
        if self.binary:
            slope = slope[:, 1:]
        by_weights = slope.T @ self.outputs  # of W
        away = shape - np.eye(self.n)
        loss = value + self.pull * (np.sum(away**2) * (not self.binary) + offset @ offset)
        by_shape = steepness * by_weights + 2 * self.pull * away * (not self.binary)
        by_log = steepness * np.sum(by_weights * shape)
        if self.binary:  # one number: the steepness
            by_shape = np.zeros_like(by_shape)
        if self.usual is not None:
            mean, deviation = self.usual
            loss += 0.5 * ((point[0] - mean) / deviation) ** 2
            by_log += (point[0] - mean) / deviation**2
        by_offset = slope.sum(axis=0) + 2 * self.pull * offset
        gradient = np.concatenate([[by_log], by_shape.ravel(), by_offset])
        return float(self.scale * loss), self.scale * gradient

    def losses(self, log_p: Array) -> Array:
        """Minus the log-likelihood of each row."""
        if self.noise:
            wrong = self.noise / (self.n_classes - 1)
            log_p = np.log(wrong + (1 - self.noise - wrong) * np.exp(log_p))
        return -np.sum(self.target * log_p, axis=1)

    def _data(self, log_p: Array) -> tuple[float, Array]:
        """Minus the log-likelihood, and its derivatives by the scores."""
        p = np.exp(log_p)
        if not self.noise:
            total = self.target.sum(axis=1, keepdims=True)
            return -float(np.sum(self.target * log_p)), total * p - self.target
        wrong = self.noise / (self.n_classes - 1)
        mixed = wrong + (1 - self.noise - wrong) * p
        by_p = -(1 - self.noise - wrong) * self.target / mixed
        slope = p * (by_p - np.sum(by_p * p, axis=1, keepdims=True))
        return -float(np.sum(self.target * np.log(mixed))), slope
