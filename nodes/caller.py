"""The one place that calls a model: sync and async, time limits, retries, tags, the cache of calls.

A node is a generator: it yields what it needs (a `Request` to a model, or a function that may
block), is sent the result, and returns its update of the state. So its code is the same for
`invoke` and `ainvoke`; only what is in this module knows the difference.
"""

import asyncio
import threading
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from concurrent.futures import Future
from contextvars import copy_context
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any, TypeVar

from langchain_core.exceptions import ContextOverflowError
from langchain_core.language_models import BaseChatModel, LanguageModelInput
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.runnables import (
    Runnable,
    RunnableBinding,
    RunnableConfig,
    RunnableWithFallbacks,
)
from langchain_core.runnables.base import RunnableBindingBase
from langgraph.config import get_stream_writer
from langgraph.errors import GraphBubbleUp
from langgraph.runtime import get_runtime
from langgraph.types import RetryPolicy
from typing_extensions import override

from ..models.attention import Attention
from ..models.capabilities import SupportsAttention
from ..models.errors import ModelError, UnreachableError
from .call_cache import CallCache
from .reasoning import TooLong
from .state import CallStyle, Role, RunState

Update = dict[str, Any]

ChatModel = Runnable[LanguageModelInput, AIMessage]
"""A chat model, or one after `.bind()`, `.with_config()`, `.with_retry()`, `.with_fallbacks()`."""

_Result = TypeVar("_Result")

_FINISH_KEYS = ("finish_reason", "stop_reason", "done_reason", "finishReason", "stopReason")

_LIMITS = {
    "length",
    "max_tokens",
    "max_output_tokens",
    "max_length",
    "model_length",
    "model_context_window_exceeded",
}

_OVERLOADED = frozenset({408, 409, 425, 429, 500, 502, 503, 504, 529})


@dataclass(frozen=True, slots=True)
class Reply:
    """A model's output, or one sentence that says why there is none.

    Attributes:
        seconds: Wall clock of the call.
        text: The output; empty if the call failed.
        input_tokens: Tokens of the prompt; None if the model does not say.
        output_tokens: Tokens generated; None if the model does not say.
        cached_tokens: Tokens of the prompt that came from a prefix cache; None if unknown.
        finish_reason: Why the model stopped, "length" for every way to say "at its limit".
        drafted_tokens: In speculative decoding: tokens that the draft model proposed.
        accepted_tokens: How many of them are in the output.
        error: Why the call failed.
        too_long: Set if it failed because the prompt was longer than the model's context.
        cached: Whether it came from a `CallCache`.
    """

    seconds: float
    text: str = ""
    input_tokens: int | None = None
    output_tokens: int | None = None
    cached_tokens: int | None = None
    finish_reason: str | None = None
    drafted_tokens: int | None = None
    accepted_tokens: int | None = None
    error: str | None = None
    too_long: TooLong | None = None
    cached: bool = False

    @classmethod
    def read(cls, message: AIMessage, seconds: float) -> "Reply":
        """Read a model's message."""
        usage: Mapping[str, Any] = message.usage_metadata or {}
        metadata = message.response_metadata
        return cls(
            seconds,
            str(message.text),
            usage.get("input_tokens"),
            usage.get("output_tokens"),
            usage.get("input_token_details", {}).get("cache_read"),
            _finish_reason(metadata),
            metadata.get("drafted_tokens"),
            metadata.get("accepted_tokens"),
        )


@dataclass(frozen=True, slots=True)
class Request:
    """A prompt to a model; the node that yields it is sent a `Reply`.

    What fails is in the reply's `error`. Only what LangGraph raises to steer a run (interrupts),
    cancellation, and errors after which the node runs again come through.

    Attributes:
        model: The model.
        role: Its role; the call is tagged `mai:ROLE`.
        style: The prompt style of the messages.
        messages: The prompt.
        images: Digests of the images in it, in order.
        max_tokens: Limit on the output, in tokens, for models that have such a setting.
        timeout: Seconds that the call may take; None for no limit. Loading a local model does not
            count.
        draft: A draft model, for models that take one.
    """

    model: ChatModel
    role: Role
    style: CallStyle
    messages: list[BaseMessage]
    images: Sequence[str]
    max_tokens: int
    timeout: float | None = None
    draft: BaseChatModel | None = None

    def send(self, config: RunnableConfig) -> Reply:
        """Invoke the model."""
        start = time.perf_counter()
        stops = _stops_by_itself(self.model)
        try:
            call = partial(
                self.model.invoke, self.messages, self._tagged(config), **self._settings(stops)
            )
            message = call() if stops or self.timeout is None else _within(self.timeout, call)
            return Reply.read(_checked(message), time.perf_counter() - start)
        except GraphBubbleUp:
            raise
        except Exception as error:  # noqa: BLE001  what a model may raise is unknown
            return self._failed(error, time.perf_counter() - start)

    async def asend(self, config: RunnableConfig) -> Reply:
        """`send` for the event loop; out of time, or cancelled, the model's call is cancelled."""
        start = time.perf_counter()
        stops = _stops_by_itself(self.model)
        try:
            call = self.model.ainvoke(self.messages, self._tagged(config), **self._settings(stops))
            message = await asyncio.wait_for(call, None if stops else self.timeout)
            return Reply.read(_checked(message), time.perf_counter() - start)
        except GraphBubbleUp:
            raise
        except Exception as error:  # noqa: BLE001  what a model may raise is unknown
            return self._failed(error, time.perf_counter() - start)

    def key(self, cache: CallCache) -> str:
        """Return the key of the call: role and style play no part, the prompt has all of them."""
        draft = None if self.draft is None else cache.identity(self.draft)
        limit = self.max_tokens if _takes_limit(self.model) else None
        return cache.key_of(self.model, [*_prompt(self.messages, self.images), limit, draft])

    def pack(self, reply: Reply) -> dict[str, Any]:
        """Return a reply as the cache stores it."""
        return asdict(reply)

    def unpack(self, value: dict[str, Any]) -> Reply:
        """Return a stored reply."""
        return Reply(**(value | {"cached": True}))

    def _tagged(self, config: RunnableConfig) -> RunnableConfig:
        return {
            **config,
            "tags": [*(config.get("tags") or ()), f"mai:{self.role}"],
            "metadata": {
                **(config.get("metadata") or {}),
                "mai_role": self.role,
                "mai_style": self.style,
            },
        }

    def _settings(self, stops: bool) -> dict[str, Any]:
        settings: dict[str, Any] = {}
        if _takes_limit(self.model):
            settings["max_tokens"] = self.max_tokens
        if stops and self.timeout is not None:
            settings["timeout"] = self.timeout
        if self.draft is not None:
            settings["draft"] = self.draft
        return settings

    def _failed(self, error: Exception, seconds: float) -> Reply:
        if tried_again(error):
            raise error
        own_words = isinstance(error, ModelError)
        if isinstance(error, TimeoutError) and self.timeout is not None and not own_words:
            reason: object = f"no answer within {self.timeout:g} s"
        else:
            reason = error
        return replace(
            failed(self.role, self.style, reason, seconds),
            too_long=too_long(error, self.max_tokens),
        )


@dataclass(frozen=True, slots=True)
class AttentionPass:
    """A forward pass for its attention; the node that yields it is sent an `Attention`.

    Errors come through, and reach the node.

    Attributes:
        model: The model that is read.
        messages: The prompt.
        images: Digests of the images in it, in order.
        span: Where the reasoning stands in the last message's text, as (start, end).
        layers: Layers to read, 1 for the first; None for the model's default.
        query: Whose attention, counted from the prompt's end.
        timeout: Seconds that the pass may take; None for no limit.
    """

    model: SupportsAttention
    messages: list[BaseMessage]
    images: Sequence[str]
    span: tuple[int, int]
    layers: list[int] | None
    query: int
    timeout: float | None

    def send(self, config: RunnableConfig) -> Attention:  # noqa: ARG002  a pass has no callbacks
        """Run the pass."""
        return self.model.attention(
            self.messages, self.span, layers=self.layers, query=self.query, timeout=self.timeout
        )

    async def asend(self, config: RunnableConfig) -> Attention:  # noqa: ARG002
        """`send` for the event loop; cancelled, the pass is cancelled."""
        return await self.model.aattention(
            self.messages, self.span, layers=self.layers, query=self.query, timeout=self.timeout
        )

    def key(self, cache: CallCache) -> str:
        """Return the key of the pass."""
        prompt = _prompt(self.messages, self.images)
        where = [list(self.span), self.layers, self.query]
        return cache.key_of(self.model, ["attention", *prompt, *where])

    def pack(self, attention: Attention) -> dict[str, Any]:
        """Return an attention as the cache stores it."""
        return attention.as_dict()

    def unpack(self, value: dict[str, Any]) -> Attention:
        """Return a stored attention."""
        return Attention.from_dict(value)


Effect = Request | AttentionPass | Callable[[], Any]
"""What a node may yield; a function is called, in the event loop's case in a thread."""

Steps = Generator[Effect, Any, Update]


class Node(Runnable[RunState, Update]):
    """A node of the graph, for `invoke` and `ainvoke`.

    A plain function would do for the graph, but LangGraph runs those in a thread pool under
    `ainvoke`: few fit in, and a cancelled run would leave its model calls running.

    Attributes:
        name: The node's name.
        steps: Takes the state and returns the update, or a generator that ends with it.
        cache: Where its model calls are looked up and stored.
        retry_policy: After which errors LangGraph runs it again; None for none.
    """

    def __init__(
        self,
        name: str,
        steps: Callable[[RunState], Steps] | Callable[[RunState], Update],
        cache: CallCache | None = None,
        retry_policy: RetryPolicy | None = None,
    ) -> None:
        self.name = name
        self.steps = steps
        self.cache = cache
        self.retry_policy = retry_policy

    @override
    def invoke(self, input: RunState, config: RunnableConfig | None = None, **_: Any) -> Update:
        steps = self.steps(input)
        return steps if isinstance(steps, dict) else run(steps, config or {}, self.cache)

    @override
    async def ainvoke(
        self, input: RunState, config: RunnableConfig | None = None, **_: Any
    ) -> Update:
        steps = self.steps(input)
        return steps if isinstance(steps, dict) else await arun(steps, config or {}, self.cache)


def run(
    steps: Generator[Effect, Any, _Result], config: RunnableConfig, cache: CallCache | None = None
) -> _Result:
    """Run a generator of effects to its end, and return its result."""
    try:
        effect = next(steps)
        while True:
            try:
                result = _perform(effect, config, cache)
            except Exception as error:  # noqa: BLE001  the generator decides
                effect = steps.throw(error)
            else:
                effect = steps.send(result)
    except StopIteration as end:
        done: _Result = end.value
        return done


async def arun(
    steps: Generator[Effect, Any, _Result], config: RunnableConfig, cache: CallCache | None = None
) -> _Result:
    """`run` for the event loop."""
    try:
        effect = next(steps)
        while True:
            try:
                result = await _aperform(effect, config, cache)
            except Exception as error:  # noqa: BLE001  the generator decides
                effect = steps.throw(error)
            else:
                effect = steps.send(result)
    except StopIteration as end:
        done: _Result = end.value
        return done


def _perform(effect: Effect, config: RunnableConfig, cache: CallCache | None) -> Any:
    if not isinstance(effect, Request | AttentionPass):
        return effect()
    if cache is None:
        return effect.send(config)
    made: list[Any] = []

    def make() -> dict[str, Any]:
        made.append(effect.send(config))
        return effect.pack(made[0])

    value, hit = cache.call(effect.key(cache), make)
    return effect.unpack(value) if hit else made[0]


async def _aperform(effect: Effect, config: RunnableConfig, cache: CallCache | None) -> Any:
    if not isinstance(effect, Request | AttentionPass):
        return await asyncio.to_thread(effect)
    if cache is None:
        return await effect.asend(config)
    made: list[Any] = []

    async def make() -> dict[str, Any]:
        made.append(await effect.asend(config))
        return effect.pack(made[0])

    # The key hashes the model's weights, the first time.
    value, hit = await cache.acall(await asyncio.to_thread(effect.key, cache), make)
    return effect.unpack(value) if hit else made[0]


def emit(event: dict[str, Any]) -> None:
    """Send an event to whoever watches the run with `stream_mode="custom"`."""
    get_stream_writer()(event)


def failed(role: Role, style: CallStyle, error: object, seconds: float = 0.0) -> Reply:
    """Return the reply of a call that failed, with the reason in one line."""
    reason = " ".join(str(error).split()) or type(error).__name__
    return Reply(seconds, error=f"The {role} model's {style} call failed: {reason}")


def too_long(error: Exception, answer: int) -> TooLong | None:
    """Read an error about a prompt that was too long; None if it is about something else.

    Args:
        error: An exception of a model.
        answer: Tokens that the answer may have.
    """
    if not isinstance(error, ContextOverflowError):
        return None
    limit, length = getattr(error, "limit", None), getattr(error, "length", None)
    return TooLong(limit, length, answer)


def worth_retrying(error: BaseException) -> bool:
    """Whether the same call may succeed later: out of memory, no connection, an overloaded server.

    What a server refuses (bad input, no such model, no right) stays refused, and a call that ran
    out of time has had its time. Packages wrap these errors in their own: causes count too.
    """
    if isinstance(error, UnreachableError):  # its model has tried again already
        return False
    seen: list[BaseException] = []
    cause: BaseException | None = error
    while cause is not None and cause not in seen:
        names = {kind.__name__ for kind in type(cause).__mro__}
        if not names & {"TimeoutError", "APITimeoutError", "TimeoutException"} and (
            isinstance(cause, ConnectionError | MemoryError)
            # torch, openai, anthropic, httpx and requests, without importing any of them.
            or names & {"OutOfMemoryError", "APIConnectionError", "TransportError"}
            or getattr(cause, "status_code", None) in _OVERLOADED
        ):
            return True
        seen.append(cause)
        cause = cause.__cause__
    return False


MODEL_RETRY = RetryPolicy(
    initial_interval=0.5, backoff_factor=2.0, max_attempts=3, retry_on=worth_retrying
)
"""The policy of every node that calls a model.

A call never raises: what fails is recorded, and the other model's answer stands. So that LangGraph
can retry, an error that another try may mend is raised while tries are left (`tried_again`).
"""


def tried_again(error: Exception) -> bool:
    """Whether the running node is to raise this error, because LangGraph will run it again."""
    if not worth_retrying(error):
        return False
    try:
        info = get_runtime().execution_info
    except (AttributeError, RuntimeError):  # outside a graph, nobody tries again
        return False
    return info is not None and info.node_attempt < MODEL_RETRY.max_attempts


def chat_models(model: Any) -> tuple[BaseChatModel, ...]:
    """Return the chat models inside a model's wrappers; none if it holds anything else."""
    if isinstance(model, BaseChatModel):
        return (model,)
    if isinstance(model, RunnableBindingBase):
        return chat_models(model.bound)
    if isinstance(model, RunnableWithFallbacks):
        inside = [chat_models(one) for one in model.runnables]
        return tuple(one for models in inside for one in models) if all(inside) else ()
    return ()


def supports_attention(model: Any) -> SupportsAttention | None:
    """Return what gives a model's attention, through its wrappers; None if nothing does.

    A wrapper that gives it itself goes first; of a model with fallbacks, its first one counts.
    """
    if isinstance(model, RunnableBindingBase):
        # LangChain's own passes on what its model has, but for a deeper one.
        if not isinstance(model, RunnableBinding) and isinstance(model, SupportsAttention):
            return model
        return supports_attention(model.bound)
    if isinstance(model, RunnableWithFallbacks):
        return supports_attention(model.runnable)
    return model if isinstance(model, SupportsAttention) and not isinstance(model, type) else None


def _prompt(messages: Sequence[BaseMessage], images: Sequence[str]) -> list[Any]:
    return [[[message.type, str(message.text)] for message in messages], list(images)]


def _checked(message: object) -> AIMessage:
    if not isinstance(message, AIMessage):
        raise TypeError(f"the model returned a {type(message).__name__}, not an AIMessage")
    return message


def _takes_limit(model: ChatModel) -> bool:
    """Whether `max_tokens` can be passed; a few packages (ChatOllama) call it otherwise."""
    return all("max_tokens" in type(one).model_fields for one in chat_models(model))


def _stops_by_itself(model: Any) -> bool:
    """Whether the model takes `timeout=` with a call, and then really stops computing."""
    # Bound arguments reach it; with retries or fallbacks, more than one call would count.
    while type(model) is RunnableBinding:
        model = model.bound
    # As `isinstance` with SupportsTimeout, twenty times as fast.
    return hasattr(type(model), "supports_timeout")


def _within(seconds: float, work: Callable[[], _Result]) -> _Result:
    """Run `work`, but wait no longer than `seconds`.

    A thread cannot be stopped from outside: work that is out of time ends by itself, unheard. The
    thread is a daemon, so that it does not keep the process alive either.
    """
    result: Future[_Result] = Future()

    def run_work() -> None:
        try:
            result.set_result(work())
        except BaseException as error:  # noqa: BLE001  it is raised in the thread that waits
            result.set_exception(error)

    # The context carries the run's callbacks; without it, streamed tokens would be lost.
    threading.Thread(target=copy_context().run, args=(run_work,), daemon=True).start()
    return result.result(timeout=seconds)


def _finish_reason(metadata: Mapping[str, Any]) -> str | None:
    """Return why a model stopped, from the many places where packages say it."""
    # OpenAI's Responses API: {"status": "incomplete", "incomplete_details": {"reason": ...}}
    details = metadata.get("incomplete_details")
    first = details.get("reason") if isinstance(details, Mapping) else None
    for reason in (first, *(metadata.get(key) for key in _FINISH_KEYS)):
        if isinstance(reason, Mapping | list | tuple):  # {"type": "length"}, ["length"]
            values = reason.values() if isinstance(reason, Mapping) else reason
            text = next((one for one in values if isinstance(one, str)), "")
        else:
            text = (
                "" if reason is None else str(getattr(reason, "name", reason))
            )  # an enum's member
        if text:
            return "length" if text.lower() in _LIMITS else text
    return None
