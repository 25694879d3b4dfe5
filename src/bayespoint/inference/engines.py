"""The one place that chooses where to compute: on the host, or on a GPU.

Algorithms ask for the engines of the rows they are given; nobody else asks whether there is a GPU.
Tests let another PyTorch device stand in for one: what `torch_device` returns here is that device.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from joblib import effective_n_jobs

from bayespoint._support.devices import (
    PREDICT_FEWER,
    check_device,
    explaining_memory,
    torch_device,
)
from bayespoint._support.threads import Threads, open_threads
from bayespoint._support.types import Array
from bayespoint.inference.ep.cells.prediction import Cellwise
from bayespoint.inference.ep.cells.sweeps import CellSweeps
from bayespoint.inference.ep.cells.tree import Tree
from bayespoint.inference.ep.widths import HostCells, WidthCell, WidthCells
from bayespoint.inference.perceptron.wave import RUNS_IN_FLIGHT, Wave
from bayespoint.space.blocks import Block
from bayespoint.space.host import Host, Place
from bayespoint.space.inputs import Inputs, same_precision
from bayespoint.space.links import ON_HOST, Arrays
from bayespoint.space.rows import Rows
from bayespoint.space.version_space import VersionSpace

# Balls of each machine on the host: enough to see whether they agree.
CHAINS = 4


class Engines(NamedTuple):
    """What runs over rows of the Gram matrix, where they are."""

    wave: Any  # state of perceptron runs: `perceptron.wave.Wave` or the like
    runs_in_flight: int  # of them that go on together
    many_at_once: bool  # whether many runs take little longer than a few
    balls: Callable[[Any], Any]  # from a class of balls on the host to what does the same here
    n_chains: Callable[[int], int]  # balls of each of so many machines
    records_path: bool  # whether balls can record where they have been
    site_blocks: Callable[[Rows, int], Callable]  # what factorises for expectation propagation
    arrays: Callable[[Rows], Arrays]  # what links are fitted with
    cell_sweeps: Callable[[], Any]  # class of what sweeps cells of expectation propagation
    width_cells: Callable[[Rows, list[WidthCell], Threads], WidthCells]  # what learns widths


HOST = Engines(
    wave=Wave,
    runs_in_flight=RUNS_IN_FLIGHT,
    many_at_once=False,
    balls=lambda kind: kind,
    n_chains=lambda _: CHAINS,
    records_path=True,
    site_blocks=lambda _rows, _n_machines: Block.make,
    arrays=lambda _rows: ON_HOST,
    cell_sweeps=lambda: CellSweeps,
    width_cells=lambda _rows, cells, threads: HostCells(cells, threads),
)


def engines_of(rows: Rows) -> Engines:
    """Return the engines that run where the rows are."""
    return HOST if rows.device is None else _on_gpu()


@cache
def _on_gpu() -> Engines:
    from bayespoint.gpu import engines

    return Engines(
        wave=engines.wave,
        runs_in_flight=engines.runs_in_flight,
        many_at_once=True,
        balls=lambda _kind: engines.balls,
        n_chains=engines.n_chains,
        records_path=False,
        site_blocks=engines.site_blocks,
        arrays=engines.arrays,
        cell_sweeps=_device_sweeps,
        width_cells=_device_cells,
    )


def _device_sweeps() -> Any:
    from bayespoint.inference.ep.cells.on_device import DeviceSweeps

    return DeviceSweeps


def _device_cells(rows: Rows, cells: list[WidthCell], _threads: Threads) -> WidthCells:
    from bayespoint.inference.ep.widths_on_device import DeviceCells

    return DeviceCells.of(cells, rows.device)


def place_of(
    device: str, *, n_jobs: int | None = None, on_cpu_only: tuple[str, str] | None = None
) -> Place:
    """Return the place for a value of ``device=``: `Host`, or `Device` for a GPU.

    Parameters
    ----------
    device : {"cpu", "cuda", "auto"}
        "auto" takes a GPU where there is one.
    n_jobs : int, optional
        Threads of the host.
    on_cpu_only : pair of str, optional
        What has no version for a GPU, and what to use instead.

    Examples
    --------
    >>> from bayespoint.inference.engines import place_of
    >>> place_of("cpu").name
    'cpu'
    """
    check_device(device)
    if device == "cuda" and on_cpu_only is not None:
        what, instead = on_cpu_only
        raise ValueError(
            f"device='cuda' with {what}, which runs on the CPU only: use device='cpu' or "
            f"'auto', or {instead}."
        )
    found = None if on_cpu_only is not None else torch_device(device)
    if found is None:
        return Host(n_jobs)
    from bayespoint.gpu.device import Device

    return Device(found, device)


def cells_of_rows(tree: Tree, inputs: Inputs) -> Array:
    """Return the number of the cell of each row, found where the rows are."""
    tensor = inputs.on_device()
    if tensor is None:
        return np.concatenate(inputs.by_blocks(tree.route))
    from bayespoint.inference.ep.cells.batches import route

    return route(tree, tensor).cpu().numpy()


def cell_outputs(place: Place, cellwise: Cellwise, X: Any) -> Array:
    """Means and variances at new rows by a model by cells: see `Cellwise.latent`.

    Parameters
    ----------
    place : Host or Device
    cellwise : Cellwise
    X : ndarray, csr_matrix or tensor of shape (n, n_features)
    """
    if isinstance(place, Host):
        with open_threads(effective_n_jobs(place.n_jobs)) as threads:
            return cellwise.latent(same_precision(X, cellwise.X.dtype), threads)
    from bayespoint.inference.ep.cells.on_device import latent

    with place.computing(PREDICT_FEWER):
        there = [place.rows_there(rows, cellwise.X.dtype) for rows in (cellwise.X, X)]
        if not cellwise.X.shape[0]:  # the prior, which has nothing to compute there
            return cellwise.latent(there[1].cpu().numpy(), Threads(1))
        return latent(cellwise.model, cellwise.kernel, *there)


def outputs_in_cells(
    inputs: Inputs, cellwise: Cellwise, trained: Array, asked: Sequence[Array], threads: Threads
) -> Array:
    """Means and variances at rows that are known to lie in the cells of one tree, in their order.

    Parameters
    ----------
    inputs : Inputs
        All rows.
    cellwise : Cellwise
        A model of some of them.
    trained : ndarray of int
        Which these are.
    asked : list of ndarray of int
        Rows that lie in each cell.
    threads : Threads

    Returns
    -------
    ndarray of shape (2, n_machines, n)
    """
    tensor = inputs.on_device()
    if tensor is None:
        X: Any = inputs.matrix()
        parts = threads.each(
            lambda cell: cellwise.in_cell(0, cell, X[asked[cell]]), range(len(asked))
        )
        return np.concatenate(parts, axis=2)
    from bayespoint.inference.ep.cells.on_device import latent_in_cells

    return latent_in_cells(cellwise.model, cellwise.kernel, tensor, trained, asked)


@contextmanager
def space_on(space: VersionSpace, device: str) -> Iterator[VersionSpace]:
    """Yield the version space, its Gram matrix in the memory of a GPU where that is asked for.

    Parameters
    ----------
    space : VersionSpace
    device : {"cpu", "cuda", "auto"}

    Examples
    --------
    >>> import numpy as np
    >>> from bayespoint import VersionSpace
    >>> from bayespoint.inference.engines import space_on
    >>> space = VersionSpace(np.eye(2), [1, -1])
    >>> with space_on(space, "cpu") as same:
    ...     same is space
    True
    """
    check_device(device)
    found = torch_device(device)
    if found is None:
        yield space
        return
    from bayespoint.gpu.device import placed_space

    with explaining_memory(device, "Free some, pass a Gram matrix in float32 or of fewer points"):
        yield placed_space(space, found)
