"""What decisions must keep to, from options: files of costs, limits per class."""

import csv
from collections.abc import Iterable, Sequence
from itertools import islice
from pathlib import Path

from bayespoint.cli.output import UsageError, shown_path
from bayespoint.io.tables import printable
from bayespoint.io.tables.text import sniffed

# Costs of so many classes are more than anyone writes; a longer file is another one.
MOST_ROWS = 1_000


def read_costs(path: Path) -> dict[str, dict[str, float]]:
    """Costs by true class and decision, of a CSV file.

    The first column has the true classes, the others are decisions: classes, or ``reject``. The
    first line tells the delimiter, as that of data does.

    Parameters
    ----------
    path : Path

    Returns
    -------
    dict
    """
    where = f"--costs {shown_path(path)}"
    try:
        with path.open(encoding="utf-8-sig", newline="") as stream:
            mark = sniffed(stream.readline(csv.field_size_limit()))
            stream.seek(0)
            lines = list(islice(csv.reader(stream, delimiter=mark), MOST_ROWS + 1))
    except (OSError, UnicodeError, csv.Error) as error:
        raise UsageError(f"{where} could not be read: {printable(error)}.") from None
    if len(lines) > MOST_ROWS:
        raise UsageError(
            f"{where} has more than {MOST_ROWS:,} lines; give a line of decisions, then one for "
            "each true class."
        )
    lines = [[cell.strip() for cell in line] for line in lines if any(line)]
    if len(lines) < 2 or len(lines[0]) < 2:
        raise UsageError(
            f"{where} must have a line of decisions, then one for each true class, its name first."
        )
    decisions, found = lines[0][1:], {}
    for true, *values in lines[1:]:
        if true in found or len(set(decisions)) < len(decisions):
            raise UsageError(f"{where} names a class twice.")
        if len(values) != len(decisions):
            raise UsageError(
                f"{where} has {len(values)} costs for '{printable(true)}', and "
                f"{len(decisions)} decisions."
            )
        found[true] = dict(zip(decisions, (_number(v, where) for v in values), strict=True))
    return found


def limits_of(option: str, texts: Sequence[str] | None) -> dict[str, float] | None:
    """Limits by class, of texts such as ``yes=0.95``; None of none.

    Parameters
    ----------
    option : str
        That has the texts.
    texts : sequence of str, optional

    Returns
    -------
    dict or None

    Examples
    --------
    >>> from bayespoint.cli.wanted import limits_of
    >>> limits_of("--min-precision", ["yes=0.95"])
    {'yes': 0.95}
    """
    found = numbers_by_class(option, texts or (), f"a share, as {option} yes=0.95")
    for name, share in found.items():
        if not 0 < share < 1:
            shown = f"{printable(name)}={share:g}"
            raise UsageError(f"{option} '{shown}': the share must be above 0, below 1.")
    return found or None


def numbers_by_class(option: str, texts: Iterable[str], what: str) -> dict[str, float]:
    """Numbers by class, of texts such as ``yes=0.95``; ``what`` they are, for messages."""
    found: dict[str, float] = {}
    for text in texts:
        name, equals, number = text.rpartition("=")
        if not equals or not name:
            raise UsageError(f"{option} '{printable(text)}' must be a class and {what}.")
        if name in found:
            raise UsageError(f"{option} names the class '{printable(name)}' twice; give it once.")
        found[name] = _number(number, option)
    return found


def _number(text: str, where: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise UsageError(f"{where}: '{printable(text)}' is not a number.") from None
