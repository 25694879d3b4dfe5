"""What stands in for a GPU: the CPU, or a memory apart, which tells when host and device mix.

`Apart` is a PyTorch mode in which tensors of ``FAR`` live in another memory than the host's. An
operation on tensors of both, NumPy looking at one that is there, and a tensor that never got there
are errors, as on a GPU. ``FAR`` is PyTorch's "meta" device, which has no memory of its own to use.
"""

# ruff: noqa: E402

from contextlib import contextmanager

import pytest

torch = pytest.importorskip("torch")

from torch.utils._python_dispatch import TorchDispatchMode

from bayespoint._support import devices
from bayespoint.inference import engines

torch.set_num_threads(1)  # small matrices, and a process on every core

CPU = torch.device("cpu")
FAR = torch.device("meta")


def let_cuda_be(monkeypatch, device):
    """Let ``device="cuda"`` and "auto" mean this PyTorch device; None: "auto" finds no GPU."""
    monkeypatch.setattr(engines, "torch_device", lambda name: None if name == "cpu" else device)


def let_free_memory_be(monkeypatch, n_bytes):
    """Let a fit have so many bytes of the device."""
    monkeypatch.setattr(devices, "free_bytes", lambda _: n_bytes)


class WrongDeviceError(AssertionError):
    """What a GPU would refuse."""


class FarTensor(torch.Tensor):
    """A tensor in the other memory; its numbers are in ``inner``."""

    @staticmethod
    def __new__(cls, inner):
        return torch.Tensor._make_wrapper_subclass(
            cls, inner.shape, strides=inner.stride(), storage_offset=inner.storage_offset(),
            dtype=inner.dtype, device=FAR,
        )  # fmt: skip

    def __init__(self, inner):
        self.inner = inner

    __torch_function__ = torch._C._disabled_torch_function_impl

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        raise WrongDeviceError(f"{func}: used after its device was gone, or in another thread")

    def __setitem__(self, index, value):
        # Numbers and lists, which PyTorch would put there without asking the mode.
        if not isinstance(value, torch.Tensor):
            value = torch.tensor(value, dtype=self.dtype)
        index = index if isinstance(index, tuple) else (index,)
        index = tuple(torch.tensor(i).to(FAR) if isinstance(i, list) else i for i in index)
        super().__setitem__(index, value)

    def tolist(self):
        return self.inner.tolist()


FarTensor.__module__ = "torch.far"  # by its module a tensor is known to be one


def leaves(values):
    for value in values:
        if isinstance(value, list | tuple):
            yield from leaves(value)
        else:
            yield value


def mapped(function, value):
    if isinstance(value, list | tuple):
        return type(value)(mapped(function, one) for one in value)
    return function(value)


class Apart(TorchDispatchMode):
    """A device with memory of its own; ``copied`` has the shapes of what came to the host."""

    # The only operations that may see both memories.
    COPIES = ("aten::_to_copy", "aten::copy_")

    def __init__(self):
        super().__init__()
        self.copied = []

    @classmethod
    def _should_skip_dynamo(cls):
        return False  # PyTorch's compiler takes seconds to import, and has no part in this

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        name, kwargs = func._schema.name, dict(kwargs or {})
        tensors = [x for x in leaves((*args, *kwargs.values())) if isinstance(x, torch.Tensor)]
        far = [x for x in tensors if isinstance(x, FarTensor)]
        near = [x for x in tensors if not isinstance(x, FarTensor)]
        if any(x.device == FAR for x in near):
            raise WrongDeviceError(f"{name}: a tensor that was made outside, such as in a thread")
        if far and name not in self.COPIES and any(x.dim() for x in near):  # numbers may be there
            raise WrongDeviceError(
                f"{name}: on the device {[tuple(x.shape) for x in far]}, "
                f"on the host {[tuple(x.shape) for x in near]}"
            )
        there = self._result_is_far(name, args, kwargs, far)
        if far and not there and name in self.COPIES:
            self.copied.append(tuple(far[0].shape))
        held = {id(x.inner): x for x in far}

        def unwrap(x):
            return x.inner if isinstance(x, FarTensor) else x

        def wrap(x):
            if not isinstance(x, torch.Tensor):
                return x
            return held[id(x)] if id(x) in held else FarTensor(x)

        inner = {key: mapped(unwrap, value) for key, value in kwargs.items()}
        if inner.get("device") is not None:
            inner["device"] = CPU
        found = func(*mapped(unwrap, args), **inner)
        return mapped(wrap, found) if there else found

    @staticmethod
    def _result_is_far(name, args, kwargs, far):
        if name == "aten::copy_":
            return isinstance(args[0], FarTensor)
        device = kwargs.get("device")
        return bool(far) if device is None else torch.device(device) == FAR


@contextmanager
def memory_apart(monkeypatch):
    """Let ``device="cuda"`` be a memory apart; yields the shapes of what comes to the host."""
    generator, tensor = torch.Generator, torch.tensor

    def on_the_host(device=CPU):
        return generator(CPU if torch.device(device) == FAR else device)

    def filled(data, *, device=None, **options):  # which PyTorch does without asking the mode
        found = tensor(data, **options)
        return found if device is None else found.to(device)

    monkeypatch.setattr(torch, "Generator", on_the_host)
    monkeypatch.setattr(torch, "tensor", filled)
    let_cuda_be(monkeypatch, FAR)
    with Apart() as device:
        yield device.copied
