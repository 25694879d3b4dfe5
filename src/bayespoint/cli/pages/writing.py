"""What every page shares: its words and numbers, rows of a file, and how it is written."""

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined

from bayespoint import __version__
from bayespoint.io.model_file.files import replacing
from bayespoint.io.tables import Table, counted, number_text, printable

# Columns of a row that are shown, characters of a cell, and digits of a number.
SHOWN_COLUMNS, SHOWN_CELL, SHOWN_DIGITS = 60, 120, 7
# Characters of a class or of a file's name.
SHOWN_LABEL = 40


def write_page(path: Path, package: str, template: str, context: Mapping[str, Any]) -> None:
    """Write a page, all of it or nothing.

    Parameters
    ----------
    path : path
    package : str
        Package that the template is in. It may extend ``layout.html.j2`` and import from
        ``pieces.html.j2``, both beside this module.
    template : str
    context : dict
        What the template shows.
    """
    found = _environment(package).get_template(template)
    page = found.render({**context, "version": __version__})
    with replacing(path.resolve()) as stream:
        stream.write(page.encode("utf-8"))


@cache
def _environment(package: str) -> Environment:
    loader = ChoiceLoader([PackageLoader(name, ".") for name in (package, "bayespoint.cli.pages")])
    environment = Environment(
        loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True,
        lstrip_blocks=True,
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
    >>> from bayespoint.cli.pages import percent
    >>> percent(0.0256), percent(None)
    ('2.6%', '–')
    """
    return "–" if value is None else f"{value:.{digits}%}"


def number(value: float | None, digits: int = 3) -> str:
    """Number with some decimals, a dash where there is none."""
    return "–" if value is None else f"{value:.{digits}f}"


def row_of(table: Table, i: int) -> dict[str, Any]:
    """Row of a file as a page shows it: its place, and its columns as they stand there."""
    shown = zip(table.names[:SHOWN_COLUMNS], table.columns[:SHOWN_COLUMNS], strict=True)
    cells = [(printable(name), _cell(values[i])) for name, values in shown]
    n_more = max(0, len(table.names) - SHOWN_COLUMNS)
    return {"place": table.place(i), "cells": cells, "n_more": n_more}


def _cell(value: Any) -> str:
    if value is None or value != value:
        return "(missing)"
    if isinstance(value, str):
        return printable(value, SHOWN_CELL)
    return min(number_text(value), f"{value:.{SHOWN_DIGITS}g}", key=len)
