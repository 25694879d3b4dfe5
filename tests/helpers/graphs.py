"""Exported graphs, run by onnxruntime beside the classifier."""

import numpy as np
from sklearn.datasets import make_blobs

# The promise, of probabilities and of decisions relative to their size where that is above 1.
TOLERANCE = 1e-5
# What single precision of the outputs leaves, and what nearly singular Gram matrices (of "poly")
# make of rounding in double precision, here and there.
ROUNDING = 2e-6
# Outputs nearer than this are ties: the order of summation decides them.
TIE = 1e-11

SETTINGS = {"gamma": 0.1, "softness": 0.1, "bias": 1.0, "n_draws": 8, "random_state": 0}
WEIGHTS = {0: 5.0, 1: 0.5}
METHODS = [
    ("perceptron", "bayes_point"),
    ("perceptron", "vote"),
    ("billiard", "vote"),
    ("billiard", "span_vote"),
    ("ep", "bayes_point"),
    ("ep", "vote"),
    ("ep", "calibrated"),
]


def problem(n_classes=3, n_train=45, names=None, far=True):
    """Training points and labels, and test points in single precision, some of them far away.

    Far from all training points outputs of "rbf" are ties.
    """
    X, y = make_blobs(160, n_features=4, centers=n_classes, cluster_std=3.0, random_state=1)
    y = y if names is None else np.array(names)[y]
    test = X[n_train:]
    if far:
        test = np.concatenate([test, 3 * test[:20], 0 * test[:1]])
    test = test.astype(np.float32)
    return X[:n_train], y[:n_train], test


def session_of(graph):
    import onnxruntime

    return onnxruntime.InferenceSession(
        graph.SerializeToString(), providers=["CPUExecutionProvider"]
    )


def run(graph, X):
    session = session_of(graph)
    names = [output.name for output in session.get_outputs()]
    (given,) = session.get_inputs()
    return dict(zip(names, session.run(None, {given.name: X}), strict=True))


def gaps(decision):
    if decision.ndim == 1:
        return np.abs(decision)
    best = np.sort(decision, axis=1)
    return best[:, -1] - best[:, -2]


def assert_equal(found, classifier, X, tolerance=ROUNDING, unit=1.0):
    """``unit``: size of decisions, where that of outputs is 1."""
    p, f = classifier.predict_proba(X), classifier.decision_function(X)
    assert found["probabilities"].dtype == np.float32
    assert found["probabilities"].shape == p.shape
    assert found["decision"].shape == f.shape
    assert np.max(np.abs(found["probabilities"] - p)) < tolerance
    assert np.max(np.abs(found["decision"] - f) / np.maximum(unit, np.abs(f))) < tolerance
    clear = gaps(f) > TIE
    np.testing.assert_array_equal(found["label"][clear], classifier.predict(X)[clear])
