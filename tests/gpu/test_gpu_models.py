"""Models fitted on a device hold arrays only, and predict on either device, with PyTorch or not."""

# ruff: noqa: E402

import os
import pickle
import subprocess
import sys
import textwrap

import pytest
import scipy.sparse as sp
from helpers.paths import SOURCE
from numpy.testing import assert_allclose

torch = pytest.importorskip("torch")

from helpers.device_fits import make, within


def parts_of(value, seen):
    """All that a model holds."""
    if id(value) in seen:
        return
    seen.add(id(value))
    yield value
    if isinstance(value, dict):
        held = value.values()
    elif isinstance(value, list | tuple | set):
        held = value
    else:
        held = getattr(value, "__dict__", {}).values() if not isinstance(value, type) else ()
    for one in held:
        yield from parts_of(one, seen)


def in_another_process(code):
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, check=False,
        env={**os.environ, "PYTHONPATH": str(SOURCE)}, timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


def test_models_hold_no_tensors_and_load_without_pytorch(cancer, tmp_path):
    """Nor does PyTorch load where a fit on the CPU does not need it."""
    X, y, new = within(cancer, 40)
    models = []
    for inference in ("perceptron", "billiard", "ep"):
        for data in (X, torch.from_numpy(X)):
            clf = make(inference).fit(data, y)
            kinds = {type(part).__module__.partition(".")[0] for part in parts_of(clf, set())}
            assert "numpy" in kinds
            assert "torch" not in kinds
            clf.set_params(device="cpu")
            models.append((clf, clf.predict_proba(new)))
    (tmp_path / "models").write_bytes(pickle.dumps((models, new)))
    found = in_another_process(f"""
        import pickle, sys
        from pathlib import Path
        from bayespoint import BayesPointClassifier, active, displays, inference

        clf = BayesPointClassifier(n_draws=3, random_state=0)
        clf.fit([[0.0], [1.0], [2.0], [3.0]], [0, 0, 1, 1]).predict([[0.5]])
        print("torch" in sys.modules, "triton" in sys.modules)

        class NotInstalled:
            def find_spec(self, name, path=None, target=None):
                if name.split(".")[0] == "torch":
                    raise ModuleNotFoundError(name, name=name)

        sys.meta_path.insert(0, NotInstalled())
        import numpy as np
        models, new = pickle.loads(Path({str(tmp_path / "models")!r}).read_bytes())
        for clf, proba in models:
            assert np.allclose(clf.predict_proba(new), proba, atol=1e-12)
            assert clf.set_params(device="auto").predict(new).shape == (60,)
            print(clf.device_)
    """)
    assert found == ["False", "False", *6 * ["cuda"]]


def test_predictions_on_either_device(digits):
    X, y, new = within(digits, 100)
    clf = make(n_draws=3).fit(X, y)
    there = clf.predict_proba(new)
    here = clf.set_params(device="cpu").predict_proba(new)
    assert clf.device_ == "cuda"  # of the fit
    assert_allclose(here, there, atol=1e-5)
    assert_allclose(clf.set_params(device="cuda").predict_proba(new), there, rtol=0)
    # Models of the CPU, on the GPU, whose support points are kept as they were.
    for data in (X, sp.csr_matrix(X)):
        theirs = make(device="cpu", n_draws=3).fit(data, y).set_params(device="cuda")
        assert_allclose(theirs.predict_proba(new), there, atol=1e-4)
        assert_allclose(theirs.predict_proba(sp.csr_matrix(new)), there, atol=1e-4)
    assert clf.compress(0.1).predict(new).shape == (60,)
