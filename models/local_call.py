"""One call of a local chat model: its messages when it is done."""

import time
from dataclasses import dataclass
from typing import ClassVar, cast

from langchain_core.messages import AIMessage
from langchain_core.outputs import ChatGenerationChunk, ChatResult

from .completion import Completion, chat_result, last_chat_chunk
from .stop_signal import CallStoppedError
from .timed_call import TimedCall


@dataclass(frozen=True, slots=True)
class LocalCall(TimedCall[Completion]):
    """A call under way.

    Attributes (besides those of every `TimedCall`):
        logprobs: Whether log probabilities were asked for.
    """

    advice: ClassVar[str] = "raise the timeout or lower max_tokens"

    logprobs: bool

    def result(self) -> ChatResult:
        """The output as LangChain's result, once it is there.

        Raises:
            CallTimeoutError: It used up its time.
            CallStoppedError: A `StopSignal` ended it.
        """
        return self._result(self._whole(self.wait()))

    async def aresult(self) -> ChatResult:
        """`result` for the event loop."""
        return self._result(self._whole(await self.await_result()))

    def last_chunk(self) -> ChatGenerationChunk:
        """The empty chunk that ends a stream; it alone carries usage and metadata.

        Raises:
            CallStoppedError: A `StopSignal` ended it.
        """
        whole = self._whole(self.future.result())
        return last_chat_chunk(whole, self.model_name, self._seconds())

    def _whole(self, completion: Completion) -> Completion:
        if completion.finish_reason == "cancelled":
            message = self._result(completion).generations[0].message
            raise CallStoppedError(cast("AIMessage", message))
        return completion

    def _result(self, completion: Completion) -> ChatResult:
        return chat_result(completion, self.model_name, self._seconds(), logprobs=self.logprobs)

    def _seconds(self) -> float:
        return time.monotonic() - self.started
