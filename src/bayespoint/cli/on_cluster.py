"""``train --dask``: files that the workers of a Dask cluster read, each of them a partition."""

import glob
import os
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import CancelledError  # of tasks whose scheduler is gone
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np

from bayespoint import BayesPointClassifier
from bayespoint._support.budget import Budget
from bayespoint._support.types import Array
from bayespoint.cli.inputs import check_counts, load_table, split_target
from bayespoint.cli.options import FileFormat, Settings
from bayespoint.cli.output import Output, UsageError, in_options, shown_name, shown_path
from bayespoint.distributed import DaskBayesPointClassifier
from bayespoint.distributed.session import Session
from bayespoint.io.encoder import TableEncoder
from bayespoint.io.encoder.remarks import Remarks
from bayespoint.io.tables import TableError

# What --dask is without an address.
LOCAL = "local"


class Reading(NamedTuple):
    """How workers read a file."""

    target: str
    drop: list[str]
    file_format: FileFormat
    encoder: TableEncoder


class Partition(NamedTuple):
    """What a file holds."""

    X: Array
    labels: Array
    remarks: Remarks


def files_of(pattern: str) -> list[str]:
    """Return the files that a pattern names, in order; workers may run in other folders."""
    found = sorted(os.path.abspath(path) for path in glob.glob(pattern))
    if not found:
        raise UsageError(f"--dask: there is no file {pattern}.")
    return found


def check_on_cluster(settings: Settings, chunk_rows: int | None) -> None:
    """Raise a UsageError for options that do not work with --dask."""
    if settings.rejects:
        raise UsageError(
            "--dask does not work with --coverage and --max-risk: use RejectingClassifier in "
            "Python, around the model that is written."
        )
    if chunk_rows is not None:
        raise UsageError("--dask reads whole files; --chunk-rows is for one machine.")


@contextmanager
def cluster_at(address: str) -> Iterator[Any]:
    """Connect to a cluster, or have one on this machine for a while."""
    try:
        from distributed import Client, LocalCluster
    except ImportError:
        raise UsageError("--dask needs dask: pip install 'bayespoint[dask]'.") from None
    if address == LOCAL:
        one_each = LocalCluster(threads_per_worker=1, dashboard_address="127.0.0.1:0")
        with one_each as cluster, Client(cluster) as client:
            yield client
        return
    try:
        client = Client(address)
    except (OSError, TimeoutError, ValueError) as error:
        raise UsageError(f"--dask {address}: no scheduler answers there ({error}).") from None
    with client:
        yield client


class Trained(NamedTuple):
    """A model that was trained on a cluster."""

    classifier: BayesPointClassifier
    counts: dict[str, int]
    n_files: int
    remarks: Remarks
    seconds: float


def train_on_cluster(
    output: Output, classifier: BayesPointClassifier, files: list[str], told: Reading, address: str
) -> Trained:
    """Let workers read files and train on them; the model comes back."""
    with cluster_at(address) as client, Session(client, Budget()) as session, failing():
        parts = session.map("read-file", read_part, files, told=told)
        with output.progress("reading"):
            seen = session.results(session.map("look-at-file", seen_in, parts))
        counts = check_counts(sum((one[0] for one in seen), Counter()), told.target)
        many = DaskBayesPointClassifier(classifier, client)
        start = time.perf_counter()
        with output.noting_warnings(), output.progress("training"):
            many.fit(*_collections(parts, [one[2] for one in seen], told))
            model = many.to_local()
        remarks = seen[0][1]
        for _, more, _ in seen[1:]:
            remarks += more
        seconds = time.perf_counter() - start
    return Trained(model, counts, len(files), remarks, seconds)


@contextmanager
def failing() -> Iterator[None]:
    """Turn what goes wrong on a cluster into a TableError, whose message is safe to print."""
    from distributed import KilledWorker

    try:
        yield
    except TableError:
        raise
    except (ValueError, RuntimeError, KilledWorker, CancelledError) as error:
        raise TableError(f"training failed: {in_options(error)}") from None


def read_part(file: str, told: Reading) -> Partition:
    """Read and encode a file, on a worker."""
    text = [told.target, *told.encoder.text_columns]
    try:
        table = load_table(file, told.file_format, text=text, drop=told.drop)
    except OSError as error:
        raise TableError(
            f"a worker cannot read {shown_path(file)}: {error.strerror}. Workers read files by "
            f"themselves: put them into a folder that is at the same place on all machines."
        ) from None
    features, labels = split_target(table, told.target)
    try:
        remarks, X = told.encoder.remarks_on(features), told.encoder.encode(features)[0]
    except TableError as error:
        raise TableError(f"{shown_name(file)}: {error}") from None
    return Partition(X, labels, remarks)


def seen_in(part: Partition) -> tuple[Counter[str], Remarks, int]:
    """Rows of each class, remarks, and the number of rows."""
    return Counter(part.labels.tolist()), part.remarks, len(part.labels)


def _collections(parts: list[Any], sizes: list[int], told: Reading) -> tuple[Any, Any]:
    """Return what was read as Dask arrays."""
    import dask.array as da
    from dask import delayed

    width = len(told.encoder.feature_names_)
    rows, labels = delayed(rows_of), delayed(labels_of)
    X = [
        da.from_delayed(rows(part), (size, width), np.float64)
        for part, size in zip(parts, sizes, strict=True)
    ]
    y = [
        da.from_delayed(labels(part), (size,), np.dtype(object))
        for part, size in zip(parts, sizes, strict=True)
    ]
    return da.concatenate(X), da.concatenate(y)


def rows_of(part: Partition) -> Array:
    """Numbers of a file."""
    return part.X


def labels_of(part: Partition) -> Array:
    """Labels of a file."""
    return part.labels
