"""From a fitted classifier to decisions and probabilities of new points."""

from typing import TYPE_CHECKING, Any

import numpy as np
from joblib import effective_n_jobs
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from bayespoint import decisions
from bayespoint.gram import apply_kernel
from bayespoint.kernels import Points
from bayespoint.posterior import dense
from bayespoint.threads import open_threads
from bayespoint.validation import canonical, check_positive_integer, same_precision

# Test points whose draws' outputs are held at once.
VOTE_BLOCK = 1024


class PredictionMixin:
    """What a fitted `BayesPointClassifier` says about new points; never changes it."""

    if TYPE_CHECKING:  # parameters and fitted attributes are the classifier's

        def __getattr__(self, name: str) -> Any: ...

    def decision_function(self, X):
        """Outputs that decide: the class with the largest one is predicted.

        With ``decision="bayes_point"`` the cosine between the Bayes point and the point in
        feature space (shifted by ``class_weight``); with "vote" the logit of the probability
        (two classes) or its logarithm.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples,) or (n_samples, n_classes)
            For two classes, positive means ``classes_[1]``.
        """
        X = self._validated(X)
        if self._whitener_ is not None:
            coef = [dense(draws) for draws in self._draws_["coef"]]
            return decisions.log_odds(self._log_votes(X, coef))
        outputs = self._outputs(X, self.dual_coef_)
        outputs = outputs[:, 0] if len(self.classes_) == 2 else outputs
        return decisions.shift_outputs(outputs, self._kappa_, self._log_weight_)

    def predict(self, X):
        """Predict the class with the largest output.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples,)
        """
        best = decisions.winners(self.decision_function(X))
        return self.classes_[best]

    def predict_proba(self, X):
        """Probability of each class.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
        """
        outputs = self.decision_function(X)
        if self._whitener_ is not None:
            return decisions.probability_from_odds(outputs)
        return decisions.link(outputs, self._kappa_)

    def predict_log_proba(self, X):
        """Logarithm of the probability of each class.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
        """
        with np.errstate(divide="ignore"):
            return np.log(self.predict_proba(X))

    def sample_proba(self, X, n_samples=10, random_state=None):
        """Probabilities according to single draws of the posterior.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_rows, n_features)
        n_samples : int, default=10
            Number of draws; more than the model holds are taken with replacement.
        random_state : int, RandomState instance or None

        Returns
        -------
        ndarray of shape (n_samples, n_rows, n_classes)
        """
        X = self._validated(X)
        if self._draws_ is None:
            raise ValueError("this copy of a classifier holds no draws; use the original one.")
        check_positive_integer("n_samples", n_samples)
        rng = check_random_state(random_state)
        replace = n_samples > self.n_draws_
        members = rng.choice(self.n_draws_, size=n_samples, replace=replace)
        coef = [dense(draws[members][:, self._used_]) for draws in self._draws_["coef"]]
        if self._whitener_ is not None:
            return np.exp(self._log_votes(X, coef, average=False))
        outputs = self._outputs(X, np.concatenate(coef))
        outputs = outputs.reshape(X.shape[0], len(coef), n_samples).transpose(2, 0, 1)
        outputs = outputs[:, :, 0] if len(coef) == 1 else outputs
        shifted = (decisions.shift_outputs(o, self._kappa_, self._log_weight_) for o in outputs)
        return np.stack([decisions.link(o, self._kappa_) for o in shifted])

    def _validated(self, X):
        check_is_fitted(self)
        X = validate_data(
            self, X, accept_sparse=self._accepts_sparse(), dtype=[np.float64, np.float32],
            order="C", reset=False,
        )  # fmt: skip
        return X[:, self.support_] if self.kernel == "precomputed" else canonical(X)

    def _outputs(self, X, coef):
        """Cosines of machines (rows of ``coef`` over the support points) and points X."""
        kernel, support = self._kernel(), Points(**self._support_)
        X = same_precision(X, support.X.dtype)
        diagonal = None
        if self.kernel == "precomputed":
            diagonal = np.full(X.shape[0], self._mean_diagonal_, dtype=X.dtype)
        with open_threads(effective_n_jobs(self.n_jobs)) as threads:
            points = kernel.prepare(X, diagonal=diagonal)
            outputs = apply_kernel(kernel, points, support, coef.T, threads)
        if not self.normalize_kernel:
            outputs /= np.where(points.length > 0, points.length, 1.0)[:, None]
        return outputs

    def _log_votes(self, X, coef, average=True):
        """Log-probabilities of the classes, by each draw or averaged over draws."""
        blocks = [X[s : s + VOTE_BLOCK] for s in range(0, X.shape[0], VOTE_BLOCK)]
        votes = np.concatenate([self._votes(block, coef, average) for block in blocks], axis=-2)
        return decisions.combine_votes(votes, self._log_weight_, self._noise_)

    def _votes(self, X, coef, average):
        """Exact probability that each machine says yes, (n, n_classes) or (draws, n, n_classes)."""
        n_draws = len(coef[0])
        outputs = self._outputs(X, np.concatenate([*coef, self._whitener_]))
        inside = np.sum(outputs[:, len(coef) * n_draws :] ** 2, axis=1)
        variance = np.maximum(1.0 - inside, 0.0) + self.softness_
        rank = len(self._whitener_)
        votes = []
        for k in range(len(coef)):
            machine = outputs[:, k * n_draws : (k + 1) * n_draws].T
            no, yes = decisions.draw_votes(machine, variance, rank)
            votes += [no, yes] if len(coef) == 1 else [yes]
        stacked = np.stack(votes, axis=-1)
        return stacked.mean(axis=0) if average else stacked
