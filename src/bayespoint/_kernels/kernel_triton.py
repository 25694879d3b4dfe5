"""From inner products to kernel values in one pass over memory, on a GPU."""

import numpy as np
import triton
import triton.language as tl

from bayespoint._kernels.kernel_torch import POLY, RBF

TILE = 4096
WARPS = 8


def finish(values, kind, gamma, degree, coef0, bias, rows, columns):
    """Turn inner products into kernel values, as `kernel_torch.finish`."""
    n, width = values.shape
    whole = int(degree) if degree == int(degree) else 0
    squared, scale = rows
    # Numbers that are passed have 32 bits: two of them make one.
    parts = [part for number in (gamma, degree, coef0, bias) for part in _halves(number)]
    _finish[(n, triton.cdiv(width, TILE))](
        values, values if squared is None else squared, values if squared is None else columns[0],
        values if scale is None else scale, values if scale is None else columns[1],
        values.stride(0), width, *parts,
        kind, whole, scale is not None, POLY, RBF, TILE, num_warps=WARPS,
    )  # fmt: skip


def _halves(number):
    high = float(np.float32(number))
    return high, number - high


@triton.jit
def _finish(
    values, row_norm, column_norm, row_scale, column_scale, stride, width, gamma, gamma_rest,
    degree, degree_rest, coef0, coef0_rest, bias, bias_rest,
    KIND: tl.constexpr, WHOLE: tl.constexpr, NORMALISED: tl.constexpr, POLY: tl.constexpr,
    RBF: tl.constexpr, TILE: tl.constexpr,
):  # fmt: skip
    i = tl.program_id(0).to(tl.int64)
    j = tl.program_id(1) * TILE + tl.arange(0, TILE)
    inside = j < width
    value = tl.load(values + i * stride + j, mask=inside, other=0.0)
    kind: tl.constexpr = value.dtype
    gamma, degree = gamma.to(kind) + gamma_rest.to(kind), degree.to(kind) + degree_rest.to(kind)
    coef0, bias = coef0.to(kind) + coef0_rest.to(kind), bias.to(kind) + bias_rest.to(kind)
    if KIND == POLY:
        value = value * gamma + coef0
        if WHOLE > 0:
            base = value
            for _ in range(WHOLE - 1):
                value = value * base
        else:
            value = tl.exp(tl.log(value) * degree)
    if KIND == RBF:
        at = gamma * tl.load(row_norm + i)
        there = gamma * tl.load(column_norm + j, mask=inside, other=0.0)
        value = value * 2.0 * gamma - at - there
        value = tl.exp(tl.minimum(value, 0.0))
    value += bias
    if NORMALISED:
        value *= tl.load(row_scale + i)
        value *= tl.load(column_scale + j, mask=inside, other=0.0)
    tl.store(values + i * stride + j, value, mask=inside)
