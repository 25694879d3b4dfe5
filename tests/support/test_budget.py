"""Time limits, Ctrl-C and the progress line of long work."""

import io
import signal
import threading

import pytest
from helpers.stops import can_press, press_ctrl_c

from bayespoint._support.budget import Budget


def looks_until_spent(budget, most=1000):
    """How often the work asks before it must stop."""
    return next(look for look in range(1, most) if budget.spent())


# ---------------------------------------------------------------------- limits


def test_time_is_up_at_the_limit_and_not_before(clock):
    budget = Budget(max_time=1.0)
    clock.now += 0.999
    assert not budget.spent()
    clock.now += 0.001
    assert budget.spent()
    assert budget.elapsed() == 1.0
    assert not budget.interrupted
    budget.raise_if_interrupted()  # time alone raises nothing


def test_work_ends_at_the_look_at_which_time_is_up(clock):
    clock.step = 0.25
    assert looks_until_spent(Budget(max_time=1.0)) == 4


def test_without_a_limit_time_never_ends(clock):
    budget = Budget()
    clock.now += 1e9
    assert not budget.spent()
    assert budget.elapsed() == 1e9


def test_each_stage_has_its_own_limit(clock):
    budget = Budget(max_time=1.0)
    clock.now += 5.0
    assert budget.spent()
    budget.renew(2.0)
    assert budget.elapsed() == 0.0
    assert not budget.spent()
    clock.now += 2.0
    assert budget.spent()
    budget.renew(None)
    assert not budget.spent()


def test_a_limit_can_be_lifted_for_a_while(clock):
    budget = Budget(max_time=1.0)
    clock.now += 2.0
    with budget.unlimited():
        assert not budget.spent()
    assert budget.spent()
    with pytest.raises(RuntimeError), budget.unlimited():
        raise RuntimeError
    assert budget.spent()
    with budget.unlimited():
        budget.interrupt()
        assert budget.spent()  # Ctrl-C still ends it


def test_work_ends_with_what_it_is_part_of(clock):
    whole = Budget(max_time=2.0)
    part = Budget(max_time=10.0, parent=whole)
    short = Budget(max_time=1.0, parent=whole)
    clock.now += 1.0
    assert [b.spent() for b in (whole, part, short)] == [False, False, True]
    clock.now += 1.0
    assert [b.spent() for b in (whole, part)] == [True, True]
    with part.unlimited():
        assert part.spent()


def test_an_interrupted_parent_stops_its_parts_and_not_the_other_way():
    whole = Budget()
    part, inner = Budget(parent=whole), Budget(parent=Budget(parent=whole))
    part.interrupt()
    assert [b.spent() for b in (whole, part, inner)] == [False, True, False]
    whole.interrupt()
    assert inner.spent()
    assert not inner.interrupted


# ---------------------------------------------------------------------- Ctrl-C


def test_an_interrupt_ends_its_stage_and_is_remembered():
    budget = Budget()
    budget.interrupt()
    assert budget.spent()
    assert budget.stopped
    budget.renew(None)
    assert not budget.stopped
    assert not budget.spent()  # what is left, such as the link, may still run
    assert budget.interrupted
    with pytest.raises(KeyboardInterrupt):
        budget.raise_if_interrupted()


@can_press
def test_the_first_ctrl_c_is_noted_and_the_second_acts_at_once():
    budget = Budget()
    with budget.catching_interrupts():
        press_ctrl_c()
        assert budget.stopped
        assert budget.spent()
        with pytest.raises(KeyboardInterrupt):
            press_ctrl_c()
        # Already: it might have come just before the handler is put back.
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


@can_press
def test_ctrl_c_means_what_it_did_once_the_work_is_done():
    budget = Budget()
    with budget.catching_interrupts():
        pass
    with pytest.raises(KeyboardInterrupt):
        press_ctrl_c()
    assert not budget.interrupted
    with pytest.raises(RuntimeError), budget.catching_interrupts():
        raise RuntimeError("failed")
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


@can_press
def test_work_inside_other_work_leaves_ctrl_c_to_the_outer_one():
    outer, inner = Budget(), Budget()
    with outer.catching_interrupts():
        with inner.catching_interrupts():
            press_ctrl_c()
        assert outer.interrupted
        assert not inner.interrupted


@can_press
def test_a_handler_of_the_user_is_left_alone():
    caught, budget = [], Budget()
    signal.signal(signal.SIGINT, lambda *_: caught.append("mine"))
    with budget.catching_interrupts():
        press_ctrl_c()
    assert caught == ["mine"]
    assert not budget.interrupted


def test_another_thread_changes_no_handler():
    found = []

    def work():
        with Budget().catching_interrupts():
            found.append(signal.getsignal(signal.SIGINT))

    before = signal.getsignal(signal.SIGINT)
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert found == [before]


# ---------------------------------------------------------------------- progress


class Terminal(io.StringIO):
    def isatty(self):
        return True


def shown_on(screen, monkeypatch):
    """Let progress be shown there; in the test itself, as pytest sets standard error for it."""
    monkeypatch.setattr("sys.stderr", screen)
    return screen


def test_the_line_says_what_is_done_and_how_long_it_took(clock, monkeypatch):
    terminal = shown_on(Terminal(), monkeypatch)
    budget = Budget(label="bayespoint: fit")
    clock.now += 1.25
    budget.show(6, 24, "draws")
    bar = "######" + 18 * "."
    assert terminal.getvalue().rstrip() == f"\rbayespoint: fit [{bar}] 6/24 draws 1.2 s"
    clock.now += 1.0
    budget.show(24, 24)
    last = terminal.getvalue().split("\r")[-1]
    assert last.startswith(f"bayespoint: fit [{24 * '#'}] 24/24 ")
    assert last.rstrip().endswith("2.2 s")
    assert last.endswith("\n")


@pytest.mark.parametrize(("screen", "seconds"), [(Terminal, 0.1), (io.StringIO, 10.0)])
def test_the_line_is_drawn_now_and_then_and_at_the_end(screen, seconds, clock, monkeypatch):
    stream = shown_on(screen(), monkeypatch)
    budget = Budget(label="fit")
    n_drawn = []
    for done, wait in ((1, 0.9), (2, 0.2), (3, 0.5), (4, 0.6), (5, 0.0)):
        clock.now += wait * seconds
        budget.show(done, 5)
        n_drawn.append(stream.getvalue().count("\r"))
    assert n_drawn == [0, 1, 1, 2, 3]


def test_a_line_that_was_left_open_is_ended_once(clock, monkeypatch):
    terminal = shown_on(Terminal(), monkeypatch)
    budget = Budget(label="fit")
    budget.close()
    assert terminal.getvalue() == ""
    clock.now += 1.0
    budget.show(1, 2)
    assert not terminal.getvalue().endswith("\n")
    budget.close()
    budget.close()
    assert terminal.getvalue().count("\n") == 1
    budget.show(2, 2)  # ends the line itself
    budget.close()
    assert terminal.getvalue().count("\n") == 2


def test_nothing_is_shown_without_a_label_or_while_silent(clock, monkeypatch):
    terminal = shown_on(Terminal(), monkeypatch)
    clock.step = 1.0
    Budget().show(1, 1)
    budget = Budget(label="fit")
    with budget.silent():
        budget.show(1, 2)
    assert terminal.getvalue() == ""
    budget.show(1, 2)
    assert "1/2" in terminal.getvalue()


def test_no_work_at_all_is_done_at_once(monkeypatch):
    terminal = shown_on(Terminal(), monkeypatch)
    Budget(label="fit").show(0, 0)
    assert "0/0" in terminal.getvalue()
    assert terminal.getvalue().endswith("\n")
