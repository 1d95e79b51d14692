"""How far and how fast a measurement is."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """How far a measurement is.

    Attributes:
        done: Results so far, those of former runs included.
        fresh: Those of them that this run made.
        total: Results that there will be.
        seconds: Since the first fresh result; the time to load models is no part of the rate.
    """

    done: int
    fresh: int
    total: int
    seconds: float

    @property
    def rate(self) -> float:
        """Fresh results a second."""
        return (self.fresh - 1) / self.seconds if self.seconds > 0 else 0.0

    @property
    def seconds_left(self) -> float | None:
        """Until the end, at this rate; None before there is a rate."""
        return (self.total - self.done) / self.rate if self.rate else None
