"""Kernels, rows of the Gram matrix and their factor, version space, posterior, votes."""
