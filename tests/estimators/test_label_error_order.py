"""Which labels come first among those that may be wrong."""

import numpy as np
import pytest
from helpers.classifiers import classifier
from sklearn.metrics import average_precision_score


def overlapping_and_clear(seed=0):
    """Many rows in a heap where classes overlap, and two clear classes with six wrong labels."""
    rng = np.random.default_rng(seed)
    places = ([0, 0], 0.3, 200), ([5, 0], 1, 40), ([-5, 0], 1, 40)
    X = np.vstack([rng.normal(centre, width, (n, 2)) for centre, width, n in places])
    y = np.concatenate([rng.random(200) < 0.3, np.zeros(40), np.ones(40)]).astype(int)
    wrong = np.zeros(len(y), dtype=bool)
    wrong[[200, 210, 220, 240, 250, 260]] = True
    return X, np.where(wrong, 1 - y, y), wrong


@pytest.mark.parametrize("inference", ["ep", "billiard"])
def test_wrong_labels_come_before_those_that_overlap(inference):
    X, given, wrong = overlapping_and_clear()
    clf = classifier(inference=inference, gamma=0.2, softness=0.5, n_draws=200).fit(X, given)
    assert average_precision_score(wrong, clf.label_error_proba_) > 0.9
