"""A call of a local model that may take so long and no longer, waited for in a thread or a loop."""

import asyncio
import math
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, wait
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, TypeVar

from .errors import CallTimeoutError

_Result = TypeVar("_Result")
_Call = TypeVar("_Call", bound="TimedCall[Any]")


def check_timeout(timeout: object) -> None:
    """Refuse what is no number of seconds that a call can be given.

    Raises:
        ValueError: Not a number, or not above 0 and finite.
    """
    number = isinstance(timeout, int | float) and not isinstance(timeout, bool)
    if timeout is None or (number and 0 < timeout < math.inf):  # type: ignore[operator]
        return
    raise ValueError(f"The timeout must be a number of seconds above 0, not {timeout!r}.")


@dataclass(frozen=True, slots=True)
class TimedCall(Generic[_Result]):
    """A call under way.

    Attributes:
        future: Resolves to the output; cancelling it ends the work.
        model_name: As the user gave it.
        started: When the model was loaded and the call began, on the monotonic clock.
        timeout: Seconds it may take from then, None for no limit.
    """

    advice: ClassVar[str] = "raise the timeout"

    future: Future[_Result]
    model_name: str
    started: float
    timeout: float | None

    def remaining(self) -> float | None:
        """Seconds left, None without a limit."""
        if self.timeout is None:
            return None
        left = self.started + self.timeout - time.monotonic()
        return min(max(0.0, left), threading.TIMEOUT_MAX)

    def too_slow(self) -> CallTimeoutError:
        """The error for a call that used up its time."""
        return CallTimeoutError(
            f"The model {self.model_name!r} did not finish within its timeout of "
            f"{self.timeout:g} seconds; {self.advice}."
        )

    def cancel(self) -> None:
        """End the work; without effect if it is over."""
        self.future.cancel()

    def wait(self) -> _Result:
        """The output, once it is there; a call that fails or is given up is cancelled.

        Raises:
            CallTimeoutError: It used up its time.
        """
        try:
            done, _ = wait([self.future], timeout=self.remaining())
            if not done:
                raise self.too_slow()
            return self.future.result()
        finally:
            self.cancel()

    async def await_result(self) -> _Result:
        """`wait` for the event loop."""
        try:
            async with asyncio.timeout(self.remaining()):
                await asyncio.wrap_future(self.future)
            return self.future.result()
        except TimeoutError as error:
            raise self.too_slow() from error
        finally:
            self.cancel()


async def start_in_thread(start: Callable[..., _Call], *arguments: Any) -> _Call:
    """Start a call in a thread. If the caller is cancelled meanwhile, so is the call it starts."""
    starting = asyncio.ensure_future(asyncio.to_thread(start, *arguments))
    try:
        return await asyncio.shield(starting)
    except asyncio.CancelledError:
        starting.add_done_callback(_cancel_started)
        raise


def _cancel_started(starting: "asyncio.Future[_Call]") -> None:
    if not starting.cancelled() and starting.exception() is None:
        starting.result().cancel()
