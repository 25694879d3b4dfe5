"""The page of ``evaluate``: what it shows, and its words."""

import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from bayespoint.cli.pages import label, row_of, write_page
from bayespoint.cli.report import curves
from bayespoint.cli.report.measures import N_BINS, Evaluated
from bayespoint.estimators.importances import Ranked
from bayespoint.io.tables import Table, printable

# Rows of the file that are shown: the least sure, and mistakes made most surely.
DOUBTFUL_ROWS, SURE_MISTAKES = 20, 5
# Columns whose importance is shown.
SHOWN_FIGURES = 20
# Classes up to which the confusions are a square; of more, pairs and classes are listed, worst
# first: so many at once, and so many at most.
MATRIX_CLASSES, FIRST, MOST = 10, 10, 300
# Shade of a cell that holds all of its row: text is readable still. Square roots show small shares.
DARKEST = 0.7
# Entries of what the model tells about its training, characters of a name and of each.
SHOWN_ITEMS, SHOWN_NAME, SHOWN_TEXT = 60, 120, 400
# What train writes about itself, in words.
ABOUT = {
    "file": "file", "target": "target", "n_rows": "rows", "n_features": "features",
    "seconds": "seconds", "version": "bayespoint", "interrupted": "cut short by Ctrl-C",
}  # fmt: skip


def write_report(
    path: Path, rows: Evaluated, measured: Mapping[str, Any], *, table: Table, file: str,
    about: Mapping[str, Any], trained: Mapping[str, Any], notes: Sequence[str],
    cut_short: str = "", matter: Sequence[Ranked] = (), widths: Sequence[Ranked] = (),
    shows_rows: bool,
) -> None:  # fmt: skip
    """Write the page, all of it or nothing.

    Parameters
    ----------
    path : path
    rows : Evaluated
    measured : dict
        By `measure`.
    table : Table
        The file's columns; shown only with ``shows_rows``.
    file : str
        Name of the file.
    about, trained : dict
        What the model file and the classifier tell about the training, of plain types.
    notes : list of str
    cut_short : str
        How training ended early, shown at the top; "" if it did not.
    matter : list of Ranked
        Columns, the most important first; nothing is shown where there are none.
    widths : list of Ranked
        Columns by their share of distances, shown where it is not known which matter.
    shows_rows : bool
        Whether rows of the file, and notes (which may quote cells), are shown.
    """
    context = {
        "measured": measured, "file": file, "notes": notes, "cut_short": cut_short,
        "shows_rows": shows_rows, "matrix": _matrix(measured), "confusions": _confusions(measured),
        "classes": _classes(measured), "first": FIRST, "most": MOST, "n_bins": N_BINS,
        "risk": curves.risk_chart(rows, measured), "cost": curves.cost_chart(rows, measured),
        "calibration": curves.calibration_charts(measured),
        "binary": curves.binary_charts(rows, measured),
        "matter": matter[:SHOWN_FIGURES], "n_matter": len(matter),
        "matter_chart": curves.importance_chart(matter[:SHOWN_FIGURES]),
        "widths": widths[:SHOWN_FIGURES], "n_widths": len(widths),
        "width_chart": curves.width_chart(widths[:SHOWN_FIGURES]),
        "training": _training(about, trained),
        "columns": _columns(about), "training_notes": _training_notes(about),
        "doubtful": _shown_rows(rows, table, doubtful(rows)) if shows_rows else [],
        "mistakes": _shown_rows(rows, table, sure_mistakes(rows)) if shows_rows else [],
    }  # fmt: skip
    write_page(path, "bayespoint.cli.report", "report.html.j2", context)


def doubtful(rows: Evaluated) -> list[int]:
    """Numbers of the least sure rows, least sure first."""
    return np.argsort(rows.confidence, kind="stable")[:DOUBTFUL_ROWS].tolist()


def sure_mistakes(rows: Evaluated) -> list[int]:
    """Numbers of the mistakes made most surely, surest first; not those doubtful anyway."""
    wrong = np.setdiff1d(np.flatnonzero(rows.wrong), doubtful(rows))
    return wrong[np.argsort(-rows.confidence[wrong], kind="stable")][:SURE_MISTAKES].tolist()


def _shown_rows(rows: Evaluated, table: Table, chosen: Iterable[int]) -> list[dict[str, Any]]:
    shown = []
    for i in chosen:
        order = np.argsort(-rows.proba[i], kind="stable")
        second = next(k for k in order.tolist() if k != rows.predicted[i])
        shown.append(
            {
                **row_of(table, i), **rows.labels_of(i), "second": rows.classes[second],
                "second_probability": float(rows.proba[i, second]),
                "wrong": bool(rows.wrong[i]), "rejected": bool(rows.rejected[i]),
            }
        )  # fmt: skip
    return shown


def _matrix(measured: Mapping[str, Any]) -> list[dict[str, Any]] | None:
    """Confusions as rows of a table: each cell with a shade, by its share of the row."""
    confusion = measured["confusion"]
    if len(measured["classes"]) > MATRIX_CLASSES:
        return None
    lines = []
    for k, (name, counts, rejected) in enumerate(
        zip(confusion["labels"], confusion["matrix"], confusion["rejected"], strict=True)
    ):
        total = sum(counts) + rejected
        cells = [
            {"n": n, "shade": DARKEST * math.sqrt(n / total) if n else 0.0, "right": k == j}
            for j, n in enumerate(counts)
        ]
        lines.append({"label": name, "cells": cells, "rejected": rejected, "total": total})
    return lines


def _confusions(measured: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Pairs of classes that are mistaken among decided rows, the most frequent first."""
    confusion = measured["confusion"]
    lines = zip(confusion["labels"], confusion["matrix"], confusion["rejected"], strict=True)
    pairs = [
        {
            "true": true, "predicted": measured["classes"][j]["label"], "n": n,
            "share": n / (sum(counts) + rejected),
        }
        for i, (true, counts, rejected) in enumerate(lines)
        for j, n in enumerate(counts)
        if n and i != j
    ]  # fmt: skip
    return sorted(pairs, key=lambda pair: (-pair["n"], -pair["share"]))


def _classes(measured: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Entries of the classes; of many the ones that are found least often come first."""
    classes: list[dict[str, Any]] = measured["classes"]
    if len(classes) <= MATRIX_CLASSES:
        return classes
    return sorted(classes, key=lambda entry: 2.0 if entry["recall"] is None else entry["recall"])


def _training(about: Mapping[str, Any], trained: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Pairs of name and text: what the model tells about its training."""
    pairs = [(words, about.get(name)) for name, words in ABOUT.items()]
    counts = [f"{label(name)} {_shown(n)}" for name, n in _items(about, "classes")]
    pairs += [("rows of each class", ", ".join(counts) or None)]
    pairs += [(name.replace("_", " "), value) for name, value in trained.items()]
    pairs += [(f"--{name.replace('_', '-')}", value) for name, value in _items(about, "options")]
    there = [(name, value) for name, value in pairs if value is not None]
    shown = [(printable(name, SHOWN_NAME), _shown(value)) for name, value in there[:SHOWN_ITEMS]]
    more = len(there) - len(shown)
    return [*shown, ("more entries", f"{more:,}")] if more else shown


def _items(about: Mapping[str, Any], name: str) -> Iterable[tuple[str, Any]]:
    entry = about.get(name)
    return entry.items() if isinstance(entry, dict) else ()


def _columns(about: Mapping[str, Any]) -> list[str]:
    columns = about.get("columns")
    if not isinstance(columns, list):
        return []
    shown = [printable(str(name), SHOWN_NAME) for name in columns[:SHOWN_ITEMS]]
    more = len(columns) - len(shown)
    return shown + ([f"and {more:,} more"] if more else [])


def _training_notes(about: Mapping[str, Any]) -> list[str]:
    notes = about.get("notes")
    if not isinstance(notes, list):
        return []
    return [printable(str(note), SHOWN_TEXT) for note in notes[:SHOWN_ITEMS]]


def _shown(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, int):
        return f"{value:,}"
    return printable(value if isinstance(value, str) else repr(value), SHOWN_TEXT)
