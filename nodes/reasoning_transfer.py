"""Reasoning transfer: a model reads a finished reasoning, or part of it, and answers directly.

With one model as source and target it is two-stage; it is the same node. A transfer function or a
selection of tokens that fails costs no answer: the model is not called, and the failure is recorded
as that of its call. A reasoning that exceeds the target's context is shortened from its front.
"""

from collections.abc import Callable, Generator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal

from langgraph.errors import GraphBubbleUp

from ..configs import ConfigError, SparseTransfer
from ..models.capabilities import SupportsAttention
from .call_cache import CallCache
from .caller import MODEL_RETRY, ChatModel, Effect, Node, Reply, Steps, emit, supports_attention
from .model_call import Agent, announce, ask, record
from .reasoning import Shortening, cut_reasoning
from .sparse_transfer import TokenSelector
from .state import MAIInputError, ModelCall, Role, RunState, Selection, Settings
from .verification import callback_failure, check_callback, refuse_awaitable

Transfer = Literal["full", "sparse"] | SparseTransfer | Callable[[str], str]

AttentionModel = SupportsAttention | ChatModel
"""A model that supports attention, also one in LangChain's wrappers."""

TransferMethod = Literal["full"] | SparseTransfer | Callable[[str], str]
"""How a run transfers a reasoning."""


@dataclass(frozen=True, slots=True)
class TransferOption:
    """How one node transfers reasonings.

    Attributes:
        transfer: How, unless a run's context says otherwise.
        selector: Selects tokens, where the transfer is sparse; it knows who reads them.
    """

    transfer: TransferMethod
    selector: TokenSelector

    @classmethod
    def read(
        cls, transfer: Transfer, selector: AttentionModel | None, *, reader: Agent, small: Agent
    ) -> "TransferOption":
        """Check the options together.

        Args:
            transfer: As for `create_mai`.
            selector: Who gives the attention; None for the reader itself.
            reader: Who reads the reasonings.
            small: The small agent.

        Raises:
            ConfigError: No such transfer, a selector that gives no attention, or sparse transfer
                where nobody gives the attention that it needs.
        """
        check_transfer(transfer)
        check_selector(selector)
        tokens = TokenSelector(
            reader=reader,
            attends=supports_attention(reader.model if selector is None else selector),
            small=supports_attention(small.model),
        )
        wanted = SparseTransfer() if transfer == "sparse" else transfer
        if isinstance(wanted, SparseTransfer):
            tokens.check(wanted)
        return cls(wanted, tokens)

    def wanted(self, settings: Settings) -> TransferMethod:
        """Return how a run transfers its reasoning."""
        own, chosen = self.transfer, settings.get("transfer")
        if chosen == "full" or (chosen is None and not isinstance(own, SparseTransfer)):
            return chosen or own
        former = own if isinstance(own, SparseTransfer) else SparseTransfer()
        changed = {"layer": settings.get("sparse_layer"), "share": settings.get("sparse_share")}
        given = {name: value for name, value in changed.items() if value is not None}
        return former.model_copy(update=given)

    def check_settings(self, settings: Settings) -> None:
        """Refuse settings of a run that its graph has no use for.

        Raises:
            MAIInputError: Sparse transfer where nobody gives the attention that it needs, or its
                settings where the transfer is not sparse.
        """
        wanted = self.wanted(settings)
        if isinstance(wanted, SparseTransfer):
            try:
                self.selector.check(wanted)
            except ConfigError as error:
                raise MAIInputError(
                    f"The setting 'transfer' cannot be 'sparse' in this graph: {error}"
                ) from error
        elif names := [name for name in ("sparse_layer", "sparse_share") if name in settings]:
            raise MAIInputError(
                f"The setting {names[0]!r} is for sparse transfer, and this run's is not sparse: "
                "set 'transfer' to 'sparse' too, or leave it out."
            )


def check_transfer(transfer: Any) -> None:
    """Refuse what does not say how a reasoning is transferred.

    Raises:
        ConfigError: Neither "full", "sparse", a `SparseTransfer` nor a function, or an async one.
    """
    if isinstance(transfer, SparseTransfer) or transfer in ("full", "sparse"):
        return
    if not callable(transfer) or transfer is SparseTransfer:
        raise ConfigError(
            '`transfer` must be "full", "sparse", a SparseTransfer or a function from a reasoning '
            f"to a text, not {transfer!r}."
        )
    check_callback(transfer, "transfer")


def check_selector(selector: Any) -> None:
    """Refuse what gives no attention.

    Raises:
        ConfigError: Neither None nor a model that supports attention.
    """
    if selector is None or supports_attention(selector):
        return
    is_class = isinstance(selector, type)
    given = f"the class {selector.__name__}" if is_class else type(selector).__name__
    raise ConfigError(
        f"`selector` must be a model that gives attention, such as a ChatTransformers, not {given}."
    )


def reasoning_transfer(
    source: Role, option: TransferOption, cache: CallCache | None = None
) -> Node:
    """Make the node.

    Args:
        source: Whose reasoning is read; the state holds it.
        option: What of it is transferred, and who reads that and answers, in style S.
        cache: Where model calls are stored.
    """
    target = option.selector.reader
    source_key: Literal["small_reason", "large_reason"] = (
        "small_reason" if source == "small" else "large_reason"
    )

    def steps(state: RunState) -> Steps:
        announce("reasoning_transfer", target, "transfer")
        call = state[source_key]
        transferred = call and (yield from _transfer(source, call, option, state))
        return {f"{target.role}_transfer": transferred}

    return Node("reasoning_transfer", steps, cache, MODEL_RETRY)


def _transfer(
    source: Role, call: ModelCall, option: TransferOption, state: RunState
) -> Generator[Effect, Any, ModelCall | None]:
    """Transfer a reasoning, with less of it at each try, until it fits; None if there is none."""
    if not call["text"].strip():
        return None
    target, task = option.selector.reader, state["task"]
    method = option.wanted(task.get("settings", {}))
    sparse = method if isinstance(method, SparseTransfer) else None
    reasoning = cut_reasoning(call["text"], call["finish_reason"]).text
    if callable(method):
        try:
            reasoning = _checked_text((yield partial(method, reasoning)))
        except GraphBubbleUp:
            raise
        except Exception as error:  # noqa: BLE001  what it may raise is unknown; it is reported
            reply = Reply(0.0, error=callback_failure("transfer", error))
            return record(target.role, "transfer", reply, task)
    left = Shortening(reasoning)
    replies: list[Reply] = []
    selections: list[Selection] = []
    while not replies or left.shorten(replies[-1].too_long):
        text = left.text
        if sparse:
            selected = yield from option.selector.select(sparse, task, state, text)
            if isinstance(selected, Reply):
                replies.append(selected)
                continue
            selections.append(selected)
            text = selected["text"]
        emit(
            {
                "event": "reasoning_transfer",
                "source": source,
                "target": target.role,
                "cut": "front" if replies else call["cut"],
                "characters": len(text),
                "characters_written": len(call["text"]),
                **({key: selections[-1][key] for key in _COUNTS} if sparse else {}),
            }
        )
        replies.append((yield from ask(target, "transfer", task, state, text)))
    seconds = sum(reply.seconds for reply in replies)
    seconds += sum(selection["seconds"] for selection in selections)
    answered = record(target.role, "transfer", replace(replies[-1], seconds=seconds), task)
    if not answered["error"]:
        if len(replies) > 1:
            answered["cut"] = "front"
        if selections:
            answered["selection"] = _with_all_costs(selections)
    return answered


_COUNTS: tuple[Literal["kept_tokens", "reasoning_tokens"], ...] = (
    "kept_tokens",
    "reasoning_tokens",
)


def _checked_text(text: Any) -> str:
    refuse_awaitable(text)
    if not isinstance(text, str):
        raise TypeError(f"it returned {type(text).__name__}, not a text")
    if not text.strip():
        raise ValueError("it returned an empty text")
    return text


def _with_all_costs(selections: list[Selection]) -> Selection:
    """Return the last of several selections, with what all of them cost."""
    return {
        **selections[-1],
        "input_tokens": sum(one["input_tokens"] for one in selections),
        "cached_tokens": sum(one["cached_tokens"] for one in selections),
        "seconds": sum(one["seconds"] for one in selections),
    }
