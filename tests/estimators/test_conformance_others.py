"""scikit-learn's own checks, for estimators beside BayesPointClassifier."""

import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.svm import SVC
from sklearn.utils.estimator_checks import check_estimator, parametrize_with_checks

from bayespoint import PredictionSetClassifier, RejectingClassifier

# gamma="scale" does not see weights, and SVC stops at 1e-3: with both set, it passes all.
MACHINE = SVC(gamma=0.1, tol=1e-12)


def test_a_cheap_classifier_that_rejects_follows_the_conventions():
    """With a threshold that rejects nothing: the checks do not know of rejected cases."""
    clf = RejectingClassifier(MACHINE, coverage=1.0, cv=2, reject_label=-99)
    results = check_estimator(clf, on_skip=None)
    assert sum(result["status"] == "passed" for result in results) > 40


@pytest.mark.release
@parametrize_with_checks(
    [
        RejectingClassifier(LogisticRegression()),
        RejectingClassifier(MACHINE),
        RejectingClassifier(MACHINE, coverage=1.0, cv=2, reject_label=-99),
        PredictionSetClassifier(LogisticRegression(), cv=2, confidence_level=0.4),
    ]
)
def test_classifiers_that_reject_follow_the_conventions(estimator, check):
    check(estimator)
