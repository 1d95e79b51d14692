"""The cascade as a LangGraph graph."""

from pathlib import Path
from typing import Any

from langgraph.cache.base import BaseCache
from langgraph.graph import END, START, StateGraph
from langgraph.graph.state import CompiledStateGraph
from langgraph.store.base import BaseStore
from langgraph.types import Checkpointer

from ..answers import agree
from ..configs import PromptsConfig
from ..nodes.chat_models import ChatModel
from ..nodes.context import MAIContext
from ..nodes.large_agent import large_agent
from ..nodes.overlap import Overlap, OverlapOption, check_overlap
from ..nodes.prepare import prepare
from ..nodes.reasoning_transfer import reasoning_transfer
from ..nodes.respond import respond
from ..nodes.retry import MODEL_RETRY
from ..nodes.review import after_review
from ..nodes.review import review as review_step
from ..nodes.small_agent import small_agent, small_reasoning
from ..nodes.state import MAIInput, MAIOutput, RunState
from ..nodes.transfer_option import Attentive, Transfer, TransferOption
from ..nodes.verification import (
    Verifier,
    after_direct_verification,
    after_reasoning_verification,
    before_review,
    check_verifier,
    direct_verification,
    reasoning_verification,
)
from .options import Options

MAIGraph = CompiledStateGraph[RunState, MAIContext, MAIInput, MAIOutput]


def create_mai(
    small: ChatModel | str,
    large: ChatModel | str,
    *,
    prompts: PromptsConfig | str | Path = "default",
    verifier: Verifier | None = None,
    transfer: Transfer = "full",
    selector: Attentive | None = None,
    review: bool = False,
    overlap: OverlapOption = None,
    timeout: float | None = None,
    allow_fetch: bool = False,
    checkpointer: Checkpointer = None,
    store: BaseStore | None = None,
    cache: BaseCache[Any] | None = None,
    name: str = "mai",
) -> MAIGraph:
    """Build the graph: a small and a large model answer a question about images together.

    Both answer directly, at once. Where they disagree, the small one reasons; where its reasoned
    answer still differs from the large one's direct answer, the large one reads that reasoning and
    answers again.

    Args:
        small: A chat model that takes images (also one with `.bind`, `.with_config`,
            `.with_retry` or `.with_fallbacks`), or a string for `init_chat_model`.
        large: The same for the large model.
        prompts: The texts around a question, and the token limits of each prompt style: a name in
            configs/prompts, a YAML file, or a config. Limits reach models that have a `max_tokens`
            setting; others keep their own.
        verifier: Compares two answers: a function from two `Answer`s to a verdict, or a `Judge`.
            The default, `agree`, compares by type and value. One that fails counts as abstaining.
        transfer: What of the reasoning is handed to the large model: "full", "sparse" (the tokens
            that it attends to most, see `SparseTransfer`; one of those says more exactly which), or
            a function from the reasoning to what is handed over. If it fails or returns nothing,
            the large model's direct answer stands. With `cache`, a function is also called to look
            a call up, so it must return the same for the same reasoning, and soon. Failures of a
            verifier or a transfer are in `calls`, with their `error`.
        selector: Who gives the attention for sparse transfer in the large model's place: a
            `ChatTransformers` of the same weights, where the large model is on a server, say, or
            the small model. A run's context can ask for sparse transfer too, so it may be given
            with any `transfer`.
        review: Whether a person is asked where the answers still differ after the reasoning: the
            run is interrupted, and resumed with the answer (`Command(resume="4")`) or with an
            empty text to go on to the transfer. It needs a checkpointer, here or in a parent.
        overlap: "reasoning" lets the small model begin to reason while the large one's direct
            answer is not in. Where the two then agree, the reasoning ends within a token (models
            other than `ChatTransformers`, and those with retries or fallbacks around them, are
            cancelled, under `invoke` they end by themselves) and
            is in `calls` as what it cost, with the finish reason "cancelled". It saves the time
            between the two direct answers on disputed questions and computes for nothing on others.
        timeout: Seconds that one model call may take; None for no limit.
        allow_fetch: Whether http(s) images may be fetched.
        checkpointer: As for any graph; None inherits a parent graph's.
        store: As for any graph.
        cache: Stores model calls; equal content (question, pixels, prompts, model) is not asked
            again by this graph or another cascade. A cached call keeps the seconds and tokens that
            it took when it was made.
        name: The graph's name, and the name of the message that it answers with.

    Returns:
        The compiled graph. It runs alone, as a node of another graph, sync and async. Settings of
        one run are given as `context=MAIContext(...)`. Calls that fail for want of memory or of a
        connection are tried again, twice at most.

    Raises:
        ConfigError: Unknown prompts, a string model without langchain, sparse transfer without a
            model that gives attention, or a value of a kind that the option does not take.
    """
    options = Options.read(small, large, prompts, timeout, allow_fetch, cache, "mai")
    verifier = agree if verifier is None else verifier
    check_verifier(verifier)
    handing = TransferOption.read(transfer, selector, reader=options.large, small=options.small)
    check_overlap(overlap)
    ahead = Overlap(options.small) if overlap else None

    graph = StateGraph(
        RunState, context_schema=MAIContext, input_schema=MAIInput, output_schema=MAIOutput
    )
    name_run = ahead.name_run if ahead else None
    graph.add_node(
        "prepare",
        prepare(
            allow_fetch=allow_fetch,
            digest=cache is not None,
            name_run=name_run,
            check_settings=handing.check_settings,
        ),
    )
    first, second = small_agent(options.small), large_agent(options.large)
    reasoning = small_reasoning(options.small)
    verified, reasoning_verified = direct_verification(verifier), reasoning_verification(verifier)
    if ahead:
        first, second = ahead.small_agent(first), ahead.large_agent(second)
        reasoning = ahead.small_reasoning(reasoning)
        verified = ahead.verification(verified)
        reasoning_verified = ahead.verification(reasoning_verified)
    options.add(graph, first)
    options.add(graph, second)
    graph.add_node("verification", verified, retry_policy=MODEL_RETRY)
    options.add(graph, reasoning)
    graph.add_node("reasoning_verification", reasoning_verified, retry_policy=MODEL_RETRY)
    options.add(graph, reasoning_transfer("small", handing))
    graph.add_node("respond", respond(name))

    graph.add_edge(START, "prepare")
    graph.add_edge("prepare", "small_agent")
    graph.add_edge("prepare", "large_agent")
    graph.add_edge(["small_agent", "large_agent"], "verification")
    graph.add_conditional_edges("verification", after_direct_verification)
    graph.add_edge("small_reasoning", "reasoning_verification")
    if review:
        graph.add_node("review", review_step())
        graph.add_conditional_edges("reasoning_verification", before_review)
        graph.add_conditional_edges("review", after_review)
    else:
        graph.add_conditional_edges("reasoning_verification", after_reasoning_verification)
    graph.add_edge("reasoning_transfer", "respond")
    graph.add_edge("respond", END)
    return options.compile(graph, checkpointer, store, name)
