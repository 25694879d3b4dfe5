"""Somebody who watches long work: told in advance what will be done, and about how long."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TypeAlias

# What is told: what will be done, and about how many seconds it takes.
Told: TypeAlias = Callable[[str, float], None]

_WATCHER: ContextVar[Told | None] = ContextVar("bayespoint watcher", default=None)


@contextmanager
def watched_by(told: Told) -> Iterator[None]:
    """Let somebody be told of long work that begins in this context."""
    token = _WATCHER.set(told)
    try:
        yield
    finally:
        _WATCHER.reset(token)


def watcher() -> Told | None:
    """Return whom to tell, or None where nobody watches."""
    return _WATCHER.get()
