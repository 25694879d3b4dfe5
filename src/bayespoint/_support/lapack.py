"""Cholesky factors by LAPACK while other threads run.

SciPy's own functions hold the interpreter's lock; the same routines called by `ctypes` do not. All
matrices are in Fortran order, in single or double precision, and are overwritten.
"""

import ctypes
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
from scipy.linalg import cython_blas, cython_lapack

from bayespoint._support.types import Array

# Triangles of at most so many rows are left to LAPACK: 32 is as fast, 128 slower.
BLOCK = 64


def factorise(A: Array) -> bool:
    """Replace the lower triangle of a matrix by that of its Cholesky factor; False if it has none.

    What is above the diagonal stays.
    """
    info, n = ctypes.c_int(0), len(A)
    call = _call(cython_lapack, "potrf", A.dtype)
    call(b"L", _int(n), _at(A), _int(max(n, 1)), ctypes.byref(info))
    return info.value == 0


def invert(L: Array) -> None:
    """Replace a lower triangle by that of its inverse.

    By halves: LAPACK's routine for lower triangles is several times slower in OpenBLAS.
    """
    _invert_part(L, 0, len(L))


def _invert_part(L: Array, first: int, last: int) -> None:
    """Invert the triangle [[P, 0], [Q, R]] of these rows and columns: -R^-1 Q P^-1 replaces Q."""
    leading = _int(max(len(L), 1))
    if last - first <= BLOCK:
        info = ctypes.byref(ctypes.c_int(0))
        call = _call(cython_lapack, "trtri", L.dtype)
        call(b"L", b"N", _int(last - first), _at(L, first, first), leading, info)
        return
    middle = (first + last) // 2
    _invert_part(L, first, middle)
    _invert_part(L, middle, last)
    call = _call(cython_blas, "trmm", L.dtype)
    for side, corner, sign in ((b"R", first, -1), (b"L", middle, 1)):
        factor = np.full((), sign, dtype=L.dtype)
        call(
            side, b"L", b"N", b"N", _int(last - middle), _int(middle - first), _at(factor),
            _at(L, corner, corner), leading, _at(L, middle, first), leading,
        )  # fmt: skip


def inverse_of(L: Array) -> None:
    """Replace a Cholesky factor by the lower triangle of the inverse of what it is the factor of.

    What is above the diagonal stays.
    """
    invert(L)
    transposed_product(L)


def transposed_product(L: Array) -> None:
    """Replace a lower triangle L by that of L'L."""
    info, n = ctypes.c_int(0), len(L)
    call = _call(cython_lapack, "lauum", L.dtype)
    call(b"L", _int(n), _at(L), _int(max(n, 1)), ctypes.byref(info))


def symmetric_product(A: Array, values: Array) -> Array:
    """Return the product of a symmetric matrix, of which the lower triangle is read, and columns.

    ``values``: (n, k), in Fortran order.
    """
    one, nothing = np.ones((), dtype=A.dtype), np.zeros((), dtype=A.dtype)
    (n, k), found = values.shape, np.empty_like(values, order="F")
    _call(cython_blas, "symm", A.dtype)(
        b"L", b"L", _int(n), _int(k), _at(one), _at(A), _int(max(n, 1)), _at(values),
        _int(max(n, 1)), _at(nothing), _at(found), _int(max(n, 1)),
    )  # fmt: skip
    return found


def solve(L: Array, values: Array, *, transposed: bool = False) -> Array:
    """Replace columns by L^-1 or L'^-1 times them, and return them."""
    one = np.ones((), dtype=L.dtype)
    n, side = len(L), (b"T" if transposed else b"N")
    _call(cython_blas, "trsm", L.dtype)(
        b"L", b"L", side, b"N", _int(n), _int(values.shape[1]), _at(one), _at(L),
        _int(max(n, 1)), _at(values), _int(max(n, 1)),
    )  # fmt: skip
    return values


@cache
def _call(module: Any, name: str, dtype: Any) -> Callable[..., None]:
    """Return a routine, which takes addresses."""
    capsule = module.__pyx_capi__[{"f": "s", "d": "d"}[dtype.char] + name]
    signature = _name_of(capsule)
    if b" int *" not in signature:
        raise RuntimeError(f"SciPy's LAPACK takes other integers: {signature.decode()}")
    n_arguments = signature.count(b",") + 1
    kind = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * n_arguments)
    return kind(_pointer_of(capsule, signature))


_name_of = ctypes.PYFUNCTYPE(ctypes.c_char_p, ctypes.py_object)(
    ("PyCapsule_GetName", ctypes.pythonapi)
)
_pointer_of = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(
    ("PyCapsule_GetPointer", ctypes.pythonapi)
)


def _int(value: int) -> Any:
    return ctypes.byref(ctypes.c_int(value))


def _at(array: Array, row: int = 0, column: int = 0) -> Any:
    if not (array.flags.f_contiguous and array.flags.writeable):
        raise ValueError("LAPACK writes to arrays in Fortran order")
    there = array.ctypes.data
    if row or column:
        there += (column * len(array) + row) * array.itemsize
    return ctypes.c_void_p(there)
