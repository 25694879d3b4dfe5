"""Model files of earlier versions: brought up, loaded, and predicting as they did.

The stored samples are small classifiers of rows of iris, saved with ``about={"expected": ...}``: X,
``predict`` and ``predict_proba`` as lists. Those of a released version are never made again.
"""

import numpy as np
import pytest
from helpers.hostile import edited, refused
from helpers.paths import DATA

from bayespoint.io import model_file
from bayespoint.io.model_file import files


def test_older_schemas_are_brought_up(good, tmp_path, monkeypatch):
    """The mechanism, with an invented version 2 that renames a key."""

    def renamed(document):
        document = dict(document)
        document["about"] = document.pop("notes") | {"upgraded": True}
        return document

    path = edited(good, tmp_path / "m.bpm", lambda d, _: d.update(notes=d.pop("about")))
    refused(path, "model.json has")
    monkeypatch.setattr(files, "SCHEMA", 2)
    monkeypatch.setitem(files.UPGRADES, 1, renamed)
    assert model_file.load(path).about == {"upgraded": True}


def test_every_earlier_version_has_an_upgrade_and_a_stored_sample():
    assert set(files.UPGRADES) == set(range(1, files.SCHEMA))
    stored = {int(path.name.split("-")[1][1:]) for path in DATA.glob("model-v*.bpm")}
    assert stored == set(range(1, files.SCHEMA + 1))


@pytest.mark.parametrize("path", sorted(DATA.glob("model-v*.bpm")), ids=lambda path: path.stem)
def test_stored_samples_load_and_predict_the_same(path):
    model = model_file.load(path)
    expected = model.about["expected"]
    X = np.array(expected["X"])
    assert model.classifier.predict(X).tolist() == expected["predict"]
    # Another processor or BLAS may round otherwise.
    proba = model.classifier.predict_proba(X)
    np.testing.assert_allclose(proba, expected["predict_proba"], rtol=1e-9, atol=1e-12)
