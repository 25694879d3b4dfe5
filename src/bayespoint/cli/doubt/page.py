"""The page of ``doubt``: labels to go through, each beside the rows that speak against it."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from bayespoint._support.types import Array
from bayespoint.cli.doubt.suspects import Suspect, pairs_of
from bayespoint.cli.pages import row_of, write_page
from bayespoint.cli.pages.charts import Chart
from bayespoint.io.tables import Table, printable

# Rows and pairs of classes that the page shows.
MOST_ROWS, MOST_PAIRS = 500, 30
# Share of all wrong labels that the curve goes on to, and the least share of rows that it shows.
ENOUGH, LEAST_SHARE = 0.99, 0.02
# Characters of what the classifier tells about its training.
SHOWN_TEXT = 400


def write_doubts(
    path: Path, suspects: Sequence[Suspect], wrong: Array, numbers: Sequence[float], *,
    table: Table, labels: Array, file: str, target: str, budget: int | None,
    trained: Mapping[str, Any], notes: Sequence[str],
) -> None:  # fmt: skip
    """Write the page, all of it or nothing.

    Parameters
    ----------
    path : path
    suspects : list of Suspect
    wrong : ndarray of shape (n_rows,)
        Probability that each label is wrong.
    numbers : sequence of three
        Number of wrong labels, and the ends of its interval.
    table : Table
        The file's columns, but the target.
    labels : ndarray of shape (n_rows,)
    file, target : str
    budget : int or None
    trained : dict
        What the classifier tells about its training.
    notes : list of str
    """
    shown = suspects[:MOST_ROWS]
    listed = [one.row for one in suspects]
    context = {
        "file": file, "target": printable(target), "n_rows": len(labels), "budget": budget,
        "expected": numbers[0], "low": numbers[1], "high": numbers[2], "notes": notes,
        "n_listed": len(suspects), "in_list": float(wrong[listed].sum()),
        "chart": _chart(wrong, len(suspects)), "pairs": pairs_of(list(suspects))[:MOST_PAIRS],
        "suspects": [_shown(table, labels, one) for one in shown],
        "training": [
            (name.replace("_", " "), printable(str(value), SHOWN_TEXT))
            for name, value in trained.items()
        ],
    }  # fmt: skip
    write_page(path, "bayespoint.cli.doubt", "doubt.html.j2", context)


def _shown(table: Table, labels: Array, one: Suspect) -> dict[str, Any]:
    """Row beside those that speak against its label, column by column."""
    rows = [row_of(table, i) for i in (one.row, *one.against)]
    cells = [
        (line[0][0], [value for _, value in line])
        for line in zip(*(row["cells"] for row in rows), strict=True)
    ]
    return {
        **one._asdict(), "word": one.word, "place": rows[0]["place"], "cells": cells,
        "n_more": rows[0]["n_more"],
        "others": [
            {"place": row["place"], "label": str(labels[i])}
            for row, i in zip(rows[1:], one.against, strict=True)
        ],
    }  # fmt: skip


def _chart(wrong: Array, n_listed: int) -> Chart | None:
    """Share of the wrong labels found against the share of rows looked at; None without any."""
    found = np.cumsum(np.sort(wrong)[::-1])
    if not found[-1] > 0:
        return None
    n, share = len(wrong), found / found[-1]
    enough = (int(np.searchsorted(share, ENOUGH)) + 1) / n
    end = min(1.0, max(enough, 1.2 * n_listed / n, LEAST_SHARE))
    chart = Chart(
        "What a second look finds", "Share of rows looked at, surest first",
        "Share of wrong labels found", x_range=(0, end), y_range=(0, 1.05),
    )  # fmt: skip
    kept = np.arange(1, n + 1) / n <= end
    chart.line(np.append(0, (np.arange(1, n + 1) / n)[kept]), np.append(0, share[kept]))
    if n_listed:
        chart.dot(n_listed / n, float(share[n_listed - 1]))
    return chart
