"""What a classifier knows of a stream of rows, and how it goes on: see `partial_fit`.

Held rows, their labels and weights, sites and trees are those of EP by cells; rows that came since
wait in `Stream.pending` until there are enough of them, or until a prediction is asked for.
"""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
from sklearn.utils import check_consistent_length

from bayespoint._support.types import Array, Matrix
from bayespoint.estimators.calibration import link_points
from bayespoint.estimators.cell_predictor import CellsPredictor
from bayespoint.estimators.parameters import (
    Parameters,
    by_evidence,
    by_held_out,
    class_noise,
    log_class_weights,
)
from bayespoint.inference.ep.cells.cell import Message
from bayespoint.inference.ep.cells.growing import (
    faded,
)
from bayespoint.space.given import checked_labels, checked_weights
from bayespoint.space.hashes import row_hashes
from bayespoint.space.host import Host
from bayespoint.space.inputs import same_precision
from bayespoint.space.links import VOTES_USUAL, Link, fit_links, vote_outputs

# Rows join the model when so many wait, as a share of those held; a cell is swept when it has grown
# by so much. All sweeps together then take some three times as long as the last.
JOINING, DUE = 0.05, 0.5

# Predictions of the newest rows that the link is fitted to.
RECENT = 6_000

# Cells, of the first tree, whose new rows are predicted before they are learnt.
ASKED_CELLS = 64

# Settings are looked at again when there are so many times the rows.
AGAIN = 2.0

# Rows are dropped after so many half-lives; all cells are swept anew after this share of one.
LIVES = 8
ANEW = 0.5

# However old a row is that is still held, it counts so much: with no weight it would not be a row.
LEAST_WEIGHT = 1e-30

# Share of cache_size for rows that are held, counted twice since a call works on a copy; and of
# these how many are left where some must go, so that it does not happen at every call.
ROWS_SHARE, KEPT_SHARE = 0.5, 0.8

# Probability, at least, that a new row's label is taken to have had.
LEAST_PROBABILITY = 1e-15


class Batch(NamedTuple):
    """Rows that wait."""

    X: Matrix
    label: Array  # class numbers
    weight: Array


@dataclass(frozen=True, eq=False, repr=False)
class Stream:
    """What is known of the rows of a stream, beside the model.

    Attributes
    ----------
    label : ndarray of int, shape (m,)
        Class numbers of the rows that are held, in the order of the model.
    weight : ndarray of shape (m,)
        Copies, as they count now.
    number : ndarray of int, shape (m,)
        Of the row, counted from the first one that came; of equal rows, the last.
    waiting : ndarray of bool, shape (n_trees, m)
        Rows whose cell was not swept since they came.
    seen : int
        Rows that came in all.
    settled : float
        Rows that were held when settings were chosen.
    anew : int
        Rows that had come when all cells were swept last.
    z : ndarray of float32, shape (n_machines, n_recent)
        Means over standard deviations of outputs at rows that were not learnt yet.
    z_label, z_weight : ndarray of shape (n_recent,)
        Of these rows.
    lost_precision : ndarray of shape (n_trees, n_machines, n_common, n_common) or None
    lost_shift : ndarray of shape (n_trees, n_machines, n_common) or None
        What rows that were dropped say of w; None where there are none, or no landmarks.
    history : ndarray of shape (n_batches, 2)
        Rows of each call, and their mean log-probability before they were learnt.
    origin : str
        Same for streams that may be merged.
    fresh : bool
        Whether it began without rows, with the settings of another one, which stay.
    token : str
        Of one that began so: a hash of the first rows that it was fed.
    merged : str
        Tokens of those whose rows are here, with spaces between.
    dropped : int
        Rows that are held no more.
    pending : tuple of Batch
    """

    label: Array
    weight: Array
    number: Array
    waiting: Array
    seen: int
    settled: float
    anew: int
    z: Array
    z_label: Array
    z_weight: Array
    lost_precision: Array | None = None
    lost_shift: Array | None = None
    history: Array = field(default_factory=lambda: np.empty((0, 2)))
    origin: str = ""
    fresh: bool = False
    token: str = ""
    merged: str = ""
    dropped: int = 0
    pending: tuple[Batch, ...] = ()

    @property
    def n_pending(self) -> int:
        """Rows that have not joined the model."""
        return sum(len(batch.label) for batch in self.pending)

    @property
    def up_to_date(self) -> bool:
        """Whether all rows are learnt."""
        return not self.pending and not np.any(self.waiting)

    def lost(self, n_trees: int) -> list[Message | None]:
        """Messages of rows that were dropped, by trees."""
        if self.lost_precision is None or self.lost_shift is None:
            return [None] * n_trees
        return [Message(*one) for one in zip(self.lost_precision, self.lost_shift, strict=True)]

    def with_lost(self, lost: Sequence[Message | None]) -> "Stream":
        """Return the stream with other messages of rows that were dropped."""
        known = [one for one in lost if one is not None and np.any(one.precision)]
        if len(known) < len(lost):
            return replace(self, lost_precision=None, lost_shift=None)
        return replace(
            self,
            lost_precision=np.array([one.precision for one in known]),
            lost_shift=np.array([one.shift for one in known]),
        )

    def predicted(self, z: Array, label: Array, weight: Array) -> "Stream":
        """Return the stream with predictions of new rows, the newest of all that there are."""
        return replace(
            self,
            z=np.concatenate([self.z, z.astype(np.float32)], axis=1)[:, -RECENT:],
            z_label=np.concatenate([self.z_label, label])[-RECENT:],
            z_weight=np.concatenate([self.z_weight, weight])[-RECENT:],
        )

    def told(self, n_rows: int, log_proba: float) -> "Stream":
        """Return the stream with a line more in its history."""
        return replace(self, history=np.vstack([self.history, [n_rows, log_proba]]))

    def link(self, noise: float, n_classes: int) -> Link:
        """Link that suits the newest predictions."""
        if not len(self.z_label):
            return Link.plain(n_classes)
        outputs = vote_outputs(self.z.astype(np.float64))
        fitted = fit_links(outputs, self.z_label, self.z_weight, noise=noise, usual=VOTES_USUAL)
        return fitted.link


def token_of(batch: Batch) -> str:
    """Return what tells a stream from others: a hash of its first rows."""
    digest = hashlib.blake2b(row_hashes(batch.X).tobytes(), digest_size=16)
    digest.update(batch.label.tobytes())
    digest.update(batch.weight.tobytes())
    return digest.hexdigest()


def begun(
    label: Array, weight: Array, n_trees: int, scores: Array, entropy: int, origin: str
) -> Stream:
    """Return the stream that a fit begins.

    Parameters
    ----------
    label, weight : ndarray of shape (m,)
    n_trees : int
    scores : ndarray of shape (n_machines, m)
        What the link was fitted to: rows left out.
    entropy : int
    origin : str
    """
    some = np.arange(len(label))
    if len(label) > RECENT:
        some = np.sort(link_points(label, entropy, RECENT))[:RECENT]
    z = scores[:, some].astype(np.float32) if scores.shape[1] else scores.astype(np.float32)
    some = some[: z.shape[1]]
    return Stream(
        label, weight, np.arange(len(label)), np.zeros((n_trees, len(label)), dtype=bool),
        len(label), len(label), len(label), z, label[some], weight[some], origin=origin,
    )  # fmt: skip


def faded_weights(weight: Array, half_life: float | None) -> Array:
    """Let the first rows of a call count less than the last."""
    if half_life is None:
        return weight
    share = 0.5 ** (np.arange(len(weight))[::-1] / half_life)
    return np.where(weight > 0, np.maximum(weight * share, LEAST_WEIGHT), 0.0)


def faded_stream(stream: Stream, n_new: int, half_life: float | None) -> Stream:
    """Let rows count less, as more come."""
    if half_life is None:
        return stream
    share = 0.5 ** (n_new / half_life)

    def less(weight: Array) -> Array:
        return np.maximum(share * weight, LEAST_WEIGHT)

    lost = [faded(one, share) for one in stream.lost(len(stream.waiting))]
    return replace(
        stream, weight=less(stream.weight), z_weight=less(stream.z_weight),
        pending=tuple(batch._replace(weight=less(batch.weight)) for batch in stream.pending),
    ).with_lost(lost)  # fmt: skip


def kept_rows(stream: Stream, most: int, n_new: int, half_life: float | None) -> Array:
    """Which rows are held on: those that still count, and the newest as memory allows."""
    kept = np.ones(len(stream.label), dtype=bool)
    if half_life is not None:
        kept = stream.seen - stream.number <= LIVES * half_life
    if np.sum(kept) + n_new > most:
        room = max(int(KEPT_SHARE * most) - n_new, 0)
        newest = np.argsort(-stream.number, kind="stable")[:room]
        kept &= np.isin(np.arange(len(kept)), newest)
    return kept


def checked_batch(
    estimator: Any, X: Any, y: Any, sample_weight: Any, dtype: Any
) -> tuple[Matrix, Array, Array]:
    """Check X, y and weights as given to `partial_fit`; rows of weight 0 are left out."""
    X = Host(None).new_points(estimator, X, precomputed=False)
    y = checked_labels(y)
    check_consistent_length(X, y)
    weight = checked_weights(sample_weight, X.shape[0])
    kept = weight > 0
    X = same_precision(X, dtype)
    return (X, y, weight) if np.all(kept) else (X[kept], y[kept], weight[kept])


def wider_classes(old: Array, *others: Any) -> Array:
    """Return all classes in order; refuse words among numbers."""
    found = old
    for other in others:
        if other is None:
            continue
        labels = np.unique(checked_labels(other, "classes"))
        if (labels.dtype.kind in "OUS") != (found.dtype.kind in "OUS"):
            raise ValueError(
                f"labels {labels[:5].tolist()} are not of the type of the classes "
                f"{found[:5].tolist()}; give y and classes in the type of the first call."
            )
        found = np.union1d(found, labels)
    return found


def of_present(parameters: Parameters, classes: Array, there: Array) -> Parameters:
    """Return the parameters of a fit to rows of some classes only, which are ``there``."""
    weights, noise = parameters.class_weight, parameters.label_noise
    log_class_weights(weights, classes, np.ones(len(classes)))  # refuses what is of no class
    if isinstance(weights, Mapping):
        weights = {label: weights[label] for label in there.tolist() if label in weights}
    if isinstance(noise, Mapping) or np.ndim(noise):
        noise = class_noise(noise, classes)[np.isin(classes, there)]
    return replace(parameters, class_weight=weights, label_noise=noise)


def rows_asked(predictor: Any, X: Matrix, seed: int) -> Array:
    """Which new rows are predicted before they are learnt: those of some cells, or all.

    What predictions take is a factor of each cell.
    """
    if not isinstance(predictor, CellsPredictor):
        return np.arange(X.shape[0])
    cell_of = predictor.model.route(X, 0)
    cells = np.unique(cell_of)
    if len(cells) <= ASKED_CELLS:
        return np.arange(X.shape[0])
    chosen = np.random.default_rng(seed).choice(cells, ASKED_CELLS, replace=False)
    return np.flatnonzero(np.isin(cell_of, chosen))


def log_proba_of(proba: Array, label: Array, weight: Array) -> float:
    """Mean log-probability of labels, NaN of none; -1 is a class that had none, left out."""
    known = np.flatnonzero(label >= 0)
    if not len(known):
        return np.nan
    right = np.maximum(proba[known, label[known]], LEAST_PROBABILITY)
    return float(np.average(np.log(right), weights=weight[known]))


def may_settle_again(known: Stream, parameters: Parameters, most: int) -> bool:
    """Whether there are so many more rows, all of which can be held, that settings are chosen."""
    if known.fresh or known.dropped:
        return False
    named = [parameters.gamma, parameters.bias, parameters.softness, parameters.label_noise]
    is_open = parameters.kernel_open or any(by_held_out(v) or by_evidence(v) for v in named)
    n_rows = len(known.label) + known.n_pending
    labels = np.concatenate([known.label, *(batch.label for batch in known.pending)])
    several = len(np.unique(labels)) > 1
    return is_open and several and AGAIN * known.settled <= n_rows <= most
