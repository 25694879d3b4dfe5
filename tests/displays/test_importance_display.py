"""Picture of importances: order, names, groups, and what it is drawn from."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from bayespoint import BayesPointClassifier, OnionClassifier, RejectingClassifier
from bayespoint.displays import FeatureImportanceDisplay

X = np.random.default_rng(0).standard_normal((60, 4))
Y = X[:, 2] + 0.5 * X[:, 0] > 0


def classifier(**settings):
    given = {"gamma": 0.2, "softness": 0.1, "bias": 1.0, "inference": "ep", "random_state": 0}
    return BayesPointClassifier(**given | settings)


def drawn(estimator, **options):
    """The display, and what it says from top to bottom."""
    display = FeatureImportanceDisplay.from_estimator(estimator, **options)
    return display, [label.get_text() for label in display.ax_.get_yticklabels()]


@pytest.mark.usefixtures("plt")
def test_the_most_important_is_on_top_with_its_error():
    clf = classifier().fit(X, Y)
    display, said = drawn(clf)
    order = np.argsort(-clf.feature_importances_)
    assert said == [f"Feature {i}" for i in order]
    line, caps, (bars,) = display.points_.lines
    assert_allclose(line.get_xdata(), clf.feature_importances_[order])
    ends = np.array(bars.get_segments())[:, :, 0]
    assert_allclose((ends[:, 1] - ends[:, 0]) / 2, clf.feature_importances_std_[order])
    bottom, top = display.ax_.get_ylim()
    assert bottom > top
    assert_allclose(display.line_.get_xdata(), 0)
    assert len(caps) == 2


@pytest.mark.usefixtures("plt")
def test_names_and_how_many():
    clf = classifier().fit(X, Y)
    display, said = drawn(clf, feature_names=["a", "b", "c" * 50, "d"], max_features=2)
    assert said == ["c" * 31 + "…", "a"]
    assert display.ax_.get_ylabel() == "2 of 4 features"
    pipeline = make_pipeline(StandardScaler(), RejectingClassifier(classifier(), coverage=0.9))
    assert drawn(pipeline.fit(X, Y))[1][0] == "x2"
    pipeline = RejectingClassifier(make_pipeline(StandardScaler(), classifier()), coverage=0.9)
    assert drawn(pipeline.fit(X, Y))[1][0] == "x2"
    pd = pytest.importorskip("pandas")
    clf.fit(pd.DataFrame(X, columns=["p", "q", "r", "s"]), Y)
    assert drawn(clf)[1][:2] == ["r", "p"]


@pytest.mark.parametrize(
    ("groups", "names"),
    [(["all", "b", "all", "b"], ["all", "b"]), ([0, 1, 0, 2], ["Group 0", "Feature 3"])],
)
@pytest.mark.usefixtures("plt")
def test_a_group_is_shown_once(groups, names):
    clf = classifier(feature_groups=groups).fit(X, Y)
    _, said = drawn(clf)
    assert said[0] == names[0]
    assert names[1] in said
    assert len(said) == len(set(groups))


def test_what_has_no_importances_is_refused():
    onion = OnionClassifier(gamma=0.2, softness=1.0, bias=1.0, depth=1, n_draws=20, random_state=0)
    with pytest.raises(ValueError, match="must be a BayesPointClassifier; got OnionClassifier"):
        FeatureImportanceDisplay.from_estimator(onion.fit(X, Y))
    with pytest.raises(ValueError, match=r"feature_names must hold one name .* 4 columns .*got 1"):
        FeatureImportanceDisplay.from_estimator(classifier().fit(X, Y), feature_names=["a"])
    with pytest.raises(ValueError, match="max_features"):
        FeatureImportanceDisplay.from_estimator(classifier().fit(X, Y), max_features=0)
