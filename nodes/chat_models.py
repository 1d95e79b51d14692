"""What counts as a model here: a LangChain chat model, also one in LangChain's own wrappers."""

from itertools import chain
from typing import Any

from langchain_core.language_models import BaseChatModel, LanguageModelInput
from langchain_core.messages import AIMessage
from langchain_core.runnables import Runnable, RunnableBinding, RunnableWithFallbacks
from langchain_core.runnables.base import RunnableBindingBase

from ..configs import ConfigError
from ..models.capabilities import SupportsAttention

ChatModel = Runnable[LanguageModelInput, AIMessage]
"""A chat model, or one after `.bind()`, `.with_config()`, `.with_retry()`, `.with_fallbacks()`."""


def chat_models(model: Any) -> tuple[BaseChatModel, ...]:
    """The chat models inside a model's wrappers, in order; none if it holds anything else."""
    if isinstance(model, BaseChatModel):
        return (model,)
    if isinstance(model, RunnableBindingBase):
        return chat_models(model.bound)
    if isinstance(model, RunnableWithFallbacks):
        inside = [chat_models(one) for one in model.runnables]
        return tuple(chain.from_iterable(inside)) if all(inside) else ()
    return ()


def unbound(model: Any) -> Any:
    """A model without what is bound to its calls; retries and fallbacks make more than one."""
    while type(model) is RunnableBinding:
        model = model.bound
    return model


def gives_attention(model: Any) -> SupportsAttention | None:
    """What gives a model's attention, through its wrappers; None if nothing does.

    A wrapper that gives it itself goes first; of a model with fallbacks, its first one counts.
    """
    if isinstance(model, RunnableBindingBase):
        # LangChain's own hands on what its model has, but for a deeper one.
        if not isinstance(model, RunnableBinding) and isinstance(model, SupportsAttention):
            return model
        return gives_attention(model.bound)
    if isinstance(model, RunnableWithFallbacks):
        return gives_attention(model.runnable)
    return model if isinstance(model, SupportsAttention) and not isinstance(model, type) else None


def check_chat_model(model: Any, name: str) -> None:
    """Refuse what is no chat model.

    Raises:
        ConfigError: With the argument's name and what was given.
    """
    if chat_models(model):
        return
    given = f"the class {model.__name__}" if isinstance(model, type) else type(model).__name__
    raise ConfigError(
        f"`{name}` must be a chat model (also one with .bind, .with_config, .with_retry or "
        f".with_fallbacks), not {given}."
    )


def check_timeout(timeout: Any) -> None:
    """Refuse what is no number of seconds.

    Raises:
        ConfigError: Not a number, or none that a call could meet.
    """
    number = isinstance(timeout, int | float) and not isinstance(timeout, bool)
    if timeout is None or (number and 0 < timeout < float("inf")):
        return
    raise ConfigError(
        f"`timeout` must be a number of seconds above 0, or None for no limit, not {timeout!r}."
    )
