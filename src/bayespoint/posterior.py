"""Posterior: draws of classifiers, and their centre, the Bayes point."""

import numpy as np
import scipy.sparse as sp


class Posterior:
    """Draws of unit classifiers w = sum_j coef_j phi(x_j).

    Made by the functions in `bayespoint.inference` and by `BayesPointClassifier.posterior`.

    Parameters
    ----------
    coef : ndarray or csr_matrix of shape (n_chains * n_draws, m)
        Draws, chain after chain; each row is a unit vector in the (softened) metric.
    mean_norm : float
        Length in feature space of the (weighted) mean of the rows of ``coef``.
    n_chains : int, default=1
    weights : ndarray of shape (n_chains * n_draws,), optional
        Weight of each draw; None for equal weights.
    info : dict, optional
        What the sampler tells about its run.

    Examples
    --------
    >>> import numpy as np
    >>> from bayespoint import VersionSpace, inference
    >>> space = VersionSpace(np.eye(3), [1, -1, 1])
    >>> post = inference.sample_perceptron(space, n_draws=5, random_state=0)
    >>> post.bayes_point().round(3)
    array([ 0.577, -0.577,  0.577])
    """

    def __init__(self, coef, mean_norm, *, n_chains=1, weights=None, info=None):
        self.coef = coef
        self.mean_norm = mean_norm
        self.n_chains = n_chains
        self.weights = weights
        self.info = info or {}

    def __repr__(self):
        """Say what it holds."""
        n_rows, m = self.coef.shape
        return f"Posterior({n_rows} draws in {self.n_chains} chain(s) over {m} points)"

    @property
    def n_draws(self):
        """Number of draws, all chains together."""
        return self.coef.shape[0]

    def bayes_point(self):
        """Coefficients of the mean of the draws, scaled to unit length in feature space."""
        if self.mean_norm == 0:
            raise ValueError("the mean of the draws is zero and has no direction; draw more.")
        return mean_of_rows(self.coef, self.weights) / self.mean_norm

    def draws(self):
        """Return the draws as a dense array (n_chains, n_draws per chain, m)."""
        dense = self.coef.toarray() if sp.issparse(self.coef) else self.coef
        return dense.reshape(self.n_chains, -1, dense.shape[1])


def mean_of_rows(coef, weights=None):
    """Weighted mean of the rows of a dense or CSR array, as a flat array."""
    if weights is None:
        return np.asarray(coef.mean(axis=0)).ravel()
    return np.asarray(weights @ coef).ravel() / np.sum(weights)
