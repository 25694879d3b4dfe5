"""Pictures, with scikit-learn's display conventions. matplotlib is imported when drawing."""

from bayespoint.displays.onion import OnionDisplay
from bayespoint.displays.posterior import PosteriorDisplay
from bayespoint.displays.risk_coverage import RiskCoverageDisplay

__all__ = ["OnionDisplay", "PosteriorDisplay", "RiskCoverageDisplay"]
