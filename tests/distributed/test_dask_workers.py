"""Workers that are killed, that join, and that are all lost; work that is given up."""

import _thread
import os
import signal
import threading
import time

import pytest
from helpers.clusters import PATIENCE, bits, local_cluster, on_cluster, one, rows
from numpy.testing import assert_array_equal
from sklearn.base import clone

pytest.importorskip("dask")  # not "distributed", which is this folder where it is missing

from bayespoint.distributed import DaskBayesPointClassifier, session
from bayespoint.distributed.session import Session, WorkersLostError

X, Y = rows(500)
AROUND = {"n_landmarks": 15, "cell_size": 50, "n_trees": 1}


@pytest.fixture
def cluster():
    cluster, client = local_cluster()
    with cluster, client:
        yield cluster


def processes(cluster):
    """Process numbers of the workers."""
    return sorted(worker.pid for worker in cluster.workers.values())


def at_tasks(monkeypatch, name, number, act):
    """Act when tasks of a name are submitted for the so-manieth time."""
    submit, seen = Session.map, []

    def watched(self, task_name, *others, **more):
        found = submit(self, task_name, *others, **more)
        if task_name == name:
            seen.append(name)
            if len(seen) == number:
                act()
        return found

    monkeypatch.setattr(Session, "map", watched)
    return seen


def fit_with_a_kill(cluster, monkeypatch, name, number, **settings):
    def kill():
        os.kill(processes(cluster)[0], signal.SIGKILL)

    seen = at_tasks(monkeypatch, name, number, kill)
    found = DaskBayesPointClassifier(one(**settings)).fit(*on_cluster(X, Y)).to_local()
    assert len(seen) >= number
    return found


def check_same(found, **settings):
    for array, wanted in zip(bits(found), bits(one(**settings).fit(X, Y)), strict=True):
        assert_array_equal(array, wanted)


def test_a_worker_killed_in_the_middle_changes_nothing(cluster, monkeypatch):
    found = fit_with_a_kill(cluster, monkeypatch, "visit-cells", 4, **AROUND)
    check_same(found, **AROUND)


MOMENTS = [
    ("piece-of-order", 1, {}), ("rows-to-cells", 1, {}), ("sweep-cells", 1, {}),
    ("sweep-cells", 2, {}), ("sites-in-order", 1, {}), ("part-of-model", 1, {}),
    ("visit-cells", 1, AROUND), ("visit-cells", 3, AROUND), ("visit-cells", 5, AROUND),
    ("add-messages", 1, AROUND), ("add-messages", 3, AROUND), ("finish-cells", 1, AROUND),
]  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("moment", range(20))
def test_a_worker_killed_at_any_moment_changes_nothing(cluster, monkeypatch, moment):
    name, number, settings = MOMENTS[moment % len(MOMENTS)]
    found = fit_with_a_kill(cluster, monkeypatch, name, number, **settings)
    check_same(found, **settings)


@pytest.mark.slow
def test_workers_that_leave_and_one_that_joins_change_nothing(cluster, monkeypatch):
    from distributed import get_task_stream

    client = session.dask_client()
    before = set(client.nthreads())

    def join():
        cluster.scale(3)
        client.wait_for_workers(3, timeout=PATIENCE)
        client.retire_workers(list(before))

    at_tasks(monkeypatch, "visit-cells", 2, join)
    with get_task_stream(client) as tasks:
        found = DaskBayesPointClassifier(one(**AROUND)).fit(*on_cluster(X, Y)).to_local()
    check_same(found, **AROUND)
    assert {task["worker"] for task in tasks.data} - before


def n_tasks(client):
    return client.run_on_scheduler(lambda dask_scheduler: len(dask_scheduler.tasks))


def left_over(client, wanted=0):
    """Tasks on the cluster, once it had some time to forget."""
    begun = time.monotonic()
    while n_tasks(client) > wanted and time.monotonic() - begun < PATIENCE / 4:
        time.sleep(0.05)
    return n_tasks(client)


def interrupt():
    raise KeyboardInterrupt


def slow(part):
    """Rows that take long."""
    time.sleep(PATIENCE)
    return part


def change_status(dask_worker, status):
    """Pause a worker for good, as full memory does, or let it run."""
    dask_worker.periodic_callbacks["memory_monitor"].stop()
    dask_worker.status = type(dask_worker.status)[status]


def test_work_that_is_given_up_leaves_nothing_on_the_cluster(cluster, monkeypatch):
    clf = DaskBayesPointClassifier(one(n_trees=1, cell_size=50))
    at_tasks(monkeypatch, "sweep-cells", 1, interrupt)
    client = session.dask_client()
    kept = client.submit(sum, [1, 2])
    with pytest.raises(KeyboardInterrupt):
        clf.fit(*on_cluster(X, Y))
    assert left_over(client, 1) == 1  # what others put there
    assert kept.result(PATIENCE) == 3
    del kept
    assert left_over(client) == 0
    assert not hasattr(clf, "classes_")
    # Nor does a model that is there no more.
    clf.fit(*on_cluster(X, Y))
    assert n_tasks(client)
    del clf
    assert left_over(client) == 0
    # One worker is enough; without any that runs there is an end, too.
    first, second = client.nthreads()
    client.run(change_status, status="paused", workers=[first])
    DaskBayesPointClassifier(one(n_trees=1)).fit(*on_cluster(X, Y))
    client.run(change_status, status="paused", workers=[second])
    monkeypatch.setattr(session, "PAUSED", 1.0)
    with pytest.raises(WorkersLostError, match=r"2 of 2 workers are paused.* nothing has run"):
        DaskBayesPointClassifier(one(n_trees=1)).fit(*on_cluster(X, Y))
    client.run(change_status, status="running")
    monkeypatch.setattr(session, "ALONE", 1.0)
    at_tasks(monkeypatch, "sweep-cells", 1, lambda: cluster.scale(0))
    with pytest.raises(WorkersLostError, match="no workers for 1 s"):
        DaskBayesPointClassifier(one(n_trees=1)).fit(*on_cluster(X, Y))


def test_the_first_worker_is_waited_for(monkeypatch):
    cluster, client = local_cluster(0)
    told = []

    def start_one(message):
        told.append(message)
        cluster.scale(1)

    monkeypatch.setattr(session, "ALONE", 0.0)
    with cluster, client:
        monkeypatch.setattr(session, "FIRST", 0.0)
        with pytest.raises(WorkersLostError, match=r"has had no workers for 0 s.*wait_for_workers"):
            DaskBayesPointClassifier(one(n_trees=1)).fit(*on_cluster(X, Y))
        monkeypatch.setattr(session, "FIRST", 600.0)
        monkeypatch.setattr(session, "warn", start_one)
        DaskBayesPointClassifier(one(n_trees=1)).fit(*on_cluster(X, Y))
    assert len(told) == 1
    assert "has no workers yet; waiting 600 s more" in told[0]


@pytest.mark.slow
@pytest.mark.usefixtures("cluster")
def test_an_interrupt_while_results_are_awaited_cancels_them():
    at, y = on_cluster(X, Y)
    client, seen = session.dask_client(), []

    def interrupt_while_it_runs():
        while not any(client.processing().values()):
            time.sleep(0.05)
        seen.extend([n_tasks(client), time.monotonic()])
        _thread.interrupt_main()

    threading.Thread(target=interrupt_while_it_runs).start()
    with pytest.raises(KeyboardInterrupt):
        DaskBayesPointClassifier(one()).fit(at.map_blocks(slow, dtype=at.dtype, meta=X[:0]), y)
    n_running, interrupted = seen
    assert n_running
    assert time.monotonic() - interrupted < PATIENCE / 2  # it did not wait for them
    assert left_over(client) == 0


def test_a_client_that_is_not_the_current_one():
    from distributed import Client, LocalCluster

    at, y = on_cluster(X[:120], Y[:120])
    here = {"processes": False, "n_workers": 1, "dashboard_address": "127.0.0.1:0"}
    with LocalCluster(**here) as cluster, Client(cluster, set_as_default=False) as other:
        many = DaskBayesPointClassifier(one(n_trees=1), other).fit(at, y)
        assert other.who_has()
        assert clone(many).client is other
        found = other.compute(many.predict(at)).result()
        assert many.score(at, y) == (found == Y[:120]).mean()


def test_a_client_that_cannot_wait_is_refused():
    import asyncio

    from distributed import Client

    here = {"processes": False, "n_workers": 1, "dashboard_address": "127.0.0.1:0"}

    async def fit():
        async with Client(**here, asynchronous=True) as client:
            with pytest.raises(ValueError, match="client is asynchronous"):
                DaskBayesPointClassifier(one(), client).fit(*on_cluster(X, Y))

    asyncio.run(fit())
    with Client(**here) as closed:
        pass
    with pytest.raises(ValueError, match="client is closed"):
        DaskBayesPointClassifier(one(), closed).fit(*on_cluster(X, Y))
