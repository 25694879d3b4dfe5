"""From inner products to kernel values, in place, in plain PyTorch."""

LINEAR, POLY, RBF = range(3)


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
