"""Importing loads little, and an install that cannot be written still works."""

import os
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

import bayespoint

PACKAGE = Path(bayespoint.__file__).parent
NOT_LOADED = ("torch", "pandas", "matplotlib", "arviz", "typer", "rich", "numba", "skops", "river")


def run_python(code, source=PACKAGE.parent, **environment):
    """Run code in a new interpreter that finds the package in ``source``; return its output."""
    kept = {name: value for name, value in os.environ.items() if name != "NUMBA_CACHE_DIR"}
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)],
        env={**kept, "PYTHONPATH": str(source), **environment},
        capture_output=True, text=True, check=False, timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_importing_and_fitting_need_no_extras():
    """Beyond what scikit-learn loads by itself, where it finds them."""
    printed = run_python(
        f"""
        import sys
        import sklearn.svm

        class NotInstalled:
            def find_spec(self, name, path=None, target=None):
                if name.split(".")[0] in {set(NOT_LOADED) - {"numba"}}:
                    raise ModuleNotFoundError(name, name=name)

        before = set(sys.modules)
        sys.meta_path.insert(0, NotInstalled())
        from bayespoint import BayesPointClassifier, RejectingClassifier
        print([name for name in {NOT_LOADED} if name in set(sys.modules) - before])
        clf = BayesPointClassifier(n_draws=3, random_state=0)
        print(clf.fit([[0.0], [1.0], [2.0], [3.0]], [0, 0, 1, 1]).predict([[0.5]]))
        """
    )
    assert printed.split("\n")[:2] == ["[]", "[0]"]


def test_public_names_exist():
    assert set(bayespoint.__all__) <= set(dir(bayespoint))
    assert len(bayespoint.__all__) <= 13
    for name in ("BayesPointClassifier", "RejectingClassifier", "VersionSpace", "inference"):
        assert name in bayespoint.__all__


@pytest.mark.release
def test_an_install_that_cannot_be_written_still_fits(tmp_path):
    """Permissions do not bind root, so files stand where Numba would make its folders."""
    source = tmp_path / "install"
    shutil.copytree(PACKAGE, source / "bayespoint", ignore=shutil.ignore_patterns("__pycache__"))
    folders = [source / "bayespoint", *(p for p in source.rglob("*") if p.is_dir())]
    for folder in folders:
        (folder / "__pycache__").write_text("not a folder")
    printed = run_python(
        """
        import bayespoint
        from sklearn.datasets import load_iris
        X, y = load_iris(return_X_y=True)
        clf = bayespoint.BayesPointClassifier(n_draws=5, random_state=0).fit(X, y)
        print(bayespoint.__file__)
        print(clf.score(X, y))
        """,
        source,
        HOME="/dev/null/nowhere",
        XDG_CACHE_HOME="/dev/null/nowhere",
        PYTHONDONTWRITEBYTECODE="1",
        MPLCONFIGDIR=str(tmp_path),
    ).split()
    assert printed[0] == str(source / "bayespoint" / "__init__.py")
    assert float(printed[1]) > 0.9
    assert not list(tmp_path.rglob("*.nbi"))  # nothing was cached in some other place either
