"""Decisions by cells."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np
from scipy.special import ndtr

from bayespoint._support.types import Array, Matrix
from bayespoint.estimators.predictors import Asked, Predictor, gaussian_members, share_of
from bayespoint.inference.engines import cell_outputs
from bayespoint.inference.ep.cells.prediction import CellModel, Cellwise
from bayespoint.space import decisions, links
from bayespoint.space.links import Link

# Draws that covariances of outputs are computed from.
COVARIANCE_DRAWS = 64


@dataclass(frozen=True, eq=False, repr=False)
class CellsPredictor(Predictor):
    """Decides by the probability of posteriors by cells, the mean over trees.

    Attributes
    ----------
    model : CellModel
    X : ndarray or csr_matrix of shape (m, n_features)
        Distinct training rows.
    link : Link or None
        Of the votes; None leaves them as they are.
    """

    model: CellModel
    X: Matrix
    link: Link | None = None

    @property
    def cellwise(self) -> Cellwise:
        """What has outputs at new rows."""
        return Cellwise(self.model, self.support.kernel, self.X)

    def decision_function(self, asked: Asked) -> Array:
        """Logit of the probability (two classes), or its logarithm."""
        return self.outputs_of_scores(self.scores(asked))

    def scores(self, asked: Asked) -> Array:
        """Means over standard deviations, softness added, the mean over trees: (n_machines, n)."""
        return np.asarray(sum(self._scores(asked))) / len(self.model.roots)

    def proba_of(self, outputs: Array) -> Array:
        """Probability of each class, from its odds."""
        return decisions.probability_from_odds(outputs)

    def outputs_of_scores(self, z: Array) -> Array:
        """Outputs that decide, from means over standard deviations, (n_machines, n)."""
        return decisions.log_odds(self._log_proba(z))

    def proba_of_scores(self, z: Array) -> Array:
        """Probability of each class from means over standard deviations, (n_machines, n)."""
        return np.exp(self._log_proba(z))

    def cosines(self, asked: Asked) -> Array:
        """Mean outputs over lengths of points, (n,) for two classes, else (n, n_classes)."""
        length = self._lengths(asked)  # first, as its errors name all rows
        means = sum(mean for mean, _ in self._latent(asked)) / len(self.model.roots)
        outputs = (means / length).T
        return outputs[:, 0] if outputs.shape[1] == 1 else outputs

    def sample_proba(self, asked: Asked, members: Array) -> Array:
        """Probabilities according to draws with these seeds, (n_members, n, n_classes)."""
        length = self._lengths(asked)
        z = self._draws(asked, members) / np.sqrt(np.maximum(self.softness, np.finfo(float).tiny))
        z /= length
        return np.stack([np.exp(self._log_proba(one, linked=False)) for one in z])

    def committee_proba(self, asked: Asked, n_members: int, rng: np.random.RandomState) -> Array:
        """Class probabilities by single classifiers at each point, (n_members, n, n_classes)."""
        n_trees, length = len(self.model.roots), self._lengths(asked)
        mean, variance = np.sum([np.array(one) for one in self._latent(asked)], axis=0) / n_trees
        members = gaussian_members(mean / length, variance / length**2, n_members, rng)
        return self.proba_of_latent(members)

    def open_share(self, asked: Asked) -> Array:
        """Share of the prior variance of outputs that no training label speaks of, (n,).

        Outputs of rows being known but for softness (copies count for one row); of landmarks, what
        the labels tell.
        """
        model, length = self.model, self._lengths(asked)
        known = self.support.kernel.prepare(self.X).length[model.order].astype(np.float64) ** 2
        tau = 1 / np.maximum(known * self.softness, np.finfo(np.float32).eps)
        told = replace(
            model, tau=tau[None], coef=model.coef[:1], common_mean=model.common_mean[:, :1],
            common_factor=model.common_factor[:, :1],
        )  # fmt: skip
        cellwise = Cellwise(told, self.support.kernel, self.X)
        variance = cell_outputs(asked.place, cellwise, asked.X)[:, 1, 0].mean(axis=0)
        return share_of(variance / length**2, self.support.beside_bias(asked))

    def choose_members(self, n_members: int, rng: np.random.RandomState) -> Array:
        """Seeds of draws."""
        return rng.randint(2**31 - 1, size=n_members)

    def covariance(self, asked: Asked) -> tuple[Array, Callable[[int], Array]]:
        """Variance of the latent outputs at points, and columns of the covariance, from draws."""
        members = self.choose_members(COVARIANCE_DRAWS, np.random.RandomState(0))
        return self._scatter(self._draws(asked, members).swapaxes(0, 1))

    def _draws(self, asked: Asked, members: Array) -> Array:
        """Outputs according to draws with these seeds, (n_members, n_machines, n)."""
        rngs = [np.random.RandomState(seed) for seed in members]
        trees = np.array([rng.randint(len(self.model.roots)) for rng in rngs])
        X, cellwise = self._rows(asked), self.cellwise
        found = np.empty((len(members), len(self.model.tau), X.shape[0]))
        for number in np.unique(trees):
            drawn = np.flatnonzero(trees == number)
            found[drawn] = cellwise.draw(X, int(number), [rngs[i] for i in drawn])
        return found

    def _scores(self, asked: Asked) -> Iterator[Array]:
        """Means over standard deviations, softness added, by each tree."""
        ridge = self.softness * self._lengths(asked) ** 2
        for mean, variance in self._latent(asked):
            yield mean / np.sqrt(np.maximum(variance + ridge, np.finfo(float).tiny))

    def _latent(self, asked: Asked) -> Array:
        return cell_outputs(asked.place, self.cellwise, asked.X)

    def _rows(self, asked: Asked) -> Matrix:
        # By way of the place: on a GPU nobody has looked yet whether all are numbers.
        return asked.place.to_host(asked.place.rows_there(asked.X, self.X.dtype))

    def _lengths(self, asked: Asked) -> Array:
        length = self.support.kernel.prepare(self._rows(asked)).length.astype(np.float64)
        return np.where(length > 0, length, 1.0)

    def _log_proba(self, z: Array, *, linked: bool = True) -> Array:
        """Log-probabilities of the classes, (n, n_classes)."""
        votes = np.stack([ndtr(-z[0]), ndtr(z[0])] if len(z) == 1 else list(ndtr(z)), axis=-1)
        if self.link is not None and linked:
            scores = self.link.scores(links.vote_outputs(z))
            votes = links.votes_of(scores, len(self.log_weight))
        return decisions.combine_votes(votes, self.log_weight, self.noise)
