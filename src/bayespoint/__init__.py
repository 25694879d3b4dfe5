"""Bayes point machines: kernel classifiers that average over all consistent hyperplanes."""

from bayespoint import evidence, inference
from bayespoint.displays import RiskCoverageDisplay
from bayespoint.estimators.classifier import BayesPointClassifier
from bayespoint.estimators.onion import OnionClassifier
from bayespoint.estimators.prediction_sets import PredictionSetClassifier
from bayespoint.estimators.rejection import RejectingClassifier
from bayespoint.estimators.risk import aurc, risk_coverage_curve
from bayespoint.inference import onion
from bayespoint.space.posterior import Posterior
from bayespoint.space.version_space import EmptyVersionSpaceError, VersionSpace

__all__ = [
    "BayesPointClassifier",
    "EmptyVersionSpaceError",
    "OnionClassifier",
    "Posterior",
    "PredictionSetClassifier",
    "RejectingClassifier",
    "RiskCoverageDisplay",
    "VersionSpace",
    "aurc",
    "evidence",
    "inference",
    "onion",
    "risk_coverage_curve",
]
__version__ = "0.1.0"
