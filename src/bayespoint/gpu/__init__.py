"""The same fits on a GPU: what lies beneath the methods, in PyTorch and Triton.

Only the inner parts are here: rows of the Gram matrix, their factor, and the state that the loops
in ``loops`` work on. Stopping, refreshing and averaging are the code that the CPU uses.
"""
