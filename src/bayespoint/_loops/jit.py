"""The one Numba decorator."""

from collections.abc import Callable
from typing import Any

import numba


def jit(function: Callable) -> Any:
    """Compile ``function`` without the GIL, keeping machine code on disk where possible.

    Numba refuses to decorate when neither the package folder nor the user's cache folder can be
    written. Then the function is compiled again in each process: slower to start, never an error,
    and never through a shared temporary folder (cache files are pickles).

    A cached function may call jitted functions of its own module only: Numba does not notice
    when a callee in another module changes. The cache names the classes of named tuples that are
    arguments; one that it does not find later is an error, so they keep their names and modules.

    Products may be fused with the sums they feed ("contract"), which moves a rounding but, unlike
    the other fast-math flags, never a NaN. Division by zero gives an infinity, as in NumPy: a test
    before each division would keep loops from vector instructions.
    """
    options: dict[str, Any] = {"nogil": True, "fastmath": {"contract"}, "error_model": "numpy"}
    try:
        return numba.njit(cache=True, **options)(function)
    except RuntimeError:
        return numba.njit(**options)(function)
