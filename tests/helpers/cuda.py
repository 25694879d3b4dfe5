"""What tests on a GPU share; importing it skips the module where there is none."""

import numpy as np
import pytest
from sklearn.datasets import load_digits

torch = pytest.importorskip("torch")
if not torch.cuda.is_available():
    pytest.skip("no CUDA device", allow_module_level=True)
pytest.importorskip("triton")

from bayespoint import BayesPointClassifier  # noqa: E402

GPU = torch.device("cuda", torch.cuda.current_device())

# Below a tile, around one, and a prime above it.
SIZES = (37, 500, 4096, 4097, 5003)
KINDS = {"float32": torch.float32, "float64": torch.float64}

# Numbers behind the end of each tensor that a kernel writes to.
GUARD = 8192


def guarded(tensor):
    """A copy with NaN (or a large number) behind its end, which nobody may touch."""
    poison = torch.nan if tensor.is_floating_point() else 77
    held = torch.full((tensor.numel() + GUARD,), poison, dtype=tensor.dtype, device=GPU)
    held[: tensor.numel()] = tensor.reshape(-1)
    view = held[: tensor.numel()].view(tensor.shape)
    view.guard = held[tensor.numel() :]
    return view


def assert_guards(*tensors):
    for tensor in tensors:
        intact = tensor.guard.isnan() if tensor.is_floating_point() else tensor.guard == 77
        assert bool(intact.all()), "written behind the end"


def generator(seed=0):
    return torch.Generator(GPU).manual_seed(seed)


def gram_matrix(m, kind, seed=0):
    """Gram matrix of a smooth kernel, values of size one, in float64 and as the loops see it."""
    X = torch.randn(m, 20, generator=generator(seed), device=GPU, dtype=torch.float64)
    X /= X.norm(dim=1, keepdim=True)
    K = ((X @ X.T + 1) ** 3 / 8).to(kind)
    return (K.tril() + K.tril(-1).T).contiguous()


def gap(one, two):
    return float((one - two).abs().max())


FIXED = {"gamma": 0.05, "softness": 0.05, "bias": 0.1, "random_state": 0, "n_draws": 10}


def make(device="cuda", inference="perceptron", **settings):
    return BayesPointClassifier(**{**FIXED, "device": device, "inference": inference, **settings})


def kernel_of(clf):
    return clf.predictor_.support.kernel


def scaled_digits():
    """Points and labels to train with, and others."""
    X, y = load_digits(return_X_y=True)
    X = (X / 16).astype(np.float32)
    return X[:1200], y[:1200], X[1200:], y[1200:]
