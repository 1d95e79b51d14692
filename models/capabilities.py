"""What some chat models can do beyond chatting; nodes check for it here, not for classes."""

from collections.abc import Sequence
from typing import ClassVar, Protocol, TypedDict, Unpack, runtime_checkable

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import BaseMessage
from langchain_core.runnables import RunnableBinding, RunnableWithFallbacks
from langchain_core.runnables.base import RunnableBindingBase

from .attention import Attention, Layers


class AttentionOptions(TypedDict, total=False):
    """What is read of an attention pass.

    Attributes:
        layers: Which layers, 1 for the first; "all"; None, the default, for the one at the depth of
            layer 22 of 36.
        query: Whose attention, counted from the prompt's end; it must lie behind the span. -1 by
            default.
        heads: Whether the weights of single heads are wanted too.
        timeout: Seconds that the pass may take, waiting included; loading does not count.
    """

    layers: Layers
    query: int
    heads: bool
    timeout: float | None


@runtime_checkable
class SupportsLogprobs(Protocol):
    """A model whose calls take `logprobs=` and `top_logprobs=`, as those of ChatOpenAI.

    It need not give any: a server may ignore them.
    """

    supports_logprobs: ClassVar[bool]


@runtime_checkable
class SupportsAttention(Protocol):
    """A model that tells how much attention it pays to a span of a prompt.

    It need not be a chat model: a checkpoint loaded to the wanted layer only is one too.
    """

    def attention(
        self,
        messages: Sequence[BaseMessage],
        span: tuple[int, int],
        **options: Unpack[AttentionOptions],
    ) -> Attention:
        """Run the prompt as far as the highest wanted layer, and read the attention on a span.

        Args:
            messages: The prompt, as for a call.
            span: The span, in characters of the last message's text (its text blocks joined).
            **options: See `AttentionOptions`.

        Raises:
            ModelError: No such layer or query, a chat template that changes the text, or the pass
                failed.
            ContextLengthError: The prompt is longer than the model's context.
            CallTimeoutError: It took longer than `timeout`.
        """

    async def aattention(
        self,
        messages: Sequence[BaseMessage],
        span: tuple[int, int],
        **options: Unpack[AttentionOptions],
    ) -> Attention:
        """Return `attention` without blocking the event loop; a cancelled caller ends the pass."""


@runtime_checkable
class SupportsDraft(Protocol):
    """A model whose calls take `draft=`, a faster model that proposes tokens: speculative decoding.

    The output is the model's own greedy one. The message's `response_metadata` says how many
    tokens the draft proposed (`drafted_tokens`) and how many of them are in the output
    (`accepted_tokens`).
    """

    def check_draft(self, draft: object, *, files: bool = False) -> None:
        """Refuse what cannot draft for this model, as far as can be known before both are loaded.

        Args:
            draft: Any chat model.
            files: Whether what is stored of both may be read, except for their weights.

        Raises:
            ModelError: It cannot, in one sentence.
        """
        ...


def chat_models(model: object) -> tuple[BaseChatModel, ...]:
    """Return the chat models inside a model's wrappers; none if it holds anything else."""
    if isinstance(model, BaseChatModel):
        return (model,)
    if isinstance(model, RunnableBindingBase):
        return chat_models(model.bound)
    if isinstance(model, RunnableWithFallbacks):
        inside = [chat_models(one) for one in model.runnables]
        return tuple(one for models in inside for one in models) if all(inside) else ()
    return ()


def supports_attention(model: object) -> SupportsAttention | None:
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


def stops_by_itself(model: object) -> bool:
    """Whether the model takes `timeout=` with a call, and then really stops computing."""
    # Bound arguments reach it; with retries or fallbacks, more than one call would count.
    while type(model) is RunnableBinding:
        model = model.bound
    return hasattr(type(model), "supports_timeout")
