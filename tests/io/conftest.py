"""A sound model file, which tests copy and change."""

import pytest
import scipy.sparse as sp
from helpers.models import data, fitted

from bayespoint.io import model_file


@pytest.fixture(scope="session")
def good(tmp_path_factory):
    path = tmp_path_factory.mktemp("good") / "m.bpm"
    X, y = data()
    model_file.save(path, fitted(sp.csr_matrix(X), y, inference="perceptron"))
    return path
