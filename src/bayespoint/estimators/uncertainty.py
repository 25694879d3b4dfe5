"""What of the uncertainty of a prediction more data could remove, and what they could not.

The entropy of a prediction p(x) = E_w p(x | w), w being drawn from the posterior, has two parts:

    H[p(x)] = (H[E_w p(x | w)] - E_w H[p(x | w)]) + E_w H[p(x | w)].

The first is what a label would tell about the classifier: none of it is left once w is known. The
second, the uncertainty of labels by a classifier that is known (softness and wrong labels), is what
is left then, on average. That labels at x are as noisy as they were found to be elsewhere is known
only as far as training rows speak of x: a share e(x) of the variance of w.x, that of the part which
is independent of all training labels, says nothing of x at all. For this share noise may be any,
also none. What is left for certain, whatever it is, is

    (1 - e(x)) E_w H[p(x | w)],

the irreducible part, and all the rest could be removed.
"""

from typing import NamedTuple

import numpy as np
from scipy.special import entr

from bayespoint._support.types import Array
from bayespoint.estimators.predictors import VOTE_BLOCK, Asked, Predictor

# Single classifiers that entropies are averaged over.
MEMBERS = 400


class Uncertainty(NamedTuple):
    """Parts of the entropy of predictions, in nats.

    Attributes
    ----------
    removable : ndarray of shape (n_samples,)
        What more training rows could remove (*epistemic*).
    irreducible : ndarray of shape (n_samples,)
        What no training row could (*aleatoric*).
    """

    removable: Array
    irreducible: Array


def uncertainty(predictor: Predictor, asked: Asked) -> Uncertainty:
    """Divide the entropies of predictions."""
    total, left = _entropies(predictor, asked, 0)
    irreducible = left * (1 - predictor.open_share(asked))
    return Uncertainty(total - irreducible, irreducible)


def information(predictor: Predictor, asked: Asked, seed: int) -> Array:
    """Return what labels would tell about the classifier, in nats: see `uncertainty`."""
    total, left = _entropies(predictor, asked, seed)
    return total - left


def _entropies(predictor: Predictor, asked: Asked, seed: int) -> Array:
    """Entropies of predictions, and what classifiers that are known leave of them, (2, n).

    The classifiers, drawn by the seed, are the same for all points.
    """
    parts = [np.empty((2, 0))]
    for start in range(0, asked.X.shape[0], VOTE_BLOCK):
        block = asked.part(start, start + VOTE_BLOCK)
        members = predictor.committee_proba(block, MEMBERS, np.random.RandomState(seed))
        total = entropy(predictor.predict_proba(block))
        # Links and chance set the mean of the members apart from the prediction: shares count.
        mean, left = entropy(members.mean(axis=0)), entropy(members).mean(axis=0)
        share = np.divide(left, mean, out=np.zeros_like(mean), where=mean > 0)
        parts.append(np.stack([total, total * np.minimum(share, 1.0)]))
    return np.concatenate(parts, axis=1)


def entropy(proba: Array) -> Array:
    """Entropy of the last axis, in nats."""
    return entr(proba).sum(axis=-1)
