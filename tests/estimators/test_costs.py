"""Decisions of least expected cost: by hand, in every form of costs, and what is refused."""

import numpy as np
import pandas as pd
import pytest
from helpers.refusals import assert_refused
from helpers.told import Told, two_classes
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.ensemble import BaggingClassifier, RandomForestClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC

from bayespoint import BayesPointClassifier, RejectingClassifier
from bayespoint.estimators.costs import cost_rejection_curve

# Class 1 costs 4 if it is overlooked, class 0 costs 1 if it is not, rejecting 0.5.
COSTS = np.array([[0.0, 1.0, 0.5], [4.0, 0.0, 0.5]])
P = np.array([0.05, 0.15, 0.3, 0.6, 0.9])
X, Y = two_classes(P), np.array([0, 1, 0, 1, 1])


def deciding(costs, classes=(0, 1), X=X, y=Y, **params):
    return RejectingClassifier(Told(classes), costs=costs, cv="prefit", **params).fit(X, y)


def test_by_hand():
    """Expected costs: 4 p of deciding 0, 1 - p of deciding 1, 0.5 of rejecting."""
    clf = deciding(COSTS, reject_label=-1)
    assert_array_equal(clf.predict(X), [0, -1, -1, 1, 1])
    assert_allclose(clf.expected_cost(X), [0.2, 0.5, 0.5, 0.4, 0.1])
    assert_allclose(clf.confidence_scores(X), 0.5 - np.minimum(4 * P, 1 - P))
    assert_array_equal(clf.reject(X), ~(clf.confidence_scores(X) > clf.threshold_))
    assert clf.coverage_ == 0.6
    assert clf.score(X, Y) == pytest.approx(-(0 + 0.5 + 0.5 + 0 + 0) / 5)
    wrong = 1 - Y  # 4, 0.5, 0.5, 1, 1 with weights
    weight = [1, 2, 3, 4, 5]
    assert clf.score(X, wrong, sample_weight=weight) == pytest.approx(-(4 + 1 + 1.5 + 4 + 5) / 15)


def test_without_a_column_nothing_is_rejected():
    clf = deciding(COSTS[:, :2])
    assert_array_equal(clf.predict(X), [0, 0, 1, 1, 1])  # above 0.2
    assert clf.predict(X).dtype == Y.dtype
    assert not clf.may_reject()
    assert_allclose(clf.expected_cost(X), np.minimum(4 * P, 1 - P))
    assert clf.score(X, Y) == pytest.approx(-(0 + 4 + 1 + 0 + 0) / 5)


def test_a_tie_is_rejected():
    clf = deciding([[0, 1, 0.5], [1, 0, 0.5]])
    assert clf.predict(two_classes([0.5]))[0] is None


def test_chows_rule():
    """One for an error and c for rejecting: reject where no probability is above 1 - c."""
    rng = np.random.default_rng(0)
    proba = rng.dirichlet([1, 1, 1], 200)
    y = np.array([rng.choice(3, p=p) for p in proba])
    costs = np.column_stack((1 - np.eye(3), np.full(3, 0.3)))
    clf = deciding(costs, (0, 1, 2), proba, y)
    assert_array_equal(clf.reject(proba), ~(proba.max(axis=1) > 0.7))
    assert_array_equal(clf.decide(proba)[0], proba.argmax(axis=1))


def test_true_probabilities_cost_what_is_expected_and_less_than_other_decisions():
    """The mean over classes drawn by the probabilities; most probable labels, the control, miss."""
    rng = np.random.default_rng(0)
    proba = two_classes(rng.random(20_000))
    y = (rng.random(20_000) < proba[:, 1]).astype(int)
    clf = deciding(COSTS, X=proba, y=y)
    expected = clf.expected_cost(proba).mean()
    # min(4 p, 1 - p, 0.5) over (0, 1): two triangles and the rest.
    assert expected == pytest.approx(0.5 * 0.5 * 0.125 + 0.375 * 0.5 + 0.5 * 0.5 * 0.5, abs=0.005)
    assert -clf.score(proba, y) == pytest.approx(expected, abs=0.02)  # six standard errors
    likely = proba.argmax(axis=1)
    assert COSTS[y, likely].mean() > expected + 0.2


def test_names_in_any_order_are_the_matrix():
    classes = ("no", "yes")
    y = np.array(classes)[Y]
    plain = deciding(COSTS, classes, y=y)
    frame = pd.DataFrame(COSTS, index=classes, columns=[*classes, "reject"])
    frame = frame.loc[["yes", "no"], ["reject", "yes", "no"]]
    mapping = frame.T.to_dict()
    for costs in (frame, mapping, COSTS.tolist(), lambda X: np.tile(COSTS, (len(X), 1, 1))):
        clf = deciding(costs, classes, y=y)
        assert_array_equal(clf.predict(X), plain.predict(X))
        assert_allclose(clf.expected_cost(X), plain.expected_cost(X))
        assert clf.score(X, y) == pytest.approx(plain.score(X, y))
        if not callable(costs):
            assert_array_equal(clf.costs_, COSTS)
    by_label = frame.rename(columns={"reject": "ask"})
    assert_array_equal(deciding(by_label, classes, y=y, reject_label="ask").costs_, COSTS)


def test_costs_of_each_row():
    """Where the last column of X is an amount that is lost."""
    amount = np.array([1.0, 100.0, 1.0, 1.0, 1.0])
    rows = np.column_stack((X, amount))

    def costs(X):
        found = np.tile(COSTS[:, :2], (len(X), 1, 1))
        found[:, 1, 0] = np.asarray(X)[:, 2]
        return found

    clf = deciding(costs, X=rows)
    assert_array_equal(clf.predict(rows), [0, 1, 0, 1, 1])
    assert_allclose(clf.expected_cost(rows), [0.05, 0.85, 0.3, 0.4, 0.1])
    assert_allclose(clf.costs_of(rows, [1] * 5, np.zeros(5, int))[0], amount)


FRAME = pd.DataFrame(COSTS, index=[0, 1], columns=[0, 1, "reject"])
BAD = [
    ({"costs": COSTS.T}, r"costs has shape \(3, 2\) for 2 classes, \[0, 1\]; give \(2, 2\), or"),
    ({"costs": [[0, 1], [np.nan, 0]]}, "costs is nan for true class 1 and decision 0"),
    ({"costs": np.ma.masked_array([[0, 1], [1, 0]], mask=np.eye(2))}, "costs has masked entries"),
    ({"costs": [[0, 1, 2], [1, 0, np.inf]]}, "costs is inf for true class 1 and decision 'reject'"),
    ({"costs": "cheap"}, "costs='cheap' are not numbers"),
    ({"costs": FRAME.rename(index={1: "1"})}, "true class '1', which is not among the classes"),
    ({"costs": FRAME.rename(columns={1: "yes"})}, "costs names the decision 'yes'"),
    ({"costs": FRAME.iloc[:1]}, "costs does not have the true class 1"),
    ({"costs": FRAME[[0, "reject"]]}, "costs does not have the decision 1"),
    ({"costs": {0: {0: 0, 1: 1}, 1: {0: 1, 1: 0}, 2: 5}}, r"costs\[2\]=5 is not a mapping"),
    ({"costs": {0: [0, 1], 1: [1, 0]}}, r"costs\[0\]=\[0, 1\] is not a mapping; give each true"),
    ({"costs": pd.concat([FRAME, FRAME])}, "costs has more than one row 0"),
    ({"costs": lambda X: np.zeros((len(X), 2))}, r"costs\(X\) has shape \(5, 2\) for 5 rows"),
    ({"costs": lambda X: np.full((len(X), 2, 2), np.nan)}, r"costs\(X\) is not finite at row 0"),
    ({"costs": COSTS, "coverage": 0.9}, "coverage=0.9 and costs are both given"),
    ({"costs": COSTS, "max_risk": 0.1}, "max_risk=0.1 and costs are both given"),
    ({"costs": COSTS, "min_recall": {1: 0.9}}, "costs and min_precision or min_recall are both"),
    ({"costs": COSTS, "reject_cost": 0.5}, "reject_cost=0.5 is given together with costs"),
    ({"costs": COSTS, "confidence": "gap"}, "confidence='gap' has no effect with costs"),
    ({"costs": COSTS, "reject_label": 1}, "reject_label=1 is one of the classes"),
]  # fmt: skip


def test_bad_costs_are_refused():
    clf = RejectingClassifier(Told(), cv="prefit")
    assert_refused(lambda **bad: clf.set_params(**NONE | bad).fit(X, Y), BAD)


NONE = dict.fromkeys(("costs", "coverage", "max_risk", "min_recall", "reject_cost", "reject_label"))
NONE["confidence"] = "auto"


def test_bad_costs_show_before_the_fit():
    class Slow(GaussianNB):
        def fit(self, X, y):  # noqa: ARG002
            raise AssertionError

    with pytest.raises(ValueError, match="costs has shape"):
        RejectingClassifier(Slow(), costs=[[0]]).fit(X, Y)


@pytest.mark.parametrize(
    "estimator",
    [
        LogisticRegression(class_weight="balanced"),
        make_pipeline(StandardScaler(), BayesPointClassifier(class_weight={1: 2.0})),
        GridSearchCV(LogisticRegression(), {"class_weight": [{0: 1, 1: 9}]}, cv=2),
    ],
    ids=["plain", "pipeline", "search"],
)
def test_class_weights_beside_costs_are_refused(estimator):
    rng = np.random.default_rng(0)
    y = rng.integers(2, size=40)
    X = rng.normal(size=(40, 2)) + y[:, None]
    inside = make_pipeline(StandardScaler(), clone(estimator))
    for wrapped in (estimator, inside, FrozenEstimator(clone(estimator).fit(X, y))):
        with pytest.raises(ValueError, match=r"class_weight=.* would count twice with costs"):
            RejectingClassifier(wrapped, costs=COSTS).fit(X, y)


@pytest.mark.parametrize("estimator", [RandomForestClassifier(5), BaggingClassifier(GaussianNB())])
def test_ensembles_that_are_not_fitted_yet(estimator):
    """Which have no length before they have members."""
    rng = np.random.default_rng(0)
    y = rng.integers(2, size=60)
    X = rng.normal(size=(60, 2)) + y[:, None]
    clf = RejectingClassifier(estimator.set_params(random_state=0), costs=COSTS).fit(X, y)
    proba = clone(estimator).fit(X, y).predict_proba(X)
    assert_allclose(clf.expected_cost(X), (proba @ COSTS).min(axis=1))


def test_labels_without_costs_and_probabilities_that_are_missing():
    with pytest.raises(ValueError, match="y has the label 2, which is not among the classes"):
        deciding(COSTS).score(X, [0, 1, 2, 1, 0])
    for wanted in ({"costs": COSTS}, {"min_precision": {1: 0.9}}):
        with pytest.raises(TypeError, match="LinearSVC has no predict_proba, which costs"):
            RejectingClassifier(LinearSVC(), **wanted).fit(X, Y)
    with pytest.raises(AttributeError, match="expected_cost"):
        RejectingClassifier(Told(), cv="prefit").fit(X, Y).expected_cost(X)


def test_costs_that_decide_beforehand_are_told():
    with pytest.warns(
        UserWarning, match="rejecting never more expensive .* so every case is rejected"
    ) as told:
        clf = RejectingClassifier(Told(), costs=[[1, 2, 1], [2, 1, 0]], cv="prefit").fit(X, Y)
    assert told[0].filename == __file__  # where fit was called
    assert clf.reject(X).all()
    for costs in ([[0, 1], [0, 2]], [[0, 0], [0, 2]]):
        with pytest.warns(UserWarning, match="decision 1 never cheaper than 0, .* no reason"):
            clf = deciding(costs)
        assert_array_equal(clf.predict(X), 0)
    with pytest.warns(UserWarning, match="all decisions cost the same, .* labelled 0") as told:
        clf = deciding([[0, 0], [5, 5]])
    assert len(told) == 1
    assert_array_equal(clf.predict(X), 0)


def test_gains_in_the_place_of_costs_are_told():
    """All the same, right decisions may cost something, less than wrong ones."""
    for gains in ([[1, 0], [0, 1]], [[0, -10], [-1, 0]], [[5, 0, 4], [0, 9, 7]]):
        with pytest.warns(
            UserWarning, match=r"right decision cost more .* gains, change their signs"
        ) as told:
            clf = deciding(gains)
        assert len(told) == 1
        assert_array_equal(clf.decide(X)[0], 1 - deciding(-np.array(gains)).decide(X)[0])
    of_rows = np.tile([[1.0, 0.0], [0.0, 1.0]], (len(X), 1, 1))
    with pytest.warns(UserWarning, match="gains, change their signs"):
        deciding(lambda _: of_rows)
    deciding([[1, 8], [1, 0.5]])
    deciding(lambda X: np.where(np.arange(len(X))[:, None, None] > 0, -1, 1) * of_rows)


def test_rejecting_that_a_mixture_of_decisions_makes_useless_is_told():
    """Deciding costs 0.5 at most: half of either decision costs that, whatever the class."""
    with pytest.warns(UserWarning, match="never the cheapest, whatever .* no case is rejected"):
        clf = deciding([[0, 1, 0.5], [1, 0, 0.55]])
    assert not clf.reject(two_classes(np.linspace(0, 1, 99))).any()
    clf = deciding([[0, 1, 0.5], [1, 0, 0.45]])
    assert clf.reject(two_classes(np.linspace(0, 1, 99))).any()


def test_functions_that_reject_everything_are_told():
    with pytest.warns(UserWarning, match="rejecting never more expensive .* every case is"):
        deciding(lambda X: np.tile([[1, 2, 1], [2, 1, 0]], (len(X), 1, 1)))
    cheap = [[0, 1, 0.01], [1, 0, 0.01]]
    for costs in (cheap, lambda X: np.tile(cheap, (len(X), 1, 1))):
        with pytest.warns(UserWarning, match="rejecting the cheapest for all 5 held-out cases"):
            clf = deciding(costs)
        assert clf.reject(X).all()
        assert clf.coverage_ == 0


def test_cost_against_rejection_by_hand():
    cost, sure = [0, 0, 5, 1], [0.9, 0.8, 0.5, 0.6]
    rejected, mean_cost, thresholds = cost_rejection_curve(cost, [1, 1, 2, 1], sure)
    assert_allclose(rejected, [0, 0.25, 0.5, 0.75, 1])
    assert_allclose(mean_cost, [6 / 4, 3 / 4, 3 / 4, 4 / 4, 5 / 4])
    assert_allclose(thresholds, [-np.inf, 0.5, 0.6, 0.8, 0.9])
    weighted = cost_rejection_curve(cost, [1, 1, 2, 1], sure, sample_weight=[2, 1, 1, 0])
    copies = cost_rejection_curve([0, 0, 0, 5], [1, 1, 1, 2], [0.9, 0.9, 0.8, 0.5])
    for one, other in zip(weighted, copies, strict=True):
        assert_allclose(one, other)
