"""What tasks share: one thread each, and memory that is used again."""

import ctypes
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache, wraps
from typing import Any

from bayespoint._support.threads import open_threads

# Dask's nanny sets this for its workers, so that memory goes back early. It also keeps glibc from
# raising the size from which on arrays are mapped, cleared and unmapped each time: sweeps then take
# half as long again.
SET_BY_NANNY = "MALLOC_TRIM_THRESHOLD_"

# Codes of glibc's `mallopt`, and the values that it reaches by itself. Afterwards large arrays,
# such as rows, are mapped again, and leave no holes; what threads keep goes back where a worker has
# used more than this share of its memory: Dask writes to disk from 70 % on, and waits at 80 %.
TRIM_THRESHOLD, MMAP_THRESHOLD = -1, -3
REUSED = {TRIM_THRESHOLD: 2**26, MMAP_THRESHOLD: 2**25}
AFTERWARDS = {MMAP_THRESHOLD: 2**17}
TIGHT = 0.6

_lock, _computing = threading.Lock(), 0


def computing(task: Callable) -> Callable:
    """Return a task that keeps BLAS to one thread, since workers run several, and reuses memory."""

    @wraps(task)
    def alone(*arguments: Any, **named: Any) -> Any:
        with open_threads(1), reused_memory():
            return task(*arguments, **named)

    return alone


@contextmanager
def reused_memory() -> Iterator[None]:
    """Let temporary arrays use memory again."""
    library = glibc() if SET_BY_NANNY in os.environ else None
    if library is None:
        yield
        return
    _count(library, 1)
    try:
        yield
    finally:
        _count(library, -1)


def _count(library: Any, more: int) -> None:
    """Count tasks that compute: the first one and the last one change what glibc does."""
    global _computing
    with _lock:
        _computing += more
        if _computing == max(more, 0):
            for code, value in (REUSED if more > 0 else AFTERWARDS).items():
                library.mallopt(code, value)
            if more < 0 and is_tight():
                library.malloc_trim(0)


def is_tight() -> bool:
    """Whether this is a worker whose memory is nearly full, as Dask counts it."""
    worker = this_worker()
    return worker is not None and worker.monitor.get_process_memory() > TIGHT * memory_limit()


def memory_limit() -> float:
    """Return the bytes that this worker may use; infinite where there is no limit."""
    worker = this_worker()
    return float("inf") if worker is None else worker.memory_manager.memory_limit or float("inf")


def this_worker() -> Any:
    """Return the worker that runs this task, or None."""
    from distributed import get_worker

    try:
        return get_worker()
    except ValueError:
        return None


@cache
def glibc() -> Any:
    """Return the C library, or None where it is another one."""
    try:
        library = ctypes.CDLL(None)
    except (OSError, TypeError):
        return None
    return library if hasattr(library, "mallopt") else None


def same(value: Any) -> Any:
    """Return the value itself: a task that holds it."""
    return value


def item(values: Any, number: int) -> Any:
    """Return one of several results of a task."""
    return values[number]
