"""Tasks of one fit on a Dask cluster: named, watched, and cancelled when the fit ends early."""

import uuid
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from concurrent.futures import TimeoutError as NotYet
from types import TracebackType
from typing import Any, NamedTuple

import numpy as np

from bayespoint._support.budget import Budget, clock
from bayespoint._support.checks import warn
from bayespoint.distributed.tasks import item, same

# Seconds between two looks at the cluster while results are awaited, and without any worker before
# a fit gives up: a worker that was killed is there again after some seconds. The first ones may
# have to be started by others, so a fit waits longer for them, and says so. Likewise while workers
# are paused, because their memory is full, and nothing runs: to write it to disk takes a while.
LOOK = 1.0
ALONE, FIRST, PAUSED = 30.0, 600.0, 120.0

# Size of a value in a task from which on Dask warns: precisions of w are meant to be there.
MOST_HELD = "1GB"


class WorkersLostError(RuntimeError):
    """The cluster has no workers left, or none that can go on."""


def dask_client(client: Any = None) -> Any:
    """Return the Dask client to use: the one given, or the one that is current."""
    try:
        from distributed import get_client
    except ImportError as error:
        raise ImportError(
            "DaskBayesPointClassifier needs dask and distributed: pip install 'bayespoint[dask]'."
        ) from error
    try:
        client = get_client() if client is None else client
    except ValueError as error:
        raise ValueError(
            "there is no Dask client: start one, client = distributed.Client(), or pass client=."
        ) from error
    if client.asynchronous or client.status == "closed":
        how = "asynchronous, and would wait for itself" if client.asynchronous else "closed"
        raise ValueError(f"the Dask client is {how}: start another one, distributed.Client().")
    return client


# Bytes that the libraries of a worker take, and copies of what a task works on that there may be at
# a time: pieces, all of them, temporary ones. Dask begins to spill at 60 % of the memory.
LIBRARIES, COPIES = 4e8, 8


class Room(NamedTuple):
    """Memory of workers, in bytes; infinite where there is no limit."""

    task: float  # for what a task works on, where each thread has one
    total: float
    n_threads: int  # of all workers


class Session:
    """Tasks of one fit.

    All of them are pure functions, so that those of a worker that is lost run again elsewhere.
    Used in a ``with`` block, which cancels what still runs where it is left by an error.

    Parameters
    ----------
    client : distributed.Client
    budget : Budget
        Time and progress of the fit.
    """

    def __init__(self, client: Any, budget: Budget) -> None:
        self.client, self.budget = client, budget
        self._token, self._count = uuid.uuid4().hex, 0
        self._futures: weakref.WeakSet[Any] = weakref.WeakSet()
        self.had_workers = bool(self.workers())

    def __enter__(self) -> "Session":
        return self

    def __exit__(
        self, kind: type | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is not None:
            self.cancel(list(self._futures))

    def cancel(self, futures: Sequence[Any]) -> None:
        """Leave nothing of some tasks on the cluster.

        They are let go, not cancelled: that fails where the client has let go of what needs them.
        """
        if self.client.status == "running":
            for future in futures:
                future.release()

    def map(self, name: str, task: Callable, *arguments: Iterable[Any], **same: Any) -> list:
        """Submit a task for each of the arguments; ``same``: arguments of all of them."""
        columns = [list(argument) for argument in arguments]
        keys = [self.key(name) for _ in columns[0]]
        if not keys:
            return []
        futures = self.client.map(task, *columns, key=keys, batch_size=len(keys), **same)
        self._futures.update(futures)
        return futures

    def submit(self, name: str, function: Callable, *arguments: Any) -> Any:
        """Submit a task."""
        future = self.client.submit(function, *arguments, key=self.key(name))
        self._futures.add(future)
        return future

    def transposed(
        self, name: str, lists: list, n_items: int, take: Callable = item, **same: Any
    ) -> list[list]:
        """Take items from what tasks return: the first of each of them, and so on."""
        # All items of a list before those of the next one, and before other lists are made: a list
        # that had to leave memory is read back once, not once for each of its items.
        each = [one for one in lists for _ in range(n_items)]
        numbers = list(range(n_items)) * len(lists)
        items = self.map(name, take, each, numbers, priority=1, **same)
        return [items[k::n_items] for k in range(n_items)]

    def hold(self, name: str, value: Any) -> Any:
        """Put a value on the cluster, in a task: a worker that is lost does not take it along."""
        from dask import config

        with config.set({"distributed.admin.large-graph-warning-threshold": MOST_HELD}):
            return self.submit(name, same, value)

    def compute(self, delayed: Sequence[Any]) -> list[Any]:
        """Submit delayed values, which have their names."""
        futures = self.client.compute(list(delayed))
        self._futures.update(futures)
        return futures

    def one_by_one(self, delayed: Sequence[Any]) -> Iterator[Any]:
        """Compute delayed values in turn, the next one while the last is used."""
        ahead: list[Any] = []
        for one in [*delayed, None]:
            ahead += [] if one is None else self.compute([one])
            if len(ahead) > 1 or (ahead and one is None):
                yield self.results(ahead.pop(0))

    def workers(self) -> list[dict[str, Any]]:
        """Return what the scheduler tells of each worker."""
        return list(self.client.scheduler_info(n_workers=-1)["workers"].values())

    def room(self) -> Room:
        """Return the memory that workers have."""
        workers = self.workers()
        limits = np.array([worker["memory_limit"] or np.inf for worker in workers] or [np.inf])
        threads = np.array([worker["nthreads"] for worker in workers] or [1])
        free = np.maximum(limits - LIBRARIES, limits / 4)
        return Room((free / threads).min() / COPIES, limits.sum(), int(threads.sum()))

    def key(self, name: str) -> str:
        """Name of the next task."""
        self._count += 1
        return f"{name}-{self._count}-{self._token}"

    def results(self, futures: Any, whose: str | None = None) -> Any:
        """Wait for tasks and return their results; raise where one fails or no worker is left.

        ``whose``: what each of several tasks computes, which errors name with its number.
        """
        with ThreadPoolExecutor(1) as pool:
            gathering = pool.submit(self.client.gather, futures)
            watch = Watch(self)
            try:
                while not gathering.done():
                    try:
                        gathering.exception(timeout=LOOK)
                    except NotYet:
                        watch.look(futures)
                return gathering.result()
            except BaseException as error:
                failed = [future.status == "error" for future in futures] if whose else []
                if any(failed):
                    error.add_note(f"It was raised in {whose} {failed.index(True)}.")
                self.cancel(list(self._futures))  # which ends the gathering, too
                raise

    def wait(
        self, futures: Sequence[Any], show: Callable[[int, int], None] = lambda *_: None,
        stop: Callable[[], bool] = lambda: False,
    ) -> bool:  # fmt: skip
        """Wait for tasks until they are done, or there is no more time; whether they are done."""
        from distributed import wait

        watch = Watch(self)
        while True:
            try:
                with self.client.as_current():  # or it asks the default client, if there is one
                    wait(futures, timeout=LOOK)
                show(len(futures), len(futures))
                return True
            except TimeoutError:
                watch.look(futures)
            if n_done := sum(future.done() for future in futures):
                show(n_done, len(futures))
            if stop():
                return False


class Watch:
    """Looks at the workers while tasks are awaited, and raises when they can no longer end."""

    def __init__(self, session: Session) -> None:
        self._session, self._there, self._went_on = session, clock(), clock()
        self._told = False

    def look(self, futures: Any) -> None:
        """Raise a WorkersLostError without workers, or with paused ones while nothing runs."""
        from distributed import futures_of

        workers, now = self._session.workers(), clock()
        paused = [worker for worker in workers if worker["status"] == "paused"]
        if workers:
            self._session.had_workers, self._there = True, now
        if not paused or any(map(is_busy, workers)) or all(f.done() for f in futures_of(futures)):
            self._went_on = now
        if now - self._there > ALONE:
            self._without_workers(now - self._there)
        if now - self._went_on > PAUSED:
            raise WorkersLostError(
                f"{len(paused)} of {len(workers)} workers are paused, since their memory is full "
                f"({paused[0]['memory_limit'] / 1e9:.1f} GB), and nothing has run for "
                f"{PAUSED:.0f} s. Use more or larger workers, or ones with fewer threads."
            )

    def _without_workers(self, seconds: float) -> None:
        """Give up, but wait for the first ones."""
        if self._session.had_workers:
            raise WorkersLostError(
                f"the cluster had no workers for {ALONE:.0f} s. Look at their logs (too little "
                f"memory is the usual cause), and fit again once workers are there."
            )
        if seconds > FIRST:
            raise WorkersLostError(
                f"the cluster has had no workers for {FIRST:.0f} s. Start some, or wait for them "
                f"first: client.wait_for_workers(1)."
            )
        if not self._told:
            warn(
                f"the cluster at {self._session.client.scheduler.address} has no workers yet; "
                f"waiting {FIRST - ALONE:.0f} s more for the first one."
            )
        self._told = True


def is_busy(worker: dict[str, Any]) -> bool:
    """Whether a worker computes or receives something."""
    counts = worker["metrics"].get("task_counts", {})
    return any(counts.get(state) for state in ("executing", "long-running", "flight"))
