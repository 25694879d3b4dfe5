"""Charts as numbers for a page: where lines, dots and ticks are, in units of an SVG picture.

The page draws them with the colours of its style sheet, so that they follow light and dark. Names
of columns are the only text from data in them.
"""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from bayespoint._support.types import Array
from bayespoint.io.tables import printable

# Size and margins of a picture, for text of 14 units: 11 points at least on a phone.
WIDTH, HEIGHT, LOW_HEIGHT = 440, 320, 150
LEFT, RIGHT, TOP, BOTTOM = 70, 26, 14, 50
# Points nearer than this to the next are left out: lines look the same, and pages stay small.
GRID = 1.0
# Ticks of an axis, about; and of a low one.
N_TICKS, FEW_TICKS = 5, 2
# Height of a row with a name, room for the name, and its characters.
ROW_HEIGHT, NAME_WIDTH, SHOWN_NAME = 26, 170, 20

# Ends of an axis, and places along one.
Range = tuple[float, float]
Values = Sequence[float] | Array


class Chart:
    """One picture: ranges of its axes, and what is drawn."""

    def __init__(
        self, title: str, x_label: str, y_label: str, x_range: Range = (0, 1),
        y_range: Range = (0, 1), *, height: int = HEIGHT,
    ) -> None:  # fmt: skip
        self.title, self.x_label, self.y_label = title, x_label, y_label
        self.width, self.height = WIDTH, height
        self.left, self.right, self.top = LEFT, WIDTH - RIGHT, TOP
        self.bottom = height - BOTTOM
        self.x_range, self.y_range = x_range, y_range
        self.lines: list[dict[str, Any]] = []
        self.dots: list[dict[str, Any]] = []
        self.bars: list[dict[str, Any]] = []

    def x(self, value: float) -> float:
        """Place from the left."""
        return round(float(self._x(value)), 1)

    def y(self, value: float) -> float:
        """Place from the top."""
        return round(float(self._y(value)), 1)

    def _x(self, values: Any) -> Any:
        low, high = self.x_range
        return self.left + (values - low) / (high - low) * (self.right - self.left)

    def _y(self, values: Any) -> Any:
        low, high = self.y_range
        return self.bottom - (values - low) / (high - low) * (self.bottom - self.top)

    @property
    def x_ticks(self) -> list[tuple[float, str]]:
        """Places and texts along the bottom."""
        low, high = self.x_range
        return [(self.x(value), text) for value, text in ticks(low, high, N_TICKS)]

    @property
    def y_ticks(self) -> list[tuple[float, str]]:
        """Places and texts along the left."""
        wanted = N_TICKS if self.height == HEIGHT else FEW_TICKS
        low, high = self.y_range
        return [(self.y(value), text) for value, text in ticks(low, high, wanted)]

    def line(self, x: Values, y: Values, kind: str = "curve", *, steps: bool = False) -> None:
        """Add a line; with steps it is level from each point back to the one before."""
        places = np.column_stack([self._x(np.asarray(x, float)), self._y(np.asarray(y, float))])
        moves = np.any(np.diff(places // GRID, axis=0) != 0, axis=1)
        (left, top), *others = places[np.append(moves, True) | (np.arange(len(places)) == 0)]
        path = f"M{left:.1f} {top:.1f}"
        for left, top in others:
            path += f"V{top:.1f}H{left:.1f}" if steps else f"L{left:.1f} {top:.1f}"
        self.lines.append({"path": path, "kind": kind})

    def dot(self, x: float, y: float, interval: Sequence[float] | None = None) -> None:
        """Add a dot, with the bar of an interval."""
        ends = None
        if interval is not None:
            ends = {"x": [self.x(x)] * 2, "y": [self.y(end) for end in interval]}
        self.dots.append({"x": self.x(x), "y": self.y(y), "ends": ends})

    def bar(self, low: float, high: float, value: float, text: str) -> None:
        """Add a bar from the bottom, with a text above."""
        x, top = self.x(low) + 1, self.y(value)
        self.bars.append(
            {
                "x": x, "y": top, "width": round(self.x(high) - 1 - x, 1),
                "height": round(self.bottom - top, 1), "text": text,
            }
        )  # fmt: skip


class NumbersChart(Chart):
    """A picture whose values are no shares."""

    @property
    def y_ticks(self) -> list[tuple[float, str]]:
        """Places and texts along the left."""
        low, high = self.y_range
        return [(self.y(value), f"{value:.4g}") for value, _ in ticks(low, high, N_TICKS)]


class RowsChart(Chart):
    """A picture with a row for each name: values go from left to right."""

    def __init__(self, title: str, x_label: str, names: Sequence[str], x_range: Range) -> None:
        height = TOP + BOTTOM + ROW_HEIGHT * len(names)
        super().__init__(title, x_label, "", x_range, (len(names) - 0.5, -0.5), height=height)
        self.left, self.names = NAME_WIDTH, [printable(name, SHOWN_NAME) for name in names]

    @property
    def x_ticks(self) -> list[tuple[float, str]]:
        """Places and texts along the bottom."""
        low, high = self.x_range
        return [(self.x(value), f"{value:.6g}") for value, _ in ticks(low, high, N_TICKS)]

    @property
    def y_ticks(self) -> list[tuple[float, str]]:
        """Places of the rows, and their names."""
        return [(self.y(row), name) for row, name in enumerate(self.names)]

    def dot(self, x: float, y: float, interval: Sequence[float] | None = None) -> None:
        """Add a dot to a row, with the bar of an interval."""
        super().dot(x, y)
        if interval is not None:
            ends = {"x": [self.x(end) for end in interval], "y": [self.y(y)] * 2}
            self.dots[-1]["ends"] = ends


def ticks(low: float, high: float, wanted: int) -> list[tuple[float, str]]:
    """Round values between two, about as many as wanted, with their text in percent."""
    rough = (high - low) / wanted
    size = 10.0 ** math.floor(math.log10(rough))
    step = next(s * size for s in (1, 2, 2.5, 5, 10) if s * size >= rough * 0.999)
    first = math.ceil(low / step - 1e-9)
    last = math.floor(high / step + 1e-9)
    return [(k * step, f"{100 * k * step:.6g}%") for k in range(first, last + 1)]
