"""Fits on a Dask cluster beside fits on one machine.

    python benchmarks/distributed_fit.py --part equality | kills | lost | covertype | bytes | memory
        | client | paper | stream

- equality: probabilities by 1, 2 and 4 workers and 3, 17 and 64 partitions, beside one machine: two
  and three classes, with and without landmarks, and with all settings chosen from the data.
- kills: ``--runs`` fits, in each of which a worker is killed (SIGKILL), in the first sweep, in the
  middle or during the sum of messages, and another one joins.
- lost: seconds until a fit gives up whose workers are all gone.
- covertype: class 2 against the rest, 2 workers of one thread beside a process of two threads, with
  settings that the first ``--chosen-on`` rows have chosen, or with given ones.
- bytes: bytes that workers and client receive in a sweep, memory of the scheduler and its tasks, by
  numbers of rows and workers.
- memory: ``--rows`` rows (5,000,000) of 50 float32 columns, one tree, 2 workers of ``--limit`` GB.
- client: memory of the client for each row, with scheduler and worker in other processes.
- stream: a picture of the tasks of a fit over time, in ``--picture``.
- paper: what 10^9 rows on 100 machines would take, from rates measured here.

Exits with 1 where equality, kills, lost or covertype do not hold what they must.

Workers are processes. Data sets come from the folder named in BAYESPOINT_DATA. (A script called
dask.py would be imported in the place of the package when it is run from its folder.)
"""

import argparse
import os
import signal
import sys
import time
import warnings
from contextlib import contextmanager

import dask.array as da
import numpy as np
import psutil
from dask import delayed
from distributed import Client, LocalCluster
from sklearn.base import clone

from bayespoint import BayesPointClassifier
from bayespoint.distributed import DaskBayesPointClassifier
from bayespoint.distributed.session import Session, WorkersLostError

PATIENCE = 600

# Probabilities of both fits differ by no more than this.
MOST_APART = 1e-4
GIVEN = {
    "kernel": "rbf", "gamma": 0.3, "softness": 0.1, "bias": 1.0, "inference": "ep",
    "cell_size": 200, "n_landmarks": 0, "n_trees": 2, "random_state": 0,
}  # fmt: skip

COVERTYPE = {"gamma": 2.0, "softness": 0.003, "cell_size": 900, "n_trees": 3, "n_jobs": 2}


@contextmanager
def cluster(n_workers=2, **more):
    """Have workers of one thread, each in a process of its own."""
    options = {
        "threads_per_worker": 1,
        "processes": True,
        "dashboard_address": "127.0.0.1:0",
    } | more
    with LocalCluster(n_workers=n_workers, **options) as made, Client(made, timeout=PATIENCE) as c:
        yield made, c


def rows(n, n_classes=2, n_columns=8, seed=0, dtype=np.float64):
    """Rows with a smooth rule and some noise."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, n_columns)).astype(dtype)
    f = np.sin(1.5 * X[:, 0]) + 0.5 * X[:, 1] * X[:, 2] + 0.3 * rng.normal(size=n)
    return X, np.digitize(f, np.linspace(-0.5, 0.5, n_classes - 1) if n_classes > 2 else [0.0])


def divided(X, y, n_parts):
    size = -(-len(y) // n_parts)
    return da.from_array(X, chunks=(size, -1)), da.from_array(y, chunks=size)


def same(left, right):
    """Whether two models are equal to the last digit."""
    models = [clf.predictor_.model for clf in (left, right)]
    return all(np.array_equal(*(getattr(m, n) for m in models)) for n in ("order", "tau", "coef"))


# ------------------------------------------------------------------------------- equality


def equality(options):
    chosen = dict.fromkeys(("gamma", "softness"), "held-out") | {"bias": "auto", "n_trees": "auto"}
    cases = [
        ("2 classes", 2, {}), ("2 classes, landmarks", 2, {"n_landmarks": 50}),
        ("3 classes", 3, {}), ("3 classes, landmarks", 3, {"n_landmarks": 50, "n_trees": 1}),
        ("2 classes, settings chosen", 2, {**chosen, "n_landmarks": "auto"}),
    ]  # fmt: skip
    n, new = options.rows or 4_000, rows(1_000, seed=1)[0]
    wanted, worst = {}, 0.0
    for name, n_classes, more in cases:
        X, y = rows(n, n_classes)
        wanted[name] = BayesPointClassifier(**GIVEN | more).fit(X, y)
    for n_workers in options.workers:
        with cluster(n_workers):
            for name, n_classes, more in cases:
                one, most, equal = wanted[name], 0.0, []
                for n_parts in (3, 17, 64):
                    many = DaskBayesPointClassifier(BayesPointClassifier(**GIVEN | more))
                    many.fit(*divided(*rows(n, n_classes), n_parts))
                    proba = many.predict_proba(da.from_array(new, chunks=(400, -1))).compute()
                    most = np.maximum(most, np.abs(proba - one.predict_proba(new)).max())
                    equal.append(same(many.to_local(), one))
                worst = np.maximum(worst, most)  # NaN is the worst
                print(
                    f"{name:28} {n_workers} workers, 3, 17, 64 partitions: probabilities differ "
                    f"by at most {most:.1e}; models equal to the last digit: {equal}",
                    flush=True,
                )
    return worst <= MOST_APART


# ------------------------------------------------------------------------------- lost workers


def at_tasks(name, number, act):
    """Act when tasks of a name are submitted for the so-manieth time; what undoes it."""
    submit, seen = Session.map, []

    def watched(self, task, *others, **more):
        found = submit(self, task, *others, **more)
        seen.append(task)
        if task == name and seen.count(name) == number:
            act()
        return found

    Session.map = watched
    return lambda: setattr(Session, "map", submit)


def kills(options):
    X, y = rows(options.rows or 2_000)
    more = {"n_landmarks": 30, "cell_size": 100, "n_trees": 1}
    one = BayesPointClassifier(**GIVEN | more).fit(X, y)
    moments = [("visit-cells", 1), ("visit-cells", 4), ("add-messages", 4)]
    right = 0
    for run in range(options.runs):
        with cluster(2) as (made, client):
            pid = min(client.run(os.getpid).values())

            def lose_one_and_have_another(made=made, pid=pid):
                os.kill(pid, signal.SIGKILL)
                made.scale(3)

            undo = at_tasks(*moments[run % 3], lose_one_and_have_another)
            begun = time.perf_counter()
            many = DaskBayesPointClassifier(BayesPointClassifier(**GIVEN | more))
            equal = same(many.fit(*divided(X, y, 5)).to_local(), one)
            undo()
            right += equal
            name, number = moments[run % 3]
            print(f"run {run + 1}: a worker killed at {name} {number}, {equal=}, "
                  f"{time.perf_counter() - begun:.0f} s", flush=True)  # fmt: skip
    print(f"{right} of {options.runs} runs ended with the same model")
    return right == options.runs


def lost(options):
    X, y = rows(options.rows or 2_000)
    with cluster(2) as (made, client):
        begun, processes = [], client.run(os.getpid).values()

        def lose_all():
            made.scale(0)  # or they would be started again
            for pid in processes:
                os.kill(pid, signal.SIGKILL)
            begun.append(time.perf_counter())

        at_tasks("sweep-cells", 1, lose_all)
        try:
            DaskBayesPointClassifier(BayesPointClassifier(**GIVEN)).fit(*divided(X, y, 5))
        except WorkersLostError as error:
            seconds = time.perf_counter() - begun[0]
            print(f"{seconds:.0f} s after all workers were gone: {error}")
            return seconds < 60
    return False


# ------------------------------------------------------------------------------- time


def covertype(options):
    sys.path.insert(0, os.path.dirname(__file__))
    from widths import covertype as load

    X, y, X_test, y_test = load()
    X, y = X[: options.rows], y[: options.rows]
    clf = BayesPointClassifier(**GIVEN | COVERTYPE)
    if options.chosen_on:
        clf = BayesPointClassifier(random_state=0, n_jobs=2, inference="ep")
        clf = clf.fit(X[: options.chosen_on], y[: options.chosen_on]).settled()
    loaded()
    begun, cpu = time.perf_counter(), time.process_time()
    one = clone(clf).fit(X, y)
    alone, alone_cpu = time.perf_counter() - begun, time.process_time() - cpu
    with cluster(2) as (_, client):
        at, labels = (values.persist() for values in divided(X, y, 16))
        client.run(loaded)
        cpu = time.process_time() + sum(client.run(time.process_time).values())
        begun = time.perf_counter()
        many = DaskBayesPointClassifier(clf).fit(at, labels)
        together = time.perf_counter() - begun
        cpu = time.process_time() + sum(client.run(time.process_time).values()) - cpu
        new = da.from_array(X_test[:20_000], chunks=(5_000, -1))
        begun = time.perf_counter()
        proba = many.predict_proba(new).compute()
        predicted = time.perf_counter() - begun
    wanted = one.predict_proba(X_test[:20_000])
    errors = [100 * np.mean(one.classes_[p.argmax(1)] != y_test[:20_000]) for p in (wanted, proba)]
    print(
        f"covertype, {len(y):,} rows, {one.settings_.cells}: one process of 2 threads "
        f"{alone:.1f} s, 2 workers {together:.1f} s, ratio {together / alone:.2f} (seconds of "
        f"cores: {alone_cpu:.1f} and {cpu:.1f}); errors {errors[0]:.2f} and {errors[1]:.2f} %; "
        f"probabilities differ by at most {np.abs(wanted - proba).max():.1e}; 20,000 predictions "
        f"{predicted:.1f} s"
    )
    return np.abs(wanted - proba).max() <= MOST_APART and together <= 1.3 * alone


def loaded():
    """Load what a fit needs, compiled loops too, as this process has: that is no part of a fit."""
    BayesPointClassifier(**GIVEN).fit(*rows(1_000))


# ------------------------------------------------------------------------------- bytes


def received(dask_worker):
    """Bytes that a worker has received from others."""
    return sum(one["total"] for one in dask_worker.transfer_incoming_log)


def sizes(options):
    """Bytes moved in a visit of all cells, by rows and workers."""
    for n_workers in options.workers:
        for n in options.sizes:
            with cluster(n_workers) as (made, client):
                size_of(n, made, client)


def size_of(n, made, client):
    marks, before = [], psutil.Process().memory_info().rss
    undo = watched_visits(
        lambda: marks.append((sum(client.run(received).values()), time.perf_counter()))
    )
    more = {"cell_size": 100, "n_landmarks": 200, "n_trees": 1}
    many = DaskBayesPointClassifier(BayesPointClassifier(**GIVEN | more)).fit(*divided(*rows(n), 8))
    undo()
    grown = (psutil.Process().memory_info().rss - before) / 1e6
    moved, seconds = np.diff(marks, axis=0).T
    message = 8 * many.model_.trees[0].mean.shape[1] ** 2 / 1e6
    print(
        f"{n:,} rows, {many.model_.cells.info['cells'][0]} cells, {len(client.nthreads())} "
        f"workers: {len(seconds)} visits of all cells; {moved[0] / 1e6:.1f} MB between workers in "
        f"the first "
        f"(a message has {message:.2f} MB), {seconds[0]:.2f} s; client and scheduler grow by "
        f"{grown:.0f} MB, {len(made.scheduler.tasks):,} tasks held",
        flush=True,
    )


def watched_visits(mark):
    """Call a function at the beginning of each visit of cells; what undoes it."""
    from bayespoint.inference.ep.cells.visits import Visits

    begin = Visits.begin

    def watched(self):
        mark()
        return begin(self)

    Visits.begin = watched
    return lambda: setattr(Visits, "begin", begin)


# ------------------------------------------------------------------------------- memory


def large_part(n, seed):
    """Rows that a worker makes up."""
    return rows(n, n_columns=50, seed=seed, dtype=np.float32)


def memory(options):
    n, n_parts = options.rows or 5_000_000, 100
    make = delayed(large_part, nout=2)
    parts = [make(n // n_parts, seed) for seed in range(n_parts)]
    X = da.concatenate([da.from_delayed(p[0], (n // n_parts, 50), np.float32) for p in parts])
    y = da.concatenate([da.from_delayed(p[1], (n // n_parts,), np.int64) for p in parts])
    clf = BayesPointClassifier(
        **GIVEN | {"gamma": 0.02, "cell_size": options.cell_size, "n_trees": 1, "verbose": 1}
    )
    with cluster(2, memory_limit=f"{options.limit}GB") as (_, client):
        begun = time.perf_counter()
        many = DaskBayesPointClassifier(clf).fit(X, y)
        seconds = time.perf_counter() - begun
        used = client.run(lambda: psutil.Process().memory_info().rss)
        most = [client.run(peak)[worker] / 1e6 for worker in used]
        new, truth = large_part(5_000, n_parts)
        begun = time.perf_counter()
        found = many.predict(da.from_array(new, chunks=(2_500, -1))).compute()
        predicted = time.perf_counter() - begun
    here = psutil.Process().memory_info().rss / 1e6
    print(
        f"{n:,} rows of 50 float32 columns ({n * 200 / 1e9:.1f} GB), cells of {clf.cell_size}, 2 "
        f"workers of {options.limit} GB: {seconds:.0f} s; workers used at most "
        f"{', '.join(f'{m:,.0f}' for m in most)} MB, the client and scheduler {here:,.0f} MB; "
        f"error {100 * np.mean(found != truth):.1f} %; 5,000 predictions {predicted:.0f} s"
    )


def client_memory(options):
    """Bytes of the client for each row."""
    from distributed.deploy.subprocess import SubprocessCluster

    n, n_parts, n_columns = options.rows or 2_000_000, 20, 10
    make, size = delayed(rows, nout=2), n // n_parts
    parts = [make(size, 2, n_columns, seed, np.float32) for seed in range(n_parts)]
    X = da.concatenate([da.from_delayed(p[0], (size, n_columns), np.float32) for p in parts])
    y = da.concatenate([da.from_delayed(p[1], (size,), np.int64) for p in parts])
    clf = BayesPointClassifier(**GIVEN | {"cell_size": 400, "n_trees": 1})
    loaded()
    here = {"host": "127.0.0.1", "dashboard_address": "127.0.0.1:0"}
    with SubprocessCluster(n_workers=1, threads_per_worker=1, **here) as made, Client(made):
        before = psutil.Process().memory_info().rss
        many = DaskBayesPointClassifier(clf).fit(X, y)
        after = psutil.Process().memory_info().rss
    sample = 128 * many.model_.trees[0].tree.n_cells * n_columns * 4 / n
    print(
        f"{n:,} rows of {n_columns} float32 columns: the client has {(after - before) / n:.0f} "
        f"bytes a row more after the fit, and had {(peak() - before) / n:.0f} at its peak, rows "
        f"that the tree was grown from ({sample:.0f} bytes a row) included"
    )


def peak():
    """Largest memory of this process, in bytes; `getrusage` counts that of its parent, too."""
    with open("/proc/self/status") as lines:
        found = next(line for line in lines if line.startswith("VmHWM"))
    return 1024 * int(found.split()[1])


# ------------------------------------------------------------------------------- on paper


def rate(n_landmarks, n_cells=4, size=1_000, n_columns=50):
    """Seconds of a core for a cell: by itself, or a visit around landmarks."""
    X, y = rows(n_cells * size, n_columns=n_columns, dtype=np.float32)
    given = GIVEN | {"gamma": 0.02, "cell_size": size, "n_landmarks": n_landmarks, "n_trees": 1}
    visits = [0]
    undo = watched_visits(lambda: visits.__setitem__(0, visits[0] + 1))
    begun = time.process_time()
    clf = BayesPointClassifier(**given).fit(X, y)
    seconds = time.process_time() - begun
    undo()
    return seconds / clf.diagnostics_["cells"][0] / max(visits[0] - 1, 1), visits[0] - 1


def shuffling(n=200_000, n_columns=50):
    """Seconds of a core for a row: hashed, merged, and sent to its cell, without the network."""
    from bayespoint.distributed.blocks import Block, Facts
    from bayespoint.distributed.cells import gather_cells, split_by_cell
    from bayespoint.distributed.ordering import merge_pieces, sort_partition
    from bayespoint.inference.ep.cells.tree import grow
    from bayespoint.space.inputs import limits

    X, y = rows(n, n_columns=n_columns, dtype=np.float32)
    facts = Facts(np.array([0, n]), n_columns, X.nbytes, np.unique(y), *limits(X), X.dtype, False,
                  None, [])  # fmt: skip
    sort_partition(Block(X[:10], y[:10], np.ones(10), None), 0, facts)  # compiles
    begun = time.process_time()
    chunk = merge_pieces([sort_partition(Block(X, y, np.ones(n), None), 0, facts).rows], facts)
    first = (time.process_time() - begun) / n
    tree = grow(chunk.X, 1_000, np.random.SeedSequence(0))
    begun = time.process_time()
    gather_cells(split_by_cell(chunk, None, 0, tree, tree.n_cells), 0, tree.n_cells)
    return first, (time.process_time() - begun) / n


def paper(_):
    """What 10^9 rows on 100 machines would take, by rates that are measured on this one."""
    n, machines, cores, network = 1e9, 100, 16, 1.25e9  # bytes a second, of a machine
    loaded()
    alone, _ = rate(0)
    visit, n_visits = rate(700)
    hashed, sent = shuffling()
    print(
        f"measured: a cell of 1,000 rows and 50 columns takes {alone:.2f} s of a core by itself, "
        f"{visit:.2f} s a visit around 700 landmarks ({n_visits} visits); a row {1e6 * hashed:.1f} "
        f"us to be hashed and merged, {1e6 * sent:.1f} us to its cell"
    )
    n_bytes, message, chunks = n * 50 * 4, 8 * 700**2, 1024
    each = n / 1_000 / (machines * cores)  # cells of a core
    travel = 2 * n_bytes / machines / network
    print(
        f"10^9 rows of 50 float32 columns ({n_bytes / 1e9:.0f} GB), {machines} machines of {cores} "
        f"cores and {network / 1e9:.2f} GB/s: both shuffles {travel:.0f} s on the wire, "
        f"{n * (hashed + sent) / machines / cores:.0f} s of work; cells alone {alone * each:.0f} s "
        f"a tree; around 700 landmarks {visit * each:.0f} s a visit, with {chunks} messages of "
        f"{message / 1e6:.1f} MB ({chunks * message / 1e9:.1f} GB in all)"
    )


# ------------------------------------------------------------------------------- a picture

# Kinds of tasks, by their names, and colours that all can tell apart.
KINDS = {
    "check and look": ("#999999", ("check-partition", "look-at-partition", "array", "getitem")),
    "put in order": ("#56b4e9", ("sort-partition", "sample-order", "piece-of-order",
                                 "merge-pieces")),
    "to cells": ("#e69f00", ("split-by-cell", "rows-to-cells", "gather-cells", "split-sites",
                             "sites-in-order", "gather-sites")),
    "sweep cells": ("#0072b2", ("sweep-cells", "visit-cells")),
    "other": ("#cc79a7", ()),
}  # fmt: skip


def stream(options):
    """Draw what Dask's task stream shows."""
    import matplotlib.pyplot as plt
    from distributed import get_task_stream
    from distributed.utils import key_split

    X, y = rows(options.rows or 20_000)
    with cluster(2) as (_, client), get_task_stream(client) as tasks:
        DaskBayesPointClassifier(BayesPointClassifier(**GIVEN | {"cell_size": 500})).fit(
            *divided(X, y, 16)
        )
    workers = sorted({task["worker"] for task in tasks.data})
    begun = min(one["start"] for task in tasks.data for one in task["startstops"])
    figure, axes = plt.subplots(figsize=(10, 3), layout="constrained")
    named = {name: kind for kind, (_, names) in KINDS.items() for name in names}
    for task in tasks.data:
        kind = named.get(key_split(task["key"]), "other")
        for one in task["startstops"]:
            if one["action"] == "compute":
                axes.barh(workers.index(task["worker"]), one["stop"] - one["start"], 0.7,
                          left=one["start"] - begun, color=KINDS[kind][0])  # fmt: skip
    for kind, (colour, _) in KINDS.items():
        axes.barh(0, 0, color=colour, label=kind)
    axes.set_yticks(range(len(workers)), [f"worker {k + 1}" for k in range(len(workers))])
    axes.set_xlabel("time, seconds", fontsize=14)
    axes.tick_params(labelsize=13)
    axes.legend(loc="upper center", bbox_to_anchor=(0.5, 1.25), ncols=5, fontsize=12, frameon=False)
    figure.savefig(options.picture, dpi=110)


PARTS = {
    "equality": equality, "kills": kills, "lost": lost, "covertype": covertype, "bytes": sizes,
    "memory": memory, "client": client_memory, "paper": paper, "stream": stream,
}  # fmt: skip


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--part", choices=PARTS, required=True)
    parser.add_argument("--rows", type=int, help="as many as a part takes by default")
    parser.add_argument("--runs", type=int, default=20, help="of kills")
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 2, 4], help="of some parts")
    parser.add_argument("--sizes", type=int, nargs="+", default=[8_000, 16_000, 32_000])
    parser.add_argument(
        "--chosen-on", type=int, default=50_000, help="rows, of covertype; 0: given"
    )
    parser.add_argument("--limit", type=float, default=1.5, help="GB of a worker, of memory")
    parser.add_argument("--picture", default="docs/_static/dask_tasks.png", help="of stream")
    parser.add_argument("--cell-size", type=int, default=200, help="of memory")
    options, begun = parser.parse_args(), time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        held = PARTS[options.part](options)
    print(f"[{options.part}: {time.perf_counter() - begun:.0f} s]")
    sys.exit(held is not None and not held)


if __name__ == "__main__":
    main()
