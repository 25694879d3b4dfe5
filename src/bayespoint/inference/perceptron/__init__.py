"""Permuted kernel perceptrons."""
