"""Charts as numbers for the page: where lines, dots and ticks are, in units of an SVG picture.

The page draws them with the colours of its style sheet, so that they follow light and dark. No
text from data is in them.
"""

import math

import numpy as np
from sklearn.metrics import precision_recall_curve, roc_curve

from bayespoint.cli.report.measures import binary_scores
from bayespoint.estimators.rejection import risk_coverage_curve

# Size and margins of a picture, for text of 14 units: 11 points at least on a phone.
WIDTH, HEIGHT, LOW_HEIGHT = 440, 320, 150
LEFT, RIGHT, TOP, BOTTOM = 70, 26, 14, 50
# Points of a line: more cannot be seen, and pages stay small.
MAX_POINTS = 400
# Ticks of an axis, about; and of a low one.
N_TICKS, FEW_TICKS = 5, 2
# Top of the risk, so that a curve of zeros has an axis.
LEAST_RISK = 0.02


class Chart:
    """One picture: ranges of its axes, and what is drawn."""

    def __init__(self, title, x_label, y_label, x_range=(0, 1), y_range=(0, 1), *, height=HEIGHT):
        self.title, self.x_label, self.y_label = title, x_label, y_label
        self.width, self.height = WIDTH, height
        self.left, self.right, self.top = LEFT, WIDTH - RIGHT, TOP
        self.bottom = height - BOTTOM
        self.x_range, self.y_range = x_range, y_range
        self.lines: list[dict] = []
        self.dots: list[dict] = []
        self.bars: list[dict] = []

    def x(self, value):
        """Place from the left."""
        low, high = self.x_range
        return round(self.left + (value - low) / (high - low) * (self.right - self.left), 1)

    def y(self, value):
        """Place from the top."""
        low, high = self.y_range
        return round(self.bottom - (value - low) / (high - low) * (self.bottom - self.top), 1)

    @property
    def x_ticks(self):
        """Places and texts along the bottom."""
        low, high = self.x_range
        return [(self.x(value), text) for value, text in ticks(low, high, N_TICKS)]

    @property
    def y_ticks(self):
        """Places and texts along the left."""
        wanted = N_TICKS if self.height == HEIGHT else FEW_TICKS
        low, high = self.y_range
        return [(self.y(value), text) for value, text in ticks(low, high, wanted)]

    def line(self, x, y, kind="curve", *, steps=False):
        """Add a line; with steps it is level from each point back to the one before."""
        kept = np.unique(np.linspace(0, len(x) - 1, min(len(x), MAX_POINTS)).round().astype(int))
        path = ""
        for place, (a, b) in enumerate(zip(np.asarray(x)[kept], np.asarray(y)[kept], strict=True)):
            if not place:
                path = f"M{self.x(a)} {self.y(b)}"
            else:
                path += f"V{self.y(b)}H{self.x(a)}" if steps else f"L{self.x(a)} {self.y(b)}"
        self.lines.append({"path": path, "kind": kind})

    def dot(self, x, y, interval=None):
        """Add a dot, with the bar of an interval."""
        ends = None if interval is None else (self.y(interval[0]), self.y(interval[1]))
        self.dots.append({"x": self.x(x), "y": self.y(y), "ends": ends})

    def bar(self, low, high, value, text):
        """Add a bar from the bottom, with a text above."""
        x, top = self.x(low) + 1, self.y(value)
        self.bars.append(
            {
                "x": x, "y": top, "width": round(self.x(high) - 1 - x, 1),
                "height": round(self.bottom - top, 1), "text": text,
            }
        )  # fmt: skip


def ticks(low, high, wanted):
    """Round values between two, about as many as wanted, with their text in percent."""
    rough = (high - low) / wanted
    size = 10.0 ** math.floor(math.log10(rough))
    step = next(s * size for s in (1, 2, 2.5, 5, 10) if s * size >= rough * 0.999)
    first = math.ceil(low / step - 1e-9)
    last = math.floor(high / step + 1e-9)
    return [(k * step, f"{100 * k * step:.6g}%") for k in range(first, last + 1)]


def risk_chart(rows, found):
    """Risk against coverage, with the point that the model's threshold gives."""
    coverage, risk, _ = risk_coverage_curve(rows.true, rows.predicted, rows.confidence)
    top = max(float(risk.max()), LEAST_RISK) * 1.1
    chart = Chart(
        "Error among the surest rows", "Share of rows decided, surest first",
        "Error among them", y_range=(0, min(top, 1.0)),
    )  # fmt: skip
    chart.line(np.append(0, coverage), np.append(risk[0], risk), steps=True)
    if found["rejects"] and found["n_decided"]:
        chart.dot(found["coverage"], found["decided_error"])
        chart.line([found["coverage"]] * 2, [0, chart.y_range[1]], "guide")
    return chart


def calibration_charts(found):
    """Share of right labels against their probability, and how many rows each bin holds."""
    bins = found["calibration"]
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
    most = max(b["n"] for b in bins) / found["n_rows"]
    counts.y_range = (0, most * 1.35)  # room for the number above
    for b in bins:
        counts.bar(b["low"], b["high"], b["n"] / found["n_rows"], f"{b['n']:,}")
    return [chart, counts]


def binary_charts(rows, positive):
    """ROC and precision-recall curves, with the point of the labels as predicted; or none."""
    scores = binary_scores(rows, positive)
    if scores is None:
        return []
    true, score = scores
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
