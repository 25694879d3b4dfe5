"""Long work, announced to a watcher: what will be done, and about how long it takes."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TypeAlias

# What is told: what will be done, and about how many seconds it takes.
Told: TypeAlias = Callable[[str, float], None]

_WATCHER: ContextVar[Told | None] = ContextVar("bayespoint watcher", default=None)


@contextmanager
def watched_by(told: Told) -> Iterator[None]:
    """Announce long work that begins in this context to a watcher."""
    token = _WATCHER.set(told)
    try:
        yield
    finally:
        _WATCHER.reset(token)


def watcher() -> Told | None:
    """Return whom to tell, or None where nobody watches."""
    return _WATCHER.get()
