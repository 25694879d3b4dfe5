"""Charts of the report: what is drawn of labelled rows, and where."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from sklearn.metrics import precision_recall_curve, roc_curve

from bayespoint.cli.pages.charts import LOW_HEIGHT, Chart, NumbersChart, RowsChart
from bayespoint.cli.report.measures import Evaluated, binary_scores, costs_of
from bayespoint.estimators.costs import cost_rejection_curve
from bayespoint.estimators.importances import Ranked
from bayespoint.estimators.risk import risk_coverage_curve

# Top of the risk where there is none, so that a curve of zeros has an axis.
LEAST_RISK = 0.02

# Range of losses, so that zeros have an axis.
LEAST_LOSS = 0.01


def risk_chart(rows: Evaluated, measured: Mapping[str, Any]) -> Chart:
    """Risk against coverage, with the point that the model's threshold gives."""
    coverage, risk, _ = risk_coverage_curve(rows.true, rows.predicted, rows.confidence)
    # Thresholds of single classes may decide rows with more errors than any share of the surest.
    top = 1.1 * max(float(risk.max()), measured["decided_error"] or 0.0) or LEAST_RISK
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


def width_chart(columns: Sequence[Ranked]) -> Chart | None:
    """Share of the distance between two rows that each column has; None without columns."""
    if not columns:
        return None
    chart = RowsChart(
        "Which columns count", "Share of the distance between two rows (%)",
        [c.name for c in columns], (0, 105 * max(c.mean for c in columns)),
    )  # fmt: skip
    for row, column in enumerate(columns):
        chart.line([0, 100 * column.mean], [row, row])
        chart.dot(100 * column.mean, row)
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
    # From the highest threshold on; the last point is one that scikit-learn adds.
    precision, recall, _ = (a[::-1] for a in precision_recall_curve(true, score))
    curve.line(np.append(0, recall[1:]), np.append(precision[1], precision[1:]), steps=True)
    if labelled.any():
        curve.dot(hits, float(true[labelled].mean()))
    return [roc, curve]
