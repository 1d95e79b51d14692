"""Every way to answer that the cascade is compared with, made of the cascade's own steps."""

from pathlib import Path
from typing import Any, Literal, get_args

from langgraph.cache.base import BaseCache
from langgraph.graph import END, START, StateGraph
from langgraph.store.base import BaseStore
from langgraph.types import Checkpointer

from ..configs import ConfigError, PromptsConfig
from ..nodes.chat_models import ChatModel
from ..nodes.context import MAIContext
from ..nodes.drafts import why_no_draft, with_draft
from ..nodes.large_agent import large_agent, large_reasoning
from ..nodes.prepare import prepare
from ..nodes.reasoning_transfer import reasoning_transfer
from ..nodes.respond import respond
from ..nodes.small_agent import small_agent, small_reasoning
from ..nodes.state import MAIInput, MAIOutput, Role, RunState
from ..nodes.step import ModelStep
from ..nodes.transfer_option import (
    Attentive,
    Transfer,
    TransferOption,
    check_selector,
    check_transfer,
)
from ..nodes.verification import Verifier, check_verifier
from .build import MAIGraph, create_mai
from .options import Options

Strategy = Literal[
    "small_direct",
    "small_explain",
    "small_reason",
    "large_direct",
    "large_explain",
    "large_reason",
    "small_two_stage",
    "large_two_stage",
    "full_transfer",
    "speculative",
    "mai",
]

STRATEGIES: tuple[Strategy, ...] = get_args(Strategy)

# Whose reasoning is read, and by whom.
_TRANSFERS: dict[str, tuple[Role, Role]] = {
    "small_two_stage": ("small", "small"),
    "large_two_stage": ("large", "large"),
    "full_transfer": ("small", "large"),
}

TRANSFER_STRATEGIES: tuple[str, ...] = (*_TRANSFERS, "mai")
"""Those that hand a reasoning over."""


def create_strategy(
    name: str,
    small: ChatModel | str,
    large: ChatModel | str,
    *,
    prompts: PromptsConfig | str | Path = "default",
    verifier: Verifier | None = None,
    transfer: Transfer = "full",
    selector: Attentive | None = None,
    timeout: float | None = None,
    allow_fetch: bool = False,
    checkpointer: Checkpointer = None,
    store: BaseStore | None = None,
    cache: BaseCache[Any] | None = None,
) -> MAIGraph:
    """Build one strategy; all take the same input and return the same output.

    `small_direct` to `large_reason` are one model in one prompt style (S, E, R); two-stage lets a
    model reason and then answer directly with its own reasoning (S2); `full_transfer` hands the
    small model's reasoning to the large one, whatever their direct answers are; `speculative` is
    the large model's reasoning with the small one as draft, for models that can do that (see
    `unavailable`); `mai` is the cascade.

    Args:
        name: One of `STRATEGIES`.
        small: As for `create_mai`, like all that follow.
        large: The large model; not called by the strategies of the small one.
        prompts: The texts around a question.
        verifier: Compares two answers; only `mai` does.
        transfer: What of a reasoning is handed over; strategies without a transfer have no use
            for it.
        selector: Who gives the attention for sparse transfer; None for whoever reads the reasoning.
        timeout: Seconds that one model call may take.
        allow_fetch: Whether http(s) images may be fetched.
        checkpointer: As for any graph.
        store: As for any graph.
        cache: Stores model calls; strategies do not share them.

    Raises:
        ConfigError: No such strategy, or not with these models; unknown prompts, a string model
            without langchain, sparse transfer without a model that gives attention, or a value of a
            kind that the option does not take.
    """
    if name not in STRATEGIES:
        raise ConfigError(f"The strategy {name!r} is unknown; use one of {', '.join(STRATEGIES)}.")
    if name == "mai":
        return create_mai(
            small,
            large,
            prompts=prompts,
            verifier=verifier,
            transfer=transfer,
            selector=selector,
            timeout=timeout,
            allow_fetch=allow_fetch,
            checkpointer=checkpointer,
            store=store,
            cache=cache,
        )
    options = Options.read(small, large, prompts, timeout, allow_fetch, cache, name)
    if verifier is not None:
        check_verifier(verifier)
    handing = _handing(name, options, transfer, selector)
    graph = StateGraph(
        RunState, context_schema=MAIContext, input_schema=MAIInput, output_schema=MAIOutput
    )
    graph.add_node(
        "prepare",
        prepare(
            allow_fetch=allow_fetch,
            digest=cache is not None,
            check_settings=handing.check_settings if handing else None,
        ),
    )
    graph.add_edge(START, "prepare")
    last = "prepare"
    for step in _steps(name, options, handing):
        options.add(graph, step)
        graph.add_edge(last, step.get_name())
        last = step.get_name()
    graph.add_node("respond", respond(name))
    graph.add_edge(last, "respond")
    graph.add_edge("respond", END)
    return options.compile(graph, checkpointer, store, name)


def unavailable(
    name: str, small: ChatModel, large: ChatModel, *, files: bool = False
) -> str | None:
    """Why a strategy cannot be had with these models, in one sentence; None if it can.

    Args:
        name: One of `STRATEGIES`.
        small: The small model.
        large: The large model.
        files: Whether checkpoints are looked into, except for their weights; only so it is known
            whether two models have the same tokens.
    """
    return why_no_draft(large, small, files=files) if name == "speculative" else None


def _handing(
    name: str, options: Options, transfer: Transfer, selector: Attentive | None
) -> TransferOption | None:
    """How a strategy hands a reasoning over; None if it does not."""
    check_transfer(transfer)
    check_selector(selector)
    if name not in _TRANSFERS:
        return None
    _, reader = _TRANSFERS[name]
    agents = {"small": options.small, "large": options.large}
    return TransferOption.read(transfer, selector, reader=agents[reader], small=options.small)


def _steps(name: str, options: Options, handing: TransferOption | None) -> list[ModelStep]:
    """A strategy's model calls, one after the other."""
    small, large = options.small, options.large
    if name == "speculative":
        return [large_reasoning(with_draft(large, small))]
    strategies: dict[str, ModelStep] = {
        "small_direct": small_agent(small),
        "small_explain": small_agent(small, "explain"),
        "small_reason": small_reasoning(small),
        "large_direct": large_agent(large),
        "large_explain": large_agent(large, "explain"),
        "large_reason": large_reasoning(large),
        "small_two_stage": small_reasoning(small),
        "large_two_stage": large_reasoning(large),
        "full_transfer": small_reasoning(small),
    }
    steps = [strategies[name]]
    if handing:
        source, _ = _TRANSFERS[name]
        steps.append(reasoning_transfer(source, handing))
    return steps
