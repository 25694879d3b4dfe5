"""Kernel and widths of features: learnt by the evidence, chosen by labels left out.

Labels of rows that had no part in learning say whether a width for each feature is better than one
width, or half the way to them is, and whether the Laplacian kernel is better than the RBF kernel.
Other settings are then chosen as usual, with the columns scaled.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from scipy.special import ndtri

from bayespoint._support.checks import warn
from bayespoint._support.threads import Threads
from bayespoint._support.types import Array
from bayespoint.estimators.calibration import folds_of, link_points
from bayespoint.estimators.cells import FOLDS, CellTrials, Division, divided
from bayespoint.estimators.trials import CellSearch
from bayespoint.estimators.width_learning import LEARNT_CLASSES, Columns, WidthLearner
from bayespoint.inference.ep.cells.method import CellSettings
from bayespoint.inference.ep.cells.tree import grow

if TYPE_CHECKING:
    from bayespoint.estimators.settings import Settings

# Columns that may have widths of their own, and of which the Laplacian kernel is tried: its
# distances are no matrix product.
MOST_COLUMNS, MOST_ROUGH_COLUMNS = 1_000, 200

# Rows that candidates are compared on, by the size of cells there, and how many labels are left out
# at least: of few rows, by several folds; of many, by one that is larger. Of more rows than these
# more labels are asked for, up to this number and share of all rows: it costs little, and 2,000
# labels are too few to tell widths that gain 0.005 from luck.
COMPARED_SIZE, COMPARED_CELLS, LEAST_COMPARED = 1_000, 6, 4
LEAST_ASKED = 500
MANY_ROWS, LARGE_FOLDS = 2_500, 3
MOST_ASKED, ASKED_SHARE = 10_000, 0.2
NEVER = -1  # fold of rows that are not left out

# Steps of the search with one width, and then with others.
FIRST_STEPS = (("gamma", 4.0), ("softness", 4.0), ("gamma", 2.0))
NEXT_STEPS = (("softness", 4.0), ("gamma", 2.0))
ROUGH_STEPS = (("gamma", 2.0), ("softness", 4.0), ("gamma", 2.0))

# Classes whose labels decide; of more, the largest.
MOST_ASKED_CLASSES = 10

# Rows that are too few to tell features apart by themselves.
LEAST_ROWS = 50

# How often widths that are no better than a single one may win by chance; and standard errors
# between which more rows are asked, if there are any.
CHANCE = 0.05
LEAST_DOUBT, MOST_DOUBT = -1.0, 3.0

# Standard errors by which what has as many parameters must be better: columns that are scaled, and
# the Laplacian kernel. That needs more where the sample is a small part of all rows, since smooth
# kernels gain more by further rows. Learning takes long there: its own widths are learnt if it is
# nearly as much better with those of the RBF kernel.
LEAST, LEAST_OF_PART, PART = 1.5, 3.0, 0.2
LIKELY = 2.5

# Operations of learning for a kernel, a minute or so of two cores; more rows are asked up to that.
MOST_LEARNING = 1.5e12

# Widths are learnt again if so many times less softness suits them than they were learnt with, but
# not where all rows are more than the sample: that takes the time of another search.
LESS_SOFT = 4.0

# What candidates are called.
NAMES = {
    "given": "one width", "standard": "one width, columns scaled", "shrunk": "shrunk widths",
    "full": "full widths", "carried": "widths of the RBF kernel",
}  # fmt: skip


@dataclass(frozen=True, eq=False)
class Widths:
    """What was chosen.

    Attributes
    ----------
    kernel : str or callable
    relative : ndarray of shape (n_features,) or None
        Widths in units of the common one.
    gamma, softness : float
        The common width and softness that suit them, to begin with.
    figures : dict
        "chosen" of the candidates, on how many "rows", mean "log_proba" of labels left out with
        each, and its "gain" over the first, with the standard error.
    """

    kernel: Any
    relative: Array | None
    gamma: float
    softness: float
    figures: dict[str, Any] | None


class Candidate(NamedTuple):
    """Kernel and widths that are compared."""

    kernel: Any
    kind: str  # of NAMES
    widths_of: Callable[[int], Array | None]  # of a fold, in units of the common one
    settings: Any
    values: list[Array]  # log-probabilities of the labels of each fold, in the order of rows


class ByFold:
    """Widths that are learnt without a fold, once each."""

    def __init__(self, learn: Callable[..., Array]) -> None:
        self._learn, self._found = learn, dict[int, Array]()

    def prepare(self, folds: Sequence[int], threads: Threads) -> None:
        """Learn without each fold: where there are several, each in a thread."""
        if len(folds) > 1:
            found = threads.each(partial(self._learn, threads=Threads(1)), folds)
            self._found = dict(zip(folds, found, strict=True))

    def __call__(self, fold: int) -> Array:
        """Return the widths."""
        if fold not in self._found:
            self._found[fold] = self._learn(fold)
        return self._found[fold]


def why_not(kernel: Any, n_columns: int) -> str | None:
    """Why features cannot have widths of their own; None if they can."""
    if not (isinstance(kernel, str) and kernel in ("rbf", "laplacian")):
        return f"kernel={kernel!r} has none: use 'rbf' or 'laplacian'"
    if n_columns > MOST_COLUMNS:
        return (
            f"X has {n_columns} columns, and of more than {MOST_COLUMNS} (text, for instance) rows "
            f"are too few to tell which matter: select or project them, or give one gamma"
        )
    return None


def compared_rows(label: Array, group: Array, most: int, entropy: int) -> tuple[Array, Array, int]:
    """Rows that candidates are compared on, the fold of each, and the number of folds.

    Of more than ``most`` rows, two thirds of that number are fitted, and others asked.
    """
    if len(label) <= most:
        n_folds = LARGE_FOLDS if len(label) >= MANY_ROWS else FOLDS
        return np.arange(len(label)), folds_of(label, n_folds, group), n_folds
    n_asked = max(most // LARGE_FOLDS, min(MOST_ASKED, int(ASKED_SHARE * len(label))))
    n_trained = most - most // LARGE_FOLDS
    sample = np.sort(link_points(label, entropy, n_trained + n_asked))
    label, group = label[sample], group[sample]
    place = folds_of(label, len(sample), group)
    asked = place * n_asked % len(sample) < n_asked  # evenly, of each class
    asked &= np.isin(label, label[~asked])  # a class that would only be asked is only fitted
    return sample, np.where(asked, 0, NEVER), LARGE_FOLDS


class WidthSearch:
    """Learns widths, and compares them with one width; and kernels, where that is open.

    Parameters
    ----------
    search : CellSearch
        With what is given.
    settings : Settings
        To begin with.
    group : ndarray of int, shape (n_features,)
        Columns of a group have one width.
    """

    def __init__(self, search: CellSearch, settings: "Settings", group: Array) -> None:
        self._search, self._data, self._group = search, search.data, group
        self._X: Any = self._data.inputs.matrix()
        self.columns = Columns.of(self._data.inputs).grouped(group)
        self._learner = WidthLearner(search, self.columns, group)
        self._n_cells = max(COMPARED_CELLS // self._data.n_machines, LEAST_COMPARED)
        self._sample, self._fold, n_folds = compared_rows(
            self._data.distinct.label, self._data.distinct.group, self._n_cells * COMPARED_SIZE,
            search.entropy,
        )  # fmt: skip
        one = len(self._sample) <= COMPARED_SIZE * FOLDS / (FOLDS - 1)
        size = len(self._sample) if one else COMPARED_SIZE
        cells = CellSettings(size, 0, 1)
        self._settings = replace(settings, inference="ep", decision="vote", cells=cells)
        asked_once = len(self._sample) // n_folds
        self._folds = range(min(n_folds, max(1, -(-LEAST_ASKED // max(asked_once, 1)))))

    # ------------------------------------------------------------------------- candidates

    def standard(self) -> Array:
        """Widths of equal columns, once these are scaled."""
        return 1 / self.columns.unit**self._learner.power

    def chosen(self, scale: float, only: str | None = None) -> Widths:
        """Return the best candidate, or the one asked for.

        Parameters
        ----------
        scale : float
            Width to begin with in given units.
        only : {"full"}, optional
        """
        relative = self.standard()
        n_moving = int(np.sum(relative > 0))
        if not n_moving:
            kernel = self._search.parameters.kernel
            return Widths(kernel, None, scale, self._settings.softness, None)
        folds = self._folds[:1] if only else self._folds
        bases = self._bases(relative, n_moving, folds, only)
        first = self._better(bases, LEAST)
        few = np.ptp(self._group[relative > 0]) == 0 or len(self._sample) < LEAST_ROWS
        if (few and only is None) or self._search.late():
            if only is not None:
                warn("gamma='ard' had no time to learn widths: raise max_time.")
            return self._result(bases, first, first.widths_of(0))
        equal = first.widths_of(0)
        base = np.where(relative > 0, 1.0 if equal is None else equal, 0.0)
        learnt = ByFold(partial(self._learnt, self._learner, base, first.settings))
        others = self._with_widths(first, base, learnt, only)
        others = self._again(first, base, others, only)
        if only is None and self._search.late():  # widths that are learnt by half
            return self._result(bases, first, equal)
        found = [*bases, *others]
        if only is None:
            self._ask_more([first, *others], found)
        bound = -ndtri(CHANCE / len(others))  # Bonferroni's
        best = others[0] if only else self._better([first, *others], bound)
        learner = self._learner
        if self._may_be_rough() and not self._search.late():
            rough = WidthLearner(self._search_with("laplacian"), self.columns, self._group)
            others = self._rough(best, rough, np.sqrt(base), only)
            others = [] if self._search.late() else others
            found += others
            if only is None and others:
                self._ask_more([best, *others], found)
            better = self._better([best, *others], LEAST_OF_PART if self._part() else LEAST)
            if better is not best:
                best, learner, base = better, rough, np.sqrt(base)
        final, n_folds = best.widths_of(0), len(best.values)
        from_part = n_folds > 1 or len(self._sample) == self._X.shape[0]
        if best.kind in ("full", "shrunk") and from_part:
            full = next(c for c in found if (c.kernel, c.kind) == (best.kernel, "full"))
            each = [w for k in range(n_folds) if (w := full.widths_of(k)) is not None]
            final = learner.from_all(base, each, full.settings)
            final = np.sqrt(base * final) if best.kind == "shrunk" else final
        return self._result(found, best, final)

    def _bases(
        self, relative: Array, n_moving: int, folds: Sequence[int], only: str | None
    ) -> "list[Candidate]":
        """One width: in given units, where these may do, and of columns that are scaled."""
        found, spread = [], self.columns.unit[relative > 0]
        kernel, power = self._search.parameters.kernel, self._learner.power
        if self.columns.comparable and only is None:
            begin = replace(self._settings, gamma=1 / np.sum(spread**power))
            found.append(self._climbed(kernel, "given", lambda _: None, folds, begin, FIRST_STEPS))
        if not found or np.ptp(np.log(spread)) > np.log(1.5):
            begin = replace(self._settings, gamma=1 / n_moving)
            found.append(
                self._climbed(kernel, "standard", lambda _: relative, folds, begin, FIRST_STEPS)
            )
        return found

    def _with_widths(
        self, first: "Candidate", base: Array, learnt: ByFold, only: str | None
    ) -> "list[Candidate]":
        """Full widths of each fold, and half the way to them."""
        kernel, settings, folds = first.kernel, first.settings, range(len(first.values))
        learnt.prepare(folds, self._search.threads)
        found = [self._climbed(kernel, "full", learnt, folds, settings, NEXT_STEPS)]
        if only is None:
            found.append(
                self._climbed(
                    kernel, "shrunk", lambda fold: np.sqrt(base * learnt(fold)), folds, settings,
                    NEXT_STEPS,
                )
            )  # fmt: skip
        return found

    def _again(
        self, first: "Candidate", base: Array, found: "list[Candidate]", only: str | None
    ) -> "list[Candidate]":
        """Learn once more with the softness that suits what was learnt, if it is far less.

        Much softness hides what narrow features say, so that steps pass them by.
        """
        softness = found[0].settings.softness
        enough = softness * LESS_SOFT > first.settings.softness
        if enough or len(self._sample) < self._X.shape[0] or self._search.late():
            return found
        settings = replace(first.settings, softness=softness)
        learnt = ByFold(partial(self._learnt, self._learner, base, settings))
        again = self._with_widths(first._replace(settings=settings), base, learnt, only)
        return again if self._gain(again[0], found[0])[0] > 0 else found

    def _may_be_rough(self) -> bool:
        """Whether the Laplacian kernel is worth a try.

        Columns of two values are the same to both kernels, but for their units.
        """
        if not self._search.parameters.kernel_open or sp.issparse(self._X):
            return False
        return self._X.shape[1] <= MOST_ROUGH_COLUMNS and not self.columns.two_valued

    def _rough(
        self, best: "Candidate", learner: WidthLearner, base: Array, only: str | None
    ) -> "list[Candidate]":
        """Candidates of the Laplacian kernel: as the best of the RBF kernel, then learnt.

        exp(-g d²) is about as wide as exp(-sqrt(g) |d|) in one column, and in n of them, of which
        squares add up, as exp(-sqrt(g / n) sum |d|).
        """
        there, equal = self.columns.unit[base > 0], best.widths_of(0)
        with np.errstate(over="ignore"):
            share = there if equal is None else np.sqrt(equal[base > 0]) * there
        share = (share / np.max(share)) ** 2
        n_columns = np.sum(share) ** 2 / np.sum(share**2)
        settings = replace(best.settings, gamma=np.sqrt(best.settings.gamma / n_columns))
        carried = best.kind in ("full", "shrunk")

        def rooted(fold: int) -> Array | None:
            widths = best.widths_of(fold)
            return None if widths is None else np.sqrt(widths)

        kind, folds = "carried" if carried else best.kind, range(len(best.values))
        first = self._climbed("laplacian", kind, rooted, folds, settings, ROUGH_STEPS)
        mean, error = self._gain(first, best)
        least = LIKELY if self._part() else LEAST_DOUBT
        if mean < least * error or self._search.late():
            return [first]
        begin = rooted if carried else None
        learnt = ByFold(partial(self._learnt, learner, base, first.settings, begin=begin))
        found = self._with_widths(first, base, learnt, only)
        return found if carried else [first, *found]

    def _part(self) -> bool:
        """Whether the sample, with what is only asked, is a small part of all rows."""
        return len(self._sample) < PART * self._X.shape[0]

    def _better(self, candidates: "Sequence[Candidate]", least: float) -> "Candidate":
        """Return the first, or the best of those that are better by so many standard errors."""
        best, most = candidates[0], 0.0
        for one in candidates[1:]:
            mean, error = self._gain(one, candidates[0])
            if mean > least * error and mean > most:
                best, most = one, mean
        return best

    def _ask_more(self, compared: "Sequence[Candidate]", candidates: "Sequence[Candidate]") -> None:
        """Ask all candidates for the labels of more folds, while those compared are in doubt."""
        while self._in_doubt(compared) and not self._search.late():
            fold = len(compared[0].values)
            for one in candidates:
                one.values.append(self._log_proba(one.kernel, one.widths_of, one.settings, fold))

    def _in_doubt(self, candidates: "Sequence[Candidate]") -> bool:
        """Whether labels of more rows may tell which is best, at a cost that is worth it."""
        if len(candidates[0].values) > int(self._fold.max()):
            return False
        n_folds = len(candidates[0].values) + 1
        if n_folds * self._learner.work(self._X.shape[0]) > MOST_LEARNING:
            return False
        gains = [self._gain(one, candidates[0]) for one in candidates[1:]]
        mean, error = max(gains)
        return LEAST_DOUBT * error < mean < MOST_DOUBT * error

    def _gain(self, one: "Candidate", other: "Candidate") -> tuple[float, float]:
        """Mean difference of log-probabilities, and its standard error."""
        gain = np.concatenate(one.values) - np.concatenate(other.values)
        weight = self._weights(len(one.values))
        mean = np.average(gain, weights=weight)
        error = np.sqrt(np.sum(weight**2 * (gain - mean) ** 2)) / np.sum(weight)
        return float(mean), float(error)

    def _weights(self, n_folds: int) -> Array:
        parts = [self._sample[self._fold == fold] for fold in range(n_folds)]
        return self._data.distinct.weight[np.concatenate(parts)]

    def _result(
        self, candidates: "Sequence[Candidate]", best: "Candidate", relative: Array | None
    ) -> Widths:
        weight = self._weights(len(best.values))
        figures = {
            "chosen": self._name(best), "rows": len(weight),
            "log_proba": {
                self._name(one): float(np.average(np.concatenate(one.values), weights=weight))
                for one in candidates
            },
            "gain": {self._name(one): list(self._gain(one, candidates[0])) for one in candidates},
        }  # fmt: skip
        settings = best.settings
        return Widths(best.kernel, relative, float(settings.gamma), settings.softness, figures)

    def _name(self, one: "Candidate") -> str:
        other = one.kernel != self._search.parameters.kernel
        return f"{NAMES[one.kind]}, Laplacian" if other else NAMES[one.kind]

    # ------------------------------------------------------------------------- comparison

    def _search_with(self, kernel: Any, relative: Array | None = None) -> CellSearch:
        parameters = replace(self._search.parameters, kernel=kernel, relative=relative)
        return replace(self._search, parameters=parameters)

    def _trials(self, kernel: Any, relative: Array | None, fold: int) -> CellTrials:
        """What a search asks: of many classes only the largest."""
        search = self._search_with(kernel, relative)
        machines = self._learner.machines if self._many_classes() else None
        return search.trials(self._settings, self._division(search, fold), machines)

    def _many_classes(self) -> bool:
        return len(self._data.classes) > LEARNT_CLASSES

    def _asked_machines(self) -> list[int] | None:
        """Classes that decide, each against the rest; None for all."""
        return self._learner.machines if len(self._data.classes) > MOST_ASKED_CLASSES else None

    def _division(self, search: CellSearch, fold: int) -> Division:
        """Cells of the sample, in scaled columns; without the rows of a fold."""
        out = self._fold == fold
        cells = self._settings.cells
        assert cells is not None
        if cells.cell_size >= len(self._sample):
            return divided([self._sample], [out])
        scale = search.parameters.kernel_with(1.0, 0.0).column_scale
        seed = np.random.SeedSequence(self._search.entropy, spawn_key=(0, 8))
        X = self._X[self._sample]
        n_more = max(len(X) - self._n_cells * COMPARED_SIZE, 0)
        size = cells.cell_size * len(X) // (len(X) - n_more)  # of cells with what is only asked
        cell_of = (tree := grow(X, size, seed, scale)).route(X)
        masks = [cell_of == number for number in range(tree.n_cells)]
        rows = [(self._sample[m], out[m]) for m in masks if np.any(m & ~out)]
        return divided([r for r, _ in rows], [o for _, o in rows])

    def _climbed(
        self, kernel: Any, kind: str, widths_of: Callable[[int], Array | None],
        folds: Sequence[int], settings: Any, steps: Any,
    ) -> "Candidate":  # fmt: skip
        """Candidate with the settings that suit the labels of the first fold."""
        trials = self._trials(kernel, widths_of(folds[0]), folds[0])
        settings = trials.climbed(settings, self._search.names, steps)
        first = None if self._many_classes() else trials
        values = [
            self._log_proba(kernel, widths_of, settings, fold, None if fold else first)
            for fold in folds
        ]
        return Candidate(kernel, kind, widths_of, settings, values)

    def _log_proba(
        self, kernel: Any, widths_of: Callable[[int], Array | None], settings: Any, fold: int,
        trials: CellTrials | None = None,
    ) -> Array:  # fmt: skip
        """Log-probabilities of the labels of a fold; ``trials``: what asks, where it is there."""
        if trials is None:
            search = self._search_with(kernel, widths_of(fold))
            division = self._division(search, fold)
            trials = search.trials(self._settings, division, self._asked_machines())
        value = np.full(len(self._data.distinct.label), np.nan)
        value[trials.rows] = trials.log_proba(settings)
        return value[self._sample[self._fold == fold]]

    def _learnt(
        self, learner: WidthLearner, base: Array, settings: Any, fold: int,
        begin: Callable[[int], Array | None] | None = None, threads: Threads | None = None,
    ) -> Array:  # fmt: skip
        """Widths in units of the common one, from rows that are not of a fold."""
        allowed = np.ones(len(self._data.distinct.label), dtype=bool)
        allowed[self._sample[self._fold == fold]] = False
        near = None if begin is None else begin(fold)
        return learner.learnt(base, settings, np.flatnonzero(allowed), near, threads)
