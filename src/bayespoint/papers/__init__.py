"""What is here because a paper had it: published billiards and onion, data sets, figures."""

from bayespoint.papers.billiards import sample_flipper, sample_jmlr_billiard
from bayespoint.papers.direct import direct_bayes_point
from bayespoint.papers.diversity import DiversityDisplay
from bayespoint.papers.log_posterior import LogPosteriorDisplay
from bayespoint.papers.onion import published_onion
from bayespoint.papers.onion_folds import cross_validate_onion

__all__ = [
    "DiversityDisplay",
    "LogPosteriorDisplay",
    "cross_validate_onion",
    "direct_bayes_point",
    "published_onion",
    "sample_flipper",
    "sample_jmlr_billiard",
]
