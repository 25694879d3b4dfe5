"""Pictures, with scikit-learn's display conventions. matplotlib is imported when drawing."""

from bayespoint.displays.boundary import BoundaryDisplay
from bayespoint.displays.confusion import ConfusionDisplay
from bayespoint.displays.cost_rejection import CostRejectionDisplay
from bayespoint.displays.evidence import EvidenceDisplay
from bayespoint.displays.importances import FeatureImportanceDisplay
from bayespoint.displays.label_errors import LabelErrorDisplay
from bayespoint.displays.onion import OnionDisplay
from bayespoint.displays.posterior import PosteriorDisplay
from bayespoint.displays.predictive import PredictiveDisplay
from bayespoint.displays.risk_coverage import RiskCoverageDisplay

__all__ = [
    "BoundaryDisplay",
    "ConfusionDisplay",
    "CostRejectionDisplay",
    "EvidenceDisplay",
    "FeatureImportanceDisplay",
    "LabelErrorDisplay",
    "OnionDisplay",
    "PosteriorDisplay",
    "PredictiveDisplay",
    "RiskCoverageDisplay",
]
