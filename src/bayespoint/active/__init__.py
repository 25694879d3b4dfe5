"""Active learning: which points of a pool to have labelled next.

`bayespoint.active.scikit_activeml` has the same as a query strategy of scikit-activeml.
"""

from bayespoint.active.queries import query, utilities

__all__ = ["query", "utilities"]
