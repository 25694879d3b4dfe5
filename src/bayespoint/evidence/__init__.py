"""Evidence: how well kernel, width, softness and noise fit, without a validation set."""

from bayespoint.evidence.certificates import Certificate
from bayespoint.evidence.estimates import Evidence, log_evidence

__all__ = ["Certificate", "Evidence", "log_evidence"]
