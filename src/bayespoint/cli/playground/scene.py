"""What the page shows of real data: rows in a plane, decisions around them, and single rows."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.decomposition import PCA

from bayespoint._support.types import Array
from bayespoint.cli.deciding import Decisions, blocks_of, decide
from bayespoint.cli.fitted import Base, Classifier, base_of, class_names
from bayespoint.inference.methods import METHODS
from bayespoint.io.tables import Table, printable

# Rows drawn, of those that there are; axes, values of a row and support points that are listed.
MOST_ROWS, MOST_AXES, MOST_VALUES, NEAREST = 2000, 60, 40, 5
# Cells of the shading on each side: a prediction each.
GRID = 48
# Space around the outermost rows, as a share of their range.
MARGIN = 0.06
COMPONENTS = 2
AXES = tuple(f"component {k + 1}" for k in range(COMPONENTS))


class QuestionError(ValueError):
    """A question about rows or axes that are not there."""


@dataclass(frozen=True)
class Plane:
    """A plane through the rows: coordinates are (X - centre) @ to_plane, and back by from_plane."""

    centre: Array
    to_plane: Array
    from_plane: Array


@dataclass(frozen=True)
class Scene:
    """Rows, the model that decides about them, and what is asked about both.

    Attributes
    ----------
    name : str
        Of the file.
    classifier : BayesPointClassifier, OnionClassifier or RejectingClassifier
        Fitted.
    X : ndarray of shape (n, n_features)
        Rows that are shown, as the classifier takes them.
    features : sequence of str
        Their names.
    numbers : ndarray of int
        Which rows of the file they are, from 1.
    n_rows : int
        Rows of the file.
    labels : ndarray of str or None
        Their classes, where these are known.
    table : Table or None
        The same rows as they stand in the file.
    """

    name: str
    classifier: Classifier
    X: Array
    features: Sequence[str]
    numbers: Array
    n_rows: int
    labels: Array | None = None
    table: Table | None = None

    @cached_property
    def decided(self) -> Decisions:
        """Decisions about the rows."""
        return _decide(self.classifier, self.X)

    @cached_property
    def axes(self) -> list[str]:
        """Names of what can be drawn across and up; one column alone makes no plane."""
        columns = self.features[:MOST_AXES] if len(self.features) > 1 else ()
        return [*AXES, *(printable(name) for name in columns)]

    def about(self) -> dict[str, Any]:
        """What the page says of all rows, of plain types."""
        classes = class_names(self.classifier)
        number = {name: k for k, name in enumerate(classes)}
        shown = self.decided.labels if self.labels is None else self.labels
        if any(label not in number for label in shown.tolist()):
            classes.append("a class that the model does not know")
        base = base_of(self.classifier)
        method = METHODS[base.inference_].title if base.inference_ in METHODS else base.inference_
        return {
            "name": printable(self.name), "classes": [printable(name) for name in classes],
            "model": f"{method}, {base.kernel_} kernel",
            "axes": self.axes, "components": COMPONENTS, "rows": self.n_rows, "shown": len(self.X),
            "labels": [number.get(label, len(number)) for label in shown.tolist()],
            "sure": _sure(self.decided.proba), "rejected": self.decided.rejected.tolist(),
        }  # fmt: skip

    def view(self, x: int, y: int) -> dict[str, Any]:
        """Rows in the plane of two axes, and decisions on a grid of it, of plain types."""
        plane = self._plane(x, y)
        places = (self.X - plane.centre) @ plane.to_plane
        low, high = places.min(axis=0), places.max(axis=0)
        room = np.where(high > low, MARGIN * (high - low), 1.0)
        low, high = low - room, high + room
        across, up = (np.linspace(low[k], high[k], GRID) for k in range(2))
        grid = np.stack(np.meshgrid(across, up), axis=-1).reshape(-1, 2)
        found = _decide(self.classifier, plane.centre + grid @ plane.from_plane)
        number = {name: k for k, name in enumerate(class_names(self.classifier))}
        return {
            "x": places[:, 0].tolist(), "y": places[:, 1].tolist(),
            "x_range": [low[0], high[0]], "y_range": [low[1], high[1]], "grid": GRID,
            "cell_label": [number[label] for label in found.labels.tolist()],
            "cell_sure": _sure(found.proba), "cell_rejected": found.rejected.tolist(),
            "caption": self._caption(x),
        }  # fmt: skip

    def row(self, row: int) -> dict[str, Any]:
        """Probabilities of one row, the support points nearest to it, and its values."""
        if not 0 <= row < len(self.X):
            raise QuestionError(f"row must be from 0 to {len(self.X) - 1}; got {row}.")
        names, proba = class_names(self.classifier), self.decided.proba[row]
        order = np.argsort(-proba, kind="stable")
        said = f"the model says '{printable(self.decided.labels[row])}'"
        if self.decided.rejected[row]:
            first = printable(names[order[0]])
            said = f"the model would rather not decide; its first choice is '{first}'"
        label = "" if self.labels is None else f"labelled '{printable(self.labels[row])}'; "
        return {
            "words": f"Row {self.numbers[row]:,}: {label}{said}.",
            "probabilities": [[printable(names[k]), float(proba[k])] for k in order.tolist()],
            "nearest": self._nearest(row), "values": self._values(row),
        }  # fmt: skip

    # ------------------------------------------------------------------ how

    @cached_property
    def _unit(self) -> Array:
        """Unit of each feature, for components."""
        spread = self.X.std(axis=0)
        return np.where(spread > 0, spread, 1.0)

    def _plane(self, x: int, y: int) -> Plane:
        if not (0 <= x < len(self.axes) and 0 <= y < len(self.axes)):
            raise QuestionError(f"x and y must be from 0 to {len(self.axes) - 1}; got {x} and {y}.")
        if (x < COMPONENTS) != (y < COMPONENTS):
            raise QuestionError("components go with components, columns with columns.")
        if x == y:
            raise QuestionError(f"x and y must be different axes; got {x} for both.")
        n = self.X.shape[1]
        chosen = np.zeros((2, n))
        if x >= COMPONENTS:
            for k, axis in enumerate((x, y)):
                chosen[k, axis - COMPONENTS] = 1.0
            # A place in the plane has the medians in all other columns; the two start at 0.
            centre = np.median(self.X, axis=0)
            centre[[x - COMPONENTS, y - COMPONENTS]] = 0.0
            return Plane(centre, chosen.T, chosen)
        centre = self.X.mean(axis=0)
        pca = PCA(min(COMPONENTS, *self.X.shape), svd_solver="full")  # others draw random numbers
        found = pca.fit((self.X - centre) / self._unit)
        directions = np.zeros((COMPONENTS, n))
        directions[: len(found.components_)] = found.components_
        chosen = directions[[x, y]]
        return Plane(centre, (chosen / self._unit).T, chosen * self._unit)

    def _caption(self, x: int) -> str:
        if x < COMPONENTS:
            return (
                "Shading: decisions in the plane of the first two principal components of the "
                "features, each in its own unit. Rows lie off the plane, and may be decided "
                "differently from the shading beneath them."
            )
        return (
            "Shading: decisions with the medians in all other columns. Rows have other values "
            "there, and may be decided differently from the shading beneath them."
        )

    def _nearest(self, row: int) -> list[list[Any]]:
        base = base_of(self.classifier)
        support = dense(base.support_vectors_)
        similar = base.predictor_.support.kernel(self.X[[row]], support)[0]
        best = np.argsort(-similar, kind="stable")[:NEAREST]
        rows, labels = base.support_[best], support_labels(base, best)
        if labels is None:
            labels = _decide(base, support[best]).labels
        return [
            [f"training row {number + 1:,}", printable(label), float(similar[k])]
            for number, label, k in zip(rows.tolist(), labels.tolist(), best, strict=True)
        ]

    def _values(self, row: int) -> list[list[str]]:
        if self.table is None:
            pairs = list(zip(self.features, self.X[row], strict=True))
        else:
            pairs = [(n, c[row]) for n, c in zip(self.table.names, self.table.columns, strict=True)]
        return [[printable(name), _shown(value)] for name, value in pairs[:MOST_VALUES]]


def dense(X: Any) -> Array:
    """Rows as a plain array of numbers."""
    return X.toarray() if sp.issparse(X) else np.asarray(X, dtype=np.float64)


def support_labels(base: Base, chosen: Array) -> Array | None:
    """Classes of some support points as they were given; None where the model has not kept them."""
    known, rows = base.trained_.label, base.support_[chosen]
    if known is None or rows.max(initial=0) >= len(known):
        return None
    return np.array(class_names(base))[known[rows]]


def chosen_rows(n_rows: int) -> Array:
    """Rows that are drawn: all, or many, taken at random, in their order."""
    if n_rows <= MOST_ROWS:
        return np.arange(n_rows)
    return np.sort(np.random.default_rng(0).choice(n_rows, MOST_ROWS, replace=False))


def _decide(classifier: Classifier, X: Array) -> Decisions:
    parts = [decide(classifier, X[block]) for block in blocks_of(len(X))]
    return Decisions(*map(np.concatenate, zip(*parts, strict=True)))


def _sure(proba: Array) -> list[float]:
    """Largest probability, from 0 for a guess to 1 for certainty."""
    guess = 1 / proba.shape[1]
    return ((proba.max(axis=1) - guess) / (1 - guess)).clip(0, 1).tolist()


def _shown(value: object) -> str:
    if value is None:
        return "missing"
    return f"{value:.6g}" if isinstance(value, float) else printable(str(value))
