"""The cascade as a LangGraph graph."""

from pathlib import Path

from langgraph.graph import END, START, StateGraph
from langgraph.graph.state import CompiledStateGraph
from langgraph.store.base import BaseStore
from langgraph.types import Checkpointer

from ..answers import agree
from ..configs import ConfigError, PromptsConfig, load_prompts
from ..models.images import ImageAccess
from ..nodes.call_cache import CallCache
from ..nodes.caller import MODEL_RETRY, ChatModel, Node
from ..nodes.gate import Gate, after_small_agent, gated_node
from ..nodes.model_call import Agent, agent_node, check_chat_model, check_timeout
from ..nodes.prepare import prepare
from ..nodes.reasoning_transfer import (
    AttentionModel,
    Transfer,
    TransferOption,
    reasoning_transfer,
)
from ..nodes.respond import respond
from ..nodes.review import after_review
from ..nodes.review import review as review_node
from ..nodes.settings import MAIContext
from ..nodes.state import MAIInput, MAIOutput, RunState
from ..nodes.verification import (
    Verifier,
    after_direct_verification,
    after_reasoning_verification,
    before_review,
    check_verifier,
    verification,
)

MAIGraph = CompiledStateGraph[RunState, MAIContext, MAIInput, MAIOutput]


def create_mai(
    small: ChatModel | str,
    large: ChatModel | str,
    *,
    prompts: PromptsConfig | str | Path = "default",
    verifier: Verifier | None = None,
    transfer: Transfer = "full",
    selector: AttentionModel | None = None,
    review: bool = False,
    gate: Gate | str | Path | None = None,
    timeout: float | None = None,
    allow_fetch: bool = False,
    image_root: str | Path | None = None,
    require_images: bool = True,
    stream_tokens: bool = True,
    checkpointer: Checkpointer = None,
    store: BaseStore | None = None,
    cache: CallCache | None = None,
    name: str = "mai",
) -> MAIGraph:
    """Build the graph: a small and a large model answer a question about images together.

    Both answer directly, concurrently. Where they disagree, the small one reasons; where its
    reasoned answer still differs from the large one's direct answer, the large one reads that
    reasoning and answers again.

    Args:
        small: A chat model that takes images (also one with `.bind`, `.with_config`,
            `.with_retry` or `.with_fallbacks`), or a string for `init_chat_model`.
        large: The same for the large model.
        prompts: The texts around a question, and the token limits of each prompt style: a name in
            configs/prompts, a YAML file, or a config. Limits reach models that have a `max_tokens`
            setting; others keep their own.
        verifier: Compares two answers: a function from two `Answer`s to a verdict, or a `Judge`.
            The default, `agree`, compares by type and value. One that fails counts as abstaining.
        transfer: What of the reasoning is transferred: "full", "sparse" (the tokens that the large
            model attends to most, see `SparseTransfer`; one of those says more exactly which), or
            a function from the reasoning to what the large model reads. If it fails or returns
            nothing, the large model's direct answer stands. Failures of a verifier or a transfer
            are in `calls`, with their `error`.
        selector: Who gives the attention for sparse transfer in the large model's place: a
            `ChatTransformers` of the same weights, where the large model is on a server, say, or
            the small model. A run's context can ask for sparse transfer too, so it may be given
            with any `transfer`.
        review: Human review where the answers still differ after the reasoning: the run is
            interrupted with LangChain's human-in-the-loop request, and resumed with a decision
            (`Command(resume={"decisions": [{"type": "approve"}]})`), with the answer
            (`Command(resume="4")`), or with an empty text to continue with the transfer. It needs
            a checkpointer, here or in a parent.
        gate: The file of `mai calibrate`, or a `Gate` with a file for its audit. The small model
            answers first; where its answer is probable enough, it stands (route "confident") and
            the large model is not called. For another cascade than the calibrated one, the gate is
            off, with a warning. A calibration gives the output its `confidence`, too.
        timeout: Seconds that one model call may take; None for no limit.
        allow_fetch: Whether http(s) images of the public internet may be fetched.
        image_root: Only image files below this folder may be read, whoever names them; None for
            any, which suits questions of one's own program. Whoever serves the graph sets it.
        require_images: Whether a question without an image is refused with a `MAIInputError`. If
            not, the models answer from the text, and `images` of each call says 0.
        stream_tokens: Whether `stream_mode="messages"` shows what the models generate, named
            "small" and "large", besides the answer. Chat pages show it as messages that vanish
            when the answer comes.
        checkpointer: As for any graph; None inherits a parent graph's.
        store: As for any graph.
        cache: Stores model calls; an equal one (same model, prompt, images and settings) is not
            made again by this graph, another one or another process. A cached call keeps the
            seconds and tokens that it took when it was made.
        name: The graph's name, and the name of the message that it answers with.

    Returns:
        The compiled graph. It runs alone, as a node of another graph, sync and async. Settings of
        one run are given as `context=MAIContext(...)`. Calls that fail for want of memory or of a
        connection are tried again, twice at most.

    Raises:
        ConfigError: Unknown prompts, a string model without langchain, sparse transfer without a
            model that gives attention, or a value of a kind that the option does not take.
    """
    access = ImageAccess(allow_fetch=allow_fetch, image_root=image_root)
    agents = read_agents(small, large, prompts, timeout, access, cache)
    verifier = agree if verifier is None else verifier
    check_verifier(verifier)
    option = TransferOption.read(transfer, selector, reader=agents["large"], small=agents["small"])

    if gate is not None:
        given = gate if isinstance(gate, Gate) else Gate(gate)
        own = agents["small"].model, agents["large"].model, agents["small"].prompts
        gate = given.bind(*own, transfer, verifier)
    gated = gate is not None and gate.calibration.threshold is not None

    small_agent = agent_node("small_agent", agents["small"], "direct", cache)
    graph = new_graph()
    add(graph, prepare(access, option.check_settings, require_images=require_images))
    add(graph, gated_node(small_agent, gate) if gate and gated else small_agent)
    add(graph, agent_node("large_agent", agents["large"], "direct", cache))
    add(graph, verification("direct", verifier, cache))
    add(graph, agent_node("small_reasoning", agents["small"], "reason", cache))
    add(graph, verification("reasoning", verifier, cache, reviewed=review))
    add(graph, reasoning_transfer("small", option, cache))
    add(graph, respond(name, gate))

    graph.add_edge(START, "prepare")
    graph.add_edge("prepare", "small_agent")
    if gated:
        graph.add_conditional_edges("small_agent", after_small_agent)
        graph.add_edge("large_agent", "verification")
    else:
        graph.add_edge("prepare", "large_agent")
        graph.add_edge(["small_agent", "large_agent"], "verification")
    graph.add_conditional_edges("verification", after_direct_verification)
    graph.add_edge("small_reasoning", "reasoning_verification")
    if review:
        add(graph, review_node())
        graph.add_conditional_edges("reasoning_verification", before_review)
        graph.add_conditional_edges("review", after_review)
    else:
        graph.add_conditional_edges("reasoning_verification", after_reasoning_verification)
    graph.add_edge("reasoning_transfer", "respond")
    graph.add_edge("respond", END)
    compiled = graph.compile(checkpointer=checkpointer, store=store, name=name)
    return compiled if stream_tokens else compiled.with_config(tags=["nostream"])


def new_graph() -> StateGraph[RunState, MAIContext, MAIInput, MAIOutput]:
    """Return an empty graph with the cascade's state, context, input and output."""
    return StateGraph(
        RunState, context_schema=MAIContext, input_schema=MAIInput, output_schema=MAIOutput
    )


def add(graph: StateGraph[RunState, MAIContext, MAIInput, MAIOutput], node: Node) -> None:
    """Add a node by its own name."""
    graph.add_node(node.get_name(), node, retry_policy=MODEL_RETRY)


def read_agents(
    small: ChatModel | str,
    large: ChatModel | str,
    prompts: PromptsConfig | str | Path,
    timeout: float | None,
    access: ImageAccess,
    cache: CallCache | None,
) -> dict[str, Agent]:
    """Check these options of `create_mai`, and return the agents by role."""
    check_timeout(timeout)
    if cache is not None and not isinstance(cache, CallCache):
        raise ConfigError(
            f"`cache` must be a CallCache such as CallCache('calls.sqlite'), not {cache!r}."
        )
    if not isinstance(prompts, PromptsConfig | str | Path):
        raise ConfigError(
            "`prompts` must be a name, a YAML file or a PromptsConfig, not "
            f"{type(prompts).__name__}."
        )
    texts = prompts if isinstance(prompts, PromptsConfig) else load_prompts(prompts)
    return {
        "small": Agent("small", _chat_model(small, "small"), texts, timeout, access),
        "large": Agent("large", _chat_model(large, "large"), texts, timeout, access),
    }


def _chat_model(model: ChatModel | str, role: str) -> ChatModel:
    if not isinstance(model, str):
        check_chat_model(model, role)
        return model
    try:
        from langchain.chat_models import init_chat_model
    except ImportError as error:
        raise ConfigError(
            f"The model {model!r} is given by name, which needs langchain: "
            "run `pip install langchain`, or give a chat model object."
        ) from error
    try:
        named: ChatModel = init_chat_model(model)
    except (ImportError, ValueError) as error:
        reason = " ".join(str(error).split())
        raise ConfigError(f"The model {model!r} cannot be made: {reason}") from error
    return named
