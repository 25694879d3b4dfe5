"""Memory of a fit by cells."""

import math
from typing import NamedTuple

# Cells that are swept with landmarks from the same state: a number that the rows alone set, so that
# results do not depend on threads or machines. So many at least, and of many cells a part such that
# a visit of all has so many steps at most. A power of 2, for sums.
WAVE, MOST_WAVES = 8, 8

# Most memory for messages of cells, in bytes; where they need more they are computed again.
KEPT_BYTES = 256_000_000

# Memory to solve a cell of n rows with D features: so many bytes for each of n² and of n D numbers;
# and matrices of D² for each machine beside the messages of a wave. As measured, and a half more.
CELL_BYTES, FEATURE_BYTES, COMMON_MATRICES = 50, 75, 6


def wave_of(n_cells: int) -> int:
    """Return how many cells are swept from the same state."""
    return max(WAVE, 2 ** math.ceil(math.log2(max(n_cells / MOST_WAVES, 1))))


class Memory(NamedTuple):
    """How a fit uses the memory that it has; results do not depend on it.

    Attributes
    ----------
    at_once : int
        Cells that may be solved at a time; 0: not even one.
    kept : int
        Bytes for messages.
    """

    at_once: int = 1
    kept: int = KEPT_BYTES

    @classmethod
    def of(cls, n_bytes: float, cell_size: int, n_common: int, n_machines: int) -> "Memory":
        """Divide so many bytes: half of what one cell leaves is for messages."""
        left = n_bytes - needed_bytes(cell_size, n_common, n_machines)
        if left < 0:
            return cls(0, 0)
        more = left / 2 // _cell_bytes(cell_size, n_common)
        return cls(1 + int(more), int(min(left / 2, KEPT_BYTES)))


def needed_bytes(cell_size: int, n_common: int, n_machines: int) -> float:
    """Memory to solve cells one by one."""
    common = (COMMON_MATRICES + WAVE) * n_machines * 8.0 * n_common**2
    return common + _cell_bytes(cell_size, n_common)


def _cell_bytes(cell_size: int, n_common: int) -> float:
    return float(CELL_BYTES * cell_size**2 + FEATURE_BYTES * cell_size * n_common)
