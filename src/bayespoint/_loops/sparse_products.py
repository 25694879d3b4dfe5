"""Inner products of sparse points with a block of points, and the hash that orders points."""

import numpy as np

from bayespoint._loops.jit import jit

# Columns that a block may have, few enough for each to have a loop of its own.
WIDTHS = (32, 64, 128)

# Numbers of a cache line, which are copied together.
LINE = 16

# Places in flat arrays are unsigned: to cut a row out of a block, or to ask whether a place is
# negative, costs as much as dozens of products.
U = np.uintp


def _make_products(lanes):
    """Compile the loop for a constant number of columns: a third faster than for any number."""

    @jit
    def products(
        indptr, indices, data, first, block, factor, row_term, column_term, degree, values
    ):
        total = np.empty(lanes, dtype=data.dtype)
        flat, width = block.reshape(-1), U(lanes)
        for j in range(values.shape[0]):
            for w in range(lanes):
                total[w] = 0
            p, end = U(indptr[first + j]), U(indptr[first + j + 1])
            while p + U(8) <= end:
                v0, v1, v2, v3 = data[p], data[p + U(1)], data[p + U(2)], data[p + U(3)]
                v4, v5, v6, v7 = data[p + U(4)], data[p + U(5)], data[p + U(6)], data[p + U(7)]
                b0, b1 = width * U(indices[p]), width * U(indices[p + U(1)])
                b2, b3 = width * U(indices[p + U(2)]), width * U(indices[p + U(3)])
                b4, b5 = width * U(indices[p + U(4)]), width * U(indices[p + U(5)])
                b6, b7 = width * U(indices[p + U(6)]), width * U(indices[p + U(7)])
                for w in range(width):
                    total[w] += (
                        v0 * flat[b0 + w] + v1 * flat[b1 + w]
                        + v2 * flat[b2 + w] + v3 * flat[b3 + w]
                        + v4 * flat[b4 + w] + v5 * flat[b5 + w]
                        + v6 * flat[b6 + w] + v7 * flat[b7 + w]
                    )  # fmt: skip
                p += U(8)
            while p < end:
                v0, b0 = data[p], width * U(indices[p])
                for w in range(width):
                    total[w] += v0 * flat[b0 + w]
                p += U(1)
            for w in range(lanes):
                total[w] = factor * total[w] + (row_term[w] + column_term[j])
                values[j, w] = total[w]
            for _ in range(degree - 1):
                for w in range(lanes):
                    values[j, w] *= total[w]

    return products


_PRODUCTS = {lanes: _make_products(lanes) for lanes in WIDTHS}


def sparse_products(
    indptr, indices, data, first, block, factor, row_term, column_term, degree, values
):
    """Kernel values of CSR points x and the columns of a dense block.

    ``values[j, w] = (factor <x_(first + j), block[:, w]> + row_term[w] + column_term[j])``
    to the power ``degree``.

    One pass over the non-zeros of each point, eight at a time so that the sums are read and
    written once for eight products. Every product is summed in the same order whatever else the
    block holds, so a row of the Gram matrix never depends on the rows computed beside it. On
    MNIST this runs at the speed of the second-level cache.
    """
    _PRODUCTS[block.shape[1]](
        indptr, indices, data, first, block, factor, row_term, column_term, degree, values
    )


@jit
def dense_columns(indptr, indices, data, rows, found):
    """Fill the columns of ``found`` with CSR rows: in half of SciPy's time."""
    found[:] = 0
    for w in range(rows.size):
        for p in range(indptr[rows[w]], indptr[rows[w] + 1]):
            found[indices[p], w] += data[p]


@jit
def count_non_zeros(X, indptr):
    """Fill ``indptr`` of the CSR matrix of dense rows."""
    indptr[0] = 0
    for i in range(X.shape[0]):
        count = 0
        for j in range(X.shape[1]):
            count += X[i, j] != 0
        indptr[i + 1] = indptr[i] + count


@jit
def fill_non_zeros(X, indices, data):
    """Fill ``indices`` and ``data`` of the CSR matrix of dense rows."""
    p = 0
    for i in range(X.shape[0]):
        for j in range(X.shape[1]):
            if X[i, j] != 0:
                indices[p], data[p] = j, X[i, j]
                p += 1


@jit
def transpose(values, most, found):
    """Write ``values``, at most ``most``, with rows for columns: in a quarter of NumPy's time."""
    whole = len(values) - len(values) % LINE
    for first in range(0, whole, LINE):
        for w in range(values.shape[1]):
            for k in range(LINE):
                value = values[first + k, w]
                found[w, first + k] = most if value > most else value
    for j in range(whole, len(values)):
        for w in range(values.shape[1]):
            found[w, j] = most if values[j, w] > most else values[j, w]


@jit
def _mixed(word, multiplier):
    """Spread a bit pattern over 64 bits: those of simple numbers are mostly zeros."""
    word = (word ^ multiplier) * np.uint64(0xBF58476D1CE4E5B9)
    word = (word ^ (word >> np.uint64(31))) * np.uint64(0x94D049BB133111EB)
    return word ^ (word >> np.uint64(29))


@jit
def hash_dense(words, minus_zero, multipliers, keys):
    """Hash each row; ``words`` are the bit patterns of the values. Zeros do not count."""
    for i in range(words.shape[0]):
        key = np.uint64(0)
        for j in range(words.shape[1]):
            if words[i, j] != 0 and words[i, j] != minus_zero:
                key += _mixed(np.uint64(words[i, j]), multipliers[j])
        keys[i] = key


@jit
def hash_sparse(indptr, indices, words, minus_zero, multipliers, keys):
    """As `hash_dense`, from the non-zeros of CSR rows."""
    for i in range(indptr.size - 1):
        key = np.uint64(0)
        for p in range(indptr[i], indptr[i + 1]):
            if words[p] != 0 and words[p] != minus_zero:
                key += _mixed(np.uint64(words[p]), multipliers[indices[p]])
        keys[i] = key
