"""Expectation propagation at any number of rows: cells of rows that lie together, and landmarks.

`tree` divides rows into cells, `cell` has the formulas of one cell, `sweeps` goes through all of
them, `prediction` answers for new rows.
"""
