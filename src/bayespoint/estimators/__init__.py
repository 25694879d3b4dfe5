"""Scikit-learn estimators, and what a fit decides before and after it infers."""
