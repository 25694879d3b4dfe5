"""The direct Bayes point (Rychetsky, Shawe-Taylor & Glesner 2000): the mean of the corners.

Version space of m independent walls has m corners, each on all walls but one. The corner off
wall i has margins G a ∝ e_i, so that its coefficients are a column of the inverse Gram matrix.
Their mean is a quick stand-in for the centre of mass, which weighs all of version space.
"""

import numpy as np
import scipy.linalg

from bayespoint.space.posterior import Posterior
from bayespoint.space.version_space import VersionSpace, check_space


def direct_bayes_point(space: VersionSpace) -> Posterior:
    """Average the corners of version space: a baseline.

    Parameters
    ----------
    space : VersionSpace
        With a Gram matrix that is positive definite, as it is with ``softness > 0``.

    Returns
    -------
    Posterior
        Its draws are the m corners, each of unit length; they are not a sample of version space.

    Examples
    --------
    >>> import numpy as np
    >>> from bayespoint import VersionSpace, papers
    >>> space = VersionSpace(np.eye(4), [1, 1, -1, -1])
    >>> papers.direct_bayes_point(space).bayes_point()
    array([ 0.5,  0.5, -0.5, -0.5])
    """
    check_space(space)
    K = space.rows.matrix()
    K[np.diag_indices_from(K)] += space.ridge
    try:
        inverse = scipy.linalg.cho_solve(scipy.linalg.cho_factor(K), np.eye(len(K)))
    except scipy.linalg.LinAlgError as error:
        raise ValueError(
            "the direct Bayes point needs a positive definite Gram matrix, for version space to "
            "have a corner for each point. Set softness > 0, or use sample_billiard."
        ) from error
    length = np.sqrt(inverse.diagonal())  # of a corner: aᵀ K a for a = K^-1 e_i
    corners = inverse * (space.y / length)[:, None]
    return Posterior(corners, outputs=np.diag(space.y / length), space=space)
