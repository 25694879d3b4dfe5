"""Fits that stop early or go on later: max_time, Ctrl-C, tol and warm_start."""

import json
import os
import pickle
import subprocess
import sys
import textwrap
import warnings

import numpy as np
import pytest
from helpers.classifiers import FIXED
from helpers.paths import SOURCE
from sklearn.datasets import load_iris, make_classification
from sklearn.exceptions import ConvergenceWarning

from bayespoint import BayesPointClassifier

# Seconds from Ctrl-C to its exception: the contract's 100 ms, the link's second, a busy machine.
INTERRUPT_SECONDS = 30  # far above what it takes: a busy machine must not fail the test


def by_default(**settings):
    return BayesPointClassifier(**{"n_draws": 5, "random_state": 0, **settings})


def classifier(**settings):
    """Perceptrons with fixed settings."""
    return by_default(**{"inference": "perceptron", **FIXED, **settings})


@pytest.fixture(scope="module")
def iris():
    return load_iris(return_X_y=True)


def test_more_draws_with_warm_start(iris):
    X, y = iris
    at_once = classifier(n_draws=10).fit(X, y)
    grown = classifier(warm_start=True).fit(X, y)
    assert grown.n_draws_ == 5
    grown = pickle.loads(pickle.dumps(grown)).set_params(n_draws=10).fit(X, y)
    assert grown.n_draws_ == 10
    np.testing.assert_array_equal(at_once.dual_coef_, grown.dual_coef_)
    np.testing.assert_array_equal(at_once.predict_proba(X), grown.predict_proba(X))
    np.testing.assert_array_equal(
        at_once.posterior(2).coef.toarray(), grown.posterior(2).draws()[0]
    )


def test_warm_start_stops_where_tol_is_reached():
    X, y = [[-1.0], [1.0]], [0, 1]
    at_once = classifier(n_draws=10).fit(X, y)
    assert at_once.n_draws_ < 10
    grown = classifier(warm_start=True).fit(X, y).set_params(n_draws=10).fit(X, y)
    assert grown.n_draws_ == at_once.n_draws_
    exact = classifier(n_draws=10, tol=0).fit(*load_iris(return_X_y=True))
    assert exact.n_draws_ == 10


@pytest.mark.parametrize(
    ("changed", "settings"),
    [("gamma", {"gamma": 0.9}), ("softness", {"softness": 0.7}), ("kernel", {"kernel": "linear"}),
     ("bias", {"bias": 0.0})],
)  # fmt: skip
def test_warm_start_refuses_other_settings(iris, changed, settings):
    clf = classifier(warm_start=True).fit(*iris).set_params(n_draws=10, **settings)
    with pytest.raises(ValueError, match=rf"warm_start.*{changed}"):
        clf.fit(*iris)


@pytest.mark.parametrize("sizes", [(2000, 0.1), (0.1, 2000)], ids=["from ep", "to ep"])
def test_warm_start_refuses_another_method(iris, sizes):
    """With other memory "auto" takes another method, whose draws are none of this one."""
    clf = by_default(warm_start=True, cache_size=sizes[0], **FIXED).fit(*iris)
    method = clf.inference_
    clf.set_params(cache_size=sizes[1])
    with pytest.raises(ValueError, match=r"warm_start.*inference"):
        clf.fit(*iris)
    assert clf.inference_ == method


def test_warm_start_refuses_other_data(iris):
    X, y = iris
    clf = classifier(warm_start=True).fit(X, y)
    for other in [(X + 1, y), (X, np.roll(y, 1)), (X, y, y + 1.0), (X[:100], y[:100])]:
        with pytest.raises(ValueError, match=r"warm_start.*X, y or sample_weight"):
            clf.fit(*other)
    assert clf.n_draws_ == 5


def test_warm_start_after_a_failed_fit_does_not_mix_draws(iris):
    X, y = iris
    wrong = np.vstack([X, X[:1]]), np.append(y, 1)  # equal rows, unequal labels
    clf = classifier(softness=0.0, gamma=1.0, warm_start=True).fit(X, y)
    clf.set_params(warm_start=False)
    with pytest.raises(ValueError, match="version space is empty"):
        clf.fit(*wrong)
    clf.set_params(warm_start=True)
    with pytest.raises(ValueError, match=r"version space is empty|warm_start"):
        clf.fit(*wrong)


@pytest.mark.parametrize("make", [classifier, by_default])
@pytest.mark.parametrize("max_time", [1e-6, 0.5])
def test_max_time_leaves_a_usable_fit(make, max_time):
    X, y = make_classification(4000, 20, flip_y=0.2, n_informative=10, n_classes=3, random_state=0)
    clf = make(n_draws=100_000, tol=0, max_time=max_time)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        clf.fit(X, y)
    assert {one.category for one in caught} <= {ConvergenceWarning}
    assert caught or max_time > 1e-3  # no run can have ended in a microsecond
    assert 1 <= clf.n_draws_ < 100_000
    assert np.all(np.isfinite(clf.predict_proba(X[:50])))
    assert clf.sample_proba(X[:2], 2, 0).shape == (2, 2, 3)


INTERRUPTED = """
    import json, os, signal, sys, threading, time, warnings
    import numpy as np
    from sklearn.datasets import make_classification
    from bayespoint import BayesPointClassifier

    warnings.simplefilter("ignore")
    signal.signal(signal.SIGINT, signal.default_int_handler)  # some callers have it ignored
    settings = json.loads(sys.argv[1])
    delays, n, classes = (settings.pop(name) for name in ("delays", "n", "classes"))
    X, y = make_classification(
        n, 20, n_informative=10, n_classes=classes, flip_y=0.1, random_state=0
    )
    BayesPointClassifier(n_draws=2, inference="perceptron").fit(X[:100], y[:100])  # compiles
    results, sent = [], []

    def interrupt():
        sent.append(time.perf_counter())
        os.kill(os.getpid(), signal.SIGINT)

    for delay in delays:
        clf = BayesPointClassifier(tol=0, n_draws=1_000_000, random_state=0, **settings)
        threading.Timer(delay, interrupt).start()
        try:
            clf.fit(X, y)
        except KeyboardInterrupt:
            waited = time.perf_counter() - sent[-1]
        p = clf.predict_proba(X[:50])
        held = clf.n_draws_
        clf.set_params(warm_start=True, n_draws=held + 1, max_time=0.5).fit(X, y)
        results.append([waited, bool(np.all(np.isfinite(p))), held, clf.n_draws_])
    print(json.dumps(results))
"""


@pytest.mark.parametrize(
    "settings",
    [
        {"n": 300, "classes": 3, "n_jobs": 1, "delays": [0.1 + 0.017 * k for k in range(5)]},
        {"n": 300, "classes": 3, "n_jobs": 2, "delays": [0.1 + 0.007 * k for k in range(8)]},
        # not one run ends by then
        {"n": 9000, "classes": 2, "n_jobs": 2, "delays": [0.3], "softness": 1e-4},
        # while settings are chosen
        {"n": 3000, "classes": 3, "n_jobs": 2, "delays": [0.1, 0.6], "gamma": "held-out",
         "softness": "held-out", "bias": "auto", "inference": "auto"},
    ],
    ids=["one thread", "two threads", "no draw", "defaults"],
)  # fmt: skip
def test_interrupt_raises_and_leaves_a_usable_fit(settings):
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(INTERRUPTED),
         json.dumps({"inference": "perceptron", **FIXED, **settings})],
        capture_output=True, text=True, check=False, timeout=120,
        env={**os.environ, "PYTHONPATH": str(SOURCE)},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    for waited, finite, held, grown in json.loads(done.stdout):
        assert waited < INTERRUPT_SECONDS
        assert finite
        assert 1 <= held <= grown
