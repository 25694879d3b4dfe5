"""Checks of parameters and data: one precise message each, with the remedy."""

import sys
import warnings
from collections.abc import Mapping

import numpy as np
import scipy.sparse as sp
from sklearn.utils import check_random_state
from sklearn.utils.sparsefuncs import mean_variance_axis

from bayespoint.devices import DEVICES
from bayespoint.kernels import KERNELS

# A column counts as negligible when its deviation is below this share of the largest.
NEGLIGIBLE_DEVIATION = 0.01

# About as many rows are looked at for the scales of the columns.
SCALE_ROWS = 5000


# Values of settings that are chosen from the training data: by the evidence, by labels held out.
EVIDENCE = "evidence"
HELD_OUT = "held-out"


class NotAvailableError(NotImplementedError, ValueError):
    """The value is part of the interface but not of this version."""


_LATER = {
    "gamma": ("evidence-ard",),
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
    if not callable(kernel) and not (isinstance(kernel, str) and kernel in KERNELS):
        raise ValueError(f"kernel must be one of {KERNELS} or a callable; got {kernel!r}.")
    gamma = params["gamma"]
    known = isinstance(gamma, str) and gamma in ("scale", EVIDENCE, HELD_OUT)
    if not known and not _is_number(gamma, above=0):
        raise ValueError(
            f"gamma must be a number > 0, 'held-out', 'evidence' or 'scale' (for SVC's 'auto' give "
            f"1 / n_features); got {gamma!r}."
        )
    _check_choice(params, "inference", ("auto", "perceptron", "billiard", "gibbs", "ep"))
    _check_choice(params, "decision", ("auto", "bayes_point", "vote", "calibrated", "span_vote"))
    _check_choice(params, "device", DEVICES)
    for name, named in (("softness", (HELD_OUT, EVIDENCE)), ("bias", ("auto", EVIDENCE))):
        value = params[name]
        if not (isinstance(value, str) and value in named) and not _is_number(value, least=0):
            raise ValueError(
                f"{name} must be a finite number >= 0, {named[0]!r} or {named[1]!r}; got {value!r}."
            )
    for name in ("tol", "coef0"):
        check_number(name, params[name], least=0)
    check_number("degree", params["degree"], least=1)
    if params["degree"] != int(params["degree"]):  # others have no real kernel
        raise ValueError(f"degree must be a whole number; got {params['degree']!r}.")
    check_number("cache_size", params["cache_size"], above=0)
    for name in ("normalize_kernel", "warm_start"):
        if not isinstance(params[name], bool | np.bool_):
            raise ValueError(f"{name} must be True or False; got {params[name]!r}.")
    check_verbose(params["verbose"])
    check_jobs(params["n_jobs"])
    if params["max_time"] is not None:
        check_number("max_time", params["max_time"], above=0)
    check_positive_integer("n_draws", params["n_draws"])
    _check_label_noise(params["label_noise"], params["inference"])
    check_seed(params["random_state"])


def check_device(device):
    """Refuse what is no device."""
    _check_choice({"device": device}, "device", DEVICES)


def by_evidence(value):
    """Whether a setting is to be chosen by the evidence."""
    return isinstance(value, str) and value == EVIDENCE


def by_held_out(value):
    """Whether a setting is to be chosen by labels held out."""
    return isinstance(value, str) and value == HELD_OUT


def warn(message, category=UserWarning):
    """Warn at the line outside this package that led here."""
    frame, level = sys._getframe(1), 2
    while frame.f_back and frame.f_globals.get("__name__", "").startswith("bayespoint."):
        frame, level = frame.f_back, level + 1
    warnings.warn(message, category, stacklevel=level)


def check_number(name, value, least=None, above=None):
    """Refuse what is not a finite number within a bound."""
    if not _is_number(value, least, above):
        bound = f">= {least}" if least is not None else f"> {above}"
        raise ValueError(f"{name} must be a finite number {bound}; got {value!r}.")


def check_positive_integer(name, value):
    """Refuse what is not a whole number of at least 1."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < 1:
        raise ValueError(f"{name} must be a whole number >= 1; got {value!r}.")


def check_natural_number(name, value):
    """Refuse what is not a whole number of at least 0."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < 0:
        raise ValueError(f"{name} must be a whole number >= 0; got {value!r}.")


def check_verbose(verbose):
    """Refuse what is neither True, False nor a whole number of at least 0."""
    check_natural_number("verbose", int(verbose) if isinstance(verbose, bool) else verbose)


def check_jobs(n_jobs):
    """Refuse what joblib does not take as a number of jobs."""
    if n_jobs is not None and (not isinstance(n_jobs, int | np.integer) or n_jobs == 0):
        raise ValueError(f"n_jobs must be None or a whole number other than 0; got {n_jobs!r}.")


def check_seed(random_state):
    """Refuse what scikit-learn does not take as random_state."""
    try:
        check_random_state(random_state)
    except ValueError as error:
        raise ValueError(
            f"random_state must be None, a whole number from 0 to 2**32 - 1 or a RandomState; "
            f"got {random_state!r}."
        ) from error


def entropy_of(random_state):
    """Integer that seeds all draws of a fit, from what scikit-learn takes as random_state."""
    if isinstance(random_state, int | np.integer):
        return int(random_state)
    return int(check_random_state(random_state).randint(2**31 - 1))


def check_fits(value, name, dtype):
    """Refuse a number that is infinite in the precision of the data."""
    with np.errstate(over="ignore"):
        if not np.isfinite(np.dtype(dtype).type(value)):
            raise ValueError(
                f"{name}={value:.3g} is too large for {dtype}: scale the features, for example "
                f"with StandardScaler, or pass float64."
            )


def check_weights(sample_weight, n_samples):
    """Return sample weights as an array; refuse negative ones and the wrong number."""
    if sample_weight is None:
        return np.ones(n_samples)
    weight = np.asarray(sample_weight)
    if weight.dtype.kind not in "biuf":
        raise ValueError(f"sample_weight must hold numbers; got an array of {weight.dtype}.")
    weight = weight.astype(np.float64)
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
    if not isinstance(class_weight, Mapping):
        if not isinstance(class_weight, str) or class_weight != "balanced":
            raise ValueError(f"class_weight must be a dict, 'balanced' or None; "
                             f"got {class_weight!r}.")  # fmt: skip
        return np.log(totals.sum() / (len(classes) * totals))
    unknown = [key for key in class_weight if key not in classes.tolist()]
    if unknown and any(c not in class_weight for c in classes.tolist()):
        raise ValueError(
            f"class_weight names {unknown[:5]}, which are not among the classes "
            f"{classes[:10].tolist()}; use the labels as they stand in y."
        )
    weights = [class_weight.get(c, 1.0) for c in classes.tolist()]
    if not all(_is_number(weight, above=0) for weight in weights):
        raise ValueError(f"class_weight must hold numbers > 0; got {class_weight!r}.")
    return np.log(np.array(weights, dtype=np.float64))


def check_gram(K):
    """Refuse what cannot be a Gram matrix."""
    if K.shape[0] != K.shape[1]:
        raise ValueError(
            f"kernel='precomputed' needs a square Gram matrix as X; got shape {K.shape}."
        )
    if not np.allclose(K, K.T, rtol=1e-4, atol=1e-6 * np.abs(K).max(initial=0.0)):
        raise ValueError("X must be a symmetric Gram matrix with kernel='precomputed'.")


def canonical(X):
    """CSR with sorted short indices, no repeated entries and no stored zeros; dense as it is."""
    if not sp.issparse(X):
        return X
    if not (X.has_canonical_format and np.all(X.data != 0)):
        X = X.copy()
        X.sum_duplicates()
        X.eliminate_zeros()
    if X.indices.dtype != np.int32 and max(X.nnz, X.shape[1]) < np.iinfo(np.int32).max:
        parts = (X.data, X.indices.astype(np.int32), X.indptr.astype(np.int32))
        X = sp.csr_matrix(parts, shape=X.shape)
    return X


def same_precision(X, dtype):
    """Points in the precision of the model; an error where they do not fit into it."""
    with np.errstate(over="ignore"):
        converted = X.astype(dtype, copy=False)
    if not np.all(np.isfinite(converted.data if sp.issparse(X) else converted)):
        raise ValueError(f"X has values too large for the {dtype} that the model was fitted in.")
    return converted


def warn_about_scales(X):
    """Warn when most columns count for nothing beside the largest ones."""
    if X.shape[1] < 2:
        return
    if not hasattr(X, "deviations"):
        X = X[:: max(1, X.shape[0] // SCALE_ROWS)]
    with np.errstate(over="ignore", invalid="ignore"):
        if hasattr(X, "deviations"):  # on a GPU
            deviation = X.deviations()
        elif sp.issparse(X):
            deviation = np.sqrt(mean_variance_axis(X.astype(np.float64), axis=0)[1])
        else:
            deviation = X.std(axis=0, dtype=np.float64)
    varying = np.flatnonzero(np.isfinite(deviation) & (deviation > 0))
    if len(varying) < 2:
        return
    largest = varying[deviation[varying].argmax()]
    small = varying[deviation[varying] < NEGLIGIBLE_DEVIATION * deviation[largest]]
    if 2 * len(small) >= len(varying):
        warn(
            f"features are on very different scales: {len(small)} of {len(varying)} columns vary "
            f"less than a hundredth of column {largest} (standard deviation "
            f"{deviation[largest]:.3g}) and hardly count. Scale them: "
            f"make_pipeline(StandardScaler(), BayesPointClassifier())."
        )


def _instead(name):
    return {
        "gamma": "gamma='held-out', 'evidence', 'scale' or a number",
    }.get(name, f"a number for {name}")


def _check_choice(params, name, choices):
    if not isinstance(params[name], str) or params[name] not in choices:
        raise ValueError(f"{name} must be one of {choices}; got {params[name]!r}.")


def _is_number(value, least=None, above=None):
    if isinstance(value, bool | np.complexfloating):
        return False
    if not isinstance(value, int | float | np.number):
        return False
    return bool(
        np.isfinite(value)
        and (least is None or value >= least)
        and (above is None or value > above)
    )


def check_label_noise(label_noise, n_points):
    """Return a rate a point from one rate or one a point."""
    if isinstance(label_noise, Mapping):
        raise ValueError(
            f"label_noise must be one rate or one for each of {n_points} points; got a dict, which "
            f"only the classifier takes."
        )
    try:
        noise = np.asarray(label_noise)
    except ValueError as error:
        raise ValueError(
            f"label_noise must be one rate or one for each of {n_points} points; got rows of "
            f"different lengths."
        ) from error
    if noise.dtype.kind not in "iuf" or not np.all((noise >= 0) & (noise < 0.5)):
        raise ValueError(f"label_noise must lie in [0, 0.5); got {label_noise!r}.")
    if noise.shape not in ((), (n_points,)):
        raise ValueError(
            f"label_noise must be one rate or one for each of {n_points} points; got shape "
            f"{noise.shape}."
        )
    return np.broadcast_to(noise.astype(np.float64), n_points).copy()


def class_noise(label_noise, classes):
    """Rates of wrong labels of each class, from one rate, one a class in order, or a dict."""
    if isinstance(label_noise, Mapping):
        unknown = [key for key in label_noise if key not in classes.tolist()]
        if unknown:
            raise ValueError(
                f"label_noise names {unknown[:5]}, which are not among the classes "
                f"{classes[:10].tolist()}; use the labels as they stand in y."
            )
        return np.array([label_noise.get(c, 0.0) for c in classes.tolist()], dtype=np.float64)
    rates = np.asarray(label_noise, dtype=np.float64)
    if rates.shape not in ((), (len(classes),)):
        raise ValueError(
            f"label_noise must be one rate or one for each of the {len(classes)} classes in the "
            f"order of classes_; got shape {rates.shape}."
        )
    return np.broadcast_to(rates, len(classes)).copy()


def _check_label_noise(label_noise, inference):
    given = label_noise
    if by_evidence(label_noise):
        label_noise = 0.1  # any rate
    rates = list(label_noise.values()) if isinstance(label_noise, Mapping) else label_noise
    rates = np.atleast_1d(np.array(rates, dtype=object))
    if rates.ndim != 1 or not all(_is_number(rate, least=0) and rate < 0.5 for rate in rates):
        raise ValueError(
            f"label_noise must be a rate in [0, 0.5), one a class, or 'evidence'; got "
            f"{label_noise!r}."
        )
    if inference == "perceptron" and any(rate > 0 for rate in rates):
        raise ValueError(
            f"inference='perceptron' takes every label as right; got label_noise={given!r}. "
            f"Use inference='billiard', 'ep' or 'auto', or softness > 0 instead of label_noise."
        )
