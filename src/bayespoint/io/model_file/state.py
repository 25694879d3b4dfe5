"""Checks that what a fitted classifier holds fits together.

Before a model is saved, and after it is loaded. Prediction indexes arrays by each other and hands
some to compiled loops, so that shapes must agree and indices lie in range.
"""

import sys

import numpy as np
import scipy.sparse as sp

from bayespoint.estimators.classifier import DRAW_SETTINGS, SAME_DATA
from bayespoint.estimators.settling import VOTING
from bayespoint.io.model_file.errors import ModelFileError, shown
from bayespoint.io.model_file.fields import (
    DRAWS,
    DRAWS_OF,
    FITTED,
    GAUSSIAN,
    LINK_POINTS,
    NUMBER,
    ONION,
    OPTIONAL,
    OPTIONAL_ONION,
    OPTIONAL_REJECTING,
    REJECTING,
    SUPPORT,
    TABLE,
    Array,
)
from bayespoint.io.model_file.tree import check_csr

KERNELS_OF_PRODUCTS = ("linear", "poly", "rbf")


def check_fitted(state, kernel, *, onion=False):
    """Refuse the fitted attributes of a classifier unless all of them fit together.

    Parameters
    ----------
    state : dict
        Attributes, without ``_support_["X"]``, which follows from the others.
    kernel : str
    onion : bool, default=False
        Whether they are an `OnionClassifier`'s.
    """
    needed, optional = (FITTED | ONION, OPTIONAL_ONION) if onion else (FITTED, OPTIONAL)
    check_names(state, needed, optional)
    sizes = _sizes(state, onion)
    _check_all("", state, needed | optional, sizes)
    _check_dict("_support_", state["_support_"], SUPPORT, sizes)
    for name, entries in (("_gaussian_", GAUSSIAN), ("_table_", TABLE)):
        if state.get(name) is not None:
            _check_dict(name, state[name], entries, sizes)
    if onion:
        _check_dict("_link_points_", state["_link_points_"], LINK_POINTS, sizes)
    _check_labels(state)
    if state["_settings_"].keys() != {*DRAW_SETTINGS, "label_noise", SAME_DATA}:
        raise ModelFileError(f"_settings_ are not those of draws: {shown(state['_settings_'])}.")
    _check_points(state, kernel, sizes)
    _check_decision(state, sizes)
    if state["_draws_"] is not None:
        _check_draws(state, sizes)


def check_rejecting(state, inner):
    """Refuse the fitted attributes of a `RejectingClassifier` around a classifier's."""
    check_names(state, REJECTING, OPTIONAL_REJECTING)
    sizes = {"c": len(inner["classes_"]), "f": inner["n_features_in_"]}
    _check_all("", state, REJECTING | OPTIONAL_REJECTING, sizes)
    for name in ("classes_", "n_features_in_"):
        if name in state and not np.array_equal(state[name], inner[name]):
            raise ModelFileError(f"{name} is not that of the classifier inside.")


def check_names(state, needed, optional):
    """Refuse missing and unknown names."""
    missing = [name for name in needed if name not in state]
    if missing:
        raise ModelFileError(f"{missing[0]} is missing.")
    unknown = [name for name in state if name not in needed and name not in optional]
    if unknown:
        raise ModelFileError(
            f"attribute {shown(unknown[0])} is not one that fit sets, and has no place in a model "
            f"file: delete it, or give it as about=."
        )


def _sizes(state, onion):
    """Lengths of the axes, by their letters."""
    for name in ("classes_", "_points_row_", "support_", "_used_", *(["counts_"] if onion else ())):
        if not isinstance(state[name], np.ndarray) or state[name].ndim != 1 + (name == "counts_"):
            raise ModelFileError(f"{name} is not an array of the right shape.")
    n_classes = len(state["classes_"])
    if n_classes < 2:
        raise ModelFileError(f"classes_ has {n_classes} label(s); a classifier has two or more.")
    if len(state["_points_row_"]) < 2 or not len(state["support_"]):
        raise ModelFileError("there are no points to decide by.")
    sizes = {
        "f": state["n_features_in_"], "n": state["_n_samples_"], "c": n_classes,
        "m": n_classes if n_classes > 2 else 1, "p": len(state["_points_row_"]),
        "s": len(state["support_"]), "u": len(state["_used_"]), "d": state["n_draws_"], "2": 2,
    }  # fmt: skip
    draws = state["_draws_"]
    chains = draws.get("n_chains") if isinstance(draws, dict) else None
    sizes["b"] = sizes["m"] * chains if isinstance(chains, int | np.integer) else 0
    if onion:
        sizes["a"], sizes["e"] = state["counts_"].shape
    return sizes


def _check_dict(name, state, entries, sizes, optional=()):
    if not isinstance(state, dict):
        raise ModelFileError(f"{name} is {shown(state)}.")
    missing = [key for key in entries if key not in state]
    unknown = [key for key in state if key not in entries and key not in optional]
    if missing or unknown:
        raise ModelFileError(f"{name} lacks {shown(missing)} or has unknown {shown(unknown)}.")
    _check_all(f"{name}.", state, entries, sizes)


def _check_all(prefix, state, entries, sizes):
    for name, entry in entries.items():
        if name not in state or (state[name] is None and not entry.needed):
            continue
        check = _check_array if isinstance(entry, Array) else _check_plain
        check(prefix + name, state[name], entry, sizes)


def _check_array(name, value, entry, sizes):
    if not isinstance(value, np.ndarray) or value.dtype.kind not in entry.kinds:
        found = value.dtype if isinstance(value, np.ndarray) else type(value).__name__
        raise ModelFileError(f"{name} is of {found}; it must be an array of kind {entry.kinds!r}.")
    wanted = tuple(None if axis == "*" else sizes[axis] for axis in entry.axes)
    pairs = zip(value.shape, wanted, strict=False)
    if value.ndim != len(wanted) or any(w is not None and n != w for n, w in pairs):
        raise ModelFileError(f"{name} has shape {value.shape}; it must be {wanted}.")
    if entry.finite and value.dtype.kind == "f" and not np.all(np.isfinite(value)):
        raise ModelFileError(f"{name} has values that are not finite.")
    if entry.below and value.size:
        low, high = int(value.min()), int(value.max())
        if low < 0 or high >= sizes[entry.below]:
            raise ModelFileError(
                f"{name} goes from {low} to {high}; it must stay in [0, {sizes[entry.below]})."
            )


def _check_plain(name, value, entry, sizes):  # noqa: ARG001
    is_number = isinstance(value, NUMBER) and entry.types != (bool, np.bool_)
    if not isinstance(value, entry.types) or (is_number and isinstance(value, bool)):
        raise ModelFileError(f"{name} is {shown(value)}, of type {type(value).__name__}.")
    if entry.choices and value not in entry.choices:
        raise ModelFileError(f"{name} is {shown(value)}; it must be one of {entry.choices}.")
    if isinstance(value, int) and abs(value) > sys.float_info.max:
        raise ModelFileError(f"{name} is {shown(value)}, too large for a number.")
    if is_number and entry.finite and not np.isfinite(value):
        raise ModelFileError(f"{name} is {value}; it must be finite.")
    if is_number and entry.least is not None and value < entry.least:
        raise ModelFileError(f"{name} is {value}; it must be at least {entry.least}.")
    if is_number and entry.below is not None and value >= entry.below:
        raise ModelFileError(f"{name} is {value}; it must be below {entry.below}.")


def _check_labels(state):
    classes, noise = state["classes_"].tolist(), state["label_noise_"]
    if len(set(classes)) < len(classes):
        raise ModelFileError("classes_ has a label twice.")
    if isinstance(noise, np.ndarray):
        _check_array("label_noise_", noise, Array("c"), {"c": len(classes)})
    rates = state["_class_noise_"]
    if np.any((rates < 0) | (rates >= 0.5)):
        raise ModelFileError("_class_noise_ has rates outside [0, 0.5).")


def _check_points(state, kernel, sizes):
    """Check that support points suit kernel and layout."""
    X, layout = state["support_vectors_"], state["_layout_"]
    if kernel == "precomputed":
        columns = 0
        if "_mean_diagonal_" not in state or sizes["f"] != sizes["n"]:
            raise ModelFileError("a Gram matrix was given to fit, and its size or diagonal lacks.")
    else:
        columns = sizes["f"]
    if X.shape != (sizes["s"], columns) or X.dtype not in (np.float32, np.float64):
        raise ModelFileError(
            f"support_vectors_ has shape {X.shape} and dtype {X.dtype}; it must be "
            f"{(sizes['s'], columns)} of floats."
        )
    values = X.data if sp.issparse(X) else X
    if sp.issparse(X):
        check_csr(X.shape, X.data, X.indices, X.indptr)
        if not X.has_canonical_format:
            raise ModelFileError("support_vectors_ has the same entry twice, or out of order.")
    if not np.all(np.isfinite(values)):
        raise ModelFileError("support_vectors_ has values that are not finite.")
    if (kernel in KERNELS_OF_PRODUCTS) != (layout is not None):
        raise ModelFileError(f"_layout_ is {shown(layout)} for the kernel {shown(kernel)}.")
    dense_rbf = kernel == "rbf" and layout.startswith("dense")
    if dense_rbf != (state["_center_"] is not None):
        raise ModelFileError("_center_ must be there for dense points of the kernel 'rbf' only.")
    if layout is not None and layout.startswith("dense") and sp.issparse(X):
        raise ModelFileError("support_vectors_ is sparse, and its layout is dense.")
    if (state["_support_"]["squared_norm"] is not None) != (layout is not None):
        raise ModelFileError("_support_.squared_norm does not suit the kernel.")


def _check_decision(state, sizes):
    decision, draws = state["_decision_"], state["_draws_"]
    if draws is None and decision != "bayes_point":
        raise ModelFileError(f"decision {decision!r} needs draws, and there are none.")
    if draws is not None and sizes["u"] != sizes["s"]:
        raise ModelFileError(f"{sizes['u']} points have coefficients, {sizes['s']} support.")
    if decision in VOTING and (state["_whitener_"] is None or sizes["s"] != sizes["p"]):
        raise ModelFileError(f"decision {decision!r} needs all points and their whitener.")
    if decision == "calibrated" and state["_gaussian_"] is None:
        raise ModelFileError("decision 'calibrated' needs a Gaussian posterior.")
    kappa, unused = state["_kappa_"], decision in ("vote", "span_vote")
    if not np.isfinite(kappa) and not (unused and np.isnan(kappa)):
        raise ModelFileError(f"_kappa_ is {kappa}; decision {decision!r} needs a finite one.")
    if state["_label_proba_"] is not None and "_label_" not in state:
        raise ModelFileError("_label_proba_ is there without the labels, _label_.")


def _check_draws(state, sizes):
    draws, method = state["_draws_"], state["inference_"]
    _check_dict("_draws_", draws, DRAWS | DRAWS_OF[method], sizes)
    n_draws, n_machines = sizes["d"], sizes["m"]
    if draws["n_draws"] != n_draws or n_draws < 1 or n_draws % draws["n_chains"]:
        raise ModelFileError(f"{draws['n_draws']} draws do not make n_draws_={n_draws}.")
    if len(draws["coef"]) != n_machines:
        raise ModelFileError(f"draws of {len(draws['coef'])} machines, not of {n_machines}.")
    for number, coef in enumerate(draws["coef"]):
        name = f"_draws_.coef[{number}]"
        if sp.issparse(coef):
            check_csr((n_draws, sizes["p"]), coef.data, coef.indices, coef.indptr)
            _check_array(f"{name}.data", coef.data, Array("*"), sizes)
            if coef.shape != (n_draws, sizes["p"]):
                raise ModelFileError(f"{name} has shape {coef.shape}.")
        else:
            _check_array(name, coef, Array("dp"), sizes)
