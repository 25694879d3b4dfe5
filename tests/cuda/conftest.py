"""Data for tests on a GPU. One command: ``pytest -m cuda tests/cuda``; no network."""

import pytest


@pytest.fixture(scope="session")
def digits():
    """Points and labels to train with, and others."""
    from helpers.cuda import scaled_digits

    return scaled_digits()
