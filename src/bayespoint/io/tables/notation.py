"""Numbers as people write them: with a decimal comma, thousands separators, a sign for the unit."""

import math
import re
from collections.abc import Iterable, Sequence
from functools import cache
from typing import NamedTuple

import numpy as np

from bayespoint._support.types import Array

DECIMALS = (".", ",")
THOUSANDS = ("", ",", ".", " ", "'")
# Signs before or after a number; of two that a text holds, the first here counts.
UNITS = ("", "%", "‰", "°C", "°F", "°", "$", "€", "£", "¥")
# Spaces of other widths, the apostrophe of word processors, and what looks like a degree sign.
_ALIKE = str.maketrans("\u00a0\u2009\u202f\u2019\u00ba\u02da", "   '°°") | {
    ord("\u2103"): "°C", ord("\u2109"): "°F",
}  # fmt: skip


class Notation(NamedTuple):
    """Marks in the numbers of a column.

    Parameters
    ----------
    decimal : {".", ","}
    thousands : {"", ",", ".", " ", "'"}
        Between groups of three digits; numbers may also go without.
    unit : str
        Of `UNITS`: a sign before or after numbers, which may also go without.

    Examples
    --------
    >>> from bayespoint.io.tables.notation import Notation
    >>> Notation(",", ".").number("-1.234,5"), Notation(",").number("1.5")
    (-1234.5, None)
    >>> Notation(unit="%").number("15 %")
    15.0
    """

    decimal: str = "."
    thousands: str = ""
    unit: str = ""

    def number(self, text: str) -> float | None:
        """Value of a text, or None if it is no finite number in this notation."""
        text = text.translate(_ALIKE)
        if self.unit:
            text = text.removeprefix(self.unit).removesuffix(self.unit).strip()
        if not _pattern(self).fullmatch(text):
            return None
        if self.thousands:
            text = text.replace(self.thousands, "")
        value = float(text.replace(self.decimal, "."))
        return None if math.isinf(value) else value

    def numbers(self, column: Iterable[str | None]) -> Array:
        """Values of a column whose texts are all in this notation, NaN where there is none."""
        values = [math.nan if text is None else self.number(text) for text in column]
        return np.array(values, dtype=np.float64)


PLAIN = Notation()


@cache
def _pattern(notation: Notation) -> re.Pattern[str]:
    decimal, thousands = map(re.escape, notation[:2])
    whole = rf"(?:[1-9]\d{{0,2}}(?:{thousands}\d{{3}})+|\d+)" if thousands else r"\d+"
    number = rf"(?:{whole}(?:{decimal}\d*)?|{decimal}\d+)"
    return re.compile(rf"[+-]?{number}(?:[eE][+-]?\d+)?", re.ASCII)


def notations_of(
    column: Iterable[str | None], decimals: Sequence[str] = DECIMALS
) -> list[Notation]:
    """Notations in which all texts of a column are numbers.

    Parameters
    ----------
    column : iterable of str or None
    decimals : sequence of str
        Decimal marks to think of.

    Returns
    -------
    list of Notation
        None if some text is no number. Two if the commas can be either mark: each then means
        another number.

    Examples
    --------
    >>> from bayespoint.io.tables.notation import notations_of
    >>> notations_of(["1,5", "2"])
    [Notation(decimal=',', thousands='', unit='')]
    >>> [(one.decimal, one.thousands) for one in notations_of(["1,500", "2"])]
    [(',', ''), ('.', ',')]
    """
    texts = {text.translate(_ALIKE) for text in column if text is not None}
    unit = next((one for one in UNITS[1:] if any(one in text for text in texts)), "")
    found: list[Notation] = []
    for thousands in THOUSANDS:  # none first: a mark that no number has is none
        for decimal in decimals:
            notation = Notation(decimal, thousands, unit)
            if thousands == decimal or any(notation.number(text) is None for text in texts):
                continue
            marked = any("," in text or "." in text for text in texts)
            if not found or (marked and decimal not in [other.decimal for other in found]):
                found.append(notation)
    return found
