"""Data files and model files that commands made once; tests only read them."""

from functools import wraps
from types import SimpleNamespace

import numpy as np
import pytest
from helpers.cli import FAST, well, write
from helpers.clock import Clock
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_iris

from bayespoint import BayesPointClassifier, OnionClassifier, RejectingClassifier
from bayespoint._support import budget
from bayespoint.io.model_file import load, save
from bayespoint.io.tables import read_table


@pytest.fixture
def given(monkeypatch):
    """Settings for every fit, so that none is searched for: the command has no options for them."""
    fit = BayesPointClassifier.fit

    @wraps(fit)
    def quick(self, *arguments, **others):
        return fit(self.set_params(gamma=0.5, softness=0.1, bias=1.0), *arguments, **others)

    monkeypatch.setattr(BayesPointClassifier, "fit", quick)


@pytest.fixture
def chunks_given(monkeypatch):
    """The same for rows that are learned in chunks."""
    partial_fit = BayesPointClassifier.partial_fit

    @wraps(partial_fit)
    def quick(self, *arguments, **others):
        self.set_params(gamma=0.5, softness=0.1, bias=1.0)
        return partial_fit(self, *arguments, **others)

    monkeypatch.setattr(BayesPointClassifier, "partial_fit", quick)


@pytest.fixture(scope="session")
def iris(tmp_path_factory):
    """Iris with a column of text, models that commands trained on it, and what they said."""
    folder = tmp_path_factory.mktemp("iris")
    X, y = (part[::3] for part in load_iris(return_X_y=True))
    rows = [
        [*x, "wide" if x[1] > 3 else "narrow", i, f"iris {label}"]
        for i, (x, label) in enumerate(zip(X.tolist(), y, strict=True))
    ]
    names = ["sepal l", "sepal w", "petal l", "petal w", "shape", "id", "species"]
    rows[3][0] = ""
    data = write(folder / "iris.csv", names, rows)
    other = [["?", "x", *row[5::-1]] for row in rows]
    new = write(folder / "new.csv", ["species", "more", *names[5::-1]], other)
    model, rejecting = folder / "iris.bpm", folder / "some.bpm"
    train = ["train", data, "--target", "species", "--drop", "id", *FAST]
    said = well(*train, "--model", model).output
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(budget, "clock", Clock(step=0.01))  # six fits, each cut short
        options = ["--coverage", 0.8, "--json", "--max-time", 1]
        json = well(*train, "--model", rejecting, *options).stdout
    return SimpleNamespace(
        data=data, new=new, model=model, rejecting=rejecting, said=said, json=json
    )


def save_rejecting(source, data, path):
    """Save the classifier of a model file with a reject option; its settings are kept."""
    model = load(source)
    found = model.classifier
    fixed = {"gamma": found.gamma_, "softness": found.softness_, "bias": found.bias_}
    table = read_table(data, text=["kind"])
    clf = RejectingClassifier(clone(found).set_params(**fixed), coverage=0.8)
    X = model.encoder.transform(table.without(["kind"]))
    clf.fit(X, np.array(table.column("kind").tolist()))
    save(path, clf, encoder=model.encoder, about=model.about)


@pytest.fixture(scope="session")
def labelled(tmp_path_factory):
    """Folder with data of two and of three classes; models with and without rejection."""
    folder = tmp_path_factory.mktemp("labelled")
    X, y = load_breast_cancer(return_X_y=True)
    labels = {"two": np.array(["sick", "healthy"])[y]}
    rows = {"two": X[:, :6].tolist()}
    X, y = load_iris(return_X_y=True)
    labels["three"], rows["three"] = np.array(["i 0", "i 1", "i 2"])[y], X.tolist()
    parts = {"two": (slice(90), slice(90, 240)), "three": (slice(0, None, 3), slice(1, None, 2))}
    for name, (train, test) in parts.items():
        both = [[*x, label] for x, label in zip(rows[name], labels[name], strict=True)]
        names = [*(f"column {i}" for i in range(len(both[0]) - 1)), "kind"]
        data = write(folder / f"{name}_train.csv", names, both[train])
        write(folder / f"{name}.csv", names, both[test])
        model = folder / f"{name}.bpm"
        well("train", data, "--target", "kind", *FAST, "--model", model)
        save_rejecting(model, data, folder / f"{name}_some.bpm")
    return folder


@pytest.fixture(scope="session")
def days(tmp_path_factory):
    """Folder with rows of two days and a model of the first, by EP with settings that are given."""
    folder = tmp_path_factory.mktemp("days")
    rng = np.random.default_rng(0)
    for day, n in ("first", 60), ("second", 24):
        X = rng.normal(size=(n, 2)).round(3)
        rows = [
            [*x, "red" if x[1] > 0 else "blue", "high" if x[0] + x[1] > 0.1 else "low"]
            for x in X.tolist()
        ]
        write(folder / f"{day}.csv", ["size", "weight", "colour", "kind"], rows)
    train = ["train", folder / "first.csv", "--target", "kind", "--model", folder / "first.bpm"]
    with pytest.MonkeyPatch.context() as patch:
        fit = BayesPointClassifier.fit
        quick = {"gamma": 0.5, "softness": 0.1, "bias": 1.0}
        patch.setattr(BayesPointClassifier, "fit", lambda s, *a: fit(s.set_params(**quick), *a))
        well(*train, "--inference", "ep", "--n-jobs", 1, "--no-importances")
    return folder


@pytest.fixture(scope="session")
def models(tmp_path_factory):
    """Folder with classifiers of each inference on part of iris, saved without encoder."""
    folder = tmp_path_factory.mktemp("models")
    X, y = load_iris(return_X_y=True)
    X, y = X[25:125:2], y[25:125:2]
    settings = {
        "gamma": 0.5, "softness": 0.1, "bias": 1.0, "n_draws": 40, "random_state": 0, "n_jobs": 1,
    }  # fmt: skip
    for inference in ("perceptron", "ep", "billiard", "gibbs"):
        clf = BayesPointClassifier(inference=inference, **settings)
        save(folder / f"{inference}.bpm", clf.fit(X, y))
    two = y < 2
    clf = BayesPointClassifier(inference="ep", **settings)
    save(folder / "ep_two.bpm", clf.fit(X[two], y[two]))
    onion = OnionClassifier(depth=1, n_draws=400, gamma=0.5, random_state=0, n_jobs=1)
    save(folder / "onion.bpm", onion.fit(X[two], y[two]))
    return folder
