"""Inference: ways to draw classifiers from version space, one folder per algorithm."""

from bayespoint.inference.billiard import starts
from bayespoint.inference.billiard.gibbs import sample_gibbs
from bayespoint.inference.billiard.sampler import sample_billiard
from bayespoint.inference.ep.propagation import expectation_propagation
from bayespoint.inference.perceptron.sampler import sample_perceptron

__all__ = [
    "expectation_propagation",
    "sample_billiard",
    "sample_gibbs",
    "sample_perceptron",
    "starts",
]
