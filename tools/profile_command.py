"""`mai profile`: how long each component of a model takes on this machine."""

import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from .errors import UsageError, reports_errors
from .extras import require
from .options import Debug, Json
from .output import print_json

_DEMO = ["demo:small", "demo:large"]


@reports_errors
def profile(
    *,
    model: Annotated[
        list[str] | None,
        typer.Option(help="Hub name or folder, once for each; without, the demo pair."),
    ] = None,
    random_weights: Annotated[
        bool,
        typer.Option(
            "--random-weights",
            help="Build it from its dimensions, such as Qwen3-VL-2B; no download.",
        ),
    ] = False,
    dtype: Annotated[str, typer.Option(help="auto, float32, bfloat16 or float16.")] = "auto",
    device: Annotated[str, typer.Option(help="auto, cpu, cuda, cuda:1.")] = "auto",
    attention: Annotated[str, typer.Option(help="Of transformers: sdpa, eager, ...")] = "sdpa",
    batch: Annotated[list[int] | None, typer.Option(help="Equal prompts at once (1).")] = None,
    image_side: Annotated[
        list[int] | None, typer.Option(help="Pixels (256, 512, 1024, 2048, 4096).")
    ] = None,
    query_tokens: Annotated[
        list[int] | None, typer.Option(help="Tokens beside the picture (64, 256, 512).")
    ] = None,
    output_tokens: Annotated[
        list[int] | None, typer.Option(help="Tokens written (8, 128, 256, 512).")
    ] = None,
    repeats: Annotated[int, typer.Option(help="How often each is measured.")] = 9,
    longest: Annotated[
        float, typer.Option(help="Seconds; what takes longer at best is skipped.")
    ] = 60.0,
    decoding: Annotated[
        int | None,
        typer.Option(
            help="Also time the demo pair on so many questions: large R, speculative, MAI."
        ),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="Folder; a later run goes on from what is there.")
    ] = None,
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Measure vision preprocessing, vision encoder, time to first token and decoding."""
    settings = {key: value for key, value in locals().items() if key not in {"as_json", "debug"}}
    sizes = {
        "batches": batch,
        "image_sides": image_side,
        "query_tokens": query_tokens,
        "output_tokens": output_tokens,
    }
    for name, values in sizes.items():
        if any(value < (3 if name == "query_tokens" else 1) for value in values or ()):
            raise UsageError(f"The {name.replace('_', ' ')} must be larger.")
    if repeats < 1 or (decoding is not None and decoding < 1):
        raise UsageError("The repeats and the questions must be at least 1.")
    if random_weights and not model:
        raise UsageError("--random-weights needs --model, such as --model Qwen3-VL-2B.")
    require("torch", "torchvision", "transformers", extra="transformers")
    require(*(["matplotlib"] if out else []), extra="profiling")
    from ..profiling.component_latency import Grid
    from ..profiling.profile_report import records, tables, write_profile
    from ..records.run_record import write_run_record
    from .rendering import show_table

    given: dict[str, Any] = {key: tuple(values) for key, values in sizes.items() if values}
    grid = replace(Grid(repeats=repeats, longest=longest), **given)
    folder = out or Path(tempfile.mkdtemp(prefix="langgraph-mai-profile-"))
    options = {"dtype": dtype, "device": device, "attention": attention}
    rows, rates = _measure(model or _DEMO, random_weights, options, grid, folder)
    more = [_compare_decoding(decoding, folder)] if decoding else []
    if out:
        write_profile(rows, rates, folder, more)
        write_run_record(out, settings=settings)
    if as_json:
        figures = [figure for _, added in more for figure in added]
        print_json([figure.as_dict() for figure in [*records(rows, rates), *figures]])
        return
    for title, header, lines in [*tables(rows), *(added for added, _ in more)]:
        show_table(title, header, lines)


def _compare_decoding(questions: int, folder: Path) -> Any:
    """Table 12's form, as a table and as figures."""
    from ..profiling.decoding_comparison import (
        compare_decoding,
        decoding_records,
        decoding_table,
    )

    methods = compare_decoding(questions, folder / "questions")
    return decoding_table(methods), decoding_records(methods)


def _measure(
    models: list[str], random_weights: bool, options: dict[str, str], grid: Any, folder: Path
) -> tuple[list[Any], Any]:
    """Measure model after model, each gone before the next one comes."""
    import torch

    from ..profiling.component_latency import ComponentLatency
    from ..profiling.machine_rates import measure_rates
    from ..profiling.profile_rows import ProfileFile
    from ..profiling.profiled_model import open_model
    from .rendering import Progress

    file = ProfileFile(folder)
    rows: list[Any] = []
    rates: Any = None
    threads = torch.get_num_threads()
    with Progress() as progress:
        for name in models:
            progress.start(name)
            chosen = dict(options)
            if name in _DEMO and chosen["dtype"] == "auto":
                chosen["dtype"] = "float32"  # as the demo pair runs
            opened = open_model(name, random_weights=random_weights, **chosen)
            torch.set_num_threads(opened.threads or threads)
            rates = measure_rates(opened.device, opened.dtype)
            weights = "random" if random_weights else "real"
            for row in ComponentLatency(opened, file, rates, grid, weights).measure():
                rows.append(row)
                progress.note(name, f"{row.component}, {row.image_side} px: {row.median_ms} ms")
            del opened
            progress.finish(name)
    torch.set_num_threads(threads)
    return rows, rates
