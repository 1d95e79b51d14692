"""Every way to answer that the cascade is compared with, made of the cascade's own steps."""

from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Literal, cast, get_args

from langgraph.graph import END, START
from langgraph.store.base import BaseStore
from langgraph.types import Checkpointer
from typing_extensions import TypedDict, Unpack

from ..answers import agree
from ..configs import ConfigError, PromptsConfig
from ..models.capabilities import SupportsDraft, chat_models
from ..models.errors import ModelError
from ..models.images import ImageAccess
from ..nodes.call_cache import CallCache
from ..nodes.caller import ChatModel, Node
from ..nodes.gate import Gate
from ..nodes.model_call import Agent, ReadingStyle, agent_node
from ..nodes.prepare import prepare
from ..nodes.reasoning_transfer import (
    AttentionModel,
    Transfer,
    TransferOption,
    check_transfer,
    reasoning_transfer,
)
from ..nodes.respond import respond
from ..nodes.state import Role
from ..nodes.verification import Verifier, check_verifier
from .build import MAIGraph, add, create_mai, new_graph, read_agents

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
"""Those that transfer a reasoning."""


class StrategyOptions(TypedDict, total=False):
    """The options of `create_mai` that every strategy takes, also those it has no use for."""

    prompts: PromptsConfig | str | Path
    verifier: Verifier | None
    transfer: Transfer
    selector: AttentionModel | None
    gate: Gate | str | Path | None
    timeout: float | None
    allow_fetch: bool
    image_root: str | Path | None
    require_images: bool
    checkpointer: Checkpointer
    store: BaseStore | None
    cache: CallCache | None


def create_strategy(
    name: str,
    small: ChatModel | str,
    large: ChatModel | str,
    **options: Unpack[StrategyOptions],
) -> MAIGraph:
    """Build one strategy; all take the same input and return the same output.

    `small_direct` to `large_reason` are one model in one prompt style (S, E, R); two-stage lets a
    model reason and then answer directly with its own reasoning (S2); `full_transfer` transfers
    the small model's reasoning to the large one, whatever their direct answers are; `speculative`
    is the large model's reasoning with the small one as draft, for models that can do that (see
    `unavailable`); `mai` is the cascade.

    Args:
        name: One of `STRATEGIES`.
        small: The small model, as for `create_mai`.
        large: The large model; not called by the strategies of the small one.
        **options: As for `create_mai`; a `selector` of None is whoever reads the reasoning.

    Raises:
        ConfigError: No such strategy, or not with these models; else as `create_mai`.
    """
    if name not in STRATEGIES:
        raise ConfigError(f"The strategy {name!r} is unknown; use one of {', '.join(STRATEGIES)}.")
    if name == "mai":
        return create_mai(small, large, **options)
    access = ImageAccess(
        allow_fetch=options.get("allow_fetch", False), image_root=options.get("image_root")
    )
    cache = options.get("cache")
    transfer, selector = options.get("transfer", "full"), options.get("selector")
    prompts, timeout = options.get("prompts", "default"), options.get("timeout")
    agents = read_agents(small, large, prompts, timeout, access, cache)
    check_verifier(options.get("verifier") or agree)
    check_transfer(transfer, selector)
    source, reader = _TRANSFERS.get(name, (None, None))
    option = reader and TransferOption.read(
        transfer, selector, reader=agents[reader], small=agents["small"]
    )
    nodes = [
        prepare(
            access,
            option.check_settings if option else None,
            require_images=options.get("require_images", True),
        ),
        _reader(name, source, agents, cache),
    ]
    if option and source:
        nodes.append(reasoning_transfer(source, option, cache))
    nodes.append(respond(name))
    graph = new_graph()
    for node in nodes:
        add(graph, node)
    for first, then in pairwise([START, *(node.get_name() for node in nodes), END]):
        graph.add_edge(first, then)
    return graph.compile(options.get("checkpointer"), store=options.get("store"), name=name)


def unavailable(
    name: str, small: ChatModel, large: ChatModel, *, files: bool = False
) -> str | None:
    """Return why a strategy cannot be had with these models, in one sentence; None if it can.

    Args:
        name: One of `STRATEGIES`.
        small: The small model.
        large: The large model.
        files: Whether checkpoints are looked into, except for their weights; only so it is known
            whether two models have the same tokens.
    """
    if name != "speculative":
        return None
    drafts = chat_models(small)
    if len(drafts) != 1:
        return "Speculative decoding needs one draft, not a model with fallbacks."
    for target in chat_models(large):
        if not isinstance(target, SupportsDraft):
            because = getattr(type(target), "no_draft_because", "")
            return (
                "Speculative decoding needs a large model that takes a draft, such as a "
                f"ChatTransformers; {type(target).__name__} takes none"
                f"{f', because {because}' if because else ''}."
            )
        try:
            target.check_draft(drafts[0], files=files)
        except ModelError as error:
            return str(error)
    return None


def _reader(
    name: str, source: Role | None, agents: dict[str, Agent], cache: CallCache | None
) -> Node:
    """Return the node that calls a strategy's model with the images."""
    if name == "speculative":
        small, large = agents["small"].model, agents["large"].model
        if reason := unavailable(name, small, large):
            raise ConfigError(reason)
        agent = replace(agents["large"], draft=chat_models(small)[0])
        return agent_node("large_reasoning", agent, "reason", cache)
    role, style = (source, "reason") if source else name.split("_")
    node = "reasoning" if style == "reason" else "agent"
    return agent_node(f"{role}_{node}", agents[role], cast("ReadingStyle", style), cache)
