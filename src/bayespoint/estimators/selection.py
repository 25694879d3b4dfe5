"""Choosing width, bias, softness and label noise from the training data alone.

By the evidence: the log evidence of expectation propagation, summed over the machines, and weak
priors about where settings usually lie, are maximised by their gradient over the logarithms of the
settings. By held-out labels: the log-probability of each label given all others, which expectation
propagation has for nothing, with probabilities made as steep as suits them, is maximised without a
gradient. Sites of one evaluation are the start of the next. For perceptrons, settings are compared
by their errors on points left out.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import minimize
from scipy.special import expit, logit

from bayespoint._support.types import Array, Matrix
from bayespoint.inference.ep.likelihood import Likelihood
from bayespoint.inference.ep.sites import (
    FixedPoint,
    evidence_slopes,
    held_out_scores,
    propagate,
)
from bayespoint.inference.problem import machines_of
from bayespoint.space.decisions import label_odds
from bayespoint.space.kernels import Kernel, LostDistancesError
from bayespoint.space.links import VOTES_USUAL, fit_steepness, vote_outputs
from bayespoint.space.merging import of_each_class

# Points that the evidence is computed of, at most; every class in proportion.
EVIDENCE_POINTS = 500

# Mean and standard deviation of the prior of each logarithm (that of gamma is in units of "scale"),
# and how far from there it may go. Wide: a few labels outweigh them.
PRIORS = {
    "gamma": (0.0, 2.5),
    "bias": (0.0, 2.0),
    "softness": (np.log(0.3), 2.5),
    "label_noise": (logit(0.02), 1.5),
}
FARTHEST = 4.0  # standard deviations
MOST_NOISE = logit(0.45)

# Widths looked at first, as logarithms, in units of "scale".
FIRST_WIDTHS = (0.0, -2.0, 2.0)

# Changes of outputs by a sweep that are small enough here, and when the search ends.
SITE_TOLERANCE = 1e-2
MAX_STEPS = 25
GRADIENT_TOLERANCE = 0.05
VALUE_TOLERANCE = 1e-5

# Held-out labels: starts of the search (logarithms of width, in units of "scale", and of softness),
# sides of its first simplex, and how many settings are looked at.
# The plainest come first, in case time is short.
HELD_OUT_STARTS = {"gamma": (0.0, -1.0, 1.0, -2.0), "softness": (0.0, np.log(0.03))}
SIMPLEX = {"gamma": 0.7, "softness": 1.0}
HELD_OUT_STEPS = 24
HELD_OUT_PRECISION = 0.05

# Steps of the second look at more points, which favour narrower kernels and less softness.
SECOND_STEPS = {"gamma": 0.7, "softness": -1.0}
MOST_SECOND_STEPS = 3

# Variances of the bias weight that are tried.
BIASES = (0.0, 1.0, 10.0, 0.1)

# Widths (in units of "scale") and softness that perceptrons are tried with, the plainest first.
WIDTHS = (1.0, 2.0, 4.0, 0.5, 3.0, 8.0, 0.25)
SOFTNESS = (0.1, 1.0, 10.0)


class Candidate(NamedTuple):
    """Numbers of a model that are looked at; those that are not chosen stay as they are."""

    gamma: Any  # a width, or one per feature
    bias: float
    softness: float
    label_noise: Any  # one rate, or one per class


class Chosen(NamedTuple):
    """Settings with the largest evidence found."""

    settings: Candidate
    log_evidence: float
    n_evaluations: int


class _TimeUpError(Exception):
    pass


def choose_held_out(
    kernel: Kernel, X: Matrix, label: Array, weight: Array, settings: Candidate,
    names: Sequence[str], *, scale: float, noise: float = 0.0, alone: Any = True,
    biases: Sequence[float] = BIASES, stop: Callable[[], bool] | None = None,
) -> Chosen:  # fmt: skip
    """Maximise the probability of labels held out over some of "gamma", "softness" and "bias".

    Parameters as for `choose`; ``noise`` is the share of wrong labels, ``alone`` as for
    `inference.ep.sites.held_out_scores`, ``biases`` are tried in the end.

    Returns
    -------
    Chosen
        With the log-probability of the held-out labels instead of the evidence.
    """
    smooth = [name for name in names if name != "bias"]
    search = HeldOutLoss(kernel, X, label, weight, settings, smooth, scale, stop)
    search.noise, search.alone = noise, alone
    try:
        if smooth:
            _simplex(search, smooth)
        if "bias" in names:
            search.try_biases(biases)
    except _TimeUpError:
        pass
    return search.chosen()


def _simplex(search: "HeldOutLoss", names: Sequence[str]) -> None:
    grid = np.meshgrid(*(HELD_OUT_STARTS[name] for name in names), indexing="ij")
    first = min(np.stack([values.ravel() for values in grid], axis=-1), key=search)
    sides = np.diag([SIMPLEX[name] for name in names])
    minimize(
        search, first, method="Nelder-Mead",
        options={
            "initial_simplex": np.vstack([first, first + sides]), "maxfev": HELD_OUT_STEPS,
            "xatol": HELD_OUT_PRECISION, "fatol": HELD_OUT_PRECISION,
        },
    )  # fmt: skip


def look_again(
    kernel: Kernel, X: Matrix, label: Array, weight: Array, settings: Candidate,
    names: Sequence[str], *, scale: float, noise: float = 0.0, alone: Any = True,
    stop: Callable[[], bool] | None = None,
) -> Chosen:  # fmt: skip
    """Go on from settings that fewer points chose, in single steps of one setting at a time.

    Parameters and result as for `choose_held_out`.
    """
    smooth = [name for name in SECOND_STEPS if name in names]
    search = HeldOutLoss(kernel, X, label, weight, settings, smooth, scale, stop)
    search.noise, search.alone = noise, alone
    point = search.best = search.point(settings)
    try:
        least = search(point)
        for k, name in enumerate(smooth):
            for side in (1.0, -1.0):
                step = side * SECOND_STEPS[name] * np.eye(len(smooth))[k]
                moved = False
                for _ in range(MOST_SECOND_STEPS):
                    loss = search(point + step)
                    if not loss < least:
                        break
                    point, least, moved = point + step, loss, True
                if moved:
                    break
    except _TimeUpError:
        pass
    return search.chosen()


def choose_by_loss(
    trial: Callable[[Candidate], float], settings: Candidate, names: Sequence[str], *,
    scale: float, stop: Callable[[], bool], biases: Sequence[float] = BIASES,
) -> list[Candidate]:  # fmt: skip
    """Compare widths, then softness, then bias, by the log-loss of labels left out.

    Parameters
    ----------
    trial : callable
        From `Candidate` to the log-loss of held-out labels.
    settings : Candidate
    names : sequence of str
        Of "gamma", "softness" and "bias", which to choose.
    scale : float
        Unit of gamma.
    stop : callable
        Says when time is up.
    biases : sequence of float
        That are tried.

    Returns
    -------
    list of Candidate
        The best one, and then the next narrower widths, which more points may favour.
    """
    best, least, narrower = settings, np.inf, []
    if "gamma" in names:
        tried: list[tuple[float, Candidate]] = []
        for width in WIDTHS:
            if stop() and tried:
                break
            candidate = settings._replace(gamma=scale * width)
            tried.append((trial(candidate), candidate))
        least, best = min(tried, key=lambda pair: pair[0])
        narrower = sorted(c.gamma for _, c in tried if c.gamma > best.gamma)
    for name, values in (("softness", SOFTNESS), ("bias", biases)):
        for value in values if name in names else ():
            if np.isfinite(least) and (stop() or value == getattr(best, name)):
                continue
            candidate = best._replace(**{name: value})
            found = trial(candidate)
            if found < least:
                best, least = candidate, found
    return [best, *(best._replace(gamma=gamma) for gamma in narrower)]


def choose(
    kernel: Kernel, X: Matrix, label: Array, weight: Array, settings: Candidate,
    names: Sequence[str], *, scale: float, stop: Callable[[], bool] | None = None,
) -> Chosen:  # fmt: skip
    """Maximise the evidence over some of the settings.

    Parameters
    ----------
    kernel : Kernel
        Whose gamma and bias are replaced.
    X : ndarray, csr_matrix
        Points, or their Gram matrix for ``kernel="precomputed"``.
    label : ndarray of shape (n_points,)
        Class numbers.
    weight : ndarray of shape (n_points,)
        Copies.
    settings : Candidate
        Of those not chosen.
    names : sequence of str
        Which to choose.
    scale : float
        Unit of gamma.
    stop : callable, optional
        Says when time is up.

    Returns
    -------
    Chosen
    """
    evidence = EvidenceLoss(kernel, X, label, weight, settings, names, scale, stop)
    middle = np.array([PRIORS[name][0] for name in names])
    spread = np.array([PRIORS[name][1] for name in names])
    starts = [middle]
    if "gamma" in names:
        starts = [np.where(np.array(names) == "gamma", width, middle) for width in FIRST_WIDTHS]
    bounds = [
        (low, MOST_NOISE if name == "label_noise" else high)
        for name, low, high in zip(
            names, middle - FARTHEST * spread, middle + FARTHEST * spread, strict=True
        )
    ]
    try:
        first = min(starts, key=lambda point: evidence(point)[0])
        minimize(
            evidence, first, jac=True, method="L-BFGS-B", bounds=bounds,
            options={"maxiter": MAX_STEPS, "ftol": VALUE_TOLERANCE, "gtol": GRADIENT_TOLERANCE},
        )  # fmt: skip
    except _TimeUpError:
        pass
    return evidence.chosen()


class _Search:
    """What is known of the points, and the best settings so far."""

    def __init__(
        self, kernel: Kernel, X: Matrix, label: Array, weight: Array, settings: Candidate,
        names: Sequence[str], scale: float, stop: Callable[[], bool] | None,
    ) -> None:  # fmt: skip
        self.kernel, self.X, self.names, self.stop = kernel, X, list(names), stop
        self.fixed, self.scale = settings, scale
        n_classes = int(label.max()) + 1
        self.own = label == np.array(machines_of(n_classes))[:, None]
        self.label, self.weight, self.n_others = label, weight, n_classes - 1
        self.sites: list = [None] * len(self.own)
        self.best = np.array([PRIORS[name][0] for name in names])
        self.best_value, self._least = -np.inf, np.inf
        self.n_evaluations = 0

    def settings(self, point: Array) -> Candidate:
        values = dict(zip(self.names, point, strict=True))
        chosen: dict = {name: np.exp(value) for name, value in values.items()}
        if "gamma" in chosen:
            chosen["gamma"] *= self.scale
        if "label_noise" in chosen:
            chosen["label_noise"] = expit(values["label_noise"])
        numbers = {name: float(value) for name, value in chosen.items()}
        return self.fixed._replace(**numbers)

    def point(self, settings: Candidate) -> Array:
        """Logarithms of settings; the inverse of `settings`."""
        values = settings._replace(gamma=settings.gamma / self.scale)
        return np.log([getattr(values, name) for name in self.names])

    def chosen(self) -> Chosen:
        """Return the best settings so far."""
        return Chosen(self.settings(self.best), self.best_value, self.n_evaluations)

    def _begin(self) -> None:
        if self.stop is not None and self.stop() and self.n_evaluations:
            raise _TimeUpError
        self.n_evaluations += 1

    def _loss(self, point: Array, value: float) -> tuple[float, Array]:
        """Minus value and log-prior, and the gradient of the latter; keeps the best point."""
        mean, deviation = np.array([PRIORS[name] for name in self.names]).reshape(-1, 2).T
        away = (point - mean) / deviation
        loss = -value + 0.5 * away @ away
        if not np.isfinite(loss):  # no distribution was found: as bad as labels at random
            loss = float(np.sum(self.weight)) * len(self.own) * np.log(2) + 0.5 * away @ away
        elif loss < self._least:
            self._least, self.best, self.best_value = loss, np.array(point), value
        return loss, away / deviation

    def _gram(self, settings: Candidate, wanted: Sequence[str]) -> tuple[Array, dict[str, Array]]:
        """Gram matrix of the points, and its derivatives."""
        kernel = self.kernel.with_settings(settings.gamma, settings.bias)
        return kernel.with_derivatives(self.X, wanted)

    def _propagate(
        self, machine: int, K: Array, settings: Candidate
    ) -> tuple[Any, Likelihood, Any]:
        """Fixed point of one machine, its likelihood, and how that changes with the rate."""
        likelihood, changes = self._likelihood(settings, self.own[machine], K.diagonal())
        found = propagate(
            K, likelihood, start=self.sites[machine], tol=SITE_TOLERANCE, stop=self.stop
        )
        good = np.isfinite(found.log_evidence)
        self.sites[machine] = found.sites if good else None
        return (found if good else None), likelihood, changes

    def _likelihood(
        self, settings: Candidate, own: Array, diagonal: Array
    ) -> tuple[Likelihood, tuple[Array, Array]]:
        """Of one machine, with the changes of log-odds and log-rights by the logit of the rate."""
        rate = np.broadcast_to(settings.label_noise, self.n_others + 1)[self.label]
        # A wrong label is any of the others: of this class with this chance.
        share = np.where(own, 1.0, 1.0 / self.n_others)
        own_rate = rate * share
        copies = np.asarray(self.weight if settings.softness > 0 else np.ones(len(own)))
        sure = self.weight / copies  # without softness copies are one point, the surer
        likelihood = Likelihood(
            np.where(own, 1.0, -1.0), settings.softness * diagonal, sure * label_odds(own_rate),
            sure * np.log1p(-own_rate), copies,
        )  # fmt: skip
        slope = share * rate * (1 - rate)
        with np.errstate(divide="ignore", invalid="ignore"):
            by_odds = np.where(rate > 0, -slope / (own_rate * (1 - own_rate)), 0.0)
        return likelihood, (sure * by_odds, -sure * slope / (1 - own_rate))


class HeldOutLoss(_Search):
    """Minus the log-probability of held-out labels, and minus the log-prior, to be minimised.

    Called with logarithms of the settings ``names`` (that of gamma in units of ``scale``);
    ``settings`` makes settings of them, ``best_value`` is the log-probability at the best so far.
    """

    noise: float = 0.0  # share of wrong labels
    alone: Any = True  # as for `held_out_scores`

    def __call__(self, point: Array) -> float:
        """Loss at a point; the best point so far is kept."""
        self._begin()
        return self._loss(point, self._log_probability(self.settings(point)))[0]

    def try_biases(self, biases: Sequence[float]) -> None:
        """Compare variances of the bias weight, other settings at their best; keep the better."""
        if not np.isfinite(self.best_value):
            self(self.best)
        for bias in biases:
            if bias == self.fixed.bias and np.isfinite(self.best_value):
                continue
            self._begin()
            value = self._log_probability(self.settings(self.best)._replace(bias=bias))
            if value > self.best_value:
                self.fixed, self.best_value = self.fixed._replace(bias=bias), value

    def _log_probability(self, settings: Candidate) -> float:
        try:
            K, _ = self._gram(settings, ())
        except LostDistancesError:
            return -np.inf
        scores = []
        for machine in range(len(self.own)):
            found, likelihood, _ = self._propagate(machine, K, settings)
            if found is None:
                return -np.inf
            scores.append(held_out_scores(found, likelihood, self.alone))
        outputs = vote_outputs(np.array(scores))
        return fit_steepness(outputs, self.label, self.weight, noise=self.noise, usual=VOTES_USUAL)[
            1
        ]


class EvidenceLoss(_Search):
    """Minus the log evidence, and minus the log-prior, with their gradient.

    Called as `HeldOutLoss`, but for label noise by the logit of its rate.
    """

    def __call__(self, point: Array) -> tuple[float, Array]:
        """Loss and gradient at a point; the best point so far is kept."""
        self._begin()
        value, gradient = self._log_evidence(self.settings(point))
        loss, prior = self._loss(point, value)
        if not np.isfinite(value):
            return loss, prior
        return loss, np.array([-gradient[name] for name in self.names]) + prior

    def _log_evidence(self, settings: Candidate) -> tuple[float, dict[str, float]]:
        total, gradient = 0.0, dict.fromkeys(self.names, 0.0)
        try:
            K, changes = self._gram(settings, self.names)
        except LostDistancesError:
            return -np.inf, gradient
        for machine in range(len(self.own)):
            found, likelihood, noise_changes = self._propagate(machine, K, settings)
            if found is None:
                return -np.inf, gradient
            total += found.log_evidence
            parts = self._gradient(found, likelihood, settings, changes, noise_changes)
            for name, value in parts.items():
                gradient[name] += value
        return total, gradient

    def _gradient(
        self, found: FixedPoint, likelihood: Likelihood, settings: Candidate,
        changes: dict[str, Array], noise_changes: tuple[Array, Array],
    ) -> dict[str, float]:  # fmt: skip
        gaussian = found.gaussian
        gradient, by_softness = evidence_slopes(gaussian, likelihood, changes, settings.softness)
        if "softness" in self.names:
            gradient["softness"] = by_softness
        if "label_noise" in self.names:
            by_odds, by_right = noise_changes
            slope = likelihood.noise_slope(gaussian.cavity_mean, gaussian.cavity_variance)
            change = np.sum(likelihood.copies * (slope * by_odds + by_right))
            gradient["label_noise"] = float(change)
        return gradient


def evidence_points(label: Array, entropy: int, most: int = EVIDENCE_POINTS) -> Array:
    """Choose at most so many points, every class in proportion and none left out."""
    if len(label) <= most:
        return np.arange(len(label))
    return np.sort(of_each_class(label, most, np.random.SeedSequence(entropy, spawn_key=(0, 2))))
