"""Where a fit runs when PyTorch is missing, when there is no GPU, and when its memory is short."""

import sys
import types

import numpy as np
import pytest

from bayespoint._support import devices
from bayespoint._support.devices import DeviceError


def pytorch(**cuda):
    """As much of PyTorch as a device is looked up with."""
    return types.SimpleNamespace(
        __version__="9.9",
        cuda=types.SimpleNamespace(**{"is_available": lambda: False, **cuda}),
        device=lambda *name: name,
    )


def test_the_cpu_needs_no_pytorch(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    assert devices.torch_device("cpu") is None
    assert devices.torch_device("auto") is None
    with pytest.raises(DeviceError, match=r"needs PyTorch; run: pip install 'bayespoint\[gpu\]'"):
        devices.torch_device("cuda")


def test_without_a_gpu_auto_takes_the_cpu(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", pytorch())
    assert devices.torch_device("auto") is None
    with pytest.raises(DeviceError, match=r"PyTorch 9\.9 finds no CUDA GPU. Use device='cpu'"):
        devices.torch_device("cuda")


@pytest.mark.parametrize("triton", [True, False])
def test_a_gpu_is_taken_where_triton_is_there(triton, monkeypatch):
    there = pytorch(is_available=lambda: True, current_device=lambda: 1)
    monkeypatch.setitem(sys.modules, "torch", there)
    monkeypatch.setattr(devices, "find_spec", lambda _: "there" if triton else None)
    if triton:
        assert devices.torch_device("auto") == devices.torch_device("cuda") == ("cuda", 1)
    else:
        assert devices.torch_device("auto") is None
        with pytest.raises(DeviceError, match="needs Triton"):
            devices.torch_device("cuda")


def test_free_memory_is_a_share_of_what_nobody_uses(monkeypatch):
    sizes = {"mem_get_info": lambda _: (1000, 9000), "memory_reserved": lambda _: 500,
             "memory_allocated": lambda _: 200}  # fmt: skip
    monkeypatch.setitem(sys.modules, "torch", pytorch(**sizes))
    gpu = types.SimpleNamespace(type="cuda")
    assert devices.free_bytes(gpu) == int(devices.MEMORY_SHARE * 1300)
    devices.check_room(gpu, 12, 8, "a matrix", "perceptrons")  # 1,152 bytes of 1,170
    with pytest.raises(DeviceError, match=r"a matrix of 13 points needs .*about 12 points would"):
        devices.check_room(gpu, 13, 8, "a matrix", "perceptrons")


@pytest.mark.parametrize(
    ("message", "sizes"),
    [
        ("Tried to allocate 2.00 GiB. GPU 0 has 8 GiB of which 1.50 GiB is free.",
         r" \(2.00 GiB more were needed, 1.50 GiB free\)"),
        ("CUDA error: out of memory", ""),
        ("CUBLAS_STATUS_ALLOC_FAILED", ""),
    ],
)  # fmt: skip
def test_memory_that_runs_out_is_explained(message, sizes):
    class OutOfMemoryError(RuntimeError):
        """Known by its name."""

    kind = OutOfMemoryError if sizes else RuntimeError
    expected = rf"device='cuda': the GPU has no memory left{sizes}\. Fewer points, or use device="
    with (
        pytest.raises(DeviceError, match=expected),
        devices.explaining_memory("cuda", "Fewer points"),
    ):
        raise kind(message)
    with pytest.raises(kind, match=message[:9]), devices.explaining_memory("cpu", ""):
        raise kind(message)


def test_other_errors_are_left_as_they_are():
    explaining = devices.explaining_memory("cuda", "")
    with pytest.raises(RuntimeError, match="shapes") as caught, explaining:
        raise RuntimeError("shapes differ")
    assert not isinstance(caught.value, DeviceError)
    devices.check_device("auto")
    with pytest.raises(ValueError, match="device must be one of"):
        devices.check_device("gpu")


def test_arrays_are_no_tensors():
    assert not devices.is_tensor(np.ones(2))
    assert not devices.is_tensor([1.0])
    made_by_torch = type("Tensor", (), {"__module__": "torch.nn"})
    assert devices.is_tensor(made_by_torch())
