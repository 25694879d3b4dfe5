"""Threads of our own beside single-threaded BLAS."""

import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager, nullcontext
from functools import cache
from typing import Any

from threadpoolctl import ThreadpoolController


class Threads:
    """A few threads for functions that release the GIL; with one, no thread is started."""

    def __init__(self, n_threads: int) -> None:
        self.n_threads = n_threads
        self._pool = ThreadPoolExecutor(n_threads) if n_threads > 1 else None

    def each(
        self, function: Callable[[Any], Any], arguments: Iterable[Any], at_once: int | None = None
    ) -> list[Any]:
        """Call ``function`` on each argument and return the results in order.

        ``at_once``: most calls that run at a time, where each takes much memory.
        """
        if self._pool is None or at_once == 1:
            return [function(argument) for argument in arguments]
        gate = threading.Semaphore(at_once or self.n_threads)

        def gated(argument: Any) -> Any:
            with gate:
                return function(argument)

        futures: list = []
        try:
            for argument in arguments:
                futures.append(self._pool.submit(gated, argument))  # noqa: PERF401
            return [future.result() for future in futures]
        except BaseException:  # an error or Ctrl-C: nothing may run on behind our back
            for future in futures:
                future.cancel()
            wait(futures)
            raise

    def close(self) -> None:
        """Wait for what is running and end the threads."""
        if self._pool is not None:
            self._pool.shutdown(wait=True, cancel_futures=True)


@contextmanager
def open_threads(n_threads: int) -> Iterator[Threads]:
    """Threads beside single-threaded BLAS, ended on the way out.

    BLAS keeps to one thread, because more threads than cores wait for each other. The limit
    belongs to the process: one caller at a time sets and lifts it, and results do not depend on
    it.
    """
    threads = Threads(n_threads)
    limits_blas = _limiting_blas.acquire(blocking=False)
    try:
        with _blas().limit(limits=1, user_api="blas") if limits_blas else nullcontext():
            yield threads
    finally:
        try:
            threads.close()
        finally:  # Ctrl-C may end the wait
            if limits_blas:
                _limiting_blas.release()


_limiting_blas = threading.Lock()


@cache
def _blas() -> ThreadpoolController:
    return ThreadpoolController()  # looks through all loaded libraries: once is enough
