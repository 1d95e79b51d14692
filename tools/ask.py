"""`mai ask`: one question about images, answered by a pair."""

import asyncio
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..configs import PairConfig, SparseTransfer, load_pair_config
from ..configs.files import existing_file
from ..configs.schemas import Backend
from .errors import UsageError, reports_errors
from .options import (
    Debug,
    GateFile,
    Json,
    KeepOption,
    LayerOption,
    PairName,
    ShareOption,
    TransferOption,
    print_json,
    read_strategies,
    read_transfers,
    readable,
)

if TYPE_CHECKING:
    from ..models.pairs import Pair
    from .progress import Progress

Words = Annotated[
    list[str],
    typer.Argument(
        metavar="[IMAGE]... QUESTION",
        help="Paths or URLs of images, in order, and last the question.",
        show_default=False,
    ),
]


@reports_errors
def ask(
    words: Words,
    *,
    pair: PairName = "demo",
    choice: Annotated[
        list[str] | None,
        typer.Option(help="The text of an option, once for each.", show_default=False),
    ] = None,
    answer_type: Annotated[
        str,
        typer.Option(help="auto, yes_no, choice, number, short_text, list or free_text."),
    ] = "auto",
    strategy: Annotated[
        str, typer.Option(help="mai, or what it is compared with, such as large_direct.")
    ] = "mai",
    transfer: TransferOption = "full",
    layer: LayerOption = None,
    share: ShareOption = None,
    keep: KeepOption = None,
    gate: GateFile = None,
    as_json: Json = False,
    show_reasoning: Annotated[
        bool,
        typer.Option(
            "--show-reasoning",
            help="Print what the models wrote while reasoning, and what of it was transferred.",
        ),
    ] = False,
    allow_fetch: Annotated[
        bool, typer.Option("--allow-fetch", help="Fetch http(s) images.")
    ] = False,
    no_image: Annotated[
        bool, typer.Option("--no-image", help="Answer from the question's text alone.")
    ] = False,
    debug: Debug = False,  # noqa: ARG001  read by reports_errors
) -> None:
    """Answer a question about images."""
    *images, question = words
    if existing_file(question):
        raise UsageError(f"The last argument is the question, but {question!r} is a file.")
    question = readable(question, "The question")
    config = load_pair_config(pair)
    ways = read_transfers(transfer, config.sparse, layers=layer, shares=share, keeps=keep)
    if len(ways) > 1:
        raise UsageError("ask transfers in one way: give --layer, --share and --keep once.")
    sparse = ways[0] if ways else None
    if sparse:
        read_strategies([strategy], ways)  # refuses one without a transfer
    importing = threading.Thread(target=import_local_models, daemon=True)
    if sparse or "transformers" in backends(config).values():
        importing.start()

    from ..models.pairs import load_pair
    from ..nodes.prepare import read_task
    from .progress import Progress
    from .rendering import show_result

    asked: Any = {"question": question, "images": images, "answer_type": answer_type}
    if choice:
        asked["choices"] = [readable(text, "A choice") for text in choice]
    choices = read_task(asked, allow_fetch=allow_fetch)["choices"]
    if not images and not no_image:
        raise UsageError(
            "There is no image: give one before the question, or --no-image to have the question "
            "answered from its text alone."
        )
    if images and no_image:
        raise UsageError("Give images or --no-image, not both.")
    chosen = load_pair(pair, allow_fetch=allow_fetch)
    # In small_two_stage the small model reads, whose layers are others.
    if sparse and strategy != "small_two_stage":
        importing.join()  # two threads that import transformers disturb each other
        chosen = chosen.with_layers([sparse.layer])
    if gate is not None:
        chosen = replace(chosen, gate=gate)
    with Progress() as progress:
        result = _run(chosen, strategy, sparse, asked, allow_fetch, progress)
    result = {"question": question, "images": images, "pair": pair, "strategy": strategy} | result
    if as_json:
        print_json(result)
    else:
        show_result(result, choices, show_reasoning=show_reasoning)


def backends(pair: PairConfig) -> dict[str, Backend]:
    """Return what runs the models of a pair, by their roles."""
    return {role: pair.backend_of(role) for role in ("small", "large")}


def import_local_models() -> None:
    """Import what transformers models need; `ask` does it in the background, for it takes long."""
    try:
        import torch  # noqa: F401
        import transformers  # noqa: F401
    except ImportError:
        return  # The model says so, when it is loaded.


def _run(
    pair: "Pair",
    strategy: str,
    sparse: SparseTransfer | None,
    asked: Any,
    allow_fetch: bool,
    progress: "Progress",
) -> dict[str, Any]:
    """Load the weights and run the strategy, with both shown."""
    from ..graph import create_strategy
    from ..nodes.gate import Gate

    graph = create_strategy(
        strategy,
        pair.small,
        pair.large,
        prompts=pair.prompts,
        transfer=sparse or "full",
        selector=pair.selector,
        gate=pair.gate and Gate(pair.gate, audit=pair.audit),
        allow_fetch=allow_fetch,
        require_images=bool(asked["images"]),
    )
    start = time.perf_counter()
    _load_weights(_loads(pair, strategy, sparse), progress)
    loaded = time.perf_counter()
    result = asyncio.run(_stream(graph, asked, progress))
    return {
        "answer": result["answer"],
        "value": result["value"],
        "route": result["route"],
        "fallback": result["fallback"],
        "confidence": result["confidence"],
        "gate": result["gate"],
        "calls": result["calls"],
        "seconds": round(time.perf_counter() - loaded, 3),
        "load_seconds": round(loaded - start, 3),
    }


async def _stream(graph: Any, asked: Any, progress: "Progress") -> dict[str, Any]:
    result: dict[str, Any] = {}
    async for mode, event in graph.astream(asked, stream_mode=["tasks", "values"]):
        if mode == "values":
            result = event
        elif "input" in event:
            progress.start(event["name"])
        else:
            progress.finish(event["name"])
    return result


def _loads(
    pair: "Pair", strategy: str, sparse: SparseTransfer | None
) -> dict[str, Callable[[], object]]:
    """Return what loads each model that a run may need, by its role."""
    models: dict[str, Any] = {"small": pair.small, "large": pair.large}
    alone = strategy.split("_", maxsplit=1)[0]
    if alone in models:
        models = {alone: models[alone]}
    loads = {role: model.load for role, model in models.items()}
    selector: Any = pair.selector
    if sparse and selector is not None and selector is not pair.small:
        loads["selector"] = lambda: selector.load(sparse.layer and [sparse.layer])
    return loads


def _load_weights(loads: dict[str, Callable[[], object]], progress: "Progress") -> None:
    """Load several models at once; a failure waits for the run, which may do with the other."""

    def load(role: str, model: Callable[[], object]) -> None:
        with progress.during(f"loading the {role} model"):
            model()

    with ThreadPoolExecutor(len(loads)) as pool:
        # Nobody asks the futures for errors: the run asks these models too, and reports them.
        wait([pool.submit(load, role, model) for role, model in loads.items()])
