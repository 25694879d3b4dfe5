"""Checks of arguments, shared by all packages: one precise message each, with the remedy."""

import sys
import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np
from sklearn.utils import check_random_state

from bayespoint._support.types import Array, Seed


def warn(message: str, category: type[Warning] = UserWarning) -> None:
    """Warn at the line outside this package that led here."""
    frame, level = sys._getframe(1), 2
    while frame.f_back and frame.f_globals.get("__name__", "").startswith("bayespoint."):
        frame, level = frame.f_back, level + 1
    warnings.warn(message, category, stacklevel=level)


def is_number(value: Any, least: float | None = None, above: float | None = None) -> bool:
    """Whether a value is a finite number, no truth value, within bounds."""
    if isinstance(value, bool | np.complexfloating):
        return False
    if not isinstance(value, int | float | np.number):
        return False
    try:
        value = float(value)  # what is too large for it is infinite, or an error
    except OverflowError:
        return False
    return bool(
        np.isfinite(value)
        and (least is None or value >= least)
        and (above is None or value > above)
    )


def check_number(
    name: str, value: Any, least: float | None = None, above: float | None = None
) -> None:
    """Refuse what is not a finite number within a bound."""
    if not is_number(value, least, above):
        bound = f">= {least}" if least is not None else f"> {above}"
        raise ValueError(f"{name} must be a finite number {bound}; got {value!r}.")


def check_positive_integer(name: str, value: Any) -> None:
    """Refuse what is not a whole number of at least 1."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < 1:
        raise ValueError(f"{name} must be a whole number >= 1; got {value!r}.")


def check_natural_number(name: str, value: Any) -> None:
    """Refuse what is not a whole number of at least 0."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < 0:
        raise ValueError(f"{name} must be a whole number >= 0; got {value!r}.")


def check_choice(name: str, value: Any, choices: tuple[str, ...]) -> None:
    """Refuse what is none of some words."""
    if not isinstance(value, str) or value not in choices:
        raise ValueError(f"{name} must be one of {choices}; got {value!r}.")


def check_time(max_time: Any) -> None:
    """Refuse what is neither None nor a number of seconds above 0."""
    if max_time is not None:
        check_number("max_time", max_time, above=0)


def check_verbose(verbose: Any) -> None:
    """Refuse what is neither True, False nor a whole number of at least 0."""
    check_natural_number("verbose", int(verbose) if isinstance(verbose, bool) else verbose)


def check_jobs(n_jobs: Any) -> None:
    """Refuse what joblib does not take as a number of jobs."""
    if n_jobs is not None and (not isinstance(n_jobs, int | np.integer) or n_jobs == 0):
        raise ValueError(f"n_jobs must be None or a whole number other than 0; got {n_jobs!r}.")


def check_seed(random_state: Any) -> None:
    """Refuse what scikit-learn does not take as random_state."""
    try:
        check_random_state(random_state)
    except ValueError as error:
        hint = ""
        if isinstance(random_state, np.random.Generator):
            hint = " Draw a number from the generator: random_state=int(rng.integers(2**32))."
        raise ValueError(
            f"random_state must be None, a whole number from 0 to 2**32 - 1 or a RandomState; "
            f"got {random_state!r}.{hint}"
        ) from error


def check_run(
    *, max_time: Any = None, n_jobs: Any = None, random_state: Any = None, verbose: Any = 0
) -> None:
    """Check the arguments that all long work takes."""
    check_time(max_time)
    check_jobs(n_jobs)
    check_seed(random_state)
    check_verbose(verbose)


def entropy_of(random_state: Seed) -> int:
    """Integer that seeds all draws of a fit, from what scikit-learn takes as random_state."""
    if isinstance(random_state, int | np.integer):
        return int(random_state)
    return int(check_random_state(random_state).randint(2**31 - 1))


def check_label_noise(label_noise: Any, n_points: int) -> Array:
    """Return a rate per point from one rate or one per point."""
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


def is_missing(value: Any) -> bool:
    """Whether this is None, NaN, NaT or pandas' NA, which is neither equal to itself nor not."""
    try:
        return value is None or bool(value != value)
    except (TypeError, ValueError):
        return True


# Said beside indices in messages: files have lines and rows from 1, arrays rows from 0.
FROM_0 = "(counted from 0)"


SHOWN_PLACES = 5


def shown_places(mask: Any, rows: Any = None, most: int = SHOWN_PLACES) -> str:
    """First few indices where a mask holds, or of ``rows`` there, for messages."""
    index = np.flatnonzero(mask)
    shown = index[:most] if rows is None else np.asarray(rows)[index[:most]]
    more = f" and {len(index) - most} more" if len(index) > most else ""
    return f"{shown.tolist()}{more} {FROM_0}"


class PointsError(ValueError):
    """Points that a kernel does not suit.

    Parameters
    ----------
    before, after : str
        The message, but for the points.
    points : ndarray of int
        Their numbers, as far as whoever raises it knows them.
    vectors : ndarray or csr_matrix, optional
        The first of them, by which `fit` finds out which rows of X they are.
    """

    def __init__(self, before: str, points: Any, after: str, vectors: Any = None) -> None:
        self.before, self.points, self.after = before, np.asarray(points), after
        self.vectors = vectors
        super().__init__(f"{before}{shown_places(np.ones(len(points)), points)}{after}")

    def __reduce__(self) -> Any:
        """Pickle it by its parts, as joblib does with errors of other processes."""
        return type(self), (self.before, self.points, self.after, self.vectors)

    def of(self, X: Any, first: int = 0) -> "PointsError":
        """Return the same error with the points that are shown, of some whose first is given."""
        vectors = X[self.points[:SHOWN_PLACES] - first]
        return type(self)(self.before, self.points, self.after, vectors)


class RowsError(PointsError):
    """The same, where the points are rows of X as it was given."""


def is_dask(values: Any) -> bool:
    """Whether values are a Dask collection, which is computed later and maybe elsewhere."""
    return hasattr(values, "__dask_graph__")


def refuse_dask(*data: Any) -> None:
    """Refuse Dask collections where rows must be in memory."""
    for values in data:
        if is_dask(values):
            raise TypeError(
                f"BayesPointClassifier takes what is in memory; got the Dask collection "
                f"{type(values).__name__}. Fit it on its cluster, with "
                f"bayespoint.distributed.DaskBayesPointClassifier(estimator), or compute() it."
            )
