"""Threads beside single-threaded BLAS: limits that are lifted, work that is waited for."""

import _thread
import threading
import time

import pytest
from threadpoolctl import threadpool_info, threadpool_limits

from bayespoint._support.threads import Threads, open_threads


def n_blas_threads():
    return [p["num_threads"] for p in threadpool_info() if p["user_api"] == "blas"]


def interrupted(_):
    raise KeyboardInterrupt


def test_blas_has_one_thread_inside_and_its_own_number_after():
    with threadpool_limits(2, user_api="blas"):
        before = n_blas_threads()
        assert set(before) == {2}
        with open_threads(2):
            assert set(n_blas_threads()) == {1}
        assert n_blas_threads() == before
        with pytest.raises(KeyboardInterrupt), open_threads(2):
            raise KeyboardInterrupt
        assert n_blas_threads() == before


def test_blas_has_one_thread_again_after_an_interrupt_on_the_way_out(monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(Threads, "close", interrupted)
        with pytest.raises(KeyboardInterrupt), open_threads(1):
            pass
    with threadpool_limits(2, user_api="blas"), open_threads(1):
        assert set(n_blas_threads()) == {1}


@pytest.mark.parametrize("n_threads", [1, 2])
def test_results_come_back_in_order(n_threads):
    with open_threads(n_threads) as threads:
        assert threads.each(lambda i: i * i, range(20)) == [i * i for i in range(20)]


@pytest.mark.parametrize(("at_once", "most"), [(None, 3), (2, 2), (1, 1)])
def test_so_many_calls_at_once(at_once, most):
    running, seen, lock = 0, [], threading.Lock()
    together = threading.Barrier(most, timeout=60)  # broken where fewer run at once

    def work(_):
        nonlocal running
        with lock:
            running += 1
            seen.append(running)
        together.wait()
        time.sleep(0.01)  # in which one too many would begin
        with lock:
            running -= 1

    with open_threads(3) as threads:
        threads.each(work, range(6), at_once)
    assert max(seen) == most


@pytest.mark.parametrize("where", ["a worker", "the caller that waits", "the caller that starts"])
def test_no_work_goes_on_behind_an_interrupt(where):
    # What is still running would write into rows and outputs that the caller goes on to use.
    running, finished = threading.Event(), []

    def work(argument):
        if argument == "long":
            running.set()
            time.sleep(0.15)
            finished.append(argument)
        elif where == "a worker":
            raise KeyboardInterrupt
        else:
            time.sleep(0.05)  # until the caller waits for results
            _thread.interrupt_main()

    def arguments():
        yield "long"
        running.wait()
        if where == "the caller that starts":
            raise KeyboardInterrupt
        yield "interrupt"

    with open_threads(2) as threads:
        with pytest.raises(KeyboardInterrupt):
            threads.each(work, arguments())
        assert finished == ["long"]
        assert threads.each(str, [1, 2]) == ["1", "2"]
