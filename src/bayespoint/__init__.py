"""Bayes point machines: kernel classifiers that average over all consistent hyperplanes."""

from bayespoint import evidence, inference, onion
from bayespoint.classifier import BayesPointClassifier
from bayespoint.displays import RiskCoverageDisplay
from bayespoint.onion_classifier import OnionClassifier
from bayespoint.posterior import Posterior
from bayespoint.rejection import RejectingClassifier, aurc, risk_coverage_curve
from bayespoint.version_space import EmptyVersionSpaceError, VersionSpace

__all__ = [
    "BayesPointClassifier",
    "EmptyVersionSpaceError",
    "OnionClassifier",
    "Posterior",
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
