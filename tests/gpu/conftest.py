"""Here ``device="cuda"`` means the CPU, which runs the PyTorch references of the GPU's loops.

What this cannot show, the Triton kernels and the card itself, is in `tests/cuda`. PyTorch is
imported by fixtures only: without it, the tests skip.
"""

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer, load_digits
from sklearn.preprocessing import StandardScaler

from bayespoint._support import devices
from bayespoint.inference import engines


@pytest.fixture(autouse=True)
def stand_in(monkeypatch):
    """Let the CPU be the GPU."""
    from helpers.stand_in import CPU, let_cuda_be

    let_cuda_be(monkeypatch, CPU)


@pytest.fixture
def no_stand_in(stand_in, monkeypatch):  # noqa: ARG001
    """Look for a true GPU."""
    monkeypatch.setattr(engines, "torch_device", devices.torch_device)


@pytest.fixture
def no_gpu(stand_in, monkeypatch):  # noqa: ARG001
    """Let "auto" find none."""
    from helpers.stand_in import let_cuda_be

    let_cuda_be(monkeypatch, None)


@pytest.fixture
def memory(monkeypatch):
    """Return what sets the free memory of the device."""
    from helpers.stand_in import let_free_memory_be

    return lambda n_bytes: let_free_memory_be(monkeypatch, n_bytes)


@pytest.fixture
def apart(stand_in, monkeypatch):  # noqa: ARG001
    """Let the GPU be a memory apart; shapes of what is copied from there to the host."""
    from helpers.stand_in import memory_apart

    with memory_apart(monkeypatch) as copied:
        yield copied


@pytest.fixture
def no_warnings():
    """Let PyTorch give each time the warnings that it would give but once: all are errors."""
    import torch

    torch.set_warn_always(True)
    yield
    torch.set_warn_always(False)


@pytest.fixture(scope="session")
def digits():
    """Ten classes in float32."""
    X, y = load_digits(return_X_y=True)
    return (X / 16).astype(np.float32), y


@pytest.fixture(scope="session")
def cancer():
    """Two classes in float64."""
    X, y = load_breast_cancer(return_X_y=True)
    return StandardScaler().fit_transform(X), y
