"""Inner products of sparse points with a block of points, and the hash that orders points."""

import numpy as np

from bayespoint._jit import jit


@jit
def sparse_products(indptr, indices, data, first, block, products):
    """``products[j, w] = <x_(first + j), block[:, w]>`` for CSR points x.

    One pass over the non-zeros of each point, four at a time so that a column of sums is read
    and written once for four products; every product is summed in the same order whatever else
    the block holds, so a row of the Gram matrix never depends on the rows computed beside it.
    """
    n_columns = block.shape[1]
    for j in range(products.shape[0]):
        total = products[j]
        total[:] = 0
        p, end = indptr[first + j], indptr[first + j + 1]
        while p + 4 <= end:
            v0, v1, v2, v3 = data[p], data[p + 1], data[p + 2], data[p + 3]
            b0, b1 = block[indices[p]], block[indices[p + 1]]
            b2, b3 = block[indices[p + 2]], block[indices[p + 3]]
            for w in range(n_columns):
                total[w] += v0 * b0[w] + v1 * b1[w] + v2 * b2[w] + v3 * b3[w]
            p += 4
        while p < end:
            v0, b0 = data[p], block[indices[p]]
            for w in range(n_columns):
                total[w] += v0 * b0[w]
            p += 1


@jit
def hash_dense(words, multipliers, keys):
    """Multilinear hash of each row; ``words`` are the bit patterns of the values."""
    for i in range(words.shape[0]):
        key = np.uint64(0)
        for j in range(words.shape[1]):
            key += np.uint64(words[i, j]) * multipliers[j]
        keys[i] = key


@jit
def hash_sparse(indptr, indices, words, multipliers, keys):
    """As `hash_dense`, from the non-zeros of CSR rows (the word of 0.0 is 0)."""
    for i in range(indptr.size - 1):
        key = np.uint64(0)
        for p in range(indptr[i], indptr[i + 1]):
            key += np.uint64(words[p]) * multipliers[indices[p]]
        keys[i] = key
