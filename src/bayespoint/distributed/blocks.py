"""From Dask collections to checked blocks of rows: partitions, which may be uneven or empty."""

import uuid
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from bayespoint._support.checks import FROM_0, is_dask
from bayespoint._support.types import Array, Matrix
from bayespoint.distributed.session import Session
from bayespoint.estimators.classifier import BayesPointClassifier
from bayespoint.space.given import checked_weights
from bayespoint.space.host import Host
from bayespoint.space.inputs import limits


class Block(NamedTuple):
    """Checked rows of a partition."""

    X: Matrix
    y: Array
    weight: Array
    names: Array | None  # of columns, where a data frame has some


class Summary(NamedTuple):
    """What a fit must know of a partition before rows travel."""

    n_rows: int
    n_features: int
    n_bytes: int
    labels: Array  # of rows with a weight
    least: Array
    most: Array
    dtype: np.dtype
    sparse: bool
    names: Array | None
    token: str  # of rows, labels and weights


class Facts(NamedTuple):
    """What is known of all partitions together."""

    offsets: Array  # (n_partitions + 1,), of their rows
    n_features: int
    n_bytes: int  # of all rows
    classes: Array
    least: Array
    most: Array
    dtype: np.dtype
    sparse: bool
    names: Array | None
    tokens: list[str]  # of the partitions


def blocks_of(X: Any, y: Any, sample_weight: Any = None) -> list[Any]:
    """Return delayed blocks, one per partition of X, each checked where it is computed."""
    from dask import delayed
    from dask.base import tokenize

    checked, token = delayed(checked_block), tokenize(X, y, sample_weight)
    blocks = [
        checked(*of_one, number, dask_key_name=f"check-partition-{number}-{token}")
        for number, of_one in enumerate(parts_of(X, y, sample_weight))
    ]
    return with_own_names(blocks, token)


def parts_of(X: Any, y: Any, sample_weight: Any = None) -> list[tuple[Any, Any, Any]]:
    """Return delayed rows, labels and weights of each partition, as they were given."""
    parts = partitions(X, "X")
    labels = alike(y, X, len(parts), "y")
    weights = [None] * len(parts)
    if sample_weight is not None:
        weights = alike(sample_weight, X, len(parts), "sample_weight")
    return list(zip(parts, labels, weights, strict=True))


def with_own_names(delayed: list[Any], token: str) -> list[Any]:
    """Return the same delayed values, computed by tasks that have names of their own.

    While a model lives, so do the tasks of its X, since a lost worker's rows come from them. Who
    then computes X gets other tasks of the same names, optimised ones, of which Dask would warn.
    """
    from dask._task_spec import convert_legacy_graph
    from dask.base import clone_key
    from dask.delayed import Delayed
    from distributed import Future

    layers = {id(layer): layer for one in delayed for layer in one.dask.layers.values()}
    graph = {key: task for layer in layers.values() for key, task in layer.items()}
    there = {key: task for key, task in graph.items() if isinstance(task, Future)}  # persisted
    tasks = convert_legacy_graph({k: graph[k] for k in graph.keys() - there}, set(graph))
    names = {key: clone_key(key, token) for key in tasks}
    named = there | {names[k]: task.substitute(names, names[k]) for k, task in tasks.items()}
    return [Delayed(names[one.key], named) for one in delayed]


def partitions(values: Any, name: str) -> list[Any]:
    """Return the partitions of a Dask array, data frame or series, as delayed values."""
    if not is_dask(values) or not hasattr(values, "to_delayed"):
        raise TypeError(
            f"{name} must be a Dask array, data frame or series; got {type(values).__name__}. Give "
            f"what is in memory to BayesPointClassifier, or make it one by dask.array.from_array."
        )
    if getattr(values, "ndim", 1) == 2 and hasattr(values, "chunks"):
        values = values.rechunk({1: -1})
    # As they are: optimised one by one, X and y would each compute what they have in common, which
    # for shuffled or sampled rows may come out in another order.
    return list(np.ravel(values.to_delayed(optimize_graph=False)))


def alike(values: Any, X: Any, n_parts: int, name: str) -> list[Any]:
    """Partitions of y or weights, divided as those of X are."""
    rows, own = (known_sizes(one) for one in (X, values))
    if rows is not None and own is not None and rows != own and sum(rows) == sum(own):
        values = values.rechunk((rows,))
    parts = partitions(values, name)
    if len(parts) != n_parts:
        raise ValueError(
            f"X has {n_parts} partitions and {name} has {len(parts)}: divide both alike. Those of "
            f"one data frame are, but as arrays they may not be; otherwise use rechunk."
        )
    return parts


def known_sizes(values: Any) -> tuple[int, ...] | None:
    """Rows of the partitions of an array, where they are known."""
    chunks = getattr(values, "chunks", None)
    if chunks is None or any(np.isnan(n) for n in chunks[0]):
        return None
    return tuple(chunks[0])


def checked_block(X: Any, y: Any, weight: Any, number: int) -> Block:
    """Check the rows of a partition as `fit` does; errors say which one is at fault, and where."""
    checker = BayesPointClassifier()
    if len(y) != X.shape[0]:
        raise ValueError(
            f"partition {number}: X has {X.shape[0]} rows and y has {len(y)}. Divide both alike."
        )
    if X.shape[0] == 0:
        return Block(X, np.empty(0), np.empty(0), None)
    try:
        inputs, labels = Host().training_inputs(checker, X, y, precomputed=False)
        weight = checked_weights(weight, len(labels))
    except (ValueError, TypeError) as error:
        raise type(error)(f"partition {number} of X, y: {error}{place_of_fault(X)}") from None
    names = getattr(checker, "feature_names_in_", None)
    return Block(inputs.X, np.asarray(labels), weight, names)


def place_of_fault(X: Any) -> str:
    """Where the first value is that is no finite number, for messages."""
    columns = getattr(X, "columns", None)
    if len(X.shape) != 2:
        return ""
    X = X.tocsc() if sp.issparse(X) else X
    for column in range(X.shape[1]):
        values = X.iloc[:, column] if columns is not None else X[:, [column]]
        try:
            values = np.asarray(values.toarray() if sp.issparse(values) else values, dtype=float)
        except (ValueError, TypeError):
            return (
                f" Column {column if columns is None else repr(columns[column])} holds no numbers."
            )
        bad = np.flatnonzero(~np.isfinite(values.ravel()))
        if len(bad):
            name = column if columns is None else repr(columns[column])
            return f" First found in row {bad[0]} of the partition, column {name} {FROM_0}."
    return ""


def token_of(block: Block) -> str:
    """Return what tells a block from others."""
    from dask.base import tokenize

    return tokenize(block.X, block.y, block.weight)


def as_seen(blocks: list[Any], facts: Facts) -> list[Any]:
    """Return delayed blocks that are computed again, and must be what they were."""
    from dask import delayed

    check, token = delayed(same_block), uuid.uuid4().hex
    return [
        check(block, seen, number, dask_key_name=f"partition-again-{number}-{token}")
        for number, (block, seen) in enumerate(zip(blocks, facts.tokens, strict=True))
    ]


def same_block(block: Block, seen: str, number: int) -> Block:
    """Return a block, unless it has changed since it was seen."""
    if token_of(block) != seen:
        raise ValueError(
            f"partition {number} of X, y changed when it was computed again: persist both first "
            f"(X, y = client.persist([X, y])), or give the code that makes them a seed."
        )
    return block


def summary_of(block: Block) -> Summary:
    """Look at a block."""
    X, kept, token = block.X, block.weight > 0, token_of(block)
    none = np.empty(0)
    if not np.any(kept):
        n_rows, n_features = X.shape
        return Summary(n_rows, n_features, 0, none, none, none, np.dtype("f4"), False, None, token)
    n_rows, n_features = X.shape
    n_bytes = X.data.nbytes + X.indices.nbytes if sp.issparse(X) else X.nbytes
    least, most = limits(X if np.all(kept) else X[kept])
    labels = np.unique(block.y[kept])
    return Summary(
        n_rows, n_features, n_bytes, labels, least, most, X.dtype, sp.issparse(X), block.names,
        token,
    )  # fmt: skip


def facts_of(session: Session, blocks: list[Any], least_classes: int = 2) -> Facts:
    """Look at all partitions, each where it is."""
    from dask import delayed

    look: Any = delayed(summary_of, pure=False)
    names = [session.key("look-at-partition") for _ in blocks]
    looks = [look(one, dask_key_name=name) for one, name in zip(blocks, names, strict=True)]
    found = session.results(session.compute(looks), "partition")
    some = [one for one in found if len(one.labels)]
    if not some:
        raise ValueError("X has no rows of weight > 0 in any partition; give some.")
    for number, one in enumerate(found):
        _check_columns(number, one, some[0])
        _check_labels(number, one, some[0])
    classes = np.unique(np.concatenate([one.labels for one in some]))
    if len(classes) < least_classes:
        raise ValueError(
            f"y must hold at least 2 classes with positive weight; got {len(classes)} class(es): "
            f"{classes.tolist()}."
        )
    single = all(one.dtype == np.float32 for one in some)
    return Facts(
        np.cumsum([0, *(one.n_rows for one in found)]), some[0].n_features,
        sum(one.n_bytes for one in found), classes,
        np.min([one.least for one in some], axis=0), np.max([one.most for one in some], axis=0),
        np.dtype(np.float32 if single else np.float64), any(one.sparse for one in some),
        some[0].names, [one.token for one in found],
    )  # fmt: skip


def _check_columns(number: int, one: Summary, first: Summary) -> None:
    """Refuse a partition whose columns are not those of the first one with rows."""
    if one.n_rows and one.n_features != first.n_features:
        raise ValueError(
            f"partition {number} of X has {one.n_features} columns, others have {first.n_features}."
        )
    own, others = (None if s.names is None else list(map(str, s.names)) for s in (one, first))
    if len(one.labels) and own != others:
        raise ValueError(
            f"partition {number} of X has columns {own}, the first one {others}: name and order "
            f"them alike."
        )


def _check_labels(number: int, one: Summary, first: Summary) -> None:
    """Refuse words where the first partition with rows has numbers: sorted as one they are lost."""
    if len(one.labels) and is_words(one.labels) != is_words(first.labels):
        raise ValueError(
            f"partition {number} of y has labels {one.labels[:5].tolist()}, others have "
            f"{first.labels[:5].tolist()}: give all of them as words, or all as numbers."
        )


def is_words(labels: Array) -> bool:
    """Whether some labels, all of one kind, are words."""
    return isinstance(labels[0], str)
