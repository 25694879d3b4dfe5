"""Checks of parameters and data: one precise message each, with the remedy."""

import warnings

import numpy as np
import scipy.sparse as sp
from sklearn.utils import check_random_state
from sklearn.utils.sparsefuncs import mean_variance_axis

from bayespoint.kernels import KERNELS

# A column counts as negligible when its deviation is below this share of the largest.
NEGLIGIBLE_DEVIATION = 0.01


class NotAvailableError(NotImplementedError, ValueError):
    """The value is part of the interface but not of this version."""


_LATER = {
    "inference": ("billiard", "gibbs", "ep"),
    "gamma": ("evidence", "evidence-ard"),
    "bias": ("evidence",),
    "softness": ("evidence",),
    "label_noise": ("evidence",),
    "device": ("cuda",),
}


def check_parameters(params):
    """Check the parameters of a `BayesPointClassifier` that do not depend on the data."""
    for name, values in _LATER.items():
        value = params[name]
        if isinstance(value, str) and value in values:
            raise NotAvailableError(
                f"{name}={value!r} is not available in this version of bayespoint; "
                f"use {_instead(name)}."
            )
    kernel = params["kernel"]
    if not callable(kernel) and kernel not in KERNELS:
        raise ValueError(f"kernel must be one of {KERNELS} or a callable; got {kernel!r}.")
    if not (params["gamma"] == "scale" or _is_number(params["gamma"], above=0)):
        raise ValueError(f"gamma must be a number > 0 or 'scale'; got {params['gamma']!r}.")
    _check_choice(params, "inference", ("auto", "perceptron"))
    _check_choice(params, "decision", ("auto", "bayes_point", "vote"))
    _check_choice(params, "device", ("cpu", "auto"))
    for name in ("softness", "bias", "tol", "coef0"):
        _check_number(params, name, least=0)
    _check_number(params, "degree", above=0)
    _check_number(params, "cache_size", above=0)
    if params["max_time"] is not None:
        _check_number(params, "max_time", above=0)
    n_draws = params["n_draws"]
    if isinstance(n_draws, bool) or not isinstance(n_draws, int | np.integer) or n_draws < 1:
        raise ValueError(f"n_draws must be a whole number >= 1; got {n_draws!r}.")
    _check_label_noise(params["label_noise"])
    check_random_state(params["random_state"])


def check_weights(sample_weight, n_samples):
    """Return sample weights as an array; refuse negative ones and the wrong number."""
    if sample_weight is None:
        return np.ones(n_samples)
    weight = np.asarray(sample_weight, dtype=np.float64)
    if weight.ndim == 0:
        weight = np.full(n_samples, float(weight))
    if weight.shape != (n_samples,):
        raise ValueError(
            f"sample_weight must hold one weight a row of X, shape ({n_samples},); "
            f"got shape {weight.shape}."
        )
    if not np.all(np.isfinite(weight)) or np.any(weight < 0):
        raise ValueError("sample_weight must be finite and >= 0; use 0 to leave a row out.")
    return weight


def log_class_weights(class_weight, classes, totals):
    """Logarithms of the class weights, from a dict, "balanced" or None."""
    if class_weight is None:
        return np.zeros(len(classes))
    if isinstance(class_weight, str):
        if class_weight != "balanced":
            raise ValueError(f"class_weight must be a dict, 'balanced' or None; "
                             f"got {class_weight!r}.")  # fmt: skip
        return np.log(totals.sum() / (len(classes) * totals))
    unknown = [key for key in class_weight if key not in classes.tolist()]
    if unknown:
        raise ValueError(
            f"class_weight names {unknown[:5]}, which are not among the classes "
            f"{classes[:10].tolist()}; use the labels as they stand in y."
        )
    weights = np.array([class_weight.get(c, 1.0) for c in classes.tolist()], dtype=np.float64)
    if not np.all(weights > 0) or not np.all(np.isfinite(weights)):
        raise ValueError(f"class_weight must hold numbers > 0; got {class_weight!r}.")
    return np.log(weights)


def warn_about_scales(X):
    """Warn when most columns count for nothing beside the largest ones."""
    if X.shape[1] < 2:
        return
    if sp.issparse(X):
        deviation = np.sqrt(mean_variance_axis(X, axis=0)[1])
    else:
        with np.errstate(over="ignore", invalid="ignore"):
            deviation = X.std(axis=0, dtype=np.float64)
    varying = np.flatnonzero(np.isfinite(deviation) & (deviation > 0))
    if len(varying) < 2:
        return
    largest = varying[deviation[varying].argmax()]
    small = varying[deviation[varying] < NEGLIGIBLE_DEVIATION * deviation[largest]]
    if 2 * len(small) >= len(varying):
        warnings.warn(
            f"features are on very different scales: {len(small)} of {len(varying)} columns vary "
            f"less than a hundredth of column {largest} (standard deviation "
            f"{deviation[largest]:.3g}) and hardly count. Scale them: "
            f"make_pipeline(StandardScaler(), BayesPointClassifier()).",
            UserWarning,
            stacklevel=3,
        )


def _instead(name):
    return {
        "inference": "inference='perceptron' or 'auto'",
        "device": "device='cpu' or 'auto'",
        "gamma": "gamma='scale' or a number",
        "label_noise": "label_noise=0.0 with softness > 0",
    }.get(name, f"a number for {name}")


def _check_choice(params, name, choices):
    if params[name] not in choices:
        raise ValueError(f"{name} must be one of {choices}; got {params[name]!r}.")


def _is_number(value, least=None, above=None):
    if isinstance(value, bool) or not isinstance(value, int | float | np.number):
        return False
    return bool(
        np.isfinite(value)
        and (least is None or value >= least)
        and (above is None or value > above)
    )


def _check_number(params, name, least=None, above=None):
    if not _is_number(params[name], least, above):
        bound = f">= {least}" if least is not None else f"> {above}"
        raise ValueError(f"{name} must be a finite number {bound}; got {params[name]!r}.")


def _check_label_noise(label_noise):
    rates = np.atleast_1d(np.asarray(label_noise, dtype=object))
    if not all(_is_number(rate, least=0) and rate < 0.5 for rate in rates):
        raise ValueError(f"label_noise must lie in [0, 0.5); got {label_noise!r}.")
    if any(rate > 0 for rate in rates):
        raise NotAvailableError(
            f"label_noise={label_noise!r} needs inference 'billiard', 'gibbs' or 'ep', which are "
            f"not available in this version of bayespoint; use {_instead('label_noise')}."
        )
