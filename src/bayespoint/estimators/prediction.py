"""From a fitted classifier to decisions and probabilities of new points."""

from typing import TYPE_CHECKING, Any

import numpy as np
from joblib import effective_n_jobs
from scipy.special import ndtr, ndtri
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from bayespoint._support.checks import check_positive_integer
from bayespoint._support.devices import is_tensor
from bayespoint._support.threads import Threads, open_threads
from bayespoint.space import decisions
from bayespoint.space.inputs import canonical, same_precision
from bayespoint.space.kernels import Points
from bayespoint.space.posterior import dense
from bayespoint.space.rows import apply_kernel

# Test points whose draws' outputs are held at once.
VOTE_BLOCK = 1024


class PredictionMixin:
    """What a fitted `BayesPointClassifier` says about new points; never changes it."""

    if TYPE_CHECKING:  # parameters and fitted attributes are the classifier's

        def __getattr__(self, name: str) -> Any: ...

    def decision_function(self, X):
        """Outputs that decide: the class with the largest one is predicted.

        With ``decision="bayes_point"`` the cosine between the Bayes point and the point in
        feature space (shifted by ``class_weight``); with votes ("calibrated", too) the logit of the
        probability (two classes) or its logarithm.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples,) or (n_samples, n_classes)
            For two classes, positive means ``classes_[1]``.
        """
        X = self._validated(X)
        if self._decision_ != "bayes_point":
            coef = [dense(draws[:, self._used_]) for draws in self._draws_["coef"]]
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
        if self._decision_ != "bayes_point":
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
        if self._decision_ != "bayes_point":
            return np.exp(self._log_votes(X, coef, average=False))
        outputs = self._outputs(X, np.concatenate(coef))
        outputs = outputs.reshape(X.shape[0], len(coef), n_samples).transpose(2, 0, 1)
        outputs = outputs[:, :, 0] if len(coef) == 1 else outputs
        shifted = (decisions.shift_outputs(o, self._kappa_, self._log_weight_) for o in outputs)
        return np.stack([decisions.link(o, self._kappa_) for o in shifted])

    def _checked(self, X):
        check_is_fitted(self)
        return self._checked_prediction(X)

    def _validated(self, X):
        X = self._checked(X)
        if self.kernel == "precomputed":
            return X[:, self.support_]
        return X if is_tensor(X) else canonical(X)

    def _outputs(self, X, coef):
        """Cosines of machines (rows of ``coef`` over the support points) and points X."""
        kernel, support = self._kernel(), Points(**self._support_)
        device = None if self.kernel == "precomputed" else self._device()
        if device is not None:
            from bayespoint.gpu.placing import outputs as device_outputs

            with self._predicting():
                return device_outputs(kernel, X, support, coef, device)
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
        if self._decision_ == "calibrated":
            votes = decisions.sharpen(votes, self._kappa_)
        noise = self._noise_ if self._decision_ != "span_vote" else 0.0
        return decisions.combine_votes(votes, self._log_weight_, noise)

    def _votes(self, X, coef, average):
        """Probability that each machine says yes, (n, n_classes) or (draws, n, n_classes)."""
        if average and self._gaussian_ is not None:
            return self._gaussian_votes(X)
        outputs, variance = self._draw_outputs(X, coef)
        if self._decision_ == "span_vote":  # each draw says one class
            stacked = _one_class_a_draw(outputs)
            return stacked.mean(axis=0) if average else stacked
        votes = []
        for machine in outputs:
            rank = len(self._whitener_)
            no, yes = decisions.draw_votes(machine, variance + self.softness_, rank)
            votes += [no, yes] if len(coef) == 1 else [yes]
        stacked = np.stack(votes, axis=-1)
        return stacked.mean(axis=0) if average else stacked

    def _gaussian_votes(self, X):
        """Probability that each machine says yes, in closed form, (n, n_classes)."""
        votes = []
        for machine in range(len(self.dual_coef_)):
            mean, known = self._gaussian_outputs(X, machine)
            sign = self._gaussian_["sign"][machine]
            variance = np.maximum(1.0 - sign @ known**2, 0.0) + self.softness_
            z = mean / np.sqrt(np.maximum(variance, np.finfo(float).tiny))
            votes += [ndtr(-z), ndtr(z)] if len(self.dual_coef_) == 1 else [ndtr(z)]
        return np.stack(votes, axis=-1)

    def _gaussian_outputs(self, X, machine):
        """Latent means of points, (n,), and what lowers their variances, (n_points, n)."""
        parts = self._gaussian_["mean"][machine][None], self._gaussian_["reducer"][machine]
        outputs = self._outputs(X, np.concatenate(parts)).T
        return outputs[0], outputs[1:]

    def _draw_outputs(self, X, coef):
        """Cosines of draws and points, (n_draws, n) a machine; variance left open at the points.

        The variance, in units of k(x, x), is zero where it is not known: without votes.
        """
        draws, inside = self._span_outputs(X, coef)
        variance = 0.0 if inside is None else np.maximum(1.0 - np.sum(inside**2, axis=0), 0.0)
        return draws, variance

    def _span_outputs(self, X, coef):
        """Cosines of draws and points, (n_draws, n) a machine; coordinates of points in the span.

        The latter, (rank, n), are None where they are not known: without votes.
        """
        whitener = [] if self._whitener_ is None else [self._whitener_]
        outputs = self._outputs(X, np.concatenate([*coef, *whitener])).T
        n = len(coef) * len(coef[0])
        draws = outputs[:n].reshape(len(coef), len(coef[0]), -1)
        return draws, outputs[n:] if whitener else None

    def _committee(self, X, n_members, rng):
        """Class probabilities by single classifiers, (n_members, n, n_classes).

        Where votes know what the draws leave open (the part of w outside the span of the training
        points, and its length), that is drawn as well, so that only softness and label noise are
        left in the probabilities. Members differ in stratified steps of what they draw.
        """
        if self._whitener_ is None:
            return self.sample_proba(X, n_members, rng)
        X = self._validated(X)
        members = rng.choice(self.n_draws_, size=n_members, replace=n_members > self.n_draws_)
        coef = [dense(draws[members][:, self._used_]) for draws in self._draws_["coef"]]
        outputs, variance = self._draw_outputs(X, coef)
        length = np.sqrt(rng.chisquare(len(self._whitener_), size=outputs.shape[:2]))[..., None]
        steps = (np.arange(n_members) + rng.random_sample(outputs.shape[:2])) / n_members
        steps = np.array([rng.permutation(row) for row in steps])
        beyond = ndtri(steps)[..., None]  # the same at all points
        latent = length * outputs + beyond * np.sqrt(variance)
        yes = decisions.probability_of_sign(latent, self.softness_)
        votes = np.stack([1 - yes[0], yes[0]] if len(yes) == 1 else yes, axis=-1)
        return np.exp(decisions.combine_votes(votes, self._log_weight_, self._noise_))

    def _posterior_covariance(self, X):
        """Variance of the latent outputs at points, and a function for columns of the covariance.

        Summed over machines. What the training points leave open counts where votes know it.
        """
        X = self._validated(X)
        X = X.cpu().numpy() if is_tensor(X) else X
        if self._gaussian_ is not None and self.kernel != "precomputed":
            return self._gaussian_covariance(X)
        coef = [dense(draws[:, self._used_]) for draws in self._draws_["coef"]]
        draws, inside = self._span_outputs(X, coef)
        draws = draws - draws.mean(axis=1, keepdims=True)
        draws = np.ascontiguousarray(draws.reshape(-1, X.shape[0])) / np.sqrt(len(coef[0]))
        if inside is None or self.kernel == "precomputed":
            return np.sum(draws**2, axis=0), lambda i: draws[:, i] @ draws
        # Squared lengths of Gaussian vectors in the span are their dimension, on average; that
        # they scatter is left out.
        draws *= np.sqrt(len(self._whitener_))
        inside, cosines = np.ascontiguousarray(inside), self._cosines(X)
        variance = np.maximum(1.0 - np.sum(inside**2, axis=0), 0.0)

        def column(i):
            beyond = cosines(i) - inside[:, i] @ inside
            return draws[:, i] @ draws + len(coef) * beyond

        return np.sum(draws**2, axis=0) + len(coef) * variance, column

    def _gaussian_covariance(self, X):
        cosines, machines = self._cosines(X), range(len(self.dual_coef_))
        known = [np.ascontiguousarray(self._gaussian_outputs(X, c)[1]) for c in machines]
        signs = self._gaussian_["sign"]
        told = sum(sign @ part**2 for sign, part in zip(signs, known, strict=True))

        def column(i):
            parts = zip(signs, known, strict=True)
            return len(known) * cosines(i) - sum((sign * part[:, i]) @ part for sign, part in parts)

        return np.maximum(len(known) - told, 0.0), column

    def _cosines(self, X):
        """Return a function: cosines in feature space of points and the i-th of them."""
        kernel = self._kernel()
        points = kernel.prepare(same_precision(X, Points(**self._support_).X.dtype))
        length = np.where(points.length > 0, points.length, 1.0)  # at the origin they are zero

        def cosines(i):
            one = points.take(np.array([i]))
            values = apply_kernel(kernel, points, one, np.ones((1, 1)), Threads(1))[:, 0]
            return values if self.normalize_kernel else values / (length * length[i])

        return cosines


def _one_class_a_draw(outputs):
    """Votes 0 and 1 of draws from outputs (machines, draws, n); halves where an output is zero."""
    if len(outputs) == 1:
        yes = (outputs[0] > 0) + 0.5 * (outputs[0] == 0)
        return np.stack([1 - yes, yes], axis=-1)
    best = np.argmax(outputs, axis=0)
    return (best[..., None] == np.arange(len(outputs))).astype(float)
