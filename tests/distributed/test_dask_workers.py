"""Workers that are killed, that join, and that are all lost; work that is given up."""

import os
import signal
import time

import pytest
from helpers.clusters import PATIENCE, bits, local_cluster, on_cluster, one, rows
from numpy.testing import assert_array_equal

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
    ("split-by-hash", 1, {}), ("rows-to-cells", 1, {}), ("sweep-cells", 1, {}),
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
def test_a_worker_that_joins_changes_nothing(cluster, monkeypatch):
    at_tasks(monkeypatch, "visit-cells", 2, lambda: cluster.scale(3))
    found = DaskBayesPointClassifier(one(**AROUND)).fit(*on_cluster(X, Y)).to_local()
    check_same(found, **AROUND)


def n_tasks(client):
    return client.run_on_scheduler(lambda dask_scheduler: len(dask_scheduler.tasks))


def left_over(client):
    """Tasks on the cluster, once it had some time to forget."""
    begun = time.monotonic()
    while n_tasks(client) and time.monotonic() - begun < PATIENCE / 4:
        time.sleep(0.05)
    return n_tasks(client)


def interrupt():
    raise KeyboardInterrupt


def test_work_that_is_given_up_leaves_nothing_on_the_cluster(cluster, monkeypatch):
    clf = DaskBayesPointClassifier(one(n_trees=1, cell_size=50))
    at_tasks(monkeypatch, "sweep-cells", 1, interrupt)
    with pytest.raises(KeyboardInterrupt):
        clf.fit(*on_cluster(X, Y))
    client = session.dask_client()
    assert left_over(client) == 0
    assert not hasattr(clf, "classes_")
    # Nor does a model that is there no more.
    clf.fit(*on_cluster(X, Y))
    assert n_tasks(client)
    del clf
    assert left_over(client) == 0
    # Without workers there is an end, too.
    monkeypatch.setattr(session, "ALONE", 1.0)
    at_tasks(monkeypatch, "sweep-cells", 1, lambda: cluster.scale(0))
    with pytest.raises(WorkersLostError, match="no workers for 1 s"):
        DaskBayesPointClassifier(one(n_trees=1)).fit(*on_cluster(X, Y))
