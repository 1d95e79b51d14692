"""`mai check`: whether a pair can be used here, and what to do if not."""

import sys
import time
from typing import Annotated, Any

import typer

from ..configs import load_pair_config
from .ask import backends, import_local_models
from .entry import RUN_FAILED
from .errors import reports_errors
from .options import Debug, Json, print_json

_QUESTION = "Is there a red circle in the picture?"


@reports_errors
def check(
    pair: Annotated[str, typer.Argument(help="A pair's name (see `mai pairs`) or file.")] = "demo",
    *,
    as_json: Json = False,
    debug: Debug = False,  # noqa: ARG001  read by reports_errors
) -> None:
    """Check that a pair's models are here, load, and answer a question about an image."""
    from ..models.pairs import load_pair
    from .progress import Progress
    from .rendering import show_check

    loaded, config = load_pair(pair), load_pair_config(pair)
    image = _draw_image()
    with Progress() as progress:
        if "transformers" in backends(config).values():
            with progress.during("importing torch and transformers"):
                import_local_models()
        models = []
        for role, backend in backends(config).items():
            with progress.during(f"{role} model"):
                found = _check_model(role, getattr(loaded, role), loaded.prompts, image)
            if backend == "transformers":  # others compute in processes of their own
                found["peak_memory_mb"] = _peak_memory_mb()
            models.append({"role": role, "model": getattr(config, role).model} | found)
        ok = all(model["error"] is None for model in models)
        sparse = None
        if ok:
            with progress.during("sparse transfer"):
                sparse = _check_sparse_transfer(loaded, image)
            ok = sparse["error"] is None or loaded.selector is None
    checked = {"pair": pair, "ok": ok, "models": models, "sparse_transfer": sparse}
    if as_json:
        print_json(checked)
    else:
        show_check(checked)
    if not checked["ok"]:
        raise typer.Exit(RUN_FAILED)


def _check_model(role: str, model: Any, prompts: Any, image: Any) -> dict[str, Any]:
    """Load one model and ask it; what fails is in `error`."""
    from ..models.errors import ModelError
    from ..nodes.model_call import Agent, call_model
    from ..nodes.prepare import read_task

    found: dict[str, Any] = {
        "load_seconds": None,
        "answer": None,
        "answer_seconds": None,
        "peak_memory_mb": None,
        "error": None,
    }
    start = time.perf_counter()
    try:
        model.load()
    except (ModelError, ImportError) as error:
        found["error"] = str(error)
        return found
    found["load_seconds"] = round(time.perf_counter() - start, 3)
    task = read_task({"question": _QUESTION, "images": [image], "answer_type": "yes_no"})
    call = call_model(Agent(role, model, prompts), "direct", task)  # type: ignore[arg-type]
    found["answer"] = call["text"] or None
    found["answer_seconds"] = round(call["seconds"], 3)
    if call["error"]:
        found["error"] = call["error"]
    elif not call["text"].strip():
        found["error"] = "The model loads, but answers with nothing: is it an instruction model?"
    return found


def _check_sparse_transfer(pair: Any, image: Any) -> dict[str, Any]:
    """Whose attention sparse transfer would select by; why it cannot is in `error`."""
    from langchain_core.messages import HumanMessage

    from ..models.capabilities import SupportsAttention
    from ..models.errors import ModelError
    from ..models.images import block_image

    giver = pair.selector or pair.large
    who = "large" if giver is pair.large else "small" if giver is pair.small else "selector"
    found: dict[str, Any] = {"by": None, "layer": None, "error": None}
    if not isinstance(giver, SupportsAttention):
        found["error"] = (
            "The large model's backend gives no attention; name a selector in the pair file."
        )
        return found
    message = HumanMessage(
        [block_image({"image": image}).block, {"type": "text", "text": _QUESTION}]
    )
    layers = None if pair.sparse.layer is None else [pair.sparse.layer]
    try:
        attention = giver.attention([message], (0, len(_QUESTION)), layers=layers)
    except (ModelError, ImportError) as error:
        found["error"] = str(error)
        return found
    return found | {"by": who, "layer": attention.layers[0]}


def _draw_image() -> Any:
    """Return a red circle."""
    from PIL import Image, ImageDraw

    image = Image.new("RGB", (128, 128), "white")
    ImageDraw.Draw(image).ellipse((40, 40, 88, 88), fill="red")
    return image


def _peak_memory_mb() -> int | None:
    """Most main memory that this process has held so far; None where the system does not say."""
    try:
        import resource
    except ImportError:
        return None
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return round(peak / (1 << 20 if sys.platform == "darwin" else 1 << 10))
