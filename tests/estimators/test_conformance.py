"""scikit-learn's own checks: of four estimators by default, of the other settings by .ci/run.

All validate and predict in the same way: what differs is the inference, the layout of the rows and
the search for settings, which takes most of the time.
"""

import inspect

import pytest
from sklearn.base import clone
from sklearn.utils.estimator_checks import estimator_checks_generator, parametrize_with_checks

from bayespoint import BayesPointClassifier, OnionClassifier

FIXED = {"gamma": 0.5, "softness": 0.2, "bias": 1.0, "n_draws": 4}
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
        BayesPointClassifier(inference="perceptron", **FIXED),
        BayesPointClassifier(inference="billiard", label_noise=0.05, **FIXED),
        BayesPointClassifier("precomputed", inference="ep", **FIXED),
        OnionClassifier(depth=1, gamma=0.5, softness=1.0, bias=1.0, n_draws=16, random_state=0),
    ],
    expected_failed_checks=expected_failures,
)
def test_scikit_learn_conventions(estimator, check):
    check(estimator)


# Of EP only what asks for partial_fit, which the others have not; .ci/run makes all.
EP = BayesPointClassifier(inference="ep", **FIXED)
OF_PARTIAL_FIT = [
    check
    for _, check in estimator_checks_generator(EP)
    if "partial_fit" in inspect.getsource(check.func)
]


@ignore_scales
@pytest.mark.parametrize("check", OF_PARTIAL_FIT, ids=lambda check: check.func.__name__)
def test_conventions_of_partial_fit(check):
    assert hasattr(EP, "partial_fit")
    check(clone(EP))


@pytest.mark.release
@ignore_scales
@parametrize_with_checks(
    [
        BayesPointClassifier(inference="ep", **FIXED),
        BayesPointClassifier(gamma="evidence", softness="evidence", bias="evidence", n_draws=4),
        BayesPointClassifier("linear", inference="perceptron", decision="vote", **FIXED),
        BayesPointClassifier(
            "poly", normalize_kernel=False, inference="ep", label_noise=0.05, **FIXED
        ),
        BayesPointClassifier("laplacian", inference="gibbs", **FIXED),
        BayesPointClassifier("precomputed", inference="billiard", label_noise=0.05, **FIXED),
    ],
    expected_failed_checks=expected_failures,
)
def test_scikit_learn_conventions_of_more_settings(estimator, check):
    check(estimator)


DEFAULTS = BayesPointClassifier(n_draws=5)
# One check trains on some hundred rows, as they are, in memory that cannot be written, and in
# single precision, too: the search for settings takes 9 s each time, so the last is enough.
LAST_LAYOUT = {"readonly_memmap": True, "X_dtype": "float32"}


def of_defaults():
    for _, check in estimator_checks_generator(DEFAULTS):
        name, options = check.func.__name__, check.keywords
        again = name == "check_classifiers_train" and options != LAST_LAYOUT
        mark = pytest.mark.slow if again else pytest.mark.release
        yield pytest.param(check, marks=mark, id="-".join([name, *map(str, options.values())]))


@ignore_scales
@pytest.mark.parametrize("check", list(of_defaults()))
def test_scikit_learn_conventions_of_the_defaults(check):
    check(clone(DEFAULTS))
