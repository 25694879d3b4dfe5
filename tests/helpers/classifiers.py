"""Classifiers with fixed settings, data for them, and their numbers by hand."""

from dataclasses import is_dataclass
from functools import cache

import numpy as np
import scipy.sparse as sp
from scipy.special import stdtr
from sklearn.datasets import load_iris
from sklearn.metrics.pairwise import laplacian_kernel, linear_kernel, polynomial_kernel, rbf_kernel

from bayespoint import BayesPointClassifier
from bayespoint.inference.methods import METHODS

# Settings that data would choose otherwise.
FIXED = {"gamma": "scale", "softness": 0.1, "bias": 1.0}


def perceptrons(kernel="rbf", **settings):
    """Perceptrons with fixed settings."""
    return BayesPointClassifier(kernel, **{"inference": "perceptron", **FIXED, **settings})


def fresh_points(X, n=200):
    """Points near and far from the data."""
    rng = np.random.default_rng(1)
    scale = np.repeat([0.5, 1.0, 5.0, 1000.0], n // 4)[:, None]
    return X[rng.integers(len(X), size=n)] + scale * rng.normal(size=(n, X.shape[1]))


def by_hand(clf, A, B):
    """Kernel with bias and normalisation, by scikit-learn, in float64."""

    def raw(A, B):
        if clf.kernel_ == "linear":
            return linear_kernel(A, B)
        if clf.kernel_ == "poly":
            return polynomial_kernel(A, B, clf.degree, clf.gamma_, clf.coef0)
        return {"rbf": rbf_kernel, "laplacian": laplacian_kernel}[clf.kernel_](A, B, clf.gamma_)

    def diagonal(A):
        return raw(A, A).diagonal() + clf.bias_

    A, B = np.asarray(A, dtype=np.float64), np.asarray(B, dtype=np.float64)
    K = raw(A, B) + clf.bias_
    if clf.normalize_kernel:
        return K / np.sqrt(np.outer(diagonal(A), diagonal(B))), np.ones(len(A))
    return K, np.sqrt(diagonal(A))


def columns(outputs):
    return outputs[:, None] if outputs.ndim == 1 else outputs


def signed_labels(clf, y):
    machines = clf.classes_[1:] if len(clf.classes_) == 2 else clf.classes_
    return np.array([np.where(y == c, 1, -1) for c in machines])


PLAIN = (np.ndarray, np.generic, int, float, str, type(None))


def unusual(value, path):
    """Paths of what is no array, number, string, or collection or frozen dataclass of those."""
    if is_dataclass(value) and type(value).__dataclass_params__.frozen:
        return unusual(vars(value), path)
    if isinstance(value, dict):
        return [p for key, one in value.items() for p in unusual(one, f"{path}[{key!r}]")]
    if isinstance(value, list | tuple):
        return [p for i, one in enumerate(value) for p in unusual(one, f"{path}[{i}]")]
    if isinstance(value, np.ndarray) and value.dtype == object:
        return [p for one in value.ravel().tolist() for p in unusual(one, path)]
    return [] if isinstance(value, PLAIN) or sp.issparse(value) else [f"{path}: {type(value)}"]


def classifier(**settings):
    """Billiard with so few draws that there is no R-hat, which could warn."""
    return BayesPointClassifier(
        **{"inference": "billiard", "n_draws": 8, "random_state": 0, **FIXED, **settings}
    )


@cache
def iris():
    X, y = load_iris(return_X_y=True)
    X, first = np.unique((X - X.mean(axis=0)) / X.std(axis=0), axis=0, return_index=True)
    order = np.random.default_rng(0).permutation(len(X))
    return X[order], y[first][order]


def flowers(n_classes, step=3):
    """Every third flower of some classes to train with, and the others."""
    X, y = (part[iris()[1] < n_classes] for part in iris())
    kept = np.arange(len(y)) % step == 0
    return X[kept], y[kept], X[~kept], y[~kept]


def softened_gram(clf, X):
    gram, length = by_hand(clf, X, X)
    return gram + clf.softness_ * np.diag(length**2)


# Every value of `inference=`: a new method comes to the tests of the contract by itself.
INFERENCES = ["auto", *METHODS]
# With both kinds of decision; of few points "auto" has the Bayes point of "ep".
DECIDING = [(name, "auto") for name in INFERENCES] + [(name, "bayes_point") for name in METHODS]


def in_turn(values, others, n):
    """Pairs of two lists, each over and over: all of both in a few cases."""
    values, others = list(values), list(others)
    return [(values[k % len(values)], others[k % len(others)]) for k in range(n)]


def takes_noise(inference):
    """Whether labels may be wrong; "auto" finds a method for that."""
    return inference == "auto" or METHODS[inference].takes_noise


def noise_of(inference, rates=0.1):
    """Label noise where the method takes some."""
    return rates if takes_noise(inference) else 0.0


@cache
def fitted(inference, n_classes=3, decision="auto", noisy=False, **settings):
    """A fit to every sixth flower with so few draws as will do: to look at, not to change."""
    noise = noise_of(inference) if noisy else 0.0
    X, y, *_ = flowers(n_classes, step=6)
    return classifier(
        inference=inference, decision=decision, label_noise=noise, **settings
    ).fit(X, y)  # fmt: skip


def error_of(clf, *data):
    """What a fit raises, or None where it does not."""
    try:
        clf.fit(*data)
    except (ValueError, RuntimeError) as error:
        return error
    return None


def votes_by_hand(clf, X, new, posterior=None):
    """Probability of the classes by each draw: Student's t, what is unknown of x included."""
    posterior = posterior or clf.posterior
    K, n_classes = softened_gram(clf, X), len(clf.classes_)
    cross, length = by_hand(clf, new, X)
    unknown = length**2 - np.sum(cross * np.linalg.solve(K, cross.T).T, axis=1)
    deviation = np.sqrt(unknown + clf.softness_ * length**2)
    votes = []
    for machine in range(len(clf.dual_coef_)):
        t = np.sqrt(len(X)) * (posterior(machine).coef @ cross.T) / deviation
        votes.append(stdtr(len(X), t))
    return np.stack([1 - votes[0], votes[0]] if n_classes == 2 else votes, axis=-1)


def with_noise(votes, noise, label=None):
    """Normalise over classes and fold in the share of wrong labels, from its definition."""
    n_classes = votes.shape[-1]
    weights = None if label is None else np.bincount(label)
    noise = np.average(np.broadcast_to(noise, n_classes), weights=weights)
    chances = np.where(np.eye(n_classes, dtype=bool), 1 - noise, noise / (n_classes - 1))
    return votes / votes.sum(axis=-1, keepdims=True) @ chances
