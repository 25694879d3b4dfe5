"""Pictures, with scikit-learn's display conventions. matplotlib is imported when drawing."""

from bayespoint.displays.boundary import BoundaryDisplay
from bayespoint.displays.diversity import DiversityDisplay
from bayespoint.displays.evidence import EvidenceDisplay
from bayespoint.displays.label_errors import LabelErrorDisplay
from bayespoint.displays.log_posterior import LogPosteriorDisplay
from bayespoint.displays.onion import OnionDisplay
from bayespoint.displays.posterior import PosteriorDisplay
from bayespoint.displays.risk_coverage import RiskCoverageDisplay

__all__ = [
    "BoundaryDisplay",
    "DiversityDisplay",
    "EvidenceDisplay",
    "LabelErrorDisplay",
    "LogPosteriorDisplay",
    "OnionDisplay",
    "PosteriorDisplay",
    "RiskCoverageDisplay",
]
