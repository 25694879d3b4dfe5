"""Rows that candidates for widths are compared on: fitted, or only asked."""

import numpy as np
import pytest

from bayespoint import BayesPointClassifier
from bayespoint.estimators import widths

RELEVANT = np.where(np.arange(10) < 2, 1.0, 0.01)


@pytest.mark.parametrize(("most", "n_asked"), [(10_000, 120), (110, 110), (50, 100)])
def test_of_many_rows_more_labels_are_asked_than_rows_are_fitted(monkeypatch, most, n_asked):
    """A fifth of all rows, up to a number, but a third of the sample at least."""
    monkeypatch.setattr(widths, "COMPARED_SIZE", 50)  # samples of 300, of which 200 are fitted
    monkeypatch.setattr(widths, "MOST_ASKED", most)
    monkeypatch.setattr(widths.WidthSearch, "_in_doubt", lambda *_: False)
    monkeypatch.setattr(widths.WidthLearner, "learnt", lambda _, base, *__: base * RELEVANT)
    X = np.random.default_rng(0).standard_normal((600, 10))
    clf = BayesPointClassifier(
        "rbf", softness=0.1, bias=1.0, inference="ep", cell_size=100, n_landmarks=0, random_state=0
    ).fit(X, X[:, 0] * X[:, 1] > 0)
    assert clf.gamma_choice_["rows"] == n_asked
    assert clf.gamma_choice_["chosen"] == "full widths"


@pytest.mark.parametrize("rare", [1, 2, 3, 6])
def test_every_class_is_fitted_where_more_rows_are_asked_than_fitted(rare):
    """Also a class of few rows, as the last or the first one."""
    for few in (0, 1):
        label = np.random.default_rng(0).permutation(np.arange(60_000) < rare) ^ (1 - few)
        label, group = label.astype(int), np.arange(60_000)
        sample, fold, _ = widths.compared_rows(label, group, 6_000, entropy=0)
        assert {*label[sample[fold != 0]]} == {0, 1}
        assert np.sum(fold == 0) >= 9_990
