"""From tables to the numbers that classifiers take."""

from bayespoint.io.encoder.columns import FARTHEST, Category, Number
from bayespoint.io.encoder.dates import Date
from bayespoint.io.encoder.kinds import Column, UnusableColumnsError
from bayespoint.io.encoder.table_encoder import MAX_CATEGORIES, MOST_CATEGORIES, TableEncoder

__all__ = [
    "FARTHEST",
    "MAX_CATEGORIES",
    "MOST_CATEGORIES",
    "Category",
    "Column",
    "Date",
    "Number",
    "TableEncoder",
    "UnusableColumnsError",
]
