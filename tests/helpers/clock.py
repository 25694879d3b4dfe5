"""A clock that tests move."""

from dataclasses import dataclass


@dataclass
class Clock:
    """Seconds since some moment, and how far each look moves it on.

    With ``step = 0.25`` a limit of one second ends the work at its fourth look, however fast the
    machine is; with 0, the default, time stands still.
    """

    now: float = 0.0
    step: float = 0.0

    def __call__(self) -> float:
        self.now += self.step
        return self.now
