"""Links: from outputs of machines at a point to probabilities of classes.

A link is softmax(W f + b) of the outputs f of one machine for each class, or expit(w f + b) of the
output of one machine for two classes. It is fitted to outputs at points that the machines have not
seen. One positive number times the identity is a temperature; the full matrix lets classes that
one-against-the-rest machines confuse correct each other.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from scipy.linalg import block_diag
from scipy.optimize import minimize, minimize_scalar
from scipy.special import expit, log_ndtr, softmax

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


# Most classes whose matrix is found by second derivatives, and outputs whose squares are numbers;
# points that are summed over at a time; gradient of a row's log-likelihood that is flat enough.
MOST_CURVED = 12
LARGEST = 1e50
BLOCK = 5_000
STEEPEST = 1e-6

# Of what a point knows of its own scores: less than all, so that there are others without it.
MOST_LEVERAGE = 1 - 1e-6


# Machine, points, and how its outputs at all points move where one of these is left out, (n, m).
Moves: TypeAlias = Iterable[tuple[int, Array, Array]]


class Arrays(NamedTuple):
    """A library of arrays, and the way there and back."""

    xp: Any
    put: Callable[[Array], Any]
    get: Callable[[Any], Array]


ON_HOST = Arrays(np, np.asarray, np.asarray)


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

    What a matrix says of few rows of its own is too good; without a fold of them it is worse than
    what new rows get, so that each has a link of its own, where there are not many classes.
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
    return _fit(LinkLoss(outputs, label, weight, noise, usual, PULL), label)


def fit_links(
    outputs: Array, label: Array, weight: Array, *, noise: float = 0.0,
    usual: tuple[float, float] | None = None, arrays: Arrays = ON_HOST, by_outputs: bool = False,
    moves: Moves = (),
) -> FittedLink:  # fmt: skip
    """Fit a link as `fit_link` does, of few rows with the pull that labels left out ask for.

    Folds follow the order of the rows, which merging has set by their content; with
    ``by_outputs``, where it has not, that of the outputs. Links that have not seen a row know by
    ``moves`` what outputs of other rows would be without it; these are computed only if needed.
    """
    place = outputs[np.arange(len(label)), label] if by_outputs and outputs.ndim == 2 else label
    pull, fold, without = _pulled(outputs, label, weight, noise, usual, np.lexsort((place, label)))
    loss = LinkLoss(outputs, label, weight, noise, usual, pull, arrays)
    point, free = _best(loss, label)
    if without and loss.n <= MOST_CURVED and loss.largest < LARGEST:
        fold = np.arange(len(label))
        without = [
            Link(each[:, :-1], each[:, -1]) for each in loss.without_each(point, free, moves)
        ]
    return FittedLink(loss.link(point), fold, without)


def _pulled(
    outputs: Array, label: Array, weight: Array, noise: float, usual: Any, order: Array
) -> tuple[float, Array, list[Link]]:
    """Strength of the pull, folds of the rows, and links without each of these; none for many.

    ``order``: rows class after class, dealt to the folds in turn.
    """
    fold = np.zeros(len(label), dtype=np.int64)
    if outputs.ndim == 1 or len(label) > FEW_ROWS:
        return PULL, fold, []
    fold[order] = np.arange(len(label)) % min(LINK_FOLDS, len(label))
    begin = LinkLoss(outputs, label, weight, noise, usual).steepness().x
    data = LinkLoss(outputs, label, weight, noise, (0.0, 1.0)).likelihood
    best, least = (PULL, fold, list[Link]()), None
    for pull in PULLS:
        links, losses = [], np.empty(len(label))
        for k in range(int(fold.max()) + 1):
            rest = fold != k
            loss = LinkLoss(outputs[rest], label[rest], weight[rest], noise, usual, pull)
            link = _fit(loss, label[rest], begin)
            losses[~rest] = data.of_points(np.column_stack([link.weights, link.offset]))[~rest]
            links.append(link)
        # A stronger pull must be better by a standard error.
        if least is not None and np.sum(gain := least - losses) <= np.std(gain) * len(gain) ** 0.5:
            break
        best, least = (pull, fold, links), losses
    return best


def _fit(loss: "LinkLoss", label: Array, log_steepness: float | None = None) -> Link:
    return loss.link(_best(loss, label, log_steepness)[0])


def _best(
    loss: "LinkLoss", label: Array, log_steepness: float | None = None
) -> tuple[Array, Array]:
    """Point of least loss, and which of its entries were free.

    ``log_steepness``: where to begin, if not at the best temperature.
    """
    start = loss.start(loss.steepness().x if log_steepness is None else log_steepness)
    free = loss.free_of(np.bincount(label, minlength=loss.n_classes) >= LEAST_ROWS)
    if not np.any(free[1:]):
        return start, free

    def whole(moved: Array) -> Array:
        point = start.copy()
        point[free] = moved
        return point

    def value(moved: Array) -> tuple[float, Array]:
        loss_there, gradient = loss(whole(moved))
        return loss_there, gradient[free]

    method: dict[str, Any] = {"method": "L-BFGS-B", "options": {"maxiter": MAX_STEPS}}
    many = len(label) > FEW_ROWS  # so that the least number of steps counts, not their own cost
    if many and loss.n <= MOST_CURVED and loss.largest < LARGEST:
        method = {
            "method": "trust-exact",
            "hess": lambda moved: loss.curvature(whole(moved))[np.ix_(free, free)],
            "options": {"maxiter": MAX_STEPS, "gtol": STEEPEST},
        }
    best = minimize(value, start[free], jac=True, **method)
    return whole(best.x), free


class LinkLoss:
    """Minus the penalised log-likelihood of labels, its gradient and its curvature.

    A point is (log steepness, W / steepness, b), flat.
    """

    def __init__(
        self, outputs: Array, label: Array, weight: Array, noise: float,
        usual: tuple[float, float] | None, pull: float = PULL, arrays: Arrays = ON_HOST,
    ) -> None:  # fmt: skip
        self.pull, self.usual = pull, usual
        self.binary = outputs.ndim == 1
        self.n = 1 if self.binary else outputs.shape[1]
        self.n_classes = 2 if self.binary else self.n
        total = np.bincount(label, weights=weight, minlength=self.n_classes)
        right = np.ones(len(label)) if usual else ((total + 1) / (total + 2))[label]
        target = np.tile((1 - right) / (self.n_classes - 1), (self.n_classes, 1))
        target[label, np.arange(len(label))] = right
        features = np.vstack([outputs.T, np.ones(len(label))])
        self.likelihood = Likelihood(features, weight * target, noise, arrays)
        self.scale = 1.0 / max(float(np.sum(weight)), 1.0)
        self.largest = float(np.max(np.abs(outputs), initial=0.0))  # there may be no rows

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

        Outputs without the only row of a class know nothing of it. Of two classes W / steepness
        stays at 1.
        """
        if self.binary:
            return np.array([True, False, bool(enough.all())])
        if enough.sum() < 2:
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
        value, slope = self.likelihood(np.column_stack([steepness * shape, offset]))
        by_weights, by_offset = slope[:, :-1], slope[:, -1]
        away = shape - np.eye(self.n)
        loss = value + self.pull * (np.sum(away**2) + offset @ offset)
        by_log = steepness * np.sum(by_weights * shape)
        if self.usual is not None:
            mean, deviation = self.usual
            loss += 0.5 * ((point[0] - mean) / deviation) ** 2
            by_log += (point[0] - mean) / deviation**2
        by_shape = steepness * by_weights + 2 * self.pull * away
        by_offset = by_offset + 2 * self.pull * offset
        gradient = np.concatenate([[by_log], by_shape.ravel(), by_offset])
        return float(self.scale * loss), self.scale * gradient

    def curvature(self, point: Array) -> Array:
        """Second derivatives of the loss, nearly: never below 0.

        Those of the labels by their expectation, and without the curvature of steepness times
        shape itself.
        """
        steepness, shape, offset = self._parts(point)
        information = self.likelihood.information(np.column_stack([steepness * shape, offset]))
        by_point = self._by_point(point)
        curvature = by_point.T @ information @ by_point
        prior = 0.0 if self.usual is None else self.usual[1] ** -2
        curvature += np.diag(np.append(prior, np.full(len(point) - 1, 2 * self.pull)))
        return self.scale * curvature

    def _by_point(self, point: Array) -> Array:
        """Derivatives of [W b], row by row, by the entries of a point."""
        n = self.n
        steepness, shape, _ = self._parts(point)
        entry = np.arange(n * (n + 1)).reshape(n, n + 1)
        by_point = np.zeros((n * (n + 1), len(point)))
        by_point[entry[:, :-1].ravel(), 0] = steepness * shape.ravel()
        by_point[entry[:, :-1].ravel(), np.arange(1, 1 + n * n)] = steepness
        by_point[entry[:, -1], np.arange(1 + n * n, len(point))] = 1.0
        return by_point

    def without_each(self, point: Array, free: Array, moves: Moves) -> Array:
        """[W b] without a copy of each point, nearly, (n_points, n_classes, n_classes + 1).

        A Newton step from the point of least loss. Let a point have features x, and slopes r and
        information A of its scores; let C be the covariance of [W b], that is the inverse of the
        curvature, and V = x' C x that of the scores. Without A the inverse changes, and [W b] moves
        by C x (1 - A V)^-1 r. Where outputs of other points move, too, the gradient changes by G:
        then C G is taken away, and r is less by A x' C G.
        """
        n = self.n
        steepness, shape, offset = self._parts(point)
        matrix = np.column_stack([steepness * shape, offset])
        by_point = self._by_point(point)[:, free]
        curvature = self.curvature(point)[np.ix_(free, free)] / self.scale
        covariance = by_point @ np.linalg.pinv(curvature, hermitian=True) @ by_point.T
        covariance = covariance.reshape(n, n + 1, n, n + 1)
        slope, information, x = self.likelihood.of_copies(matrix)
        spread = np.einsum("ij,cjdk,ik->icd", x, covariance, x, optimize=True)
        known = np.eye(n) - MOST_LEVERAGE * information @ spread
        change = self._changes(matrix, moves)
        away = np.einsum("cjdk,idk->icj", covariance, change, optimize=True)
        slope -= np.einsum("icd,idj,ij->ic", information, away, x, optimize=True)
        push = np.linalg.solve(known, slope[:, :, None])[:, :, 0]
        return matrix - away + np.einsum("cjdk,ik,id->icj", covariance, x, push, optimize=True)

    def _changes(self, matrix: Array, moves: Moves) -> Array:
        """How the gradient by [W b] changes where a point's absence moves outputs of others.

        Of shape (n_points, n_classes, n_classes + 1), to first order.
        """
        slope, information, x = self.likelihood.of_copies(matrix)
        copies = np.maximum(self.likelihood.arrays.get(self.likelihood.total), 1.0)[:, None, None]
        changes = np.zeros((len(x), *matrix.shape))
        for machine, points, moved in moves:
            by_output = (information @ matrix[:, machine])[:, :, None] * x[:, None, :]
            by_output[:, :, machine] += slope
            changes[points] += np.tensordot(moved, copies * by_output, axes=1)
        return changes


class Likelihood:
    """Minus the log-likelihood of labels as a function of the matrix [W b].

    Parameters
    ----------
    features : ndarray of shape (n + 1, n_points)
        Outputs, and ones.
    target : ndarray of shape (n_classes, n_points)
        How much of each point has each label.
    noise : float
        Share of labels that are wrong, and any of the other classes.
    arrays : Arrays
        Where to compute.
    """

    def __init__(self, features: Array, target: Array, noise: float, arrays: Arrays) -> None:
        self.xp, self.arrays = arrays.xp, arrays
        self.features, self.target = arrays.put(features), arrays.put(target)
        self.total = arrays.put(target.sum(axis=0))
        self.wrong = noise / (len(target) - 1)
        self.right = 1 - noise - self.wrong  # of a label by the probability of its class

    def __call__(self, matrix: Array) -> tuple[float, Array]:
        """Value, and derivatives by the matrix."""
        log_p, slope = self._slope(matrix)
        value = -float((self.target * log_p).sum())
        return value, self.arrays.get(slope[-len(matrix) :] @ self.features.T)

    def _slope(self, matrix: Array) -> tuple[Any, Any]:
        """Logarithms of the probabilities of labels, and derivatives of the value by the scores."""
        log_p = self._log_p(matrix, self.features)
        p = self.xp.exp(log_p)
        if not self.wrong:
            return log_p, self.total * p - self.target
        mixed = self.wrong + self.right * p
        by_p = -self.right * self.target / mixed
        return self.xp.log(mixed), p * (by_p - (by_p * p).sum(0))

    def of_copies(self, matrix: Array) -> tuple[Array, Array, Array]:
        """Of one copy of each point: derivatives by its scores, their information; and features.

        Of shape (n_points, n_classes), (n_points, n_classes, n_classes), (n_points, n_classes + 1).
        """
        slope, features, total = map(
            self.arrays.get, (self._slope(matrix)[1], self.features, self.total)
        )
        p = np.exp(self.arrays.get(self._log_p(matrix, self.features)))
        one = np.minimum(1.0, 1.0 / np.maximum(total, np.finfo(float).tiny))
        share = p if not self.wrong else (self.right * p) ** 2 / (self.wrong + self.right * p)
        share = np.minimum(total, 1.0) * share
        root = (share.sum(0) + np.finfo(float).tiny) ** 0.5
        known, rest = (share / root).T, (root * p - share / root).T
        information = -known[:, :, None] * known[:, None] + rest[:, :, None] * rest[:, None]
        information[:, np.arange(len(p)), np.arange(len(p))] += share.T
        return (one * slope).T, information, features.T

    def of_points(self, matrix: Array) -> Array:
        """Return the value of each point."""
        log_p = self._log_p(matrix, self.features)
        if self.wrong:
            log_p = self.xp.log(self.wrong + self.right * self.xp.exp(log_p))
        return self.arrays.get(-(self.target * log_p).sum(0))

    def information(self, matrix: Array) -> Array:
        """Fisher information of the matrix, row by row of it.

        With noise a label is c with probability q_c = wrong + right p_c, whose derivatives by the
        scores are right p_c (e_c - p): the information of the scores is the sum of
        a_c (e_c - p)(e_c - p)', a_c = right^2 p_c^2 / q_c, which is diag(a) - r r' + v v' with
        r = a / sqrt(sum a) and v = sqrt(sum a) p - r. Without noise v is 0.
        """
        n, (size, n_points) = len(matrix), self.features.shape
        diagonal, rest = 0.0, 0.0
        for first in range(0, n_points, BLOCK):
            block = slice(first, first + BLOCK)
            features = self.features[:, block]
            p = self.xp.exp(self._log_p(matrix, features))
            share = p if not self.wrong else (self.right * p) ** 2 / (self.wrong + self.right * p)
            share = self.total[block] * share
            root = (share.sum(0) + np.finfo(float).tiny) ** 0.5
            outer = ((share / root)[-n:, None] * features).reshape(n * size, -1)
            diagonal = diagonal + (share[-n:, None] * features) @ features.T
            rest = rest - outer @ outer.T
            if self.wrong:
                outer = ((root * p - share / root)[-n:, None] * features).reshape(n * size, -1)
                rest = rest + outer @ outer.T
        return block_diag(*self.arrays.get(diagonal)) + self.arrays.get(rest)

    def _log_p(self, matrix: Array, features: Any) -> Any:
        """Logarithms of probabilities of the classes; a single row is the second class's."""
        scores = self.arrays.put(matrix) @ features
        if len(scores) < len(self.target):
            scores = self.xp.concatenate([self.xp.zeros_like(scores), scores])
        scores = scores - self.xp.amax(scores, 0)
        return scores - self.xp.log(self.xp.exp(scores).sum(0))
