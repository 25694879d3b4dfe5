"""Inference: ways to draw classifiers from version space, one algorithm a file."""

from bayespoint.inference.billiard import sample_billiard
from bayespoint.inference.perceptron import sample_perceptron

__all__ = ["sample_billiard", "sample_perceptron"]
