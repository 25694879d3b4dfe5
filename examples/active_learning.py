"""Ask for labels through scikit-activeml: our query strategy, and our posterior as a committee.

Needs scikit-activeml: pip install 'bayespoint[active]'

    python examples/active_learning.py
"""

import numpy as np
from skactiveml.classifier import SklearnClassifier
from skactiveml.pool import QueryByCommittee, RandomSampling
from skactiveml.utils import MISSING_LABEL
from sklearn.datasets import make_moons

from bayespoint import BayesPointClassifier
from bayespoint.active.scikit_activeml import PosteriorQuery

X, y = make_moons(600, noise=0.25, random_state=0)
X, y, X_test, y_test = X[:300], y[:300], X[300:], y[300:]

bpm = BayesPointClassifier(inference="billiard", gamma=1.0, n_draws=100, random_state=0)
clf = SklearnClassifier(bpm, classes=[0, 1])
committee = QueryByCommittee(
    method="vote_entropy",
    sample_predictions_method_name="sample_proba",
    sample_predictions_dict={"n_samples": 50},
    random_state=0,
)

STRATEGIES = {
    "random": (RandomSampling(random_state=0), {}),
    "query by committee": (committee, {"ensemble": clf}),
    "posterior, entropy": (PosteriorQuery(random_state=0), {"clf": clf}),
    "posterior, BALD": (PosteriorQuery("bald", random_state=0), {"clf": clf}),
}


def main():
    for name, (strategy, model) in STRATEGIES.items():
        known = np.full(len(y), MISSING_LABEL)
        known[:4] = y[:4]
        for _ in range(6):
            asked = strategy.query(X, known, batch_size=5, **model)
            known[asked] = y[asked]
        error = 1 - clf.fit(X, known).score(X_test, y_test)
        print(f"{name:20} {np.sum(~np.isnan(known))} labels, test error {error:.3f}")


if __name__ == "__main__":
    main()
