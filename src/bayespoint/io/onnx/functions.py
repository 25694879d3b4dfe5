"""Distribution functions from exponentials, logarithms and polynomials, in double precision.

Of the functions that ONNX names for this, onnxruntime has Erf in single precision only, which is
too coarse, and there is none for Student's t distribution. Both tails are a factor in closed form
times a smooth one. In q = 1/(1 + z/SCALE), which takes [0, inf) to (0, 1], the logarithm of the
latter over q is a polynomial of low degree to about ten digits; its coefficients are fitted at
export. Measured against SciPy, errors of the logarithms of normal tails are below 1e-9 (relative
where they are large); relative errors of Student's tails, down to 1e-300, are below 1e-8 for one
degree of freedom and 1e-10 for 2 to 20,000.
"""

from collections.abc import Callable

import numpy as np
from numpy.polynomial import chebyshev
from scipy.special import erfcx, stdtr

from bayespoint._support.types import Array
from bayespoint.io.onnx.writer import Writer

SCALE = 3.0
DEGREE = 16

# Largest argument: its square is still finite.
FARTHEST = 1e150

# Student's tails are fitted down to this logarithm, and votes below exp(-690.8) count as that.
_LEAST_LOG_TAIL = -685.0


def log_tail(w: Writer, z: str) -> str:
    """Logarithm of the normal probability beyond z >= 0."""
    half_square = w.add("Mul", w.add("Mul", z, z), 0.5)
    # The rest is the logarithm of Mills' ratio, up to a constant.
    return w.add("Sub", _times_polynomial(w, _mapped(w, z), 0.0, normal_fit()), half_square)


def log_complement(w: Writer, log_p: str) -> str:
    """log(1 - p)."""
    return w.add("Log", w.add("Sub", 1.0, w.add("Exp", log_p)))


def log_student_tail(w: Writer, u: str, df: float) -> str:
    """Logarithm of Student's probability beyond sqrt(df) u, u >= 0."""
    u = w.add("Min", u, FARTHEST)
    above = w.add("Add", w.add("Mul", u, u), 1.0)
    sine = w.add("Div", u, w.add("Sqrt", above))
    power = w.add("Mul", w.add("Log", above), -0.5 * df)
    low, coef = student_fit(df)
    q = _mapped(w, w.add("Mul", sine, float(np.sqrt(df))))
    q = w.add("Max", q, low)
    return w.add("Add", power, _times_polynomial(w, q, low, coef))


def _mapped(w: Writer, z: str) -> str:
    return w.add("Reciprocal", w.add("Add", w.add("Div", z, SCALE), 1.0))


def _times_polynomial(w: Writer, q: str, low: float, coef: Array) -> str:
    """Log q + polynomial(x), x running from -1 to 1 as q does from ``low`` to 1."""
    x = w.add("Sub", w.add("Mul", w.add("Sub", q, low), 2 / (1 - low)), 1.0)
    return w.add("Add", w.add("Log", q), _horner(w, x, coef))


def _horner(w: Writer, x: str, coef: Array) -> str:
    value = w.add("Mul", x, float(coef[-1]))
    for c in coef[-2:0:-1]:
        value = w.add("Mul", w.add("Add", value, float(c)), x)
    return w.add("Add", value, float(coef[0]))


def normal_fit() -> Array:
    """Coefficients for normal tails."""
    return _fit(lambda q: np.log(0.5 * erfcx(SCALE * (1 / q - 1) / np.sqrt(2)) / q), 0.0)


def student_fit(df: float) -> tuple[float, Array]:
    """Smallest q, and coefficients for Student's tails."""
    with np.errstate(over="ignore"):
        farthest = min(float(np.sqrt(np.expm1(-2 * _LEAST_LOG_TAIL / df))), FARTHEST)
    largest = np.sqrt(df) * farthest / np.hypot(1.0, farthest)

    def remainder(q: Array) -> Array:
        share = np.minimum(SCALE * (1 / q - 1) / np.sqrt(df), 1.0)  # the sine
        cosine = np.sqrt((1 - share) * (1 + share))
        u = np.minimum(share / np.maximum(cosine, 1 / FARTHEST), farthest)
        return np.log(stdtr(df, -np.sqrt(df) * u)) + 0.5 * df * np.log1p(u * u) - np.log(q)

    low = float(1 / (1 + largest / SCALE))
    return low, _fit(remainder, low)


def _fit(function: Callable[[Array], Array], low: float) -> Array:
    """Coefficients of powers of x in [-1, 1] that give a function of q in [low, 1].

    Exact at q = 1, that is z = 0, so that votes of nearly one half come out on their side of it.
    """
    x = chebyshev.chebpts1(4 * DEGREE)
    coef = chebyshev.chebfit(x, function(low + (1 - low) * (x + 1) / 2), DEGREE)
    coef = chebyshev.cheb2poly(coef)
    coef[0] += function(np.ones(1))[0] - coef.sum()
    return coef
