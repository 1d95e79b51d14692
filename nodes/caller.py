"""The one place that calls a model: sync and async, time limits, retries, tags, the cache of calls.

A node is a coroutine that is given a `Caller`. Without an event loop, nothing that it awaits ever
waits: what blocks is done on the spot. So its code is the same for `invoke` and `ainvoke`; only
what is in this module knows the difference.
"""

import asyncio
import threading
import time
from collections.abc import Callable, Coroutine, Sequence
from concurrent.futures import Future
from contextvars import copy_context
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any, TypeVar

from langchain_core.callbacks import BaseCallbackHandler, BaseCallbackManager
from langchain_core.language_models import BaseChatModel, LanguageModelInput
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, LLMResult
from langchain_core.runnables import (
    Runnable,
    RunnableConfig,
)
from langgraph.config import get_config, get_stream_writer
from langgraph.errors import GraphBubbleUp
from langgraph.runtime import get_runtime
from langgraph.types import RetryPolicy
from pydantic import TypeAdapter
from typing_extensions import override

from ..models.attention import Attention
from ..models.capabilities import (
    SupportsAttention,
    chat_models,
    stops_by_itself,
)
from ..models.errors import ModelError, UnreachableError
from .call_cache import CallCache
from .confidence import TOP_LOGPROBS
from .reply import Reply, too_long
from .settings import check_state
from .state import CallStyle, Role, RunState

Update = dict[str, Any]

ChatModel = Runnable[LanguageModelInput, AIMessage]
"""A chat model, or one after `.bind()`, `.with_config()`, `.with_retry()`, `.with_fallbacks()`."""

_Result = TypeVar("_Result")

_REPLY = TypeAdapter(Reply)

_OVERLOADED = frozenset({408, 409, 425, 429, 500, 502, 503, 504, 529})


@dataclass(frozen=True, slots=True)
class Request:
    """A prompt to a model.

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
        span: Where a transferred reasoning stands in the last message's text, as (start, end).
        schema: The JSON schema of the output, for models that can be held to one.
    """

    model: ChatModel
    role: Role
    style: CallStyle
    messages: list[BaseMessage]
    images: Sequence[str]
    max_tokens: int
    timeout: float | None = None
    draft: BaseChatModel | None = None
    span: tuple[int, int] | None = None
    schema: dict[str, Any] | None = None

    def options(self) -> dict[str, Any]:
        """Return the options of the call that change its output, as its models take them."""
        models = chat_models(self.model)
        options: dict[str, Any] = {}
        # A few packages (ChatOllama) call it otherwise.
        if all("max_tokens" in type(one).model_fields for one in models):
            options["max_tokens"] = self.max_tokens
        if self.schema and all(getattr(one, "supports_schema", False) for one in models):
            form = {"name": "answer", "schema": self.schema}
            options["response_format"] = {"type": "json_schema", "json_schema": form}
        return options

    def key(self, cache: CallCache) -> str:
        """Return the key of the call: role and style play no part, the prompt has all of them."""
        draft = None if self.draft is None else cache.identity(self.draft)
        limit, *form = {"max_tokens": None, **self.options()}.values()
        return cache.key_of(self.model, [*_prompt(self), limit, draft, *form])


@dataclass(frozen=True, slots=True)
class AttentionPass:
    """A forward pass for its attention on the transferred reasoning of a prompt.

    Attributes:
        model: The model that is read.
        prompt: The prompt, with the reasoning's span.
        layers: Layers to read, 1 for the first; None for the model's default.
        query: Whose attention, counted from the prompt's end.
    """

    model: SupportsAttention
    prompt: Request
    layers: list[int] | None
    query: int

    def key(self, cache: CallCache) -> str:
        """Return the key of the pass."""
        prompt = _prompt(self.prompt)
        where = [list(self.prompt.span or ()), self.layers, self.query]
        return cache.key_of(self.model, ["attention", *prompt, *where])


@dataclass(frozen=True, slots=True)
class Caller:
    """What a node calls models with.

    Attributes:
        config: The node's: callbacks, tags and the like.
        cache: Where calls are looked up and stored.
        in_loop: Whether the node runs in an event loop, which nothing may block.
    """

    config: RunnableConfig
    cache: CallCache | None = None
    in_loop: bool = False

    async def reply(self, request: Request) -> Reply:
        """Call a model; what fails is in the reply's `error`.

        Only what LangGraph raises to steer a run (interrupts), cancellation, and errors after which
        the node runs again come through.
        """
        if self.cache is None:
            return await self._call(request)
        return await self._cached(
            self.cache,
            request,
            partial(self._call, request),
            asdict,
            lambda stored: _REPLY.validate_python({**stored, "cached": True}),
        )

    async def attention(self, request: AttentionPass) -> Attention:
        """Read a model's attention; errors come through."""
        if self.cache is None:
            return await self._pass(request)
        make = partial(self._pass, request)
        return await self._cached(self.cache, request, make, Attention.as_dict, Attention.from_dict)

    async def run(self, function: Callable[..., _Result], *arguments: Any) -> _Result:
        """Call a function that may block; from an event loop, in a thread."""
        if self.in_loop:
            return await asyncio.to_thread(function, *arguments)
        return function(*arguments)

    async def _cached(
        self,
        cache: CallCache,
        request: Request | AttentionPass,
        make: Callable[[], Coroutine[Any, Any, _Result]],
        pack: Callable[[_Result], dict[str, Any]],
        unpack: Callable[[dict[str, Any]], _Result],
    ) -> _Result:
        made: list[_Result] = []

        async def make_packed() -> dict[str, Any]:
            made.append(await make())
            return pack(made[0])

        # The key hashes the model's weights, the first time.
        key = await self.run(request.key, cache)
        value, hit = await cache.acall(key, make_packed, in_loop=self.in_loop)
        if not hit:
            return made[0]
        try:
            return unpack(value)
        except (KeyError, TypeError, ValueError):  # damaged, or not ours: the call is made again
            await self.run(cache.put, key, await make_packed())
            return made[0]

    async def _call(self, request: Request) -> Reply:
        start = time.perf_counter()
        model, timeout = request.model, request.timeout
        models, stops = chat_models(model), stops_by_itself(model)
        options = request.options()
        if stops and timeout is not None:
            options["timeout"] = timeout
        if request.draft is not None:
            options["draft"] = request.draft
        if not all(getattr(one, "loaded", True) for one in models):
            emit({"event": "loading", "role": request.role})
        # Of the few tokens of an answer they cost nothing; a reasoning has a thousand.
        if request.style in {"direct", "transfer"} and all(
            hasattr(type(one), "supports_logprobs") for one in models
        ):
            options |= {"logprobs": True, "top_logprobs": TOP_LOGPROBS}
        config: RunnableConfig = {
            **self.config,
            "callbacks": _named_by(request.role, self.config.get("callbacks")),
            "tags": [*(self.config.get("tags") or ()), f"mai:{request.role}"],
            "metadata": {
                **(self.config.get("metadata") or {}),
                "mai_role": request.role,
                "mai_style": request.style,
            },
        }
        try:
            if self.in_loop:
                reply = model.ainvoke(request.messages, config, **options)
                message = await asyncio.wait_for(reply, None if stops else timeout)
            elif stops or timeout is None:
                message = model.invoke(request.messages, config, **options)
            else:
                call = partial(model.invoke, request.messages, config, **options)
                message = _within(timeout, call)
            return Reply.read(message, time.perf_counter() - start)
        except GraphBubbleUp:
            raise
        except Exception as error:
            if tried_again(error):
                raise
            out_of_time = isinstance(error, TimeoutError) and not isinstance(error, ModelError)
            reason = (
                f"no answer within {timeout:g} s" if timeout and out_of_time else one_line(error)
            )
            return Reply(
                time.perf_counter() - start,
                error=f"The {request.role} model's {request.style} call failed: {reason}",
                too_long=too_long(error, request.max_tokens),
            )

    async def _pass(self, request: AttentionPass) -> Attention:
        prompt, span = request.prompt, request.prompt.span or (0, 0)
        options: Any = {"layers": request.layers, "query": request.query, "timeout": prompt.timeout}
        if self.in_loop:
            return await request.model.aattention(prompt.messages, span, **options)
        return request.model.attention(prompt.messages, span, **options)


def finish(coroutine: Coroutine[Any, Any, _Result]) -> _Result:
    """Run a coroutine that never waits to its end, and return its result."""
    try:
        coroutine.send(None)
    except StopIteration as end:
        result: _Result = end.value
        return result
    raise RuntimeError("A node waited for something outside of an event loop.")


class Node(Runnable[RunState, Update]):
    """A node of the graph, for `invoke` and `ainvoke`.

    A plain function would do for the graph, but LangGraph runs those in a thread pool under
    `ainvoke`: few fit in, and a cancelled run would leave its model calls running.

    Attributes:
        name: The node's name.
        steps: Takes the state, and returns the update.
        cache: Where its model calls are looked up and stored.
        check: Raises `MAIInputError` for a state that the node cannot read.
    """

    def __init__(
        self,
        name: str,
        steps: Callable[[RunState, Caller], Coroutine[Any, Any, Update]],
        cache: CallCache | None = None,
        check: Callable[[RunState], None] = check_state,
    ) -> None:
        self.name = name
        self.steps = steps
        self.cache = cache
        self.check = check

    @override
    def invoke(self, input: RunState, config: RunnableConfig | None = None, **_: Any) -> Update:
        self.check(input)
        return finish(self.steps(input, Caller(config or {}, self.cache)))

    @override
    async def ainvoke(
        self, input: RunState, config: RunnableConfig | None = None, **_: Any
    ) -> Update:
        self.check(input)
        return await self.steps(input, Caller(config or {}, self.cache, in_loop=True))


class _Namer(BaseCallbackHandler):
    """Names what a model generates by its role, for whoever watches its tokens."""

    run_inline = True  # with the handlers that pass tokens on, and before them

    def __init__(self, role: Role) -> None:
        self.role = role

    @override
    def on_llm_new_token(self, token: Any, *, chunk: Any = None, **_: Any) -> None:
        if isinstance(chunk, ChatGenerationChunk):
            chunk.message.name = self.role

    @override
    def on_llm_end(self, response: LLMResult, **_: Any) -> None:
        for generation in response.generations[0]:
            if isinstance(generation, ChatGeneration):
                generation.message.name = self.role


def _named_by(role: Role, callbacks: Any) -> Any:
    """Return callbacks of which the first names messages by the role."""
    namer = _Namer(role)
    if not isinstance(callbacks, BaseCallbackManager):
        return [namer, *(callbacks or [])]
    named = callbacks.copy()
    named.handlers.insert(0, namer)
    named.inheritable_handlers.insert(0, namer)
    return named


def one_line(error: object) -> str:
    """Return an error's reason in one line."""
    return " ".join(str(error).split()) or type(error).__name__


def tool_call_id() -> str | None:
    """Return the id of the tool call that the running node is inside of; None for none."""
    called: str | None = (get_config().get("metadata") or {}).get("tool_call_id")
    return called


def emit(event: dict[str, Any]) -> None:
    """Send an event to whoever watches the run with `stream_mode="custom"`.

    Inside a tool, it holds the call's `tool_call_id`.
    """
    called = tool_call_id()
    get_stream_writer()({**event, "tool_call_id": called} if called else event)


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


def _prompt(request: Request) -> list[Any]:
    texts = [[message.type, str(message.text)] for message in request.messages]
    return [texts, list(request.images)]


def _within(seconds: float, work: Callable[[], _Result]) -> _Result:
    """Run `work`, but wait no longer than `seconds`; out of time, it ends unheard."""
    result: Future[_Result] = Future()

    def run_work() -> None:
        try:
            result.set_result(work())
        except BaseException as error:  # noqa: BLE001  it is raised in the thread that waits
            result.set_exception(error)

    # A daemon does not keep the process alive. The context carries the run's callbacks; without it,
    # streamed tokens would be lost.
    threading.Thread(target=copy_context().run, args=(run_work,), daemon=True).start()
    return result.result(timeout=seconds)
