"""Inference: ways to draw classifiers from version space, one algorithm a file."""

from bayespoint.inference.billiard import sample_billiard
from bayespoint.inference.direct import direct_bayes_point
from bayespoint.inference.expectation_propagation import expectation_propagation
from bayespoint.inference.gibbs import sample_gibbs
from bayespoint.inference.perceptron import sample_perceptron
from bayespoint.inference.published_billiards import sample_flipper, sample_jmlr_billiard

__all__ = [
    "direct_bayes_point",
    "expectation_propagation",
    "sample_billiard",
    "sample_flipper",
    "sample_gibbs",
    "sample_jmlr_billiard",
    "sample_perceptron",
]
