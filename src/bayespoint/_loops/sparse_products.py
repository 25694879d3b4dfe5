"""Inner products of sparse points with a block of points, and the hash that orders points."""

import numpy as np

from bayespoint._loops.jit import jit

# Columns that a block may have, few enough for each to have a loop of its own.
WIDTHS = (32, 64, 128)


def _make_products(lanes):
    """Compile the loop for a constant number of columns: a third faster than for any number."""

    @jit
    def products(
        indptr, indices, data, first, block, factor, row_term, column_term, degree, values
    ):
        total = np.empty(lanes, dtype=data.dtype)
        for j in range(values.shape[0]):
            for w in range(lanes):
                total[w] = 0
            p, end = indptr[first + j], indptr[first + j + 1]
            while p + 8 <= end:
                v0, v1, v2, v3 = data[p], data[p + 1], data[p + 2], data[p + 3]
                v4, v5, v6, v7 = data[p + 4], data[p + 5], data[p + 6], data[p + 7]
                b0, b1, b2 = block[indices[p]], block[indices[p + 1]], block[indices[p + 2]]
                b3, b4, b5 = block[indices[p + 3]], block[indices[p + 4]], block[indices[p + 5]]
                b6, b7 = block[indices[p + 6]], block[indices[p + 7]]
                for w in range(lanes):
                    total[w] += (
                        v0 * b0[w] + v1 * b1[w] + v2 * b2[w] + v3 * b3[w]
                        + v4 * b4[w] + v5 * b5[w] + v6 * b6[w] + v7 * b7[w]
                    )  # fmt: skip
                p += 8
            while p < end:
                v0, b0 = data[p], block[indices[p]]
                for w in range(lanes):
                    total[w] += v0 * b0[w]
                p += 1
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
def _mixed(word, multiplier):
    """Spread a bit pattern over 64 bits: those of simple numbers are mostly zeros."""
    word = (word ^ multiplier) * np.uint64(0xBF58476D1CE4E5B9)
    word = (word ^ (word >> np.uint64(31))) * np.uint64(0x94D049BB133111EB)
    return word ^ (word >> np.uint64(29))


@jit
def hash_dense(words, multipliers, keys):
    """Hash each row; ``words`` are the bit patterns of the values. Zeros do not count."""
    for i in range(words.shape[0]):
        key = np.uint64(0)
        for j in range(words.shape[1]):
            if words[i, j] != 0:
                key += _mixed(np.uint64(words[i, j]), multipliers[j])
        keys[i] = key


@jit
def hash_sparse(indptr, indices, words, multipliers, keys):
    """As `hash_dense`, from the non-zeros of CSR rows."""
    for i in range(indptr.size - 1):
        key = np.uint64(0)
        for p in range(indptr[i], indptr[i + 1]):
            if words[p] != 0:
                key += _mixed(np.uint64(words[p]), multipliers[indices[p]])
        keys[i] = key
