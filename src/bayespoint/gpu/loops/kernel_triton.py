"""Kernel values on a GPU: products on the tensor cores and what follows them, in one pass."""

from functools import lru_cache
from typing import Any

import numpy as np
import torch
import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor

from bayespoint.gpu.loops.kernel_torch import POLY, RBF, padded

# Values of one block of `finish`.
TILE = 4096
WARPS = 8

# Rows and columns of one block of `values`, and how many blocks lie below each other before the
# next column of them, so that they share what they read.
BLOCK = 128
BELOW = 16

# Features read at once and how many times ahead, by the shared memory that there is for it.
READ_AHEAD = ((200_000, 64, 3), (0, 32, 2))

# Features of one tile of `halves`.
HALVED = 1024

# Of `combine`, by the number of sums: sums, columns and terms of one block. Where there are few
# blocks, several add up parts of the terms.
SUMS = ((16, 16, 128, 32), (10**9, 64, 64, 16))
BLOCKS, MOST_PARTS = 4000, 8


def finish(values, kind, gamma, degree, coef0, bias, rows, columns):
    """Turn inner products into kernel values, as `kernel_torch.finish`."""
    n, width = values.shape
    _finish[(n, triton.cdiv(width, TILE))](
        values, *_of_points(values, rows, columns), values.stride(0), width,
        *_numbers(gamma, degree, coef0, bias),
        kind, _whole(degree), rows[1] is not None, POLY, RBF, TILE, num_warps=WARPS,
    )  # fmt: skip


def halves(X):
    """Return the halves of points, as `kernel_torch.halves`."""
    X = X.contiguous()
    (n, n_features), width = X.shape, padded(X.shape[1])
    high, low = (torch.empty((n, width), dtype=torch.float16, device=X.device) for _ in range(2))
    unit = torch.empty(n, dtype=torch.float32, device=X.device)
    tile = min(HALVED, triton.next_power_of_2(width))
    _halves[(n,)](X, high, low, unit, n_features, width, tile, num_warps=4)
    return high, low, unit


def values(left, right, out, mirrored, kind, gamma, degree, coef0, bias, rows, columns):
    """Kernel values of points given as sums of halves, as `kernel_torch.values`."""
    n, n_columns = out.shape
    card: Any = torch.cuda.get_device_properties(out.device)
    shared = card.shared_memory_per_block_optin
    read, ahead = next(pair for least, *pair in READ_AHEAD if shared >= least)
    parts = [TensorDescriptor.from_tensor(part, [BLOCK, read]) for part in (*left[:2], *right[:2])]
    # Memory belongs to a stream: another one must not reuse it while kernels of this one read.
    stream = torch.cuda.current_stream(out.device).cuda_stream
    found = _blocks(n, n_columns, mirrored, out.device, stream)
    for edge, blocks in zip((False, True), found, strict=True):
        if not len(blocks):
            continue
        _values[(len(blocks),)](
            *parts[:2], left[2], *parts[2:], right[2], out, *_of_points(out, rows, columns),
            blocks, n, n_columns, left[0].shape[1], out.stride(0),
            *_numbers(gamma, degree, coef0, bias),
            kind, _whole(degree), rows[1] is not None, mirrored, POLY, RBF, BLOCK, read, edge,
            num_warps=8, num_stages=ahead,
        )  # fmt: skip


@lru_cache(maxsize=8)
def _blocks(n, n_columns, mirrored, device, stream):  # noqa: ARG001
    """Blocks of a matrix (of its upper half) that lie within it and off the diagonal, and others.

    In an order that reuses what was read.
    """
    n_across = triton.cdiv(n_columns, BLOCK)
    down, across = torch.arange(triton.cdiv(n, BLOCK))[:, None], torch.arange(n_across)[None, :]
    order = (down // BELOW * n_across + across) * BELOW + down % BELOW
    inner = ((down + 1) * BLOCK <= n) & ((across + 1) * BLOCK <= n_columns)
    wanted = torch.ones_like(inner)
    if mirrored:
        inner, wanted = inner & (down < across), down <= across
    chosen = (torch.nonzero(some)[order[some].argsort()] for some in (inner, wanted & ~inner))
    return [blocks.to(device, torch.int32).contiguous() for blocks in chosen]


def combine(coef, slots, rows):
    """Return sums of rows in float64, as `kernel_torch.combine`."""
    (n, n_used), m = coef.shape, rows.shape[1]
    sums, columns, terms = next(shape for most, *shape in SUMS if n <= most)
    n_blocks = triton.cdiv(m, columns) * triton.cdiv(n, sums)
    parts = max(1, min(MOST_PARTS, BLOCKS // n_blocks))
    found = torch.empty((parts, n, m), dtype=torch.float64, device=rows.device)
    _combine[(triton.cdiv(m, columns), triton.cdiv(n, sums), parts)](
        coef.contiguous(), slots, rows, found, n, n_used, m, rows.stride(0), sums, columns, terms,
        parts, num_warps=4, num_stages=3,
    )  # fmt: skip
    return found.sum(dim=0)


def _of_points(values, rows, columns):
    """Squared norms and scales; where there are none something else stands for them."""
    return [values if field is None else field
            for field in (rows[0], columns[0], rows[1], columns[1])]  # fmt: skip


def _numbers(*numbers):
    """Numbers that are passed have 32 bits: two of them make one."""
    high = [float(np.float32(number)) for number in numbers]
    return [part for number, h in zip(numbers, high, strict=True) for part in (h, number - h)]


def _whole(degree):
    return int(degree) if degree == int(degree) else 0


@triton.jit
def _value(
    value, row_norm, column_norm, row_scale, column_scale, gamma, gamma_rest, degree, degree_rest,
    coef0, coef0_rest, bias, bias_rest, KIND: tl.constexpr, WHOLE: tl.constexpr,
    NORMALISED: tl.constexpr, POLY: tl.constexpr, RBF: tl.constexpr,
):  # fmt: skip
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
        value = value * 2.0 * gamma - gamma * row_norm - gamma * column_norm
        value = tl.exp(tl.minimum(value, 0.0))
    value += bias
    if NORMALISED:
        value = value * row_scale * column_scale
    return value


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
    value = _value(
        value, tl.load(row_norm + i), tl.load(column_norm + j, mask=inside, other=0.0),
        tl.load(row_scale + i), tl.load(column_scale + j, mask=inside, other=0.0), gamma,
        gamma_rest, degree, degree_rest, coef0, coef0_rest, bias, bias_rest, KIND, WHOLE,
        NORMALISED, POLY, RBF,
    )  # fmt: skip
    tl.store(values + i * stride + j, value, mask=inside)


@triton.jit
def _halves(X, high, low, unit, n_features, width, TILE: tl.constexpr):
    i = tl.program_id(0).to(tl.int64)
    k = tl.arange(0, TILE)
    largest = tl.zeros([TILE], tl.float32)
    for start in range(0, n_features, TILE):
        x = tl.load(X + i * n_features + start + k, mask=start + k < n_features, other=0.0)
        largest = tl.maximum(largest, tl.abs(x))
    bits = tl.max(largest, 0).to(tl.int32, bitcast=True)
    # A power of two is its exponent, shifted by 127; that of the unit is 14 less.
    exponent = tl.minimum(tl.maximum(bits >> 23, 27), 254)
    scale = ((268 - exponent) << 23).to(tl.float32, bitcast=True)
    tl.store(unit + i, ((exponent - 14) << 23).to(tl.float32, bitcast=True))
    for start in range(0, width, TILE):
        at = start + k
        x = tl.load(X + i * n_features + at, mask=at < n_features, other=0.0) * scale
        first = x.to(tl.float16)
        tl.store(high + i * width + at, first, mask=at < width)
        tl.store(low + i * width + at, (x - first).to(tl.float16), mask=at < width)


@triton.jit(do_not_specialize=["n", "n_columns"])
def _values(
    left_high, left_low, left_unit, right_high, right_low, right_unit, out, row_norm, column_norm,
    row_scale, column_scale, blocks, n, n_columns, width, stride, gamma, gamma_rest, degree,
    degree_rest, coef0, coef0_rest, bias, bias_rest, KIND: tl.constexpr, WHOLE: tl.constexpr,
    NORMALISED: tl.constexpr, MIRRORED: tl.constexpr, POLY: tl.constexpr, RBF: tl.constexpr,
    BLOCK: tl.constexpr, READ: tl.constexpr, EDGE: tl.constexpr,
):  # fmt: skip
    down = tl.load(blocks + 2 * tl.program_id(0)) * BLOCK
    across = tl.load(blocks + 2 * tl.program_id(0) + 1) * BLOCK
    total = tl.zeros([BLOCK, BLOCK], tl.float32)
    for k in range(0, width, READ):
        a_high, b_high = left_high.load([down, k]), right_high.load([across, k]).T
        a_low, b_low = left_low.load([down, k]), right_low.load([across, k]).T
        # Small terms first; sums on the tensor cores are short, because they cut off digits.
        part = tl.dot(a_low, b_high)
        part = tl.dot(a_high, b_low, part)
        total += tl.dot(a_high, b_high, part)
    i, j = down + tl.arange(0, BLOCK), across + tl.arange(0, BLOCK)
    at, there = i, j
    if EDGE:
        at, there = tl.minimum(i, n - 1), tl.minimum(j, n_columns - 1)
    value = total * tl.load(left_unit + at)[:, None] * tl.load(right_unit + there)[None, :]
    value = _value(
        value, tl.load(row_norm + at)[:, None], tl.load(column_norm + there)[None, :],
        tl.load(row_scale + at)[:, None], tl.load(column_scale + there)[None, :], gamma,
        gamma_rest, degree, degree_rest, coef0, coef0_rest, bias, bias_rest, KIND, WHOLE,
        NORMALISED, POLY, RBF,
    )  # fmt: skip
    place = out + i.to(tl.int64)[:, None] * stride + j[None, :]
    mirror = out + j.to(tl.int64)[:, None] * stride + i[None, :]
    if EDGE:
        inside = (i < n)[:, None] & (j < n_columns)[None, :]
        if MIRRORED:
            inside = inside & (i[:, None] <= j[None, :])
            tl.store(mirror, tl.trans(value), mask=tl.trans(inside))
        tl.store(place, value, mask=inside)
    else:  # without masks stores are wide
        tl.store(place, value)
        if MIRRORED:
            tl.store(mirror, tl.trans(value))


@triton.jit(do_not_specialize=["n", "n_used"])
def _combine(
    coef, slots, rows, found, n, n_used, m, stride, SUMS: tl.constexpr, COLUMNS: tl.constexpr,
    TERMS: tl.constexpr, PARTS: tl.constexpr,
):  # fmt: skip
    column = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)
    number = tl.program_id(1) * SUMS + tl.arange(0, SUMS)
    part = tl.program_id(2)
    each = tl.cdiv(tl.cdiv(n_used, PARTS), TERMS) * TERMS
    wanted, inside = (number < n)[:, None], (column < m)[None, :]
    total = tl.zeros([SUMS, COLUMNS], tl.float64)
    for start in range(part * each, tl.minimum(part * each + each, n_used), TERMS):
        k = start + tl.arange(0, TERMS)
        there = k < n_used
        slot = tl.load(slots + k, mask=there, other=0).to(tl.int64)[:, None]
        row = tl.load(
            rows + slot * stride + column[None, :], mask=there[:, None] & inside, other=0.0
        )
        weight = coef + number.to(tl.int64)[:, None] * n_used + k[None, :]
        weight = tl.load(weight, mask=wanted & there[None, :], other=0.0)
        total = tl.dot(weight, row.to(tl.float64), total, out_dtype=tl.float64)
    here = (part * n + number).to(tl.int64)[:, None] * m + column[None, :]
    tl.store(found + here, total, mask=wanted & inside)
