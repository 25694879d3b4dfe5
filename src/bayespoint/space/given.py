"""The one place that checks what is given: X, y, weights, kernel values and Gram matrices.

Estimators, samplers, displays and commands all come here, so that what one refuses all refuse; each
error names the argument. `check_answers` is the last step before predictions are returned.
"""

import re
from collections.abc import Callable
from numbers import Real
from typing import Any

import numpy as np
import scipy.linalg
import scipy.sparse as sp
from sklearn.utils import check_array, column_or_1d
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import assert_all_finite, validate_data

from bayespoint._support.checks import (
    SHOWN_PLACES,
    PointsError,
    RowsError,
    is_missing,
    shown_places,
)
from bayespoint._support.types import Array, ArrayLike, Matrix

# Columns of X: arrays with a number for each are made, and 16 times what hashed words usually have.
MOST_COLUMNS = 2**24

# Copies of a row, which a weight means: float64 counts no further.
MOST_COPIES = 2.0**53

# Difference of K and its transpose that rounding may leave: of the lengths of the two points, and
# of the largest value.
SYMMETRY_TOLERANCE = 1e-4
ROUNDED = 1e-6

# A kernel value may exceed sqrt(k(x,x) k(x',x')) by this factor through rounding, not by more.
CAUCHY_SCHWARZ_SLACK = 1e-3

# Rows of a given Gram matrix that are checked together.
CHECKED_ROWS = 256

# Points whose Gram matrix is factorised to see whether it is one; the work is cubic in them. Any
# part of a positive semi-definite matrix is one as well.
DEFINITE_POINTS = 1000

# Eigenvalues of the matrix of cosines, below 0, that single precision may leave: of each point.
DEFINITE_SLACK = 1e-6

# Columns of a data frame that a message names.
SHOWN_COLUMNS = 8

# Kinds of NumPy that are no numbers, though it takes them for some: dates, durations, records.
NO_NUMBERS = "mMV"


# ---------------------------------------------------------------------- X and y


def validated(estimator: Any, X: Any, *y: Any, **options: Any) -> Any:
    """Check X, and y where it is given, by scikit-learn's rules and ours.

    Parameters
    ----------
    estimator : estimator
        Takes the number of features and their names, unless ``reset=False``.
    X : array-like or sparse matrix of shape (n_samples, n_features)
    *y : array-like of shape (n_samples,)
    **options
        Of `sklearn.utils.validation.validate_data`.

    Returns
    -------
    X, or X and y
    """
    X, labels = _rows(X), [one if one is None else checked_labels(one) for one in y]
    table = options["accept_sparse"] and not sp.issparse(X)
    try:
        with np.errstate(over="ignore", invalid="ignore"):  # infinite values are refused
            found = validate_data(estimator, X, *labels, **options)
    except (TypeError, ValueError, OverflowError) as error:
        raise _explained(error, type(estimator).__name__ if table else "", X=X) from None
    return found


def checked_rows(X: Any, **options: Any) -> Matrix:
    """Check rows where there is no estimator that knows them; options of `check_array`."""
    try:
        with np.errstate(over="ignore", invalid="ignore"):
            return check_array(_rows(X), input_name="X", **options)
    except (TypeError, ValueError, OverflowError) as error:
        raise _explained(error) from None


def checked_labels(y: Any, name: str = "y") -> Array:
    """Return labels as an array of texts or numbers; refuse gaps and what are no classes.

    ``name``: of the argument.
    """
    y = _without_gaps(y, name)
    try:
        y = column_or_1d(y, warn=True)
        assert_all_finite(y, input_name=name)
    except (TypeError, ValueError) as error:
        raise _explained(error, argument=name) from None
    if y.dtype.kind in NO_NUMBERS:
        raise ValueError(
            f"{name} must hold labels, texts or numbers; got an array of {y.dtype}: convert them, "
            f"for example by {name}.astype(str)."
        )
    y = _typed(y, name) if y.dtype.kind == "O" else y
    if y.dtype.kind not in "biu":  # whole numbers are classes
        try:
            with np.errstate(invalid="ignore"):  # beyond the whole numbers there are
                check_classification_targets(y)
        except (TypeError, ValueError) as error:
            raise _explained(error, argument=name) from None
    return y


def array_options(precomputed: bool) -> dict[str, Any]:
    """Options of scikit-learn's checks of X."""
    return {
        "accept_sparse": False if precomputed else "csr", "dtype": [np.float64, np.float32],
    }  # fmt: skip


def _rows(X: Any) -> Any:
    """Return X; refuse what scikit-learn would take for something else, or not survive."""
    if X is None:
        raise ValueError("X is None: give rows of numbers.")
    X = unmasked("X", X)
    names = list(X.columns) if hasattr(X, "columns") and hasattr(X, "dtypes") else []
    if len(set(names)) < len(names):
        twice = next(name for i, name in enumerate(names) if name in names[:i])
        raise ValueError(f"X has several columns called {twice!r}: rename them.")
    kinds = getattr(X, "dtypes", []) if names else [getattr(X, "dtype", None)]
    wrong = [kind for kind in kinds if getattr(kind, "kind", "f") in NO_NUMBERS]
    if wrong:
        found = f"an array of {wrong[0]}"
        if names:  # words beside dates are as wrong
            odd = [str(kind) for kind in kinds if getattr(kind, "kind", "f") not in "biuf"]
            found = f"columns of {', '.join(dict.fromkeys(odd))}{_named_columns(X, _is_odd)}"
        raise ValueError(
            f"X must hold numbers; got {found}: convert the values, or let "
            f"bayespoint.io.encoder.TableEncoder do so."
        )
    return _sound_sparse(X) if sp.issparse(X) else X


def _sound_sparse(X: Matrix) -> Matrix:
    """Return X; refuse what is too wide, or broken: compiled loops trust the indices."""
    if X.shape[-1] > MOST_COLUMNS:
        raise ValueError(
            f"X has {X.shape[-1]:,} columns; at most {MOST_COLUMNS:,} are taken: leave out those "
            f"that are zero in all rows, or hash into fewer (HashingVectorizer(n_features=2**20))."
        )
    try:
        X = _compressed(X)
        if hasattr(X, "check_format"):
            X.check_format(full_check=True)
        elif X.format == "coo" and X.nnz:
            places = zip((X.row, X.col), X.shape, strict=True)
            if not all(index.min() >= 0 and index.max() < n for index, n in places):
                raise ValueError("indices beyond its shape")
    except ValueError as error:
        raise ValueError(f"X is not a valid sparse matrix: {error}. Build it again.") from None
    return X


def _compressed(X: Matrix) -> Matrix:
    """Return lists of lists as CSR; refuse parts that do not fit, where SciPy does not look."""
    if X.format == "dia" and len(X.offsets) != len(X.data):
        raise ValueError("the numbers of offsets and diagonals differ")
    if X.format != "lil":
        return X
    if any(len(indices) != len(values) for indices, values in zip(X.rows, X.data, strict=True)):
        raise ValueError("some rows have different numbers of indices and values")
    return X.tocsr()


def _without_gaps(y: Any, name: str) -> Any:
    """Return y; refuse masked labels, and None and the like among objects."""
    y = unmasked(name, y)
    try:
        found = np.asarray(y)
    except ValueError:
        raise ValueError(
            f"{name} must hold one label per row; got lists of other lengths."
        ) from None
    if found.dtype.kind == "O" and found.ndim == 1:
        missing = np.array([is_missing(value) for value in found], dtype=bool)
        if np.any(missing):
            raise ValueError(
                f"Input {name} contains NaN or None, in rows {shown_places(missing)}: leave out "
                f"rows without a label, or give them one."
            )
    return found if found.ndim == 1 else y  # what pandas would make floats stays as it is


def _typed(y: Array, name: str) -> Array:
    """Labels that are objects as texts or numbers, where all of them are."""
    if all(isinstance(value, str) for value in y):
        return y
    if all(isinstance(value, Real | np.bool_) for value in y):
        found = np.array(y.tolist())
        if found.dtype.kind in "biuf":
            return found
    kinds = sorted({type(value).__name__ for value in y})
    raise ValueError(
        f"{name} must hold labels of one type, texts or numbers of at most 64 bits; got an array "
        f"of objects of type {', '.join(kinds[:5])}: convert them, for example by "
        f"{name}.astype(str)."
    )


def _explained(
    error: Exception, encodes: str = "", argument: str = "X", X: Any = None
) -> Exception:
    """Return the error of scikit-learn as ours, which names the argument and the remedy.

    ``encodes``: name of the estimator, where an encoder before it takes gaps and words;
    ``X``: as it was given, whose columns are named if it is a data frame.
    """
    text = str(error)
    gaps, words = "X contains NaN" in text, text.startswith("could not convert string")
    where = _rows_with(np.isnan, X) if gaps else ""
    if encodes and (gaps or words):
        found = "contains NaN" if gaps else f"holds words ({error})"
        where = _placed(_named_columns(X, _has_gaps if gaps else _is_odd), where)
        text = (
            f"Input X {found}{where}, and {encodes} takes numbers without gaps. "
            f"make_pipeline(TableEncoder(), {encodes}()), with bayespoint.io.encoder.TableEncoder, "
            f"fills gaps in and encodes words and dates; or leave these rows or columns out."
        )
    elif "X contains infinity" in text:
        where = _placed(_named_columns(X, _is_infinite), _rows_with(np.isinf, X))
        text = f"{text.rstrip('.')}{where}."
    elif where:
        text = text.replace("X contains NaN", f"X contains NaN{where}", 1)
    elif "inconsistent numbers of samples" in text:
        text = f"X and y: {text}"
    elif not re.match(rf"(Input )?{re.escape(argument)}\b", text):
        text = f"{argument}: {text}"
    return TypeError(text) if isinstance(error, TypeError) else ValueError(text)


def _has_gaps(column: Any) -> bool:
    return bool(column.isna().any())


def _is_odd(column: Any) -> bool:
    """Whether a column of a data frame holds no numbers."""
    return column.dtype.kind not in "biuf"


def _is_infinite(column: Any) -> bool:
    """Whether numbers of a column are infinite."""
    return bool(np.isinf(column.to_numpy(dtype=float, na_value=np.nan)).any())


def _named_columns(X: Any, wanted: Callable[[Any], bool]) -> str:
    """Names of some columns of a data frame, for a message; nothing where X is something else."""
    if not (hasattr(X, "columns") and hasattr(X, "isna") and hasattr(X, "dtypes")):
        return ""
    names = [repr(name) for i, name in enumerate(X.columns) if wanted(X.iloc[:, i])]
    shown = ", ".join(names[:SHOWN_COLUMNS]) + (", …" if len(names) > SHOWN_COLUMNS else "")
    return f" in columns {shown}" if names else ""


def _placed(columns: str, rows: str) -> str:
    """Words on columns and rows, with a comma between them; either may be missing."""
    return f"{columns},{rows}" if columns and rows else columns + rows


def _rows_with(wanted: Callable[[Any], Array], X: Any) -> str:
    """Rows of X with some values, for a message; nothing where X is no array of numbers."""
    try:
        if sp.issparse(X):
            X = X.tocoo()
            bad: Any = np.bincount(X.row[wanted(X.data)], minlength=X.shape[0]) > 0
        elif hasattr(X, "to_numpy") and hasattr(X, "isna"):
            bad = wanted(X.to_numpy(dtype=float, na_value=np.nan)).any(axis=1)
        else:
            bad = wanted(np.asarray(X, dtype=None if hasattr(X, "dtype") else float)).any(axis=1)
    except (TypeError, ValueError):
        return ""
    return f" in rows {shown_places(bad)}" if np.any(bad) else ""


def unmasked(name: str, values: Any) -> Any:
    """Return values, a masked array without a mask as a plain one; refuse masked values."""
    if not isinstance(values, np.ma.MaskedArray):
        return values
    n_masked = int(np.ma.count_masked(values))
    if n_masked:
        raise ValueError(
            f"{name} is a masked array with {n_masked:,} masked values: fill them in "
            f"({name}.filled(value)), or leave these rows out."
        )
    return values.data


# ---------------------------------------------------------------------- numbers


def numbers(
    name: str, values: ArrayLike, dtypes: tuple[type, ...] = (np.float64,), *, finite: bool = True
) -> Array:
    """Return an array of finite real numbers, or say what is wrong with it.

    ``dtypes``: those that stay as they are; others become float64. ``finite``: whether NaN and
    infinity are refused.
    """
    values = unmasked(name, values)
    try:
        found = np.asarray(values)
        if found.dtype.kind == "O":
            found = found.astype(np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        raise ValueError(f"{name} must be an array of numbers: {error}") from None
    if found.dtype.kind not in "biuf":
        raise ValueError(
            f"{name} must hold real numbers; got an array of {found.dtype}: convert it."
        )
    if found.dtype not in dtypes:
        with np.errstate(over="ignore"):
            found = found.astype(np.float64)
    if finite and not np.all(good := np.isfinite(found)):
        rows = ~good.all(axis=tuple(range(1, found.ndim)))
        where = f" in rows {shown_places(rows)}" if found.ndim else ""
        raise ValueError(f"{name} contains NaN or infinity{where}; clean its values.")
    return found


def checked_weights(sample_weight: Any, n_samples: int) -> Array:
    """Return a weight for each row; refuse negative ones, too large ones and the wrong number."""
    if sample_weight is None:
        return np.ones(n_samples)
    weight = numbers("sample_weight", sample_weight)
    if weight.ndim == 0:
        weight = np.full(n_samples, float(weight))
    if weight.shape != (n_samples,):
        raise ValueError(
            f"sample_weight must hold one weight per row of X, shape ({n_samples},); "
            f"got shape {weight.shape}."
        )
    if np.any(weight < 0):
        raise ValueError("sample_weight must be finite and >= 0; use 0 to leave a row out.")
    if np.any(weight > MOST_COPIES):
        raise ValueError(
            f"sample_weight must be at most {MOST_COPIES:.3g}, as a weight w means w copies of a "
            f"row; got {weight.max():.3g}. Divide all weights by one number."
        )
    return weight


# ---------------------------------------------------------------------- kernels


def checked_kernel_values(values: Any, shape: tuple[int, int], dtype: Any) -> Array:
    """Return what a kernel function returned for so many points, in the precision of these."""
    found = numbers("kernel(X, Y)", values, (np.float32, np.float64), finite=False)
    if found.shape != shape:
        raise ValueError(
            f"kernel(X, Y) must return an array of shape {shape} for {shape[0]} and {shape[1]} "
            f"points; it returned shape {found.shape}."
        )
    if not np.all(good := np.isfinite(found)):
        places = np.argwhere(~good)[0]
        raise PointsError(
            "kernel(X, Y) contains NaN or infinity for points ", places, "; clean its values."
        )
    with np.errstate(over="ignore"):
        found = found.astype(dtype)
    if not np.all(np.isfinite(found)):
        raise ValueError(f"kernel(X, Y) returned values too large for {dtype}: scale them.")
    return found


def checked_gram(K: Any, name: str = "K") -> Array:
    """Return a Gram matrix in C order, symmetric to the last bit; refuse what is none."""
    K = np.ascontiguousarray(numbers(name, K, (np.float32, np.float64)))
    if K.ndim != 2 or K.shape[0] != K.shape[1] or not len(K):
        raise ValueError(
            f"{name} must be a square Gram matrix; got an array of shape {K.shape}. Of rows X of "
            f"features, X @ X.T is that of the linear kernel."
        )
    return K if check_inner_products(K, name) else K / 2 + K.T / 2


def check_inner_products(K: Array, name: str, first: int = 0, *, given: bool = True) -> bool:
    """Refuse values that no inner products have; return whether they are exactly symmetric.

    Parameters
    ----------
    K : ndarray of shape (m, m)
        Kernel values of some points.
    name : str
        Of the argument.
    first : int, default=0
        Number of the first point, for messages.
    given : bool, default=True
        Whether the matrix is given, and not a function: then its diagonal can be changed.
    """
    slack = ROUNDED * max(K.max(), -K.min())
    if np.any(negative := K.diagonal() < -slack):
        raise PointsError(
            f"{name} is not positive semi-definite: {name}[i, i] < 0 for rows ",
            first + np.flatnonzero(negative), ". Pass inner products.",
        )  # fmt: skip
    length = np.sqrt(np.maximum(K.diagonal(), 0.0))
    wrong, symmetric = np.zeros(len(K), dtype=bool), True
    for start in range(0, len(K), CHECKED_ROWS):  # no second matrix of this size
        part = slice(start, start + CHECKED_ROWS)
        with np.errstate(over="ignore"):
            longest = np.outer(length[part], length)
            difference = np.abs(K[part] - K[:, part].T)
        if np.any(difference > SYMMETRY_TOLERANCE * longest + slack):
            i, j = np.argwhere(difference > SYMMETRY_TOLERANCE * longest + slack)[0] + (start, 0)
            raise PointsError(
                f"{name} is not symmetric: points ", [first + i, first + j],
                f" give {K[i, j]:.6g} and {K[j, i]:.6g}. Pass {name}[i, j] = k(x_i, x_j) of the "
                f"training points.",
            )  # fmt: skip
        symmetric &= not np.any(difference)
        wrong[part] = np.any(np.abs(K[part]) > (1 + CAUCHY_SCHWARZ_SLACK) * longest, axis=1)
    if np.any(wrong):
        raise PointsError(
            f"{name} is not positive semi-definite: |{name}[i, j]| > sqrt({name}[i, i] "
            f"{name}[j, j]) in rows ", first + np.flatnonzero(wrong), ". Pass inner products.",
        )  # fmt: skip
    _check_definite(K, length, name, first, given)
    return symmetric


def indefinite() -> ValueError:
    """Return what is said of a Gram matrix that shows to be none while it is used."""
    return ValueError(
        "K, or the kernel that it comes from, is not positive semi-definite. Pass inner products."
    )


def _check_definite(K: Array, length: Array, name: str, first: int, given: bool) -> None:
    """Refuse a matrix that is clearly not positive semi-definite, by its cosines."""
    index = np.arange(len(K))
    if len(K) > DEFINITE_POINTS:  # any of them, but the same each time
        index = np.sort(np.random.default_rng(0).choice(index, DEFINITE_POINTS, replace=False))
    scale = np.where(length[index] > 0, length[index], 1.0).astype(np.float64)
    cosines = K[np.ix_(index, index)] / scale / scale[:, None]
    np.fill_diagonal(cosines, 1.0 + DEFINITE_SLACK * max(len(index), 10))
    try:
        scipy.linalg.cholesky(cosines, lower=True, check_finite=False)
    except scipy.linalg.LinAlgError:
        np.fill_diagonal(cosines, 1.0)
        (least,), vector = scipy.linalg.eigh(cosines, subset_by_index=(0, 0))
        most = np.argsort(-np.abs(vector[:, 0]), kind="stable")[:SHOWN_PLACES]
        helps = "makes them inner products" if len(index) == len(K) else "helps"
        remedy = f"; adding {-least:.3g} {name}[i, i] to the diagonal {helps}" if given else ""
        raise PointsError(
            f"{name} is not positive semi-definite: with all points at length 1, an eigenvalue is "
            f"{least:.3g}, mostly by points ",
            first + index[most], f". Pass inner products{remedy}.",
        ) from None  # fmt: skip


# ---------------------------------------------------------------------- answers


def check_answers(name: str, values: Array) -> Array:
    """Return predictions, (n,), (n, classes) or (draws, n, classes); refuse those that are NaN."""
    wrong = np.isnan(values)
    if np.any(wrong):
        row_axis = max(wrong.ndim - 2, 0)
        rows = np.any(wrong, axis=tuple(a for a in range(wrong.ndim) if a != row_axis))
        raise RowsError(
            f"{name} has no number for rows ", np.flatnonzero(rows), " of X: values of the model "
            "or of X overflow. Scale the features (for example with StandardScaler), and fit "
            "again.",
        )  # fmt: skip
    return values
