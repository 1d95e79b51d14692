"""One call of a local chat model: its limits while it runs, its messages when it is done."""

import math
import threading
import time
from concurrent.futures import Future
from dataclasses import dataclass
from typing import cast

from langchain_core.messages import AIMessage
from langchain_core.outputs import ChatGenerationChunk, ChatResult

from .completion import Completion, chat_result, last_chat_chunk
from .errors import CallTimeoutError
from .stop_signal import CallStoppedError


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
class LocalCall:
    """A call under way.

    Attributes:
        future: Resolves to the output; cancelling it ends the generation.
        model_name: Goes into the metadata.
        started: When the model was loaded and the call began, on the monotonic clock.
        timeout: Seconds it may take from then, None for no limit.
        logprobs: Whether log probabilities were asked for.
    """

    future: Future[Completion]
    model_name: str
    started: float
    timeout: float | None
    logprobs: bool

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
            f"{self.timeout:g} seconds; raise the timeout or lower max_tokens."
        )

    def cancel(self) -> None:
        """End the generation; without effect if it is over."""
        self.future.cancel()

    def result(self) -> ChatResult:
        """The finished output as LangChain's result.

        Raises:
            CallStoppedError: A `StopSignal` ended it.
        """
        return self._result(self._whole())

    def last_chunk(self) -> ChatGenerationChunk:
        """The empty chunk that ends a stream; it alone carries usage and metadata.

        Raises:
            CallStoppedError: A `StopSignal` ended it.
        """
        return last_chat_chunk(self._whole(), self.model_name, self._seconds())

    def _whole(self) -> Completion:
        completion = self.future.result()
        if completion.finish_reason == "cancelled":
            message = self._result(completion).generations[0].message
            raise CallStoppedError(cast("AIMessage", message))
        return completion

    def _result(self, completion: Completion) -> ChatResult:
        return chat_result(completion, self.model_name, self._seconds(), logprobs=self.logprobs)

    def _seconds(self) -> float:
        return time.monotonic() - self.started
