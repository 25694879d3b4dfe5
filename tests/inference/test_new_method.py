"""A new inference method needs its class and its place in `METHODS`; all else follows.

The method here is `helpers.half_means.HalfMeans`.
"""

import os
import subprocess
import sys

import numpy as np
import pytest
from helpers.classifiers import FIXED, flowers
from helpers.half_means import HalfMeans
from helpers.paths import SOURCE, TESTS
from numpy.testing import assert_allclose, assert_array_equal

from bayespoint import BayesPointClassifier, VersionSpace
from bayespoint.inference.methods import METHODS
from bayespoint.inference.sampling import sampling

SCRIPT = """
import sys
from bayespoint.inference.methods import METHODS
from helpers.half_means import HalfMeans
METHODS["half_means"] = HalfMeans()
from bayespoint import BayesPointClassifier
from bayespoint.cli import main
from bayespoint.io import model_file
from helpers.classifiers import FIXED, flowers
X, y, *_ = flowers(3)
clf = BayesPointClassifier(inference="half_means", random_state=0, **FIXED).fit(X, y)
model_file.save("half.bpm", clf)
again = model_file.load("half.bpm").classifier
assert (again.predict_proba(X) == clf.predict_proba(X)).all()
sys.argv = ["bayespoint", "train", "flowers.csv", "--target", "kind", "--model", "flowers.bpm",
            "--inference", "half_means"]
main()
"""


@pytest.fixture(autouse=True)
def registered(monkeypatch):
    monkeypatch.setitem(METHODS, "half_means", HalfMeans())


# Without settings that are given, it chooses its own by `held_out`.
@pytest.mark.parametrize(
    ("n_classes", "decision", "given"),
    [(2, "auto", {}), (3, "vote", {"gamma": "held-out", "softness": 0.1}), (3, "span_vote", FIXED)],
)
def test_it_is_a_value_of_inference(n_classes, decision, given):
    X, y, new, labels = flowers(n_classes)
    settings = {"inference": "half_means", "decision": decision, "n_draws": 20, "random_state": 0}
    settings |= given
    clf = BayesPointClassifier(**settings).fit(X, y)
    assert clf.score(new, labels) > 0.8
    proba = clf.predict_proba(new)
    assert_allclose(proba.sum(axis=1), 1)
    assert_array_equal(clf.classes_[proba.argmax(axis=1)], clf.predict(new))
    assert_array_equal(proba, BayesPointClassifier(**settings).fit(X, y).predict_proba(new))
    assert clf.n_draws_ == 20
    assert clf.posterior(0).coef.shape == (20, len(X))


def test_it_takes_no_label_noise_and_says_so():
    with pytest.raises(ValueError, match="'half_means' assumes that every label is right"):
        BayesPointClassifier(inference="half_means", label_noise=0.1).fit([[0], [1]], [0, 1])


def test_one_version_space_is_the_case_of_one_machine():
    space = VersionSpace(0.5 + 0.5 * np.eye(6), [1, 1, 1, -1, -1, -1])
    with sampling(space, "half means", 50, random_state=0) as (problem, plan):
        draws = HalfMeans().infer(problem, plan, None)
    assert_allclose(np.sum(draws.coef[0] * space.outputs(draws.coef[0]), axis=1), 1)
    assert np.all(space.margins(draws.bayes_points[0]) > 0)
    assert 0 < draws.angle_errors[0] < 0.2


@pytest.mark.release
def test_model_files_and_the_command_line_follow(tmp_path):
    X, y, *_ = flowers(3)
    lines = [",".join(map(str, [*row, f"k{label}"])) for row, label in zip(X, y, strict=True)]
    (tmp_path / "flowers.csv").write_text("\n".join(["a,b,c,d,kind", *lines]))
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT], cwd=tmp_path, capture_output=True, text=True, check=False,
        env={**os.environ, "PYTHONPATH": f"{SOURCE}{os.pathsep}{TESTS}"}, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "by half_means" in done.stdout
