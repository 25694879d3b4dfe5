"""Matplotlib without a screen."""

import pytest


@pytest.fixture(autouse=True)
def plt():
    plt = pytest.importorskip("matplotlib.pyplot")
    plt.switch_backend("Agg")
    return plt
