"""How probable it is that training labels are wrong.

True classes y of a row x have probabilities pi_j(x); labels are T_jk = P(label k | true class j),
whatever x. So labels have probabilities p_k(x) = sum_j pi_j(x) T_jk, and a row with label k has

    P(y = j | x, k) = pi_j(x) T_jk / p_k(x),

one less the entry j = k of which is the probability that the label is wrong. pi is the power t,
normalised, of how probable the classes are without the row. t, which says how classes overlap, and
T are averaged over, in proportion to the probability of the labels of rows left out. Where rates
are given, T is.

Wrong labels are counted by a pi without softness: a fit that takes labels for right has softness
for those that are wrong, which would hide them. Which labels these are, a pi with softness tells:
without it, a label is doubted most where rows are many, even if classes overlap there. Its odds
are multiplied by the number that makes the sum of the probabilities the count: no distribution
with this sum is closer to it, by relative entropy.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import brentq
from scipy.special import expit
from scipy.stats import norm

from bayespoint._support.types import Array, Matrix
from bayespoint.inference.problem import Problem
from bayespoint.space.decisions import LEAST_PROBABILITY, combine_votes, probability_of_sign
from bayespoint.space.merging import of_each_class
from bayespoint.space.posterior import dense

# Rows that noise is found from, at most, and their probabilities: more change it little, and take
# time and memory.
MOST_ROWS, MOST_VALUES = 20_000, 2_000_000

# Logarithms of the power t, and roots of the overall rate of wrong labels, on which all are equally
# likely before labels are seen; points of a grid of each, how often it is made finer, and how much
# less probable labels may be at its ends than at their best, in logarithms.
LOG_POWERS = (-1.0, 2.5)
ROOTS = (0.0, 0.7)
GRID, FINER, NEGLIGIBLE = 10, 2, 8.0

# Guesses, of all that are likely, which stand for them.
MOST_GUESSES = 32

# Rows that a class is taken to have beside its own, whose labels are wrong at the overall rate and
# any of the others: pairs of classes differ from that where labels left out ask for it.
PRIOR_ROWS = (100.0, 10.0)
FOLDS = 5

# Steps for the pairs, and the change at which they end.
STEPS, STILL = 100, 1e-4

# Chance of a label below which draws have the same weight: sums of weights stay finite.
LEAST_CHANCE = 1e-100

# Probability that the number of wrong labels lies in its interval.
INTERVAL = 0.95

# Logarithm of the largest factor of odds: beyond it, all are sure in double precision.
LARGEST_LOG = 100.0


class _Guess(NamedTuple):
    """A power and T, one for each fold, and how probable they are."""

    share: float
    power: float
    noise: Array  # (n_folds, n_classes, n_classes)


class LabelErrors(NamedTuple):
    """Which labels are wrong."""

    proba: Array  # of each true class, (n, n_classes)
    number: Array  # of wrong labels: expected, and the ends of an interval, (3,)


def label_errors(
    proba: Array, label: Array, weight: Array, rates: Array, softened: Array | None = None
) -> LabelErrors:
    """Find how probable each true class is, given the label.

    Parameters
    ----------
    proba : ndarray of shape (n, n_classes)
        What the model says of each row without it: which class its function decides for.
    label : ndarray of shape (n,)
        Class numbers.
    weight : ndarray of shape (n,)
        Copies.
    rates : ndarray of shape (n_classes,)
        Share of wrong ones among labels of each class, as in ``label_noise``; all 0: unknown.
    softened : ndarray of shape (n, n_classes), optional
        The same with softness, which tells doubtful labels apart; default: `proba`.
    """
    guesses, everyone = _guessed(proba, label, weight, rates)
    found, wrong = _averaged(guesses, everyone)
    right = found[np.arange(len(label)), label]
    number = _number(guesses, wrong, float(np.sqrt(weight**2 @ (right * (1 - right)))))
    if softened is not None:
        found, _ = _averaged(*_guessed(softened, label, weight, rates))
        found = _with_sum(found, label, weight, number[0])
    return LabelErrors(found, number)


def _guessed(
    proba: Array, label: Array, weight: Array, rates: Array
) -> "tuple[list[_Guess], _Labels]":
    """Guesses, from some of the labels, and all labels."""
    logs = np.log(np.maximum(proba, LEAST_PROBABILITY))
    most = min(MOST_ROWS, MOST_VALUES // logs.shape[1])
    chosen = of_each_class(label, most, np.random.SeedSequence(0))
    some = _Labels(logs[chosen], label[chosen], weight[chosen], chosen)
    if np.any(rates):
        noise = noise_of_rates(rates)[None]
        guesses = _guesses(some, lambda _: noise, np.zeros(1))
    else:
        guesses = _found(some)
    return _few(guesses), _Labels(logs, label, weight, np.arange(len(label)))


def _averaged(guesses: list[_Guess], labels: "_Labels") -> tuple[Array, Array]:
    """Probability of each true class, and the number of wrong labels by each guess."""
    rows, found, wrong = np.arange(len(labels.label)), np.zeros(()), []
    for guess in guesses:
        given_label = labels.true_proba(guess.power, guess.noise)
        found = found + guess.share * given_label
        wrong.append(float(labels.weight @ (1 - given_label[rows, labels.label])))
    # So that what is sure is so to the last digit.
    return found / found.sum(axis=1, keepdims=True), np.array(wrong)


def _with_sum(proba: Array, label: Array, weight: Array, number: float) -> Array:
    """Multiply the odds that labels are wrong so that their probabilities have this sum."""
    rows = np.arange(len(label))
    right = proba[rows, label]
    others = proba.copy()
    others[rows, label] = 0.0
    wrong = others.sum(axis=1)

    def excess(log: float) -> float:
        return float(weight @ (wrong / (wrong + np.exp(-log) * right))) - number

    if excess(-LARGEST_LOG) >= 0 or excess(LARGEST_LOG) <= 0:  # labels that are sure either way
        return proba
    found = np.exp(brentq(excess, -LARGEST_LOG, LARGEST_LOG)) * others
    found[rows, label] = right
    return found / found.sum(axis=1, keepdims=True)


def noise_of_rates(rates: Array) -> Array:
    """T of rates q_k of labels: T_jk / T_kk = q_k / (1 - q_k) / (n_classes - 1), rows sum to 1."""
    n = len(rates)
    odds = np.tile(rates / (1 - rates) / (n - 1), (n, 1))
    np.fill_diagonal(odds, 1.0)
    return odds * np.linalg.solve(odds, np.ones(n))


class _Labels:
    """Labels of rows, and their log-probability for a power and for T, one for each fold.

    Rows are dealt to the folds by their numbers.
    """

    def __init__(self, logs: Array, label: Array, weight: Array, number: Array) -> None:
        self.label, self.weight, self.number = label, weight, number
        self._logs = logs - logs.max(axis=1, keepdims=True)
        self._last: tuple[float, Array] | None = None  # power, and pi

    @property
    def n_classes(self) -> int:
        """Number of classes."""
        return self._logs.shape[1]

    def fold(self, n_folds: int) -> Array:
        """Fold of each row."""
        return self.number % n_folds

    def sharpened(self, power: float) -> Array:
        """Pi, (n, n_classes), which is held until another power is asked for."""
        if self._last is None or self._last[0] != power:
            pi = np.exp(power * self._logs)
            self._last = power, pi / pi.sum(axis=1, keepdims=True)
        return self._last[1]

    def likelihood(self, noise: Array) -> Array:
        """T_jk of the labels k of rows, (n, n_classes), by the T of the fold of each."""
        return noise[self.fold(len(noise)), :, self.label]

    def log_proba(self, power: float, noise: Array) -> Array:
        """Log-probabilities of the labels, times their weights."""
        return self._log_proba(self.sharpened(power), self.likelihood(noise))

    def scores(self, power: float, likelihoods: list[Array]) -> list[float]:
        """Log-probabilities of all labels by several T, as their `likelihood`."""
        sharpened = self.sharpened(power)
        return [float(self._log_proba(sharpened, one).sum()) for one in likelihoods]

    def _log_proba(self, sharpened: Array, likelihood: Array) -> Array:
        p = np.einsum("ij,ij->i", sharpened, likelihood)
        return self.weight * np.log(np.maximum(p, LEAST_PROBABILITY))

    def true_proba(self, power: float, noise: Array) -> Array:
        """Probability of each true class given the label."""
        joint = self.sharpened(power) * self.likelihood(noise)
        return joint / np.maximum(joint.sum(axis=1, keepdims=True), LEAST_PROBABILITY)

    def counts(self, power: float, noise: Array) -> Array:
        """Expected numbers of each true class and label, (n_folds, true, label), by T of all."""
        place = self.fold(FOLDS) * self.n_classes + self.label
        shares = self.weight[:, None] * self.true_proba(power, noise)
        sums = [np.bincount(place, w, FOLDS * self.n_classes) for w in shares.T]
        return np.array(sums).reshape(self.n_classes, FOLDS, -1).swapaxes(0, 1)


def _uniform(rate: float, n_classes: int) -> Array:
    """T of labels that are wrong at a rate, and then any of the others: the same for all folds."""
    noise = np.full((1, n_classes, n_classes), rate / (n_classes - 1))
    noise[:, range(n_classes), range(n_classes)] = 1 - rate
    return noise


def _scaled(noise: Array, size: float, rate: float) -> Array:
    """T with as many wrong labels as a rate instead of ``size``, up to half of a class."""
    wrong = 1 - np.diagonal(noise, axis1=-2, axis2=-1)
    factor = np.minimum(rate / size, ROOTS[1] ** 2 / np.maximum(wrong, size))[..., None]
    return factor * noise + (1 - factor) * np.eye(noise.shape[-1])


def _found(labels: _Labels) -> list[_Guess]:
    """Guesses in proportion to the probability of the labels: one rate, or pairs of classes.

    T of a fold is found without its rows, but for the overall rate.
    """
    n = labels.n_classes
    guesses = _guesses(labels, lambda rate: _uniform(rate, n))
    for rows in PRIOR_ROWS if n > 2 else ():
        best = max(guesses, key=lambda guess: guess.share)
        rate = _wrong(labels, best)
        pairs = _pairs(labels, best, rows * _uniform(rate, n)[0])
        gain = labels.log_proba(best.power, pairs) - labels.log_proba(best.power, best.noise)
        if gain.sum() <= gain.std() * np.sqrt(len(gain)):  # less than a standard error
            break
        size = _wrong(labels, best._replace(noise=pairs))
        guesses = _guesses(labels, partial(_scaled, pairs, size))
    return guesses


def _wrong(labels: _Labels, guess: _Guess) -> float:
    """Share of wrong labels."""
    right = labels.true_proba(guess.power, guess.noise)[np.arange(len(labels.label)), labels.label]
    share, most = labels.weight / labels.weight.sum(), ROOTS[1] ** 2
    with np.errstate(over="ignore"):  # of weights next to nothing
        least = min(1 / labels.weight.sum(), most)
    return float(np.clip(share @ (1 - right), least, most))


def _guesses(
    labels: _Labels, noise_of: Callable[[float], Array], roots: Array | None = None
) -> list[_Guess]:
    """Powers and rates that the labels allow for, all of a grid; ``roots``: of the only rate."""
    roots = np.linspace(*ROOTS, GRID) if roots is None else roots
    logs = np.linspace(*LOG_POWERS, GRID)
    for finer in range(FINER + 1):
        noises = [noise_of(root**2) for root in roots]
        likelihoods = [labels.likelihood(noise) for noise in noises]
        values = np.array([labels.scores(np.exp(log), likelihoods) for log in logs])
        likely = values >= values.max() - NEGLIGIBLE  # which is the same where weights are huge
        if finer < FINER:
            logs, roots = _finer(logs, likely.any(axis=1)), _finer(roots, likely.any(axis=0))
    shares = np.where(likely, np.exp(values - values.max()), 0.0)
    shares /= shares.sum()
    return [
        _Guess(float(shares[i, j]), float(np.exp(logs[i])), noises[j])
        for j, i in np.argwhere(likely.T)  # rate after rate
    ]


def _finer(values: Array, likely: Array) -> Array:
    """As many values, between those next to the likely ones."""
    places = np.flatnonzero(likely)
    low, high = max(places[0] - 1, 0), min(places[-1] + 1, len(values) - 1)
    return np.linspace(values[low], values[high], len(values))


def _few(guesses: list[_Guess]) -> list[_Guess]:
    """Return guesses in equal steps of their shares."""
    if len(guesses) <= MOST_GUESSES:
        return guesses
    steps = (np.arange(MOST_GUESSES) + 0.5) / MOST_GUESSES
    reached = np.cumsum([guess.share for guess in guesses])
    taken = np.minimum(np.searchsorted(reached, steps), len(guesses) - 1)
    return [guesses[i]._replace(share=1 / MOST_GUESSES) for i in taken]


def _pairs(labels: _Labels, begin: _Guess, prior: Array) -> Array:
    """T for each fold by expectation and maximisation on all others, (n_folds, ...)."""
    noise = np.broadcast_to(begin.noise, (FOLDS, *prior.shape))
    found = []
    for fold in range(FOLDS):
        own = noise[fold][None]
        for _ in range(STEPS):
            counts = labels.counts(begin.power, own)
            counts = counts.sum(axis=0) - counts[fold] + prior
            before, own = own, (counts / counts.sum(axis=1, keepdims=True))[None]
            if np.max(np.abs(own - before)) < STILL:
                break
        found.append(own[0])
    return np.array(found)


def _number(guesses: list[_Guess], wrong: Array, chance: float) -> Array:
    """Expected number of wrong labels; ends of an interval, by rates and by chance."""
    order, tails = np.argsort(wrong), (1 - INTERVAL) / 2
    wrong, shares = wrong[order], np.array([guess.share for guess in guesses])[order]
    expected = float(shares @ wrong)
    low, high = np.interp([tails, 1 - tails], np.cumsum(shares) - 0.5 * shares, wrong)
    sure = norm.ppf(1 - tails) * chance
    below, above = np.hypot([expected - low, high - expected], sure)
    return np.array([expected, max(expected - below, 0.0), expected + above])


# ------------------------------------------------------------------------------ rows left out


def sampled_without(
    problem: Problem, coef: list[Matrix], factor: Any, whitener: Array | None = None
) -> tuple[Array, Array]:
    """Probabilities of the classes at points left out, (n_points, n_classes), from draws.

    Without softness, and with it.

    Given a draw at all other points, of length r, the output at one is Gaussian with precision
    (K^-1)_ii and mean g_i - coef_i / (K^-1)_ii, K having the softness. That draw, too, depends on
    the label of the point: weighting it by 1 / P(label | draw at the others) takes the label away.
    Labels depend on directions alone, so that r is that of a Gaussian vector.
    """
    full = factor.rank == len(problem.row)  # else outputs at the others say all
    spread = 1 / factor.precision(whitener) if full else np.zeros(len(problem.row))
    alone = np.maximum(spread - problem.ridge, np.finfo(float).tiny) if full else spread
    votes: tuple[list[Array], list[Array]] = [], []
    for target, odds, draws in zip(problem.targets, problem.odds, map(dense, coef), strict=True):
        length = np.sqrt(np.random.RandomState(0).chisquare(factor.rank, size=(len(draws), 1)))
        latent = length * (problem.outputs(draws) - spread * draws)
        softened = probability_of_sign(latent, spread)
        own = np.where(target > 0, softened, 1 - softened)
        weights = 1 / np.maximum(own + expit(-odds) * (1 - 2 * own), LEAST_CHANCE)
        # No draw counts more than the square root of their number.
        weights = np.minimum(weights, weights.mean(axis=0) * np.sqrt(len(weights)))
        for found, yes in zip(votes, (probability_of_sign(latent, alone), softened), strict=True):
            found.append(np.average(yes, axis=0, weights=weights))
    return _of_classes(votes[0]), _of_classes(votes[1])


def _of_classes(votes: list[Array]) -> Array:
    """Probabilities of the classes from votes of each machine."""
    each = [1 - votes[0], votes[0]] if len(votes) == 1 else votes
    return np.exp(combine_votes(np.stack(each, axis=-1), 0.0))
