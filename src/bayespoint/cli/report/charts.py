"""Charts as numbers for the page: where lines, dots and ticks are, in units of an SVG picture.

The page draws them with the colours of its style sheet, so that they follow light and dark. Names
of columns are the only text from data in them.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from sklearn.metrics import precision_recall_curve, roc_curve

from bayespoint._support.types import Array
from bayespoint.cli.report.measures import Evaluated, binary_scores, costs_of
from bayespoint.estimators.costs import cost_rejection_curve
from bayespoint.estimators.importances import Ranked
from bayespoint.estimators.risk import risk_coverage_curve
from bayespoint.io.tables import printable

# Size and margins of a picture, for text of 14 units: 11 points at least on a phone.
WIDTH, HEIGHT, LOW_HEIGHT = 440, 320, 150
LEFT, RIGHT, TOP, BOTTOM = 70, 26, 14, 50
# Points of a line: more cannot be seen, and pages stay small.
MAX_POINTS = 400
# Ticks of an axis, about; and of a low one.
N_TICKS, FEW_TICKS = 5, 2
# Height of a row with a name, room for the name, and its characters.
ROW_HEIGHT, NAME_WIDTH, SHOWN_NAME = 26, 170, 20
# Top of the risk, so that a curve of zeros has an axis.
LEAST_RISK = 0.02

# Range of losses, so that zeros have an axis.
LEAST_LOSS = 0.01

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
        low, high = self.x_range
        return round(self.left + (value - low) / (high - low) * (self.right - self.left), 1)

    def y(self, value: float) -> float:
        """Place from the top."""
        low, high = self.y_range
        return round(self.bottom - (value - low) / (high - low) * (self.bottom - self.top), 1)

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
        kept = np.unique(np.linspace(0, len(x) - 1, min(len(x), MAX_POINTS)).round().astype(int))
        path = ""
        for place, (a, b) in enumerate(zip(np.asarray(x)[kept], np.asarray(y)[kept], strict=True)):
            if not place:
                path = f"M{self.x(a)} {self.y(b)}"
            else:
                path += f"V{self.y(b)}H{self.x(a)}" if steps else f"L{self.x(a)} {self.y(b)}"
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


def risk_chart(rows: Evaluated, measured: Mapping[str, Any]) -> Chart:
    """Risk against coverage, with the point that the model's threshold gives."""
    coverage, risk, _ = risk_coverage_curve(rows.true, rows.predicted, rows.confidence)
    top = max(float(risk.max()), LEAST_RISK) * 1.1
    chart = Chart(
        "Error among the surest rows", "Share of rows decided, surest first",
        "Error among them", y_range=(0, min(top, 1.0)),
    )  # fmt: skip
    chart.line(np.append(0, coverage), np.append(risk[0], risk), steps=True)
    if measured["rejects"] and measured["n_decided"]:
        chart.dot(measured["coverage"], measured["decided_error"])
        chart.line([measured["coverage"]] * 2, [0, chart.y_range[1]], "guide")
    return chart


def cost_chart(rows: Evaluated, measured: Mapping[str, Any]) -> Chart | None:
    """Cost against rejection, with what the model rejects; None where rejecting has no cost."""
    if rows.costs is None or rows.costs.shape[1] == len(rows.classes):
        return None
    deciding, rejecting = costs_of(rows)
    confidence = rows.confidence[rows.known]
    rejected, mean_cost, _ = cost_rejection_curve(deciding, rejecting, confidence)
    low, high = min(0.0, float(mean_cost.min())), float(mean_cost.max())
    room = 0.1 * max(high - low, LEAST_LOSS)
    chart = NumbersChart(
        "Cost against rejection", "Share of rows rejected, least sure first", "Mean cost of a row",
        y_range=(low - room * (low < 0), high + room),
    )  # fmt: skip
    chart.line(rejected, mean_cost)
    share = float(rows.rejected[rows.known].mean())
    chart.dot(share, measured["costs"]["mean"])
    chart.line([share] * 2, chart.y_range, "guide")
    return chart


def calibration_charts(measured: Mapping[str, Any]) -> list[Chart]:
    """Share of right labels against their probability, and how many rows each bin holds."""
    bins = measured["calibration"]
    low = math.floor(10 * min(b["low"] for b in bins)) / 10
    chart = Chart(
        "Reliability", "Probability of the predicted label", "Share that is right",
        x_range=(low, 1),
    )  # fmt: skip
    chart.line([low, 1], [low, 1], "guide")
    for b in bins:
        chart.dot(b["probability"], b["right"], b["interval"])
    counts = Chart(
        "Rows in each bin", "Probability of the predicted label", "Rows",
        x_range=(low, 1), height=LOW_HEIGHT,
    )  # fmt: skip
    most = max(b["n"] for b in bins) / measured["n_rows"]
    counts.y_range = (0, most * 1.35)  # room for the number above
    for b in bins:
        counts.bar(b["low"], b["high"], b["n"] / measured["n_rows"], f"{b['n']:,}")
    return [chart, counts]


def importance_chart(columns: Sequence[Ranked]) -> Chart | None:
    """What labels lose without each column, with standard errors; None without columns."""
    if not columns:
        return None
    low = min(0.0, *(c.mean - c.error for c in columns))
    high = max(0.0, low + LEAST_LOSS, *(c.mean + c.error for c in columns))
    room = 0.05 * (high - low)
    chart = RowsChart(
        "Which columns matter", "Loss without it (nats per row)", [c.name for c in columns],
        (low - room, high + room),
    )  # fmt: skip
    chart.line([0, 0], chart.y_range, "guide")
    for row, column in enumerate(columns):
        ends = column.mean - column.error, column.mean + column.error
        chart.dot(column.mean, row, ends)
    return chart


def binary_charts(rows: Evaluated, measured: Mapping[str, Any]) -> list[Chart]:
    """ROC and precision-recall curves, with the point of the labels as predicted; or none."""
    if measured["positive"] is None:
        return []
    positive = rows.classes.index(measured["positive"])
    true, score = binary_scores(rows, positive)
    labelled = rows.predicted[rows.known] == positive
    hits = float(labelled[true == 1].mean())
    false_alarms = float(labelled[true == 0].mean())
    roc = Chart("ROC", "False alarms (share of the others)", "Found (recall)")
    roc.line([0, 1], [0, 1], "guide")
    x, y, _ = roc_curve(true, score)
    roc.line(x, y)
    roc.dot(false_alarms, hits)
    curve = Chart("Precision and recall", "Found (recall)", "Precision")
    curve.line([0, 1], [true.mean()] * 2, "guide")
    precision, recall, _ = precision_recall_curve(true, score)
    curve.line(recall[::-1], precision[::-1])
    if labelled.any():
        curve.dot(hits, float(true[labelled].mean()))
    return [roc, curve]
