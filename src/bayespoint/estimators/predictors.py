"""What a fitted model knows, one class for each way to decide; nothing here ever changes.

A predictor holds arrays, numbers and texts in dataclasses, so that models can be pickled and
written to files field by field. `bayespoint.io.onnx` writes the same as a graph.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from scipy.special import ndtr, ndtri

from bayespoint._support.checks import PointsError
from bayespoint._support.threads import Threads
from bayespoint._support.types import Array, Matrix
from bayespoint.estimators.data import error_of_rows
from bayespoint.inference.ep.origin import Origin, Remaking
from bayespoint.space import decisions, links
from bayespoint.space.host import Place
from bayespoint.space.inputs import Inputs, same_precision
from bayespoint.space.kernels import Kernel, Points
from bayespoint.space.links import Link
from bayespoint.space.posterior import dense
from bayespoint.space.rows import apply_kernel

# Test points whose draws' outputs are held at once.
VOTE_BLOCK = 1024


class Asked(NamedTuple):
    """New points, checked, and the place where outputs at them are computed."""

    X: Matrix
    place: Place

    def part(self, start: int, stop: int) -> "Asked":
        """Return some of the points."""
        return Asked(self.X[start:stop], self.place)

    @contextmanager
    def naming_rows(self) -> Iterator[None]:
        """Let errors about points, which may be of a block or a cell, name rows of X."""
        try:
            yield
        except PointsError as error:
            if error.vectors is None:
                raise
            # What was compared has the precision of the model.
            X = self.place.to_host(self.place.rows_there(self.X, error.vectors.dtype))
            raise error_of_rows(error, Inputs(X)) from None


@dataclass(frozen=True, eq=False, repr=False)
class SupportPoints:
    """Training points that new ones are compared with, and by which kernel.

    Attributes
    ----------
    kernel : Kernel
    points : Points
    columns : ndarray of shape (n_support,) or None
        Which columns of X they are, where a Gram matrix is given.
    diagonal : float or None
        k(x, x) of new points then: the mean of the training points'.
    """

    kernel: Kernel
    points: Points
    columns: Array | None = None
    diagonal: float | None = None

    def outputs(self, asked: Asked, coef: Array) -> Array:
        """Cosines of new points and machines, rows of ``coef`` over the support, (n, machines)."""
        X = asked.X if self.columns is None else asked.X[:, self.columns]
        return asked.place.outputs(self.kernel, X, self.points, coef, self.diagonal)

    def beside_bias(self, asked: Asked) -> Array:
        """Share of k(x, x) of new points that the bias does not make, (n,)."""
        X, known = asked.place.to_host(asked.X), None
        if self.diagonal is not None:
            known = np.full(X.shape[0], self.diagonal)
        points = self.kernel.prepare(same_precision(X, self.points.X.dtype), diagonal=known)
        inverse = points.scale
        if inverse is None:
            inverse = np.divide(1, points.length, where=points.length > 0, out=1 * points.length)
        return np.maximum(1 - self.kernel.bias * inverse.astype(np.float64) ** 2, 0.0)

    def take(self, kept: Array) -> "SupportPoints":
        """Return some of the support points."""
        return replace(self, points=self.points.take(kept))


@dataclass(frozen=True, eq=False, repr=False)
class Predictor(ABC):
    """What all predictors hold.

    Attributes
    ----------
    support : SupportPoints
    bayes_points : ndarray of shape (n_machines, n_support)
        Coefficients of the unit centres.
    committee : list of ndarray or csr_matrix of shape (n_draws, n_points), or None
        Draws of each machine over all distinct training points; None for compressed models.
    used : ndarray of shape (n_support,)
        Which of these points support.
    log_weight : ndarray of shape (n_classes,)
        Logarithms of the class weights, which shift decisions.
    softness : float
    noise : float
        Share of labels that are wrong, or that calibrated probabilities take for wrong at least.
    """

    support: SupportPoints
    bayes_points: Array
    committee: list[Matrix] | None
    used: Array
    log_weight: Array
    softness: float
    noise: float

    @abstractmethod
    def decision_function(self, asked: Asked) -> Array:
        """Outputs that decide: (n,) for two classes, else (n, n_classes)."""

    @abstractmethod
    def proba_of(self, outputs: Array) -> Array:
        """Probability of each class, (n, n_classes), from outputs of `decision_function`."""

    def predict_proba(self, asked: Asked) -> Array:
        """Probability of each class, (n, n_classes)."""
        return self.proba_of(self.decision_function(asked))

    @abstractmethod
    def sample_proba(self, asked: Asked, members: Array) -> Array:
        """Probabilities according to some draws, (n_members, n, n_classes)."""

    def committee_proba(self, asked: Asked, n_members: int, rng: np.random.RandomState) -> Array:
        """Class probabilities by single classifiers, (n_members, n, n_classes)."""
        return self.sample_proba(asked, self.choose_members(n_members, rng))

    def open_share(self, asked: Asked) -> Array:
        """Share of the prior variance of outputs that no training label speaks of, (n,).

        The bias, which is the same everywhere, does not count. 0 where nothing is known of it.
        """
        return np.zeros(asked.X.shape[0])

    def proba_of_latent(self, latent: Array) -> Array:
        """Class probabilities by outputs without softness, (machines, members, n).

        A single classifier of many classes says the one with the largest output, not several or
        none, as machines for single classes can.
        """
        if len(latent) == 1:
            yes = decisions.probability_of_sign(latent[0], self.softness)
            votes = np.stack([1 - yes, yes], axis=-1)
        else:
            votes = decisions.probability_of_largest(latent, self.softness)
        return np.exp(decisions.combine_votes(votes, self.log_weight, self.noise))

    def covariance(self, asked: Asked) -> tuple[Array, Callable[[int], Array]]:
        """Variance of the latent outputs at points, and a function for columns of the covariance.

        Summed over machines. What the training points leave open counts where votes know it.
        """
        draws, _ = self._draw_outputs(asked, self.draws())
        return self._scatter(draws)

    @property
    def n_draws(self) -> int:
        """Draws of each machine; 0 where there are none."""
        return 0 if self.committee is None else self.committee[0].shape[0]

    def choose_members(self, n_members: int, rng: np.random.RandomState) -> Array:
        """Choose some draws; more than there are with replacement."""
        if not self.n_draws:
            raise no_draws()
        return rng.choice(self.n_draws, size=n_members, replace=n_members > self.n_draws)

    def draws(self, members: Any = slice(None)) -> list[Array]:
        """Coefficients of some draws of each machine over the support points."""
        if self.committee is None:
            raise no_draws()
        return [dense(draws[members][:, self.used]) for draws in self.committee]

    def cosines(self, asked: Asked) -> Array:
        """Outputs of the Bayes points: (n,) for two classes, else (n, n_classes)."""
        outputs = self.support.outputs(asked, self.bayes_points)
        return outputs[:, 0] if len(self.bayes_points) == 1 else outputs

    def _draw_outputs(
        self, asked: Asked, coef: list[Array], beside: Array | None = None
    ) -> tuple[Array, Array]:
        """Cosines of draws and points, (machines, draws, n), and of other machines, (others, n)."""
        others = [] if beside is None else [beside]
        outputs = self.support.outputs(asked, np.concatenate([*coef, *others])).T
        n = len(coef) * len(coef[0])
        return outputs[:n].reshape(len(coef), len(coef[0]), -1), outputs[n:]

    @staticmethod
    def _scatter(draws: Array) -> tuple[Array, Callable[[int], Array]]:
        """Variance and covariance of draws, (machines, draws, n), summed over machines."""
        flat = _centred(draws)
        return np.sum(flat**2, axis=0), lambda i: flat[:, i] @ flat


def no_draws() -> ValueError:
    """Return the error of models that were compressed."""
    return ValueError("this copy of a classifier holds no draws; use the original one.")


def _centred(draws: Array) -> Array:
    draws = draws - draws.mean(axis=1, keepdims=True)
    flat = np.ascontiguousarray(draws.reshape(-1, draws.shape[2]))
    return flat / np.sqrt(draws.shape[1])


@dataclass(frozen=True, eq=False, repr=False)
class BayesPointPredictor(Predictor):
    """Decides by a link of the cosines of the centre of the draws.

    Attributes
    ----------
    link : Link
    """

    link: Link

    def decision_function(self, asked: Asked) -> Array:
        """Scores of the link, shifted by the class weights."""
        return self._scores(self.cosines(asked))

    def proba_of(self, outputs: Array) -> Array:
        """Probability of each class, from its score."""
        return links.probabilities(outputs)

    def proba_of_cosines(self, cosines: Array) -> Array:
        """Probability of each class, from outputs of the Bayes points."""
        return self.proba_of(self._scores(cosines))

    def sample_proba(self, asked: Asked, members: Array) -> Array:
        """Probabilities according to some draws, (n_members, n, n_classes)."""
        coef = self.draws(members)
        outputs = self.support.outputs(asked, np.concatenate(coef))
        outputs = outputs.reshape(asked.X.shape[0], len(coef), len(members)).transpose(2, 0, 1)
        outputs = outputs[:, :, 0] if len(coef) == 1 else outputs
        return np.stack([links.probabilities(self._scores(o)) for o in outputs])

    def _scores(self, outputs: Array) -> Array:
        return links.shifted(self.link.scores(outputs), self.log_weight)


@dataclass(frozen=True, eq=False, repr=False)
class SpanVotePredictor(Predictor):
    """Decides by the share of draws that say a class, as published (KGS eq. 4)."""

    def decision_function(self, asked: Asked) -> Array:
        """Logit of the probability (two classes), or its logarithm."""
        return decisions.log_odds(self._log_votes(asked, self._averaging()))

    def proba_of(self, outputs: Array) -> Array:
        """Probability of each class, from its odds."""
        return decisions.probability_from_odds(outputs)

    def sample_proba(self, asked: Asked, members: Array) -> Array:
        """Probabilities according to some draws, (n_members, n, n_classes)."""
        coef = self.draws(members)
        return np.exp(self._log_votes(asked, lambda block: self._votes(block, coef)))

    def _averaging(self) -> Callable[[Asked], Array]:
        """Return a function: the probability that each machine says yes, (n, n_classes)."""
        coef = self.draws()
        return lambda block: self._votes(block, coef).mean(axis=0)

    def _votes(self, asked: Asked, coef: list[Array]) -> Array:
        """Votes of single draws, (draws, n, n_classes)."""
        outputs, _ = self._draw_outputs(asked, coef)
        if len(outputs) == 1:
            yes = (outputs[0] > 0) + 0.5 * (outputs[0] == 0)
            return np.stack([1 - yes, yes], axis=-1)
        best = np.argmax(outputs, axis=0)
        return (best[..., None] == np.arange(len(outputs))).astype(float)

    def _log_votes(self, asked: Asked, votes_of: Callable[[Asked], Array]) -> Array:
        """Log-probabilities of the classes from votes, block by block of points."""
        starts = range(0, asked.X.shape[0], VOTE_BLOCK)
        votes = np.concatenate([votes_of(asked.part(s, s + VOTE_BLOCK)) for s in starts], axis=-2)
        return self._combined(votes)

    def _combined(self, votes: Array) -> Array:
        return decisions.combine_votes(votes, self.log_weight)


@dataclass(frozen=True, eq=False, repr=False)
class VotePredictor(SpanVotePredictor):
    """Decides by the exact predictive probability, averaged over draws.

    Attributes
    ----------
    whitener : ndarray of shape (rank, n_support)
        Takes kernel values of a point to its coordinates in the span of the training points.
    """

    whitener: Any

    def whitening(self) -> Array:
        """Return the whitener."""
        return self.whitener

    def _votes(self, asked: Asked, coef: list[Array]) -> Array:
        """Probability that each machine says yes by single draws, (draws, n, n_classes)."""
        whitener = self.whitening()
        outputs, inside = self._draw_outputs(asked, coef, whitener)
        variance = _left_open(inside) + self.softness
        votes = []
        for machine in outputs:
            no, yes = decisions.draw_votes(machine, variance, len(whitener))
            votes += [no, yes] if len(coef) == 1 else [yes]
        return np.stack(votes, axis=-1)

    def _combined(self, votes: Array) -> Array:
        return decisions.combine_votes(votes, self.log_weight, self.noise)

    def committee_proba(self, asked: Asked, n_members: int, rng: np.random.RandomState) -> Array:
        """Class probabilities by single classifiers, (n_members, n, n_classes).

        What the draws leave open (the part of w outside the span of the training points, and its
        length) is drawn as well, so that only softness and label noise are left in the
        probabilities. Members differ in stratified steps of what they draw.
        """
        coef = self.draws(self.choose_members(n_members, rng))
        whitener = self.whitening()
        outputs, inside = self._draw_outputs(asked, coef, whitener)
        length = np.sqrt(rng.chisquare(len(whitener), size=outputs.shape[:2]))[..., None]
        beyond = stratified(len(outputs), n_members, rng)[..., None]  # the same at all points
        return self.proba_of_latent(length * outputs + beyond * np.sqrt(_left_open(inside)))

    def open_share(self, asked: Asked) -> Array:
        """Share of the prior variance of outputs that no training label speaks of, (n,)."""
        whitener, found = self.whitening(), [np.empty(0)]
        for start in range(0, asked.X.shape[0], VOTE_BLOCK):
            block = asked.part(start, start + VOTE_BLOCK)
            found.append(_left_open(self.support.outputs(block, whitener).T))
        return share_of(np.concatenate(found), self.support.beside_bias(asked))

    def covariance(self, asked: Asked) -> tuple[Array, Callable[[int], Array]]:
        """Variance of the latent outputs at points, and columns of their covariance."""
        whitener = self.whitening()
        outputs, inside = self._draw_outputs(asked, self.draws(), whitener)
        if self.support.columns is not None:
            return self._scatter(outputs)
        n_machines = len(outputs)
        # Squared lengths of Gaussian vectors in the span are their dimension, on average; that
        # they scatter is left out.
        draws = _centred(outputs) * np.sqrt(len(whitener))
        inside, cosines = np.ascontiguousarray(inside), self._cosines_of(asked)

        def column(i: int) -> Array:
            beyond = cosines(i) - inside[:, i] @ inside
            return draws[:, i] @ draws + n_machines * beyond

        return np.sum(draws**2, axis=0) + n_machines * _left_open(inside), column

    def _cosines_of(self, asked: Asked) -> Callable[[int], Array]:
        """Return a function: cosines in feature space of points and the i-th of them."""
        kernel, X = self.support.kernel, asked.place.to_host(asked.X)
        points = kernel.prepare(same_precision(X, self.support.points.X.dtype))
        length = np.where(points.length > 0, points.length, 1.0)  # at the origin they are zero

        def cosines(i: int) -> Array:
            one = points.take(np.array([i]))
            values = apply_kernel(kernel, points, one, np.ones((1, 1)), Threads(1))[:, 0]
            return values if kernel.normalize else values / (length * length[i])

        return cosines


def stratified(n_machines: int, n_members: int, rng: np.random.RandomState) -> Array:
    """Normal deviates, (n_machines, n_members), those of a machine in equal steps of chance."""
    steps = (np.arange(n_members) + rng.random_sample((n_machines, n_members))) / n_members
    return ndtri(np.array([rng.permutation(row) for row in steps]))


def gaussian_members(
    mean: Array, variance: Array, n_members: int, rng: np.random.RandomState
) -> Array:
    """Latent outputs of single classifiers, (n_machines, n_members, n), from their moments."""
    away = stratified(len(mean), n_members, rng)[..., None]
    return mean[:, None] + away * np.sqrt(variance)[:, None]


def share_of(part: Array, whole: Array) -> Array:
    """Part by part, at most 1; of nothing, none."""
    share = np.divide(part, whole, out=np.zeros_like(part), where=whole > 0)
    return np.minimum(share, 1.0)


def _left_open(inside: Array) -> Array:
    """Variance that the training points leave open, in units of k(x, x)."""
    return np.maximum(1.0 - np.sum(inside**2, axis=0), 0.0)


@dataclass(frozen=True, eq=False, repr=False)
class GaussianPredictor(VotePredictor):
    """Decides by the probability of posteriors in closed form.

    Whitener, reducer, sign and committee are None where they are made again from an origin.

    Attributes
    ----------
    mean : ndarray of shape (n_machines, n_support)
        Coefficients of the mean of w.
    reducer : ndarray of shape (n_machines, n_support, n_support), or None
        P, which lowers the variance k(x, x) of a point by s . (P k)².
    sign : ndarray of shape (n_machines, n_support), or None
        s.
    link : Link or None
        Of the votes; None leaves them as they are.
    origin : Origin or None
        None for given Gram matrices, and for models of files that hold the matrices.
    """

    mean: Array
    reducer: Array | None
    sign: Array | None
    link: Link | None = None
    origin: Origin | None = None

    def whitening(self) -> Array:
        """Return the whitener."""
        if self.origin is None:
            return self.whitener
        return self.origin.once("whitener", lambda: self._remaking().whitener())

    def reducing(self) -> list[tuple[Array, Array]]:
        """Return P and s of each machine."""
        if self.origin is None:
            assert self.reducer is not None
            assert self.sign is not None
            return list(zip(self.reducer, self.sign, strict=True))
        return self.origin.once("reducers", lambda: self._remaking().reducers())

    @property
    def n_draws(self) -> int:
        """Draws of each machine."""
        return super().n_draws if self.origin is None else self.origin.n_draws

    def draws(self, members: Any = slice(None)) -> list[Array]:
        """Coefficients of some draws of each machine over the support points."""
        if self.origin is None:
            return super().draws(members)
        drawn = self.origin.once("draws", lambda: self._remaking().draws())
        return [draws[members] for draws in drawn]

    def _remaking(self) -> Remaking:
        assert self.origin is not None
        support = self.support
        return Remaking(self.origin, support.kernel, support.points, self.softness)

    def _averaging(self) -> Callable[[Asked], Array]:
        """Return a function: the probability that each machine says yes, (n, n_classes)."""
        return self.closed_form

    def closed_form(self, asked: Asked) -> Array:
        """Probability that machines say yes, (n, n_classes), before link, noise and weights."""
        z = self.scores(asked)
        return np.stack([ndtr(-z[0]), ndtr(z[0])] if len(z) == 1 else list(ndtr(z)), axis=-1)

    def scores(self, asked: Asked) -> Array:
        """Means over standard deviations, softness added, (n_machines, n)."""
        mean, variance = self._moments(asked)
        return mean / np.sqrt(np.maximum(variance + self.softness, np.finfo(float).tiny))

    def _moments(self, asked: Asked) -> tuple[Array, Array]:
        """Means and variances of latent outputs, (n_machines, n) each."""
        means, variances = [], []
        for machine, (P, sign) in enumerate(self.reducing()):
            mean, known = self._latent(asked, machine, P)
            means.append(mean)
            variances.append(np.maximum(1.0 - sign @ known**2, 0.0))
        return np.array(means), np.array(variances)

    def committee_proba(self, asked: Asked, n_members: int, rng: np.random.RandomState) -> Array:
        """Class probabilities by single classifiers at each point, (n_members, n, n_classes)."""
        return self.proba_of_latent(gaussian_members(*self._moments(asked), n_members, rng))

    def proba_of_scores(self, z: Array) -> Array:
        """Probability of each class from means over standard deviations, (n_machines, n)."""
        votes = [ndtr(-z[0]), ndtr(z[0])] if len(z) == 1 else list(ndtr(z))
        return np.exp(self._combined(np.stack(votes, axis=-1)))

    def _latent(self, asked: Asked, machine: int, reducer: Array) -> tuple[Array, Array]:
        """Latent means of points, (n,), and what lowers their variances, (n_points, n)."""
        coef = np.concatenate([self.mean[machine][None], reducer])
        outputs = self.support.outputs(asked, coef).T
        return outputs[0], outputs[1:]

    def _combined(self, votes: Array) -> Array:
        if self.link is not None:
            logs = np.log(np.maximum(votes, decisions.LEAST_PROBABILITY))
            outputs = logs if len(self.log_weight) > 2 else logs[..., 1] - logs[..., 0]
            scores = self.link.scores(outputs)
            votes = links.votes_of(scores, len(self.log_weight))
        return super()._combined(votes)

    def covariance(self, asked: Asked) -> tuple[Array, Callable[[int], Array]]:
        """Variance of the latent outputs at points, and columns of their covariance."""
        if self.support.columns is not None:
            return super().covariance(asked)
        cosines, n_machines, reducing = self._cosines_of(asked), len(self.mean), self.reducing()
        signs = [sign for _, sign in reducing]
        known = [
            np.ascontiguousarray(self._latent(asked, machine, P)[1])
            for machine, (P, _) in enumerate(reducing)
        ]
        told = sum(sign @ part**2 for sign, part in zip(signs, known, strict=True))

        def column(i: int) -> Array:
            parts = zip(signs, known, strict=True)
            return n_machines * cosines(i) - sum((sign * part[:, i]) @ part for sign, part in parts)

        return np.maximum(n_machines - told, 0.0), column
