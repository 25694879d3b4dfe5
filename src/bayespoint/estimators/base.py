"""What estimators that hold a predictor answer; none of it changes them."""

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import scipy.sparse as sp
from joblib import effective_n_jobs
from sklearn.base import BaseEstimator, clone
from sklearn.exceptions import NotFittedError
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from bayespoint._support.checks import check_positive_integer
from bayespoint._support.threads import open_threads
from bayespoint._support.types import Array, Matrix, Seed
from bayespoint.estimators.compression import compressed
from bayespoint.estimators.importances import Importances
from bayespoint.estimators.parameters import Parameters, by_held_out
from bayespoint.estimators.predictors import Asked, Predictor, no_draws
from bayespoint.estimators.risk import CheckedScore
from bayespoint.estimators.settings import LITTLE_TIME, Settings
from bayespoint.estimators.uncertainty import Uncertainty, uncertainty
from bayespoint.inference.draws import Draws
from bayespoint.space import decisions
from bayespoint.space.given import check_answers
from bayespoint.space.host import Host, Place
from bayespoint.space.posterior import Posterior, dense
from bayespoint.space.rows import apply_kernel


@dataclass(frozen=True, eq=False, repr=False)
class Trained:
    """What a fit remembers of its training rows, and of itself.

    Attributes
    ----------
    n_samples : int
        Rows of X.
    row : ndarray of shape (n_points,)
        Rows of X that stand for the distinct ones.
    entropy : int
        Seed of all draws.
    drawn_with : dict
        Parameters that draws depend on, and a fingerprint of the data.
    label_proba : ndarray of shape (n_samples, n_classes) or None
        Posterior probability of each true class, NaN for rows of weight 0.
    label : ndarray of shape (n_samples,) or None
        Class numbers.
    n_wrong : ndarray of shape (3,) or None
        Expected number of wrong labels, and the ends of an interval around it.
    held_out : ndarray of float32, shape (n_samples, n_classes), or None
        Probabilities of the classes of each row without it.
    importances : Importances or None
        Of the features, once they were asked for.
    hashes : ndarray of uint64, shape (n_hashes,), or None
        Of all rows that were learnt, in order, to know them again; None for a Gram matrix.
    n_wanted : int or None
        Draws that were asked for, if the fit ended before it had them; None if nothing is missing.
    """

    n_samples: int
    row: Array
    entropy: int
    drawn_with: dict[str, Any]
    label_proba: Array | None = None
    label: Array | None = None
    n_wrong: Array | None = None
    held_out: Array | None = None
    importances: Importances | None = None
    hashes: Array | None = None
    n_wanted: int | None = None

    def knowing(self, hashes: Array) -> "Trained":
        """Return the same with hashes of more rows, beside those that a stream may hold no more.

        Those that there are may be many, and are not sorted again: streams would slow down.
        """
        new, before = np.sort(hashes), self.hashes
        if before is None or not len(before):
            return replace(self, hashes=new)
        at = np.searchsorted(before, new)
        unknown = before[np.minimum(at, len(before) - 1)] != new
        return replace(self, hashes=np.insert(before, at[unknown], new[unknown]))


class KernelClassifier(CheckedScore, BaseEstimator):
    """A classifier that decides through its ``predictor_``.

    Classes derived from it have a constructor, `fit` and `checked_parameters`, and set
    ``classes_``, ``predictor_``, ``settings_``, ``draws_`` and ``trained_``.
    """

    kernel: Any
    cache_size: float
    n_jobs: int | None
    support_: Array
    support_vectors_: Matrix
    classes_: Array
    predictor_: Predictor
    settings_: Settings
    draws_: Draws
    trained_: Trained
    stream_: Any = None  # a `Stream`, of those that learn on

    if not TYPE_CHECKING:  # which would take any name for one that is there

        def __getattr__(self, name: str) -> Any:
            """Say that a fit is missing where what it leaves is asked for."""
            if name in ("settings_", "draws_", "trained_", "predictor_"):
                raise NotFittedError(f"This {type(self).__name__} is not fitted yet: call fit.")
            return object.__getattribute__(self, name)  # raises what it raised before

    def checked_parameters(self) -> Parameters:
        """Check the parameters that do not depend on data, and return them."""
        raise NotImplementedError

    def _place(self) -> Place:
        """Return where to compute: the host, unless the class knows others."""
        return Host(self.n_jobs)

    def _has_learnt_on(self) -> bool:
        """Whether `partial_fit` was called."""
        return bool(self.stream_ is not None and len(self.stream_.history))

    def prepared(self, X: Any) -> Asked:
        """Check X as for `predict`, and prepare it for ``predictor_``.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)

        Returns
        -------
        Asked
        """
        check_is_fitted(self)
        precomputed = self.predictor_.support.columns is not None
        place = self._place()
        checked = place.new_points(self, X, precomputed=precomputed)
        # New rows of a Gram matrix are on the host.
        return Asked(checked, Host(self.n_jobs) if precomputed else place)

    def decision_function(self, X: Any) -> Array:
        """Output for each class; `predict` returns the class with the largest one.

        With ``decision="bayes_point"`` these are scores whose softmax gives the probabilities,
        shifted by ``class_weight``. With votes, also calibrated ones, they are the log-odds of the
        second class (two classes) or the logarithms of the probabilities.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples,) or (n_samples, n_classes)
            For two classes, positive means ``classes_[1]``.
        """
        asked = self.prepared(X)
        with asked.naming_rows():
            return check_answers("decision_function", self.predictor_.decision_function(asked))

    def predict(self, X: Any) -> Array:
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

    def predict_proba(self, X: Any) -> Array:
        """Probability of each class.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
        """
        outputs = self.decision_function(X)
        return check_answers("predict_proba", self.predictor_.proba_of(outputs))

    def predict_log_proba(self, X: Any) -> Array:
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

    def cosines(self, X: Any) -> Array:
        """Outputs of the Bayes points before any link: cosines in feature space.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples,) or (n_samples, n_classes)
        """
        asked = self.prepared(X)
        with asked.naming_rows():
            return check_answers("cosines", self.predictor_.cosines(asked))

    def sample_proba(self, X: Any, n_samples: int = 10, random_state: Seed = None) -> Array:
        """Probabilities according to single draws of the posterior.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_rows, n_features)
        n_samples : int, default=10
            Number of draws; if there are fewer in the model, they are drawn with replacement.
        random_state : int, RandomState instance or None
            Seed for the choice of draws.

        Returns
        -------
        ndarray of shape (n_samples, n_rows, n_classes)
        """
        asked = self.prepared(X)
        if not self.predictor_.n_draws and self.settings_.cells is None:
            raise no_draws()
        check_positive_integer("n_samples", n_samples)
        members = self.predictor_.choose_members(n_samples, check_random_state(random_state))
        with asked.naming_rows():
            return check_answers("sample_proba", self.predictor_.sample_proba(asked, members))

    def predict_uncertainty(self, X: Any) -> Uncertainty:
        """Split the entropy of each prediction into a removable and an irreducible part.

        More data could remove the removable part. Both are in nats; their sum is the entropy of
        `predict_proba` without class weights. They are computed from the variance of the posterior,
        or from its draws. Far from all training rows everything is removable, except for
        ``decision="bayes_point"`` and ``"span_vote"``: these do not know where their training rows
        end, and report all entropy as irreducible.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)

        Returns
        -------
        Uncertainty
            A named tuple of two arrays of shape (n_samples,): ``removable``, because classifiers of
            the posterior disagree or no training row is near, and ``irreducible``, from softness
            and label noise.

        Examples
        --------
        >>> import numpy as np
        >>> from bayespoint import BayesPointClassifier
        >>> X = np.random.default_rng(0).normal(size=(200, 1))
        >>> y = X[:, 0] + 0.5 * np.random.default_rng(1).normal(size=200) > 0
        >>> clf = BayesPointClassifier(gamma=0.5, random_state=0).fit(X, y)
        >>> removable, irreducible = clf.predict_uncertainty([[0.0], [9.0]])
        >>> (removable / (removable + irreducible)).round(1).tolist()
        [0.0, 1.0]
        """
        asked = self.prepared(X)
        plain = replace(self.predictor_, log_weight=np.zeros_like(self.predictor_.log_weight))
        with asked.naming_rows():
            parts = uncertainty(plain, asked)
        check_answers("predict_uncertainty", np.stack(parts))
        return parts

    def settled(self) -> Self:
        """Return an unfitted copy with the settings and the method that this fit chose.

        Returns
        -------
        KernelClassifier
        """
        check_is_fitted(self)
        chosen = {
            "kernel": self.kernel_, "gamma": self.gamma_, "bias": self.bias_,
            "softness": self.softness_, "label_noise": self.label_noise_,
            "inference": self.inference_, "decision": self.decision_,
        }  # fmt: skip
        if self.settings_.cells is not None:
            chosen |= self.settings_.cells._asdict()
        other = clone(self)
        return other.set_params(**{k: v for k, v in chosen.items() if k in other.get_params()})

    @property
    def dual_coef_(self) -> Array:
        """Coefficients of the Bayes point of each machine over the support points."""
        if self.settings_.cells is not None:
            raise AttributeError(
                "dual_coef_ needs a single Bayes point, which EP with several cells does not have: "
                "use cosines(X), or set cell_size to the number of rows."
            )
        return self.predictor_.bayes_points

    @property
    def kernel_(self) -> Any:
        """Kernel used: its name, or a function."""
        return self.predictor_.support.kernel.name

    @property
    def gamma_(self) -> float | Array:
        """The value of gamma used, or an array with one per feature."""
        return self.settings_.gamma

    @property
    def gamma_choice_(self) -> dict[str, Any]:
        """How well one width and a width for each feature predict held-out labels.

        A dict: the candidate that was "chosen", the number of "rows" whose labels were held out,
        their mean "log_proba" with each candidate, and its "gain" over the first candidate with
        its standard error. Candidates are "one width" in given units, "one width, columns scaled",
        "full widths" (one per feature) and "shrunk widths" (halfway between). With
        ``kernel="auto"`` there are the same for the Laplacian kernel ("full widths, Laplacian" and
        so on), or "widths of the RBF kernel, Laplacian" if that was enough to decide. With more
        than ten classes, "log_proba" is a sum over the three largest classes, each against the
        rest. Available after a fit with ``gamma="held-out"`` or "ard" and a kernel that can have a
        width for each feature.
        """
        if self.settings_.gamma_choice is None:
            if by_held_out(self.gamma) and LITTLE_TIME in self.inference_reason_:
                raise AttributeError(
                    f"gamma_choice_ is not there, as max_time={self.max_time} left no time to "
                    f"compare widths on all rows: gamma_ is that of a fit on some of them. Raise "
                    f"max_time."
                )
            raise AttributeError(
                "gamma_choice_ is available after a fit with gamma='held-out' or 'ard', "
                "kernel='auto', 'rbf' or 'laplacian', and at most 1,000 columns."
            )
        return self.settings_.gamma_choice

    @property
    def bias_(self) -> float:
        """Bias used."""
        return self.settings_.bias

    @property
    def softness_(self) -> float:
        """Softness used."""
        return self.settings_.softness

    @property
    def label_noise_(self) -> float | Array:
        """Rate of wrong labels used, or one per class."""
        rates = self.settings_.class_noise
        return float(rates[0]) if np.all(rates == rates[0]) else rates

    @property
    def inference_(self) -> str:
        """Method used."""
        return self.settings_.inference

    @property
    def inference_reason_(self) -> str:
        """Why this method was used."""
        return self.settings_.inference_reason

    @property
    def decision_(self) -> str:
        """How the classifier decides."""
        return self.settings_.decision

    @property
    def n_draws_(self) -> int:
        """Number of draws per machine."""
        return self.draws_.n_draws

    @property
    def bayes_point_error_(self) -> Array:
        """Monte Carlo standard error of each Bayes point, an angle in radians."""
        return self.draws_.angle_errors

    @property
    def diagnostics_(self) -> dict[str, Any]:
        """Diagnostics of the last run."""
        return dict(self.draws_.info)

    @property
    def log_evidence_(self) -> float:
        """Approximate logarithm of the probability of the labels, by EP."""
        if self.settings_.log_evidence is None:
            raise AttributeError(
                f"log_evidence_ is available with inference='ep' or settings chosen by the "
                f"evidence; this fit used {self.inference_!r}."
            )
        return self.settings_.log_evidence

    @property
    def held_out_proba_(self) -> Array:
        """Probabilities of each training row without it, of shape (n_samples, n_classes).

        With EP they depend on the labels of all other rows; with perceptrons they come from draws
        that had not yet seen the row. If rows are equal, only one of them is left out. For rows of
        weight 0 they are those of `predict_proba`.
        """
        check_is_fitted(self)
        if self.trained_.held_out is None:
            if self._has_learnt_on():
                raise AttributeError(
                    "held_out_proba_ is available after fit, not after partial_fit."
                )
            raise AttributeError(
                f"held_out_proba_ is available after a fit with inference='ep' (except with "
                f"decision='span_vote'), or 'perceptron' with decision='bayes_point' and at least "
                f"10 draws, and in model files saved with held_out=True; this fit used "
                f"{self.inference_!r} and {self.decision_!r}."
            )
        view = check_answers("held_out_proba_", self.trained_.held_out).view()
        view.flags.writeable = False
        return view

    def posterior(self, i: int = 0) -> Posterior:
        """Draws of the i-th binary problem (the only one for two classes).

        Parameters
        ----------
        i : int, default=0
            Index of the class that is compared with the rest; 0 for two classes.

        Returns
        -------
        Posterior
            Its coefficients belong to the rows of X given to `fit`; of equal rows only the first
            has one. Its outputs, and so ``ess()``, ``rhat()`` and ``mcse()``, are those at the
            support points (not available for ``kernel="precomputed"``).
        """
        check_is_fitted(self)
        draws, row, used = self.draws_, self.trained_.row, self.predictor_.used
        if self.settings_.cells is not None:
            raise ValueError(
                "EP with several cells has a posterior for each cell: use sample_proba(X), or set "
                "cell_size to the number of rows."
            )
        if not self.predictor_.n_draws:
            raise no_draws()
        n_machines = len(draws.angle_errors)
        if not isinstance(i, int | np.integer) or not 0 <= i < n_machines:
            raise ValueError(f"i must be an integer from 0 to {n_machines - 1}; got {i!r}.")
        coef: Matrix = (draws.coef or self.predictor_.draws())[i]
        shape = (coef.shape[0], self.trained_.n_samples)
        if sp.issparse(coef):
            columns = row[coef.indices]
            spread = sp.csr_matrix((coef.data.copy(), columns, coef.indptr), shape=shape)
            spread.sort_indices()
        else:
            spread = np.zeros(shape)
            np.add.at(spread.T, row, coef.T)  # copies share a row
        order = np.argsort(row[used])
        outputs = self._training_outputs(coef)
        return Posterior(
            spread, mean_norm=draws.mean_norms[i], n_chains=draws.n_chains,
            centres=self._centres(draws, i), source="fit", label_noise=self.label_noise_,
            outputs=None if outputs is None else outputs[:, order], points=row[used][order],
            info={name: _of_machine(values, i) for name, values in draws.info.items()},
        )  # fmt: skip

    def _centres(self, draws: Draws, i: int) -> dict[str, tuple[Array, float]]:
        """Bayes points of a machine over the rows of X, with their errors."""
        found = {"fit": (draws.bayes_points[i], draws.angle_errors[i])}
        for source, (points, errors) in draws.centres.items():
            found[source] = points[i], errors[i]
        centres = {}
        for source, (coef, error) in found.items():
            centres[source] = np.zeros(self.trained_.n_samples), float(error)
            np.add.at(centres[source][0], self.trained_.row, coef)
        return centres

    def _training_outputs(self, coef: Matrix) -> Array | None:
        """Outputs of draws at the training points that have coefficients, softness included."""
        support = self.predictor_.support
        if support.columns is not None:
            return None  # the Gram matrix is not kept
        coef, points = dense(coef[:, self.predictor_.used]), support.points
        with open_threads(effective_n_jobs(self.n_jobs)) as threads:
            outputs = apply_kernel(support.kernel, points, points, coef.T, threads).T
        return outputs + self.softness_ * points.length.astype(np.float64) ** 2 * coef

    def compress(self, tol: float = 1e-2, n_points: int | None = None) -> Self:
        """Return a copy with fewer support points and almost the same predictions.

        An average of classifiers has many support points. The copy keeps only as many as it needs
        to describe the Bayes points well enough.

        Parameters
        ----------
        tol : float, default=1e-2
            Largest change of `cosines`, which lie between -1 and 1, at any point.
        n_points : int, optional
            Number of support points to keep at most. If they are too few for ``tol``, their
            coefficients keep cosines and probabilities at all support points as close as possible;
            how much other cosines change is then not bounded, so compare errors on other data.

        Returns
        -------
        KernelClassifier
            A fitted classifier of the same class, without draws.
        """
        check_is_fitted(self)
        small = clone(self)
        small.__dict__.update(self.__dict__)
        small.predictor_, kept = compressed(
            self.predictor_, tol, n_points, cache_bytes=int(self.cache_size * 1e6),
            n_jobs=self.n_jobs,
        )  # fmt: skip
        small.draws_ = self.draws_.without_draws()
        small.support_, small.support_vectors_ = self.support_[kept], self.support_vectors_[kept]
        return small

    def __sklearn_tags__(self) -> Any:
        """Say what the estimator takes."""
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = self.kernel != "precomputed"
        tags.input_tags.pairwise = self.kernel == "precomputed"
        return tags


def _of_machine(values: Any, i: int) -> Any:
    """Entry of one machine, of what there is one of each; else all."""
    return values[i] if isinstance(values, np.ndarray) else values
