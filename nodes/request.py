"""One request to one model: within its time, tagged, and whatever goes wrong is caught."""

import asyncio
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from contextvars import copy_context
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from langchain_core.exceptions import ContextOverflowError
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.runnables import RunnableConfig
from langchain_core.runnables.config import merge_configs
from langgraph.errors import GraphBubbleUp

from ..models.capabilities import SupportsTimeout
from ..models.errors import ModelError
from ..models.stop_signal import CallStoppedError
from .chat_models import ChatModel, chat_models, unbound
from .retry import tried_again
from .shortening import TooLong
from .state import CallStyle, Role

_Result = TypeVar("_Result")


@dataclass(frozen=True, slots=True)
class Request:
    """What is sent to a model.

    Attributes:
        model: The model.
        role: Its role; the call is tagged `mai:ROLE`.
        style: The prompt style of the messages.
        messages: The prompt.
        max_tokens: Limit on the output, in tokens, for models that have such a setting.
        timeout: Seconds that the call may take; None for no limit. Loading a local model does not
            count.
        draft: A model that writes ahead, for models that take one.
    """

    model: ChatModel
    role: Role
    style: CallStyle
    messages: list[BaseMessage]
    max_tokens: int
    timeout: float | None = None
    draft: BaseChatModel | None = None


@dataclass(frozen=True, slots=True)
class Reply:
    """What came back: a message, or one sentence that says why there is none.

    Attributes:
        seconds: How long it took.
        message: The message; empty if the call failed.
        error: Why it failed.
        too_long: Set if it failed because the prompt was longer than the model's context.
    """

    seconds: float
    message: AIMessage = field(default_factory=lambda: AIMessage(content=""))
    error: str | None = None
    too_long: TooLong | None = None


def send(request: Request, config: RunnableConfig) -> Reply:
    """Invoke the model.

    Args:
        request: What is asked of whom.
        config: The running node's config: callbacks reach the model through it.

    Returns:
        The reply. A failure is in its `error`; only what LangGraph raises to steer a run
        (interrupts), cancellation, and failures after which the node is run again, come through.
    """
    tagged = _tagged(request, config)
    start = time.perf_counter()
    try:
        message = _within(
            None if _stops_by_itself(request) else request.timeout,
            lambda: request.model.invoke(request.messages, tagged, **_settings(request)),
        )
        _check(message)
    except CallStoppedError as stopped:
        message = stopped.message
    except GraphBubbleUp:
        raise
    except Exception as error:
        if tried_again(error):
            raise
        return _failed(request, error, time.perf_counter() - start)
    return Reply(time.perf_counter() - start, message)


async def asend(request: Request, config: RunnableConfig) -> Reply:
    """`send` for the event loop; out of time, or cancelled, the call is cancelled in the model."""
    tagged = _tagged(request, config)
    start = time.perf_counter()
    try:
        call = request.model.ainvoke(request.messages, tagged, **_settings(request))
        message = await asyncio.wait_for(
            call, None if _stops_by_itself(request) else request.timeout
        )
        _check(message)
    except CallStoppedError as stopped:
        message = stopped.message
    except GraphBubbleUp:
        raise
    except Exception as error:
        if tried_again(error):
            raise
        return _failed(request, error, time.perf_counter() - start)
    return Reply(time.perf_counter() - start, message)


def _tagged(request: Request, config: RunnableConfig) -> RunnableConfig:
    return merge_configs(
        config,
        {
            "tags": [f"mai:{request.role}"],
            "metadata": {"mai_role": request.role, "mai_style": request.style},
        },
    )


def _settings(request: Request) -> dict[str, Any]:
    settings: dict[str, Any] = {}
    # A few packages (ChatOllama) call it otherwise and refuse this name; their own limit counts.
    if all("max_tokens" in type(model).model_fields for model in chat_models(request.model)):
        settings["max_tokens"] = request.max_tokens
    if _stops_by_itself(request) and request.timeout is not None:
        settings["timeout"] = request.timeout
    if request.draft is not None:
        settings["draft"] = request.draft
    return settings


def _stops_by_itself(request: Request) -> bool:
    """Whether the model takes `timeout=` with a call, and then really stops computing."""
    return isinstance(unbound(request.model), SupportsTimeout)


def _check(message: object) -> None:
    if not isinstance(message, AIMessage):
        raise TypeError(f"the model returned a {type(message).__name__}, not an AIMessage")


def _within(seconds: float | None, work: Callable[[], _Result]) -> _Result:
    """Run `work`, but wait no longer than `seconds`.

    A thread cannot be stopped from outside: work that is out of time ends by itself, unheard. The
    thread is a daemon, so that it does not keep the process alive either.
    """
    if seconds is None:
        return work()
    result: Future[_Result] = Future()

    def run() -> None:
        try:
            result.set_result(work())
        except BaseException as error:  # noqa: BLE001  it is raised in the thread that waits
            result.set_exception(error)

    # The context carries the run's callbacks; without it, streamed tokens would be lost.
    threading.Thread(target=copy_context().run, args=(run,), daemon=True).start()
    return result.result(timeout=seconds)


def failed(role: Role, style: CallStyle, error: object, seconds: float = 0.0) -> Reply:
    """The reply of a call that failed, with the reason in one line."""
    reason = " ".join(str(error).split()) or type(error).__name__
    return Reply(seconds, error=f"The {role} model's {style} call failed: {reason}")


def _failed(request: Request, error: Exception, seconds: float) -> Reply:
    own_words = isinstance(error, ModelError)
    if isinstance(error, TimeoutError) and request.timeout is not None and not own_words:
        reason: object = f"no answer within {request.timeout:g} s"
    else:
        reason = error
    reply = failed(request.role, request.style, reason, seconds)
    return replace(reply, too_long=too_long(error, request.max_tokens))


def too_long(error: Exception, answer: int) -> TooLong | None:
    """What an error says of a prompt that was too long; None if that was not what went wrong.

    Args:
        error: What a model raised.
        answer: Tokens that the answer may have.
    """
    if not isinstance(error, ContextOverflowError):
        return None
    limit, length = getattr(error, "limit", None), getattr(error, "length", None)
    return TooLong(limit, length, answer)
