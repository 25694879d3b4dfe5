"""scikit-learn's own checks, for the estimator with every inference and layout.

Other decisions of the same inference, and settings by evidence, are marked slow: they take 40 % of
the time, and validate, fit and predict in the same way.
"""

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from bayespoint import BayesPointClassifier, OnionClassifier

FIXED = {"gamma": "scale", "softness": 0.1, "bias": 1.0}
NOT_A_GRAM_MATRIX = "hands over numbers that are not inner products, which we refuse"
EXPECTED = {
    "check_estimators_dtypes": NOT_A_GRAM_MATRIX,
    "check_positive_only_tag_during_fit": NOT_A_GRAM_MATRIX,
    "check_classifiers_one_label_sample_weights": NOT_A_GRAM_MATRIX,
    "check_decision_proba_consistency": NOT_A_GRAM_MATRIX,
}


def expected_failures(estimator):
    return EXPECTED if estimator.kernel == "precomputed" else {}


ignore_scales = pytest.mark.filterwarnings("ignore:features are on very different scales")


@ignore_scales
@parametrize_with_checks(
    [
        BayesPointClassifier(n_draws=5),
        BayesPointClassifier("precomputed", n_draws=4),
        BayesPointClassifier(inference="perceptron", n_draws=5, **FIXED),
        BayesPointClassifier(inference="perceptron", decision="vote", n_draws=5, **FIXED),
        BayesPointClassifier("linear", inference="perceptron", n_draws=5, **FIXED),
        BayesPointClassifier(
            "poly", normalize_kernel=False, inference="perceptron", n_draws=5, **FIXED
        ),
        BayesPointClassifier("laplacian", inference="perceptron", n_draws=5, **FIXED),
        BayesPointClassifier("precomputed", inference="perceptron", n_draws=5, **FIXED),
        BayesPointClassifier(inference="billiard", n_draws=4, **FIXED),
        BayesPointClassifier(inference="billiard", label_noise=0.05, n_draws=4, **FIXED),
        BayesPointClassifier(inference="ep", label_noise=0.05, n_draws=4, **FIXED),
        OnionClassifier(depth=1, n_draws=100),
    ],
    expected_failed_checks=expected_failures,
)
def test_scikit_learn_conventions(estimator, check):
    check(estimator)


@pytest.mark.slow
@ignore_scales
@parametrize_with_checks(
    [
        BayesPointClassifier(gamma="evidence", softness="evidence", bias="evidence", n_draws=4),
        BayesPointClassifier(inference="billiard", decision="bayes_point", n_draws=4, **FIXED),
        BayesPointClassifier(
            "precomputed", inference="billiard", label_noise=0.05, n_draws=4, **FIXED
        ),
        BayesPointClassifier(inference="ep", n_draws=4, **FIXED),
        BayesPointClassifier(
            inference="ep", decision="bayes_point", label_noise=0.05, n_draws=4, **FIXED
        ),
    ],
    expected_failed_checks=expected_failures,
)
def test_scikit_learn_conventions_of_more_settings(estimator, check):
    check(estimator)
