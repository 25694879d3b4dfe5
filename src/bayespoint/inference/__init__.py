"""Inference: ways to draw classifiers from version space, one algorithm a file."""

from bayespoint.inference.billiard import sample_billiard
from bayespoint.inference.gibbs import sample_gibbs
from bayespoint.inference.perceptron import sample_perceptron
from bayespoint.inference.published_billiards import sample_flipper, sample_jmlr_billiard

__all__ = [
    "sample_billiard",
    "sample_flipper",
    "sample_gibbs",
    "sample_jmlr_billiard",
    "sample_perceptron",
]
