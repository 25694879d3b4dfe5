"""What there is to say about tables that an encoder takes: counted, so that chunks can be added."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from bayespoint._support.types import Array
from bayespoint.io.encoder.columns import (
    FARTHEST,
    Number,
    counted_columns,
    deviations,
    is_missing,
    outside,
)
from bayespoint.io.encoder.dates import Date
from bayespoint.io.encoder.kinds import Column
from bayespoint.io.tables.table import SHOWN_NAMES, and_more, counted, listed, printable

# Different words that are kept of a column, over all chunks.
MOST_WORDS = 10_000


class Oddities(NamedTuple):
    """Cells of a column that are missing, new words, or numbers unlike those of training."""

    gaps: int = 0
    new: int = 0
    words: tuple[str, ...] = ()  # the new ones, each once
    far: int = 0
    outside: int = 0  # of the range of training, by more than its width, but not that far


@dataclass(frozen=True)
class Remarks:
    """What there is to say about a table, or about several.

    Attributes
    ----------
    ignored : tuple of str
        Columns that the encoder does not know.
    columns : dict
        Oddities of each column that it does.
    """

    ignored: tuple[str, ...]
    columns: Mapping[str, Oddities]

    def __add__(self, other: "Remarks") -> "Remarks":
        """Return what there is to say about both."""
        return Remarks(
            tuple(dict.fromkeys(self.ignored + other.ignored)),
            {name: _sum(odd, other.columns[name]) for name, odd in self.columns.items()},
        )

    def texts(self, seen_in: str = "training") -> list[str]:
        """Notes for people.

        Parameters
        ----------
        seen_in : str, default="training"
            Which rows the encoder was fitted to.

        Returns
        -------
        list of str
        """
        notes = []
        if self.ignored:
            notes.append(f"ignored, as the model does not know {counted_columns(self.ignored)}.")
        empty = [name for name, odd in self.columns.items() if odd.gaps]
        if empty:
            cells = counted(sum(odd.gaps for odd in self.columns.values()), "missing cell")
            notes.append(f"{cells} filled in: {counted_columns(empty)}.")
        for name, odd in self.columns.items():
            column = f"column '{printable(name)}'"
            if odd.new:
                notes.append(
                    f"{column}: {counted(odd.new, 'cell')} with values not seen in {seen_in} "
                    f"({listed(odd.words, 3)}), taken as none of the known."
                )
            if odd.far:
                notes.append(
                    f"{column}: {counted(odd.far, 'number')} more than {FARTHEST:,.0f} standard "
                    f"deviations from the mean of {seen_in}, taken as that far."
                )
        return notes + self._outside(seen_in)

    def _outside(self, seen_in: str) -> list[str]:
        """Note on numbers outside the range of training, if there are any."""
        counts = {name: odd.outside for name, odd in self.columns.items() if odd.outside}
        if not counts:
            return []
        shown = [f"'{printable(name)}' ({n:,})" for name, n in list(counts.items())[:SHOWN_NAMES]]
        cells = counted(sum(counts.values()), "number")
        return [
            f"{cells} farther outside the range of {seen_in} than it is wide: "
            f"{', '.join(shown)}{and_more(len(counts) - SHOWN_NAMES)}; check the unit."
        ]


def remarks_of(
    columns: Iterable[Column], given: Mapping[str, Array], names: Iterable[str]
) -> Remarks:
    """Remarks on a table.

    Parameters
    ----------
    columns : iterable of Number, Category and Date
        As the encoder knows them.
    given : dict
        The same columns of the table.
    names : iterable of str
        All columns of the table.

    Returns
    -------
    Remarks
    """
    odd = {column.name: _oddities(column, given[column.name]) for column in columns}
    return Remarks(tuple(name for name in names if name not in odd), odd)


def _oddities(column: Column, values: Array) -> Oddities:
    if isinstance(column, Date):
        return Oddities(int(np.isnat(values).sum()))
    gaps = int(is_missing(values).sum())
    if isinstance(column, Number):
        far = np.abs(deviations(values[:, None], [column]))[:, 0] > FARTHEST
        beyond = outside(values, column) & ~far
        return Oddities(gaps, far=int(far.sum()), outside=int(beyond.sum()))
    known = set(column.values)
    new = [value for value in values if value is not None and value not in known]
    return Oddities(gaps, len(new), tuple(dict.fromkeys(new)))


def _sum(one: Oddities, other: Oddities) -> Oddities:
    words = tuple(dict.fromkeys(one.words + other.words))[:MOST_WORDS]
    far, beyond = one.far + other.far, one.outside + other.outside
    return Oddities(one.gaps + other.gaps, one.new + other.new, words, far, beyond)
