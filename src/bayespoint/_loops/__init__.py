"""Inner loops only: stopping, scheduling and averaging are written once, in the packages above.

Importing these modules imports Numba (a third of a second), so the packages above import them
inside the functions that need them.
"""
