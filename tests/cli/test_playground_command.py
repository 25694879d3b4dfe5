"""``bayespoint playground``: what it opens, serves and refuses; what scenes tell of rows."""

import re
import webbrowser
from dataclasses import replace

import numpy as np
import pytest
from helpers.cli import FAST, fails, well, write
from helpers.playgrounds import rows, scene
from scipy.sparse import csr_matrix

from bayespoint import BayesPointClassifier
from bayespoint.cli.playground import scene as scenes
from bayespoint.cli.playground.command import scene_of_model
from bayespoint.cli.playground.server import PlaygroundServer
from bayespoint.io.model_file import Model, load, save


@pytest.fixture
def opened(monkeypatch):
    """Addresses that were opened; a server is stopped as soon as it serves, as by Ctrl-C."""
    found = []

    def stop(self, poll_interval=0.5):
        del self, poll_interval
        raise KeyboardInterrupt

    monkeypatch.setattr(webbrowser, "open", lambda url: found.append(url) or True)
    monkeypatch.setattr(PlaygroundServer, "serve_forever", stop)
    return found


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    X, y = rows(30)
    lines = [[*x, "red" if x[0] > 0 else "blue", label] for x, label in zip(X, y, strict=True)]
    path = tmp_path_factory.mktemp("data") / "rows.csv"
    return write(path, ["a", "b", "c", "colour", "kind"], lines)


def test_without_a_file_the_page_opens_from_disk(opened):
    said = well("playground").output
    assert re.fullmatch(r"file:///.*/playground\.html", opened[0])
    assert "needs no network" in said
    assert well("playground", "--no-browser").exit_code == 0
    assert len(opened) == 1


def test_rows_are_trained_on_and_served(opened, data, given):
    del given
    said = well("playground", data, *FAST).output
    assert "classes are in 'kind', the last column" in said
    assert re.fullmatch(r"http://127\.0\.0\.1:\d+/\?key=[\w-]{32}", opened[0])
    assert "Stopped." in said


def test_a_model_and_a_model_with_rows_are_served(opened, labelled):
    well("playground", labelled / "two.bpm")
    well("playground", labelled / "three.csv", "--model", labelled / "three_some.bpm")
    assert len(opened) == 2


def test_refusals(opened, data, tmp_path, labelled):
    fails(2, "playground", tmp_path / "none.bpm", words="is not a file")
    model = labelled / "two.bpm"
    for option in (["--model", model], ["--coverage", 0.9], ["--port", 8123], ["--no-header"]):
        fails(2, "playground", *option, words=f"{option[0]} works only with a file")
    fails(2, "playground", data, "--model", model, "--coverage", 0.9, words="is for training")
    for option in (["--target", "kind"], ["--format", "csv"], ["--no-header"]):
        fails(2, "playground", model, *option, words=f"{option[0]} is for rows of data, and two")
    three = labelled / "three.csv", "--model", labelled / "three_some.bpm"
    fails(2, "playground", *three, "--target", "typo", words="--target 'typo' is not a column")
    fails(2, "playground", "-", input="a,b\n", words="--target is needed")
    fails(2, "playground", data, "--half-life", 10, words="No such option")
    fails(2, "playground", data, "--target", "knd", *FAST, words="Do you mean 'kind'?")
    fails(2, "playground", data, "--categorical", "colr", *FAST, words="Do you mean 'colour'?")
    both = ["--drop", "kind", "--target", "kind"]
    fails(2, "playground", data, *both, *FAST, words="--drop names the target 'kind'")
    fails(1, "playground", labelled / "three.csv", "--model", labelled / "two.bpm")
    K = np.eye(4)
    clf = BayesPointClassifier(kernel="precomputed", softness=0.1, bias=0, n_draws=10)
    save(tmp_path / "gram.bpm", clf.fit(K, [0, 0, 1, 1]))
    fails(2, "playground", tmp_path / "gram.bpm", words="Gram matrix")
    assert opened == []


# ---------------------------------------------------------------------- scenes


def test_places_in_a_plane_go_back_to_the_rows():
    """With two features the plane is all there is: shading and rows must agree."""
    shown = scene(coverage=None)
    flat = BayesPointClassifier(
        kernel="rbf", gamma=0.3, bias=1.0, softness=0.1, inference="ep", n_jobs=1
    )
    X, y = shown.X[:, :2], shown.labels
    two = scenes.Scene("two", flat.fit(X, y), X, ["p", "q"], shown.numbers, len(X), y)
    for axes in ((0, 1), (1, 0), (2, 3), (3, 2)):
        view = two.view(*axes)
        n, places = view["grid"], np.column_stack([view["x"], view["y"]])
        low, high = np.array([view["x_range"], view["y_range"]]).T
        cell = np.rint((places - low) / (high - low) * (n - 1)).astype(int)
        near = np.array(view["cell_sure"]).reshape(n, n)[cell[:, 1], cell[:, 0]]
        assert np.abs(near - two.about()["sure"]).max() < 0.12
        assert np.abs(near[::-1] - two.about()["sure"]).max() > 0.3  # a control: other rows


def test_what_is_said_of_a_row_is_what_the_model_says():
    shown = scene()
    rejected = int(np.flatnonzero(shown.decided.rejected)[0])
    assert "would rather not decide" in shown.row(rejected)["words"]
    sure = int(np.flatnonzero(~shown.decided.rejected)[0])
    assert "the model says" in shown.row(sure)["words"]
    found = [p for _, p in shown.row(sure)["probabilities"]]
    expected = shown.classifier.predict_proba(shown.X[[sure]])[0]
    assert found == pytest.approx(sorted(expected, reverse=True))
    near = [similar for _, _, similar in shown.row(sure)["nearest"]]
    assert near == sorted(near, reverse=True)
    assert near[0] == pytest.approx(1)


def test_many_rows_are_thinned_out_and_counted():
    kept = scenes.chosen_rows(10_000)
    assert len(kept) == len(set(kept.tolist())) == scenes.MOST_ROWS
    assert np.all(np.diff(kept) > 0)
    assert scenes.chosen_rows(5).tolist() == [0, 1, 2, 3, 4]


def test_models_of_every_inference_can_be_drawn(models):
    for path in sorted(models.glob("*.bpm")):
        shown = scene_of_model(load(path), path.name)
        assert len(shown.view(0, 1)["x"]) == len(shown.X)
        assert shown.row(0)["nearest"]
        assert shown.about()["classes"]


def test_models_of_sparse_rows_and_of_streams_can_be_drawn(days):
    X, y = rows()
    settings = {"kernel": "rbf", "gamma": 0.3, "bias": 1.0, "softness": 0.1, "n_jobs": 1}
    sparse = BayesPointClassifier(n_draws=10, random_state=0, **settings).fit(csr_matrix(X), y)
    stream = BayesPointClassifier(inference="ep", **settings)
    stream.partial_fit(X[:40], y[:40], classes=np.unique(y)).partial_fit(X[40:], y[40:])
    chunks = load(days / "first.bpm")
    for model in (Model(sparse, None, {}), Model(stream, None, {}), chunks):
        shown = scene_of_model(model, "model")
        assert len(shown.about()["labels"]) == len(shown.view(0, 1)["x"]) == len(shown.X)
        assert len(shown.row(0)["nearest"]) == scenes.NEAREST


def test_classes_that_the_model_does_not_know_have_a_mark_of_their_own():
    shown = scene()
    shown = replace(shown, labels=np.where(np.arange(60) == 7, "new", shown.labels))
    about = shown.about()
    assert about["classes"][-1] == "a class that the model does not know"
    assert about["labels"][7] == 3
    assert "labelled 'new'" in shown.row(7)["words"]


def test_a_model_of_one_feature_can_be_drawn():
    X = np.linspace(0, 1, 8)[:, None]
    clf = BayesPointClassifier(kernel="rbf", gamma=1.0, softness=0.1, bias=1.0, n_draws=10)
    shown = scene_of_model(Model(clf.fit(X, X[:, 0] > 0.4), None, {}), "one")
    assert set(shown.view(0, 1)["y"]) == {0.0}
    assert shown.axes == list(scenes.AXES)  # one column alone makes no plane
    with pytest.raises(scenes.QuestionError, match="from 0 to 1; got 2 and 2"):
        shown.view(2, 2)
