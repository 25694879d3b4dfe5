"""A clock that tests move."""

from collections.abc import Callable
from dataclasses import dataclass, field


@dataclass
class Clock:
    """Seconds since some moment, and how far each look moves it on.

    With ``step = 0.25`` a limit of one second ends the work at its fourth look, however fast the
    machine is; with 0, the default, time stands still. ``events``: what happens at which look,
    counted from 1.
    """

    now: float = 0.0
    step: float = 0.0
    looks: int = 0
    events: dict[int, Callable[[], None]] = field(default_factory=dict)

    def __call__(self) -> float:
        look = self.looks = self.looks + 1
        self.now += self.step
        event = self.events.pop(look, None)
        if event is not None:
            event()
        return self.now
