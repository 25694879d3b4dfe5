"""Version spaces on a GPU, for the functions of `bayespoint.inference`."""

from contextlib import contextmanager

from bayespoint._support.devices import check_device, naming_remedies, torch_device


@contextmanager
def on_device(space, device):
    """Yield the version space, its Gram matrix in the memory of a GPU where that is asked for.

    Parameters
    ----------
    space : VersionSpace
    device : {"cpu", "cuda", "auto"}

    Examples
    --------
    >>> import numpy as np
    >>> from bayespoint import VersionSpace
    >>> from bayespoint.inference.on_device import on_device
    >>> space = VersionSpace(np.eye(2), [1, -1])
    >>> with on_device(space, "cpu") as same:
    ...     same is space
    True
    """
    check_device(device)
    placed = torch_device(device)
    if placed is None:
        yield space
        return
    from bayespoint.gpu.placing import placed_space

    with naming_remedies(device, "Free some, pass a Gram matrix in float32 or of fewer points"):
        yield placed_space(space, placed)
