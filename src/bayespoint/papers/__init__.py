"""What is here only because a paper had it; the rest of the package does not know this room.

Billiards as published, from the ground up:

- ``straight``: balls that fly on straight lines, and the papers' sums of unit vectors.
- ``runs``: one such ball from start to posterior, with the arguments that all samplers share.
- ``billiards``: `sample_jmlr_billiard` and R&M's `sample_flipper`.
- ``onion``: R&M's `published_onion`, and `cross_validate_onion`.

Beside them:

- ``direct``: `direct_bayes_point`, the mean of the corners of version space.
- ``log_posterior``, ``diversity``: KGS's pictures, `LogPosteriorDisplay` and `DiversityDisplay`.
- ``datasets``: the data sets, from a folder or from OpenML.
- ``reproduction``: every table and figure, run again.
"""

from bayespoint.papers.billiards import sample_flipper, sample_jmlr_billiard
from bayespoint.papers.direct import direct_bayes_point
from bayespoint.papers.diversity import DiversityDisplay
from bayespoint.papers.log_posterior import LogPosteriorDisplay
from bayespoint.papers.onion import cross_validate_onion, published_onion

__all__ = [
    "DiversityDisplay",
    "LogPosteriorDisplay",
    "cross_validate_onion",
    "direct_bayes_point",
    "published_onion",
    "sample_flipper",
    "sample_jmlr_billiard",
]
