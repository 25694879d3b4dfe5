"""What an item is made of, and the rule by which it counts as reproduced."""

import zlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias, TypeVar

import numpy as np
from joblib import Parallel, delayed

T = TypeVar("T")

# Numbers of a run: what JSON can hold.
Data: TypeAlias = dict[str, Any]

REPRODUCED, BETTER, REFUTED, OPEN = "reproduced", "better", "refuted", "open"

# Of questions that no paper answers: of a row, and of an item that has no other rows.
YES, NO, ANSWERED = "yes", "no", "answered"

# Of a statement that our run could not contradict: it does not count.
BY_CONSTRUCTION = "holds by construction"

# Differences up to so many standard errors are put down to chance.
ERRORS = 2.0


@dataclass(frozen=True)
class Quantity:
    """A number of the paper beside ours.

    It is reproduced when the two differ by at most two standard errors of their difference and the
    tolerance. Beyond that it is better, refuted or open.

    Parameters
    ----------
    what : str
        Its name, with the unit.
    published, measured : float
        The numbers.
    published_error, measured_error : float, default=0.0
        Their standard errors. A number that the paper has from one run has the spread of one run.
    tolerance : float or tuple of float, default=0.0
        What counts as the same beyond chance: rounding of the printed number, say. A pair says how
        far ours may lie below and above the published one.
    better : {"lower", "higher"} or None
        Which direction counts as better; None where neither does.
    digits : int, default=2
        Digits after the point, in print.
    unsaid : str, default=""
        What the paper does not say and what could explain a difference: with it, a number that
        differs is open, without it refuted.
    """

    what: str
    published: float
    measured: float
    published_error: float = 0.0
    measured_error: float = 0.0
    tolerance: float | tuple[float, float] = 0.0
    better: str | None = "lower"
    digits: int = 2
    unsaid: str = ""

    @property
    def verdict(self) -> str:
        """Whether the numbers agree; those that are not finite, errors too, do not."""
        off = self.measured - self.published
        chance = ERRORS * np.hypot(self.published_error, self.measured_error)
        if not np.isfinite(off) or not np.isfinite(chance):
            return _missed(self.unsaid)
        below, above = self.allowed
        if -below - chance <= off <= above + chance:
            return REPRODUCED
        gain = {"lower": -off, "higher": off, None: 0.0}[self.better]
        return BETTER if gain > 0 else _missed(self.unsaid)

    @property
    def allowed(self) -> tuple[float, float]:
        """How far ours may lie below and above the published number, beyond chance."""
        one = self.tolerance
        return one if isinstance(one, tuple) else (one, one)

    def cells(self) -> tuple[str, str, str, str]:
        """Return what a table shows: what, published, ours, verdict."""
        published = _number(self.published, self.published_error, self.digits)
        below, above = self.allowed
        if below != above:
            published += f" (within {below:g} below and {above:g} above)"
        elif below:
            published += f" (within {below:g})"
        return (
            self.what,
            published,
            _number(self.measured, self.measured_error, self.digits),
            self.verdict,
        )


@dataclass(frozen=True)
class Claim:
    """A statement of the paper, or one that its picture makes, and whether our run bears it out.

    Parameters
    ----------
    what : str
        The statement.
    holds : bool
        Whether it holds in our run.
    seen : str
        What our run shows, in numbers.
    by_construction : bool, default=False
        Whether nothing but a mistake in the program could make it fail: a theorem, or a comparison
        that cannot come out otherwise. Such a row is shown, and counts only if it fails.
    unsaid : str, default=""
        What the paper does not say and what could explain that it fails: it is open then, without
        it refuted, or answered with no.
    ours : bool, default=False
        Whether the paper does not say it: a question of ours, or more than the paper claims. Such
        rows are answered with yes, no or open, and counted apart.
    """

    what: str
    holds: bool
    seen: str
    by_construction: bool = False
    unsaid: str = ""
    ours: bool = False

    @property
    def verdict(self) -> str:
        """Whether the statement holds."""
        if not self.holds:
            return _missed(self.unsaid, NO if self.ours else REFUTED)
        if self.by_construction:
            return BY_CONSTRUCTION
        return YES if self.ours else REPRODUCED

    def cells(self) -> tuple[str, str, str, str]:
        """Return what a table shows: what, published, ours, verdict."""
        return self.what, "our question" if self.ours else "", self.seen, self.verdict


Row: TypeAlias = Quantity | Claim


def _missed(unsaid: str, verdict: str = REFUTED) -> str:
    """Return the verdict of a row that does not come out as the paper has it."""
    return OPEN if unsaid else verdict


def left_open(unsaid: str, rows: Iterable[Row]) -> list[Row]:
    """Return rows that are open where they fail, because the paper does not say something."""
    return [replace(row, unsaid=unsaid) for row in rows]


def _number(value: float, error: float, digits: int) -> str:
    text = f"{value:.{digits}f}"
    return f"{text} ± {error:.{digits}f}" if error else text


def overall(rows: Sequence[Row]) -> str:
    """Return the verdict of an item: refuted or open if one row is, else better, else reproduced.

    Rows that hold by construction do not count, nor questions of ours beside what the paper says.
    An item of such questions only is answered, or open if all of them are.
    """
    theirs = [row for row in rows if not (isinstance(row, Claim) and row.ours)]
    if not theirs:
        return OPEN if all(row.verdict == OPEN for row in rows) else ANSWERED
    verdicts = {row.verdict for row in theirs}
    for verdict in (REFUTED, OPEN, BETTER):
        if verdict in verdicts:
            return verdict
    return REPRODUCED


@dataclass
class Run:
    """How an item is run: its size, random numbers, processes and progress.

    Parameters
    ----------
    name : str
        The item, so that two items do not share random numbers.
    quick : bool, default=False
        A small run instead of one as published.
    seed : int, default=0
        Seed of everything random.
    n_jobs : int, default=1
        Processes that ``map`` may use.
    on_progress : callable, default=None
        Called with the number of cases done and of all cases.
    """

    name: str
    quick: bool = False
    seed: int = 0
    n_jobs: int = 1
    on_progress: Callable[[int, int], None] | None = None

    def size(self, published: T, quick: T) -> T:
        """Return the first number, or the second one in a quick run."""
        return quick if self.quick else published

    def entropy(self, *key: int) -> list[int]:
        """Return numbers that seed a generator, different for each item and key."""
        return [self.seed, zlib.crc32(self.name.encode()), *key]

    def rng(self, *key: int) -> np.random.Generator:
        """Return a generator of its own for the key."""
        return np.random.default_rng(self.entropy(*key))

    def integer(self, *key: int) -> int:
        """Return a ``random_state`` for the key."""
        return int(self.rng(*key).integers(2**31))

    def map(self, function: Callable[..., Any], cases: Iterable[tuple[Any, ...]]) -> list[Any]:
        """Return ``function(*case)`` for every case, in order, on all processes.

        The function and its arguments travel to other processes: define it at the top of a module.
        """
        cases = list(cases)
        parallel = Parallel(n_jobs=self.n_jobs, return_as="generator")
        results = []
        for result in parallel(delayed(function)(*case) for case in cases):
            results.append(result)
            if self.on_progress is not None:
                self.on_progress(len(results), len(cases))
        return results


@dataclass(frozen=True)
class Item:
    """One table, figure or statement of a paper.

    Parameters
    ----------
    paper : {"LSB", "JMLR", "KGS", "RM"}
        The paper, as in the notation.
    place : str
        "figure 1", "table 18.1"; with the paper it makes the name.
    title : str
        What it shows, in one line.
    then : str
        What the paper did, in our words (Markdown).
    now : str
        What our run does, and where it departs from the paper's.
    measure : callable
        Takes a Run, returns a dict of numbers, strings, lists and arrays: all that the two
        functions below need.
    compare : callable
        Takes that dict (arrays have become lists, NaN has become None), returns a list of Quantity
        and Claim.
    draw : callable
        Takes that dict and an empty matplotlib figure.
    alt : str
        What the picture shows, for those who do not see it.
    finding : str
        What was found, in one sentence without numbers (Markdown).
    source : str
        What it runs on: the data set, or synthetic data where the paper gives none.
    keys : dict of str to str
        What the numbers are: a phrase for each key that ``measure`` returns.
    thoughts : str or callable
        What we make of the outcome of the full run; why, where it differs (Markdown). A callable
        takes the dict of numbers: what is quoted from it cannot go stale.
    size : tuple of float
        Width and height of the picture in inches.
    """

    paper: str
    place: str
    title: str
    then: str
    now: str
    measure: Callable[[Run], Data]
    compare: Callable[[Data], list[Row]]
    draw: Callable[[Data, Any], None]
    alt: str
    finding: str
    source: str
    keys: dict[str, str]
    thoughts: str | Callable[[Data], str] = ""
    size: tuple[float, float] = (9.0, 4.0)

    @property
    def name(self) -> str:
        """How the command line calls it."""
        return f"{self.paper}-{self.place}".lower().replace(" ", "-")

    def why(self, data: Data) -> str:
        """Return the thoughts, with the numbers of a run."""
        return self.thoughts(data) if callable(self.thoughts) else self.thoughts
