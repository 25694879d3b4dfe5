"""What runs over rows in the memory of a GPU: see `bayespoint.inference.engines.Engines`."""

from collections.abc import Callable
from typing import Any

import torch

from bayespoint.gpu.billiards import DeviceBalls, n_chains
from bayespoint.gpu.perceptrons import RUNS_IN_FLIGHT, DeviceWave
from bayespoint.gpu.sites import DeviceBlocks
from bayespoint.gpu.transfer import to_device
from bayespoint.space.links import Arrays

wave, runs_in_flight = DeviceWave, RUNS_IN_FLIGHT
balls = DeviceBalls
__all__ = ["arrays", "balls", "n_chains", "runs_in_flight", "site_blocks", "wave"]


def site_blocks(rows: Any, n_machines: int) -> Callable:
    """Return what factorises for expectation propagation."""
    rows.need_whole()
    return DeviceBlocks(rows.store, n_machines).make


def arrays(rows: Any) -> Arrays:
    """Return arrays where the rows are."""
    return Arrays(torch, lambda array: to_device(array, rows.device), lambda x: x.cpu().numpy())
