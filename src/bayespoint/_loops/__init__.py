"""Inner loops only: stopping, scheduling and averaging are written once, in the rooms above.

Importing these modules imports Numba (a third of a second), so the rooms above import them
inside the functions that need them.
"""
