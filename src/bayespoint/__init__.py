"""Bayes point machines: kernel classifiers that average over all consistent hyperplanes."""

from bayespoint import active, inference, onion, starts
from bayespoint.classifier import BayesPointClassifier
from bayespoint.displays import OnionDisplay, PosteriorDisplay, RiskCoverageDisplay
from bayespoint.onion_classifier import OnionClassifier
from bayespoint.posterior import Posterior
from bayespoint.rejection import RejectingClassifier, aurc, risk_coverage_curve
from bayespoint.version_space import EmptyVersionSpaceError, VersionSpace

__all__ = [
    "BayesPointClassifier",
    "EmptyVersionSpaceError",
    "OnionClassifier",
    "OnionDisplay",
    "Posterior",
    "PosteriorDisplay",
    "RejectingClassifier",
    "RiskCoverageDisplay",
    "VersionSpace",
    "active",
    "aurc",
    "inference",
    "onion",
    "risk_coverage_curve",
    "starts",
]
__version__ = "0.1.0"
