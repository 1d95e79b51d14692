"""Reasoning transfer: a model reads a finished reasoning, or part of it, and answers directly.

With one model as source and target it is two-stage; it is the same node. A transfer function or a
selection of tokens that fails costs no answer: the model is not called, and the failure is recorded
as that of its call. A reasoning that exceeds the target's context is shortened from its front.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Literal

from langgraph.errors import GraphBubbleUp

from ..configs import ConfigError, SparseTransfer
from ..models.capabilities import SupportsAttention, chat_models, supports_attention
from .call_cache import CallCache
from .caller import AttentionPass, Caller, ChatModel, Node, Update, emit, one_line, tried_again
from .model_call import Agent, ask, record, request_of, whole_reasoning
from .reasoning import Shortening, cut_reasoning
from .reply import Reply, too_long
from .sparse_transfer import select_tokens
from .state import CallKey, MAIInputError, ModelCall, Role, RunState, Selection
from .verification import check_callback

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
        reader: Who reads what is transferred, and answers in style S.
        attends: Who gives the attention of sparse transfer; None if nobody does.
        small: Who gives it for `keep="small"`; None if the small model gives none.
    """

    transfer: TransferMethod
    reader: Agent
    attends: SupportsAttention | None
    small: SupportsAttention | None

    @classmethod
    def read(
        cls, transfer: Transfer, selector: AttentionModel | None, *, reader: Agent, small: Agent
    ) -> "TransferOption":
        """Check the options of `create_mai` together.

        Raises:
            ConfigError: No such transfer, a selector that gives no attention, or sparse transfer
                where nobody gives the attention that it needs.
        """
        check_transfer(transfer, selector)
        attends = supports_attention(reader.model if selector is None else selector)
        wanted = SparseTransfer() if transfer == "sparse" else transfer
        option = cls(wanted, reader, attends, supports_attention(small.model))
        if isinstance(wanted, SparseTransfer):
            option.check(wanted)
        return option

    def check(self, sparse: SparseTransfer) -> None:
        """Raise `ConfigError` for a selection for which nobody gives the attention."""
        if self.attends is None:
            kind = type(chat_models(self.reader.model)[0]).__name__
            raise ConfigError(
                f"Sparse transfer needs attention, which the {self.reader.role} model ({kind}) "
                "does not give: name a model that does as `selector` (a ChatTransformers of the "
                "same weights, or the small model), or transfer the whole reasoning."
            )
        if sparse.keep == "small" and self.small is None:
            raise ConfigError(
                'keep="small" needs the attention of the small model, which does not give it: '
                "use another `keep`."
            )

    def wanted(self, settings: dict[str, Any]) -> TransferMethod:
        """Return how a run transfers its reasoning."""
        own, chosen = self.transfer, settings.get("transfer")
        if chosen == "full" or (chosen is None and not isinstance(own, SparseTransfer)):
            return chosen or own
        former = own if isinstance(own, SparseTransfer) else SparseTransfer()
        names = {"sparse_layer": "layer", "sparse_share": "share"}
        changed = {names[name]: settings[name] for name in names if name in settings}
        return former.model_copy(update=changed)

    def check_settings(self, settings: dict[str, Any]) -> None:
        """Raise `MAIInputError` for a run's settings that its graph has no use for."""
        wanted = self.wanted(settings)
        if isinstance(wanted, SparseTransfer):
            try:
                self.check(wanted)
            except ConfigError as error:
                raise MAIInputError(
                    f"The setting 'transfer' cannot be 'sparse' in this graph: {error}"
                ) from error
        elif names := [name for name in ("sparse_layer", "sparse_share") if name in settings]:
            raise MAIInputError(
                f"The setting {names[0]!r} is for sparse transfer, and this run's is not sparse: "
                "set 'transfer' to 'sparse' too, or leave it out."
            )


def check_transfer(transfer: Any, selector: Any) -> None:
    """Raise `ConfigError` for what is no transfer, or a selector that gives no attention."""
    known = isinstance(transfer, SparseTransfer) or transfer in ("full", "sparse")
    if not known:
        if not callable(transfer) or transfer is SparseTransfer:
            raise ConfigError(
                '`transfer` must be "full", "sparse", a SparseTransfer or a function from a '
                f"reasoning to a text, not {transfer!r}."
            )
        check_callback(transfer, "transfer")
    if selector is not None and not supports_attention(selector):
        is_class = isinstance(selector, type)
        given = f"the class {selector.__name__}" if is_class else type(selector).__name__
        raise ConfigError(
            "`selector` must be a model that gives attention, such as a ChatTransformers, not "
            f"{given}."
        )


def reasoning_transfer(
    source: Role, option: TransferOption, cache: CallCache | None = None
) -> Node:
    """Make the node.

    Args:
        source: Whose reasoning is read; the state holds it.
        option: What of it is transferred, and who reads it.
        cache: Where model calls are stored.
    """
    target = option.reader
    key: CallKey = "small_reason" if source == "small" else "large_reason"

    async def steps(state: RunState, caller: Caller) -> Update:
        stage = {"event": "stage", "stage": "reasoning_transfer"}
        emit(stage | {"role": target.role, "style": "transfer"})
        call = state.get(key)
        if not call or not whole_reasoning(call).strip():
            return {f"{target.role}_transfer": None}
        return {f"{target.role}_transfer": await _transfer(caller, source, call, option, state)}

    return Node("reasoning_transfer", steps, cache)


async def _transfer(
    caller: Caller, source: Role, call: ModelCall, option: TransferOption, state: RunState
) -> ModelCall:
    """Transfer a reasoning, with less of it at each try, until it fits."""
    target, task = option.reader, state["task"]
    method = option.wanted(task.get("settings", {}))
    reasoning = cut_reasoning(whole_reasoning(call), call["finish_reason"]).text
    if callable(method):
        try:
            own: Any = await caller.run(method, reasoning)
            if not isinstance(own, str):
                raise TypeError(f"it returned {type(own).__name__}, not a text")
            if not own.strip():
                raise ValueError("it returned an empty text")
            reasoning = own
        except GraphBubbleUp:
            raise
        except Exception as error:  # noqa: BLE001  what it may raise is unknown; it is reported
            reply = Reply(0.0, error=f"The transfer failed: {one_line(error)}")
            return record(target.role, "transfer", reply, task)
    left = Shortening(reasoning)
    replies: list[Reply] = []
    selections: list[Selection] = []
    while not replies or left.shorten(replies[-1].too_long):
        text = left.text
        if isinstance(method, SparseTransfer):
            selected = await _select(caller, method, option, state, text)
            if isinstance(selected, Reply):
                replies.append(selected)
                continue
            selections.append(selected)
            text = selected["text"]
        event = {
            "event": "reasoning_transfer",
            "source": source,
            "target": target.role,
            "cut": "front" if replies else call["cut"],
            "characters": len(text),
            "characters_written": len(whole_reasoning(call)),
        }
        if selections:
            event["kept_tokens"] = selections[-1]["kept_tokens"]
            event["reasoning_tokens"] = selections[-1]["reasoning_tokens"]
        emit(event)
        replies.append(await ask(caller, target, "transfer", task, state, text))
    seconds = sum(one.seconds for one in replies) + sum(one["seconds"] for one in selections)
    answered = record(target.role, "transfer", replace(replies[-1], seconds=seconds), task)
    if not answered["error"]:
        if len(replies) > 1:
            answered["cut"] = "front"
        if selections:  # the last one, with what all of them cost
            costs: Any = {
                name: sum(one[name] for one in selections)
                for name in ("input_tokens", "cached_tokens", "seconds")
            }
            answered["selection"] = {**selections[-1], **costs}
    return answered


async def _select(
    caller: Caller, sparse: SparseTransfer, option: TransferOption, state: RunState, text: str
) -> Selection | Reply:
    """Return what is kept of a reasoning, or a reply that says why nothing is."""
    request, start = None, time.perf_counter()
    try:
        request = await request_of(caller, option.reader, "transfer", state["task"], state, text)
        option.check(sparse)
        passes = []
        models = [option.attends, option.small] if sparse.keep == "small" else [option.attends]
        for number, model in enumerate(filter(None, models)):
            # The small model, second, has other layers, so it takes its default.
            layers = None if sparse.layer is None or number else [sparse.layer]
            one = AttentionPass(model, request, layers, sparse.query)
            passes.append(await caller.attention(one))
        return await caller.run(select_tokens, sparse, text.strip(), passes, start)
    except GraphBubbleUp:
        raise
    except Exception as error:
        if tried_again(error):
            raise
        return Reply(
            0.0,
            error=f"The selection of tokens failed: {one_line(error)}",
            too_long=too_long(error, request.max_tokens) if request else None,
        )
