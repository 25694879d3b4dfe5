"""The parameters of estimators: checks, and what they mean for given classes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from numbers import Integral
from reprlib import repr as short
from typing import Any

import numpy as np

from bayespoint._support.budget import Budget
from bayespoint._support.checks import (
    check_choice,
    check_number,
    check_positive_integer,
    check_run,
    is_number,
)
from bayespoint._support.devices import DEVICES
from bayespoint._support.types import Array
from bayespoint.inference.methods import METHODS
from bayespoint.space.kernels import KERNELS, Kernel

# Values of settings that are chosen from the training data: by the evidence, by labels held out.
EVIDENCE = "evidence"
HELD_OUT = "held-out"
AUTO = "auto"  # the same, for the bias
ARD = "ard"  # the same, with a width for each feature

DECISIONS = ("bayes_point", "vote", "calibrated", "span_vote")

# Parameters that draws depend on: a fit that goes on with another refuses to mix different ones.
# The method and the rates of wrong labels count as well, as the fit settles them.
DRAW_SETTINGS = (
    "kernel", "gamma", "feature_groups", "degree", "coef0", "normalize_kernel", "bias", "softness",
)  # fmt: skip


@dataclass(frozen=True, eq=False)
class Parameters:
    """The parameters of a `BayesPointClassifier`, as a fit sees them; they do not change."""

    kernel: Any
    gamma: Any
    feature_groups: Any
    degree: int
    coef0: float
    normalize_kernel: bool
    bias: Any
    inference: str
    n_draws: int
    softness: Any
    label_noise: Any
    decision: str
    cell_size: Any
    n_landmarks: Any
    n_trees: Any
    class_weight: Any
    cache_size: float
    max_time: float | None
    tol: float
    warm_start: bool
    device: str
    n_jobs: int | None
    random_state: Any
    verbose: int
    relative: Array | None = None  # widths of features, in units of the common one
    kernel_open: bool = False  # whether the data may ask for another kernel
    half_life: float | None = None
    column_names: Any = None  # of X, if they are texts
    asked: dict[str, Any] = field(default_factory=dict)  # DRAW_SETTINGS, as they were given

    @classmethod
    def checked(cls, params: Mapping[str, Any]) -> "Parameters":
        """Check parameters, given by name."""
        check_parameters(params)
        names = [one.name for one in fields(cls) if one.name in params]
        given = {name: params[name] for name in names} | {"asked": _draw_settings(params)}
        if isinstance(params["kernel"], str) and params["kernel"] == AUTO:
            given |= {"kernel": "rbf", "kernel_open": by_held_out(params["gamma"])}
        return cls(**given)

    @property
    def precomputed(self) -> bool:
        """Whether a Gram matrix is given instead of rows."""
        return isinstance(self.kernel, str) and self.kernel == "precomputed"

    @property
    def cache_bytes(self) -> int:
        """Memory for kernel rows."""
        return int(self.cache_size * 1e6)

    def budget(self, share: float = 1.0) -> Budget:
        """Return a share of the time that there is, from now on."""
        seconds = None if self.max_time is None else share * self.max_time
        return Budget(seconds, "bayespoint" if self.verbose else None)

    def groups(self, n_columns: int) -> Array:
        """Return the number of each column's group: its own where no groups are given."""
        if self.feature_groups is None:
            return np.arange(n_columns)
        if len(self.feature_groups) != n_columns:
            raise ValueError(
                f"feature_groups must hold one label for each of the {n_columns} columns of X; got "
                f"{len(self.feature_groups)}. Give one for every column, or None."
            )
        number: dict[Any, int] = {}
        found = [number.setdefault(label, len(number)) for label in self.feature_groups]
        return np.array(found)

    def kernel_with(self, gamma: Any, bias: float) -> Kernel:
        """Return the kernel with this width and bias."""
        gamma = gamma if self.relative is None else gamma * self.relative
        return Kernel(
            self.kernel, gamma=gamma, degree=self.degree, coef0=self.coef0, bias=bias,
            normalize=self.normalize_kernel,
        )  # fmt: skip


def _draw_settings(params: Mapping[str, Any]) -> dict[str, Any]:
    """Parameters that draws depend on, without arrays, so that they can be compared."""
    found = {name: params[name] for name in DRAW_SETTINGS}
    if np.ndim(params["gamma"]):
        found["gamma"] = np.asarray(params["gamma"]).tolist()
    if params["feature_groups"] is not None:
        found["feature_groups"] = [
            label if isinstance(label, str) else int(label) for label in params["feature_groups"]
        ]
    return found


def on_cpu_only(kernel: Any, inference: str) -> tuple[str, str] | None:
    """What has no version for a GPU, and what to use instead; None where all has."""
    if callable(kernel):
        return "a callable kernel", "name a kernel"
    if inference in METHODS and not METHODS[inference].on_gpu:
        return f"inference={inference!r}", "the billiard"
    return None


def check_parameters(params: Mapping[str, Any]) -> None:
    """Check the parameters of a `BayesPointClassifier` that do not depend on the data."""
    kernel = params["kernel"]
    kernels = (AUTO, *KERNELS)
    if not callable(kernel) and not (isinstance(kernel, str) and kernel in kernels):
        raise ValueError(f"kernel must be one of {kernels} or a callable; got {kernel!r}.")
    gamma = params["gamma"]
    known = isinstance(gamma, str) and gamma in ("scale", EVIDENCE, HELD_OUT, ARD)
    if not known and not is_number(gamma, above=0):
        _check_widths(gamma, kernel)
    _check_groups(params["feature_groups"])
    check_choice("inference", params["inference"], ("auto", *METHODS))
    check_choice("decision", params["decision"], ("auto", *DECISIONS))
    check_choice("device", params["device"], DEVICES)
    for name, named in (("softness", (HELD_OUT, EVIDENCE)), ("bias", ("auto", EVIDENCE))):
        value = params[name]
        if not (isinstance(value, str) and value in named) and not is_number(value, least=0):
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
    check_run(**{name: params[name] for name in ("max_time", "n_jobs", "random_state", "verbose")})
    check_positive_integer("n_draws", params["n_draws"])
    for name, least in (("cell_size", 2), ("n_landmarks", 0), ("n_trees", 1)):
        _check_count(name, params[name], least)
    half_life = params.get("half_life")
    if half_life is not None and not is_number(half_life, above=0):
        raise ValueError(f"half_life must be a number of rows > 0, or None; got {half_life!r}.")
    _check_label_noise(params["label_noise"], params["inference"])


def _check_widths(gamma: Any, kernel: Any) -> None:
    """Refuse what is neither a width nor an array of widths."""
    widths = np.asarray(gamma)
    if widths.ndim != 1 or widths.dtype.kind not in "iuf":
        raise ValueError(
            f"gamma must be a number > 0, an array of one dimension with a number for each "
            f"feature, 'held-out', 'ard', 'evidence' or 'scale' (for SVC's 'auto' give "
            f"1 / n_features); got {short(gamma)}."
        )
    if not (isinstance(kernel, str) and kernel in (AUTO, "rbf", "laplacian")):
        raise ValueError(
            f"gamma may be an array, one width for each feature, with kernel='rbf' or 'laplacian'; "
            f"got kernel={kernel!r}."
        )
    bad = ~np.isfinite(widths) | (widths < 0)
    if np.any(bad) or not np.any(widths > 0):
        found = "only zeros" if len(widths) else "an empty array"
        if np.any(bad):
            found = f"{widths[np.argmax(bad)]} for column {np.argmax(bad)}, counted from 0"
        raise ValueError(
            f"gamma must hold finite numbers >= 0, one for each feature, and not only zeros; got "
            f"{found}. A width of 0 leaves a feature out."
        )


def _check_groups(groups: Any) -> None:
    """Refuse what is no list of labels."""
    if groups is None:
        return
    listed = isinstance(groups, Sequence) or getattr(groups, "ndim", 0) == 1
    odd = [groups]
    if listed and not isinstance(groups, str | bytes):
        odd = [label for label in groups if not isinstance(label, str | Integral)]
    if odd:
        raise ValueError(
            f"feature_groups must be None or a list with a label, a whole number or a text, for "
            f"each column of X; got {short(odd[0])}. Give columns of one group the same label."
        )


def _check_count(name: str, value: Any, least: int) -> None:
    if isinstance(value, str) and value == AUTO:
        return
    if not is_number(value, least=least) or value != int(value):
        raise ValueError(f"{name} must be 'auto' or a whole number >= {least}; got {value!r}.")


def by_evidence(value: Any) -> bool:
    """Whether a setting is to be chosen by the evidence."""
    return isinstance(value, str) and value == EVIDENCE


def by_held_out(value: Any) -> bool:
    """Whether a setting is to be chosen by labels held out."""
    return isinstance(value, str) and value in (HELD_OUT, AUTO, ARD)


def check_fits(value: float, name: str, dtype: Any) -> None:
    """Refuse a number that is infinite in the precision of the data."""
    with np.errstate(over="ignore"):
        if not np.isfinite(np.dtype(dtype).type(value)):
            raise ValueError(
                f"{name}={value:.3g} is too large for {dtype}: scale the features, for example "
                f"with StandardScaler, or pass float64."
            )


def log_class_weights(class_weight: Any, classes: Array, totals: Array) -> Array:
    """Logarithms of the class weights, from a dict, "balanced" or None."""
    if class_weight is None:
        return np.zeros(len(classes))
    if not isinstance(class_weight, Mapping):
        if not isinstance(class_weight, str) or class_weight != "balanced":
            raise ValueError(f"class_weight must be a dict, 'balanced' or None; "
                             f"got {class_weight!r}.")  # fmt: skip
        there = totals > 0  # others have not turned up yet, and count as they are
        share = np.where(there, totals / totals.sum(), 1 / np.sum(there))
        return -np.log(np.sum(there) * share)
    unknown = [key for key in class_weight if key not in classes.tolist()]
    if unknown and any(c not in class_weight for c in classes.tolist()):
        raise ValueError(
            f"class_weight names {unknown[:5]}, which are not among the classes "
            f"{classes[:10].tolist()}; use the labels as they are in y."
        )
    weights = [class_weight.get(c, 1.0) for c in classes.tolist()]
    if not all(is_number(weight, above=0) for weight in weights):
        raise ValueError(f"class_weight must hold numbers > 0; got {class_weight!r}.")
    return np.log(np.array(weights, dtype=np.float64))


def class_noise(label_noise: Any, classes: Array) -> Array:
    """Rates of wrong labels of each class, from one rate, one per class in order, or a dict."""
    if isinstance(label_noise, Mapping):
        unknown = [key for key in label_noise if key not in classes.tolist()]
        if unknown:
            raise ValueError(
                f"label_noise names {unknown[:5]}, which are not among the classes "
                f"{classes[:10].tolist()}; use the labels as they are in y."
            )
        return np.array([label_noise.get(c, 0.0) for c in classes.tolist()], dtype=np.float64)
    rates = np.asarray(label_noise, dtype=np.float64)
    if rates.shape not in ((), (len(classes),)):
        raise ValueError(
            f"label_noise must be one rate or one for each of the {len(classes)} classes in the "
            f"order of classes_; got shape {rates.shape}."
        )
    return np.broadcast_to(rates, len(classes)).copy()


def _check_label_noise(label_noise: Any, inference: str) -> None:
    given = label_noise
    if by_evidence(label_noise):
        label_noise = 0.1  # any rate
    rates = list(label_noise.values()) if isinstance(label_noise, Mapping) else label_noise
    rates = np.atleast_1d(np.array(rates, dtype=object))
    if rates.ndim != 1 or not all(is_number(rate, least=0) and rate < 0.5 for rate in rates):
        raise ValueError(
            f"label_noise must be a rate in [0, 0.5), one per class, or 'evidence'; got "
            f"{label_noise!r}."
        )
    takes_noise = inference == "auto" or METHODS[inference].takes_noise
    if not takes_noise and any(rate > 0 for rate in rates):
        raise ValueError(
            f"inference={inference!r} assumes that every label is right; got "
            f"label_noise={given!r}. Use inference='billiard', 'ep' or 'auto', or softness > 0 "
            f"instead of label_noise."
        )
