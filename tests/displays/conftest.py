"""Matplotlib without a screen, and no figures left open."""

import pytest


@pytest.fixture(autouse=True)
def plt():
    plt = pytest.importorskip("matplotlib.pyplot")
    plt.switch_backend("Agg")
    plt.close("all")  # doctests in the same worker leave theirs open
    yield plt
    plt.close("all")
