"""The page: what it shows, its words, and how it is written."""

import math
from functools import cache
from pathlib import Path

import numpy as np
from jinja2 import Environment, PackageLoader, StrictUndefined

from bayespoint import __version__
from bayespoint.cli.report import charts
from bayespoint.cli.report.measures import N_BINS
from bayespoint.io.model_file.files import replacing
from bayespoint.io.tables import number_text, printable

# Rows of the file that are shown: the least sure, and mistakes made most surely.
DOUBTFUL_ROWS, SURE_MISTAKES = 20, 5
# Columns of each that are shown, characters of a cell, and digits of a number.
SHOWN_COLUMNS, SHOWN_CELL, SHOWN_DIGITS = 60, 120, 7
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


def write_report(path, rows, found, *, table, file, about, trained, notes, positive, shows_rows):
    """Write the page, all of it or nothing.

    Parameters
    ----------
    path : path
    rows : Evaluated
    found : dict
        Of `measure`.
    table : Table
        The file's columns; shown only with ``shows_rows``.
    file : str
        Name of the file.
    about, trained : dict
        What the model file and the classifier tell about the training, of plain types.
    notes : list of str
    positive : int
        Class that ROC and precision-recall are about.
    shows_rows : bool
        Whether rows of the file, and notes (which may quote cells), are shown.
    """
    context = {
        "found": found, "file": file, "version": __version__, "notes": notes,
        "shows_rows": shows_rows, "matrix": _matrix(found), "confusions": _confusions(found),
        "n_bins": N_BINS, "blind_loss": math.log(len(found["classes"])),
        "risk": charts.risk_chart(rows, found), "calibration": charts.calibration_charts(found),
        "binary": charts.binary_charts(rows, positive),
        "training": _training(about, trained),
        "columns": _columns(about), "training_notes": _training_notes(about),
        "doubtful": _shown_rows(rows, table, doubtful(rows)) if shows_rows else [],
        "mistakes": _shown_rows(rows, table, sure_mistakes(rows)) if shows_rows else [],
    }  # fmt: skip
    page = _environment().get_template("page.html.j2").render(context)
    with replacing(Path(path).resolve()) as stream:
        stream.write(page.encode("utf-8"))


@cache
def _environment():
    environment = Environment(
        loader=PackageLoader("bayespoint.cli.report", "."), autoescape=True,
        undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True,
    )  # fmt: skip
    environment.filters |= {
        "label": label,
        "percent": percent,
        "number": number,
        "rows": counted_rows,
    }
    return environment


def label(text):
    """Name of a class, safe to show; one that the model does not know has none."""
    return "not in the model" if text is None else printable(text, SHOWN_LABEL)


def percent(value, digits=1):
    """Share in percent, a dash where there is none.

    Examples
    --------
    >>> from bayespoint.cli.report.page import percent
    >>> percent(0.0256), percent(None)
    ('2.6%', '–')
    """
    return "–" if value is None else f"{value:.{digits}%}"


def number(value, digits=3):
    """Number with some decimals, a dash where there is none."""
    return "–" if value is None else f"{value:.{digits}f}"


def counted_rows(n):
    """Say how many rows."""
    return f"{n:,} row{'s' * (n != 1)}"


def doubtful(rows):
    """Numbers of the least sure rows, least sure first."""
    return np.argsort(rows.confidence, kind="stable")[:DOUBTFUL_ROWS].tolist()


def sure_mistakes(rows):
    """Numbers of the mistakes made most surely, surest first; not those doubtful anyway."""
    wrong = np.setdiff1d(np.flatnonzero(rows.wrong), doubtful(rows))
    return wrong[np.argsort(-rows.confidence[wrong], kind="stable")][:SURE_MISTAKES].tolist()


def _shown_rows(rows, table, chosen):
    names = [printable(name) for name in table.names[:SHOWN_COLUMNS]]
    found = []
    for i in chosen:
        order = np.argsort(-rows.proba[i], kind="stable")
        second = next(k for k in order.tolist() if k != rows.predicted[i])
        cells = [_cell(column[i]) for column in table.columns[:SHOWN_COLUMNS]]
        found.append(
            {
                "place": table.place(i), "true": _name(rows.classes, rows.true[i]),
                "predicted": rows.classes[rows.predicted[i]],
                "probability": float(rows.proba[i, rows.predicted[i]]),
                "second": rows.classes[second], "second_probability": float(rows.proba[i, second]),
                "wrong": bool(rows.wrong[i]), "rejected": bool(rows.rejected[i]),
                "cells": list(zip(names, cells, strict=True)),
                "n_more": max(0, len(table.names) - SHOWN_COLUMNS),
            }
        )  # fmt: skip
    return found


def _name(classes, k):
    return classes[k] if k >= 0 else None


def _cell(value):
    if value is None or value != value:
        return "(missing)"
    if isinstance(value, str):
        return printable(value, SHOWN_CELL)
    return min(number_text(value), f"{value:.{SHOWN_DIGITS}g}", key=len)


def _matrix(found):
    """Confusions as rows of a table: each cell with a shade, by its share of the row."""
    confusion = found["confusion"]
    if len(found["classes"]) > MATRIX_CLASSES:
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


def _confusions(found):
    """Most frequent mistakes among decided rows."""
    confusion = found["confusion"]
    pairs = [
        {"true": true, "predicted": found["classes"][j]["label"], "n": n}
        for i, (true, counts) in enumerate(
            zip(confusion["labels"], confusion["matrix"], strict=True)
        )
        for j, n in enumerate(counts)
        if n and i != j
    ]
    return sorted(pairs, key=lambda pair: -pair["n"])[:SHOWN_CONFUSIONS]


def _training(about, trained):
    """Pairs of name and text: what the model tells about its training."""
    pairs = [(words, about.get(name)) for name, words in ABOUT.items()]
    pairs += [(f"rows of class '{label(name)}'", n) for name, n in _items(about, "classes")]
    pairs += [(name.replace("_", " "), value) for name, value in trained.items()]
    pairs += [(f"--{name.replace('_', '-')}", value) for name, value in _items(about, "options")]
    there = [(name, value) for name, value in pairs if value is not None]
    shown = [(printable(name, SHOWN_CELL), _plain(value)) for name, value in there[:SHOWN_ITEMS]]
    more = len(there) - len(shown)
    return [*shown, ("more entries", f"{more:,}")] if more else shown


def _items(about, name):
    found = about.get(name)
    return found.items() if isinstance(found, dict) else ()


def _columns(about):
    columns = about.get("columns")
    if not isinstance(columns, list):
        return []
    shown = [printable(str(name), SHOWN_CELL) for name in columns[:SHOWN_ITEMS]]
    more = len(columns) - len(shown)
    return shown + ([f"and {more:,} more"] if more else [])


def _training_notes(about):
    notes = about.get("notes")
    if not isinstance(notes, list):
        return []
    return [printable(str(note), SHOWN_TEXT) for note in notes[:SHOWN_ITEMS]]


def _plain(value):
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, int):
        return f"{value:,}"
    return printable(value if isinstance(value, str) else repr(value), SHOWN_TEXT)
