"""Fits on many machines, by Dask: the same model as on one."""

from bayespoint.distributed.classifier import DaskBayesPointClassifier

__all__ = ["DaskBayesPointClassifier"]
