"""Kernel values in plain PyTorch: what the GPU kernels do, step by step."""

import torch

LINEAR, POLY, RBF = range(3)

# Halves have a multiple of so many columns, as many as the GPU reads at once.
COLUMNS = 64


def padded(n_features):
    """Return the number of columns of halves."""
    return -(-n_features // COLUMNS) * COLUMNS


def halves(X):
    """Numbers of points in float32 as sums (high + low) * unit of numbers with 11 bits.

    Returns
    -------
    high, low : tensor of float16, shape (n, padded)
        With columns of zeros at the end.
    unit : tensor of float32, shape (n,)
        Powers of two that make the largest number of a point nearly as large as 16 bits allow, so
        that low parts do not vanish.
    """
    largest = X.abs().amax(dim=1)
    exponent = torch.where(largest > 0, torch.frexp(largest).exponent, -99).clamp(min=-99)
    unit = torch.ldexp(torch.ones_like(largest), exponent - 15)
    width = padded(X.shape[1])
    scaled = torch.nn.functional.pad(X / unit[:, None], (0, width - X.shape[1]))
    high = scaled.half()
    return high, (scaled - high).half(), unit


def finish(values, kind, gamma, degree, coef0, bias, rows, columns):
    """Turn inner products into kernel values.

    Parameters
    ----------
    values : tensor of shape (n, n')
        Inner products; changed in place.
    kind : int
        LINEAR, POLY: (gamma <x, x'> + coef0) ** degree, or RBF: exp(-gamma ||x - x'||^2).
    gamma, degree, coef0, bias : float
    rows, columns : (squared_norm, scale)
        Tensors of n and of n' numbers; scale is None where the kernel is not normalised.
    """
    if kind == POLY:
        values.mul_(gamma).add_(coef0)
        if degree == int(degree):
            base = values.clone()
            for _ in range(int(degree) - 1):
                values.mul_(base)
        else:
            values.pow_(degree)
    elif kind == RBF:
        values.mul_(2 * gamma)
        values.sub_(gamma * rows[0][:, None]).sub_(gamma * columns[0])
        values.clamp_(max=0.0).exp_()  # rounding can leave a distance below zero
    if bias:
        values.add_(bias)
    if rows[1] is not None:
        values.mul_(rows[1][:, None]).mul_(columns[1])


def values(left, right, out, mirrored, kind, gamma, degree, coef0, bias, rows, columns):
    """Kernel values of points whose numbers are sums of two halves of 11 bits each.

    Parameters
    ----------
    left, right : (high, low, unit)
        Numbers of a point are (high + low) * unit, high and low of 16 bits, and unit a power of
        two for each point; the product of two low parts is beyond the precision of float32.
    out : tensor of float32, shape (n, n')
    mirrored : bool
        Whether left and right are the same: the values above the diagonal are those below it.
    kind, gamma, degree, coef0, bias, rows, columns
        As of `finish`.
    """
    a_high, a_low, b_high, b_low = (x.float() for x in (*left[:2], *right[:2]))
    found = a_low @ b_high.T + a_high @ b_low.T + a_high @ b_high.T
    out.copy_(found * left[2][:, None] * right[2])
    finish(out, kind, gamma, degree, coef0, bias, rows, columns)
    if mirrored:
        out.copy_(out.triu() + out.triu(1).T)


def combine(coef, slots, rows):
    """Return sums of rows in float64, ``coef @ rows[slots]``.

    Parameters
    ----------
    coef : tensor of float64, shape (n, n_used)
    slots : tensor of int32, shape (n_used,)
    rows : tensor of shape (n_rows, m)
    """
    return coef @ rows[slots.long()].double()
