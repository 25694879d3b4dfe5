"""The page: what it shows, its words, and how it is written."""

import math
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from jinja2 import Environment, PackageLoader, StrictUndefined

from bayespoint import __version__
from bayespoint.cli.report import charts
from bayespoint.cli.report.measures import N_BINS, Evaluated
from bayespoint.estimators.importances import Ranked
from bayespoint.io.model_file.files import replacing
from bayespoint.io.tables import Table, counted, number_text, printable

# Rows of the file that are shown: the least sure, and mistakes made most surely.
DOUBTFUL_ROWS, SURE_MISTAKES = 20, 5
# Columns of each that are shown, characters of a cell, and digits of a number.
SHOWN_COLUMNS, SHOWN_CELL, SHOWN_DIGITS = 60, 120, 7
# Columns whose importance is shown.
SHOWN_FIGURES = 20
# Characters of a class or of a file's name.
SHOWN_LABEL = 40
# Classes up to which the confusions are a table; beyond, the most frequent ones are listed.
MATRIX_CLASSES, SHOWN_CONFUSIONS = 20, 30
# Shade of a cell that holds all of its row: text is readable still. Square roots show small shares.
DARKEST = 0.7
# Entries of what the model tells about its training, and characters of each.
SHOWN_ITEMS, SHOWN_TEXT = 60, 400
# What train writes about itself, in words.
ABOUT = {
    "file": "file", "target": "target", "n_rows": "rows", "n_features": "features",
    "seconds": "seconds", "version": "bayespoint", "interrupted": "cut short by Ctrl-C",
}  # fmt: skip


def write_report(
    path: Path, rows: Evaluated, measured: Mapping[str, Any], *, table: Table, file: str,
    about: Mapping[str, Any], trained: Mapping[str, Any], notes: Sequence[str],
    matter: Sequence[Ranked] = (), shows_rows: bool,
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
    matter : list of Ranked
        Columns, the most important first; nothing is shown where there are none.
    shows_rows : bool
        Whether rows of the file, and notes (which may quote cells), are shown.
    """
    context = {
        "measured": measured, "file": file, "version": __version__, "notes": notes,
        "shows_rows": shows_rows, "matrix": _matrix(measured), "confusions": _confusions(measured),
        "n_bins": N_BINS, "blind_loss": math.log(len(measured["classes"])),
        "risk": charts.risk_chart(rows, measured), "cost": charts.cost_chart(rows, measured),
        "calibration": charts.calibration_charts(measured),
        "binary": charts.binary_charts(rows, measured),
        "matter": matter[:SHOWN_FIGURES], "n_matter": len(matter),
        "matter_chart": charts.importance_chart(matter[:SHOWN_FIGURES]),
        "training": _training(about, trained),
        "columns": _columns(about), "training_notes": _training_notes(about),
        "doubtful": _shown_rows(rows, table, doubtful(rows)) if shows_rows else [],
        "mistakes": _shown_rows(rows, table, sure_mistakes(rows)) if shows_rows else [],
    }  # fmt: skip
    page = _environment().get_template("page.html.j2").render(context)
    with replacing(path.resolve()) as stream:
        stream.write(page.encode("utf-8"))


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("bayespoint.cli.report", "."), autoescape=True,
        undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True,
    )  # fmt: skip
    environment.filters |= {
        "label": label, "percent": percent, "number": number, "rows": lambda n: counted(n, "row"),
    }  # fmt: skip
    return environment


def label(text: str | None) -> str:
    """Name of a class, safe to show; one that the model does not know has none."""
    return "not in the model" if text is None else printable(text, SHOWN_LABEL)


def percent(value: float | None, digits: int = 1) -> str:
    """Share in percent, a dash where there is none.

    Examples
    --------
    >>> from bayespoint.cli.report.page import percent
    >>> percent(0.0256), percent(None)
    ('2.6%', '–')
    """
    return "–" if value is None else f"{value:.{digits}%}"


def number(value: float | None, digits: int = 3) -> str:
    """Number with some decimals, a dash where there is none."""
    return "–" if value is None else f"{value:.{digits}f}"


def doubtful(rows: Evaluated) -> list[int]:
    """Numbers of the least sure rows, least sure first."""
    return np.argsort(rows.confidence, kind="stable")[:DOUBTFUL_ROWS].tolist()


def sure_mistakes(rows: Evaluated) -> list[int]:
    """Numbers of the mistakes made most surely, surest first; not those doubtful anyway."""
    wrong = np.setdiff1d(np.flatnonzero(rows.wrong), doubtful(rows))
    return wrong[np.argsort(-rows.confidence[wrong], kind="stable")][:SURE_MISTAKES].tolist()


def _shown_rows(rows: Evaluated, table: Table, chosen: Iterable[int]) -> list[dict[str, Any]]:
    names = [printable(name) for name in table.names[:SHOWN_COLUMNS]]
    shown = []
    for i in chosen:
        order = np.argsort(-rows.proba[i], kind="stable")
        second = next(k for k in order.tolist() if k != rows.predicted[i])
        cells = [_cell(column[i]) for column in table.columns[:SHOWN_COLUMNS]]
        shown.append(
            {
                "place": table.place(i), **rows.labels_of(i),
                "second": rows.classes[second], "second_probability": float(rows.proba[i, second]),
                "wrong": bool(rows.wrong[i]), "rejected": bool(rows.rejected[i]),
                "cells": list(zip(names, cells, strict=True)),
                "n_more": max(0, len(table.names) - SHOWN_COLUMNS),
            }
        )  # fmt: skip
    return shown


def _cell(value: Any) -> str:
    if value is None or value != value:
        return "(missing)"
    if isinstance(value, str):
        return printable(value, SHOWN_CELL)
    return min(number_text(value), f"{value:.{SHOWN_DIGITS}g}", key=len)


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
    """Most frequent mistakes among decided rows."""
    confusion = measured["confusion"]
    pairs = [
        {"true": true, "predicted": measured["classes"][j]["label"], "n": n}
        for i, (true, counts) in enumerate(
            zip(confusion["labels"], confusion["matrix"], strict=True)
        )
        for j, n in enumerate(counts)
        if n and i != j
    ]
    return sorted(pairs, key=lambda pair: -pair["n"])[:SHOWN_CONFUSIONS]


def _training(about: Mapping[str, Any], trained: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Pairs of name and text: what the model tells about its training."""
    pairs = [(words, about.get(name)) for name, words in ABOUT.items()]
    pairs += [(f"rows of class '{label(name)}'", n) for name, n in _items(about, "classes")]
    pairs += [(name.replace("_", " "), value) for name, value in trained.items()]
    pairs += [(f"--{name.replace('_', '-')}", value) for name, value in _items(about, "options")]
    there = [(name, value) for name, value in pairs if value is not None]
    shown = [(printable(name, SHOWN_CELL), _shown(value)) for name, value in there[:SHOWN_ITEMS]]
    more = len(there) - len(shown)
    return [*shown, ("more entries", f"{more:,}")] if more else shown


def _items(about: Mapping[str, Any], name: str) -> Iterable[tuple[str, Any]]:
    entry = about.get(name)
    return entry.items() if isinstance(entry, dict) else ()


def _columns(about: Mapping[str, Any]) -> list[str]:
    columns = about.get("columns")
    if not isinstance(columns, list):
        return []
    shown = [printable(str(name), SHOWN_CELL) for name in columns[:SHOWN_ITEMS]]
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
