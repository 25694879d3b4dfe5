"""From tables to the numbers that classifiers take."""

from bayespoint.encoder.columns import FARTHEST, Category, Number
from bayespoint.encoder.table_encoder import MAX_CATEGORIES, MOST_CATEGORIES, TableEncoder

__all__ = ["FARTHEST", "MAX_CATEGORIES", "MOST_CATEGORIES", "Category", "Number", "TableEncoder"]
