"""`mai profile`: how long each component of a model takes on this machine."""

import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from .errors import UsageError, reports_errors
from .options import Debug, Json, print_json, require, results_folder

if TYPE_CHECKING:
    from ..profiling.profile_rows import ProfileRow
    from ..profiling.targets import Target

_LOG_SECONDS = 30.0
_STEP = "profile"


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
            help="Only the shapes: a name such as Qwen3-VL-2B, or a folder's config.json.",
        ),
    ] = False,
    pair: Annotated[
        str | None, typer.Option(help="A pair's name or file: its two models, as it runs them.")
    ] = None,
    backend: Annotated[
        str | None, typer.Option(help="transformers (default, or the pair's) or vllm.")
    ] = None,
    dtype: Annotated[
        str | None, typer.Option(help="auto, float32, bfloat16 or float16; or as the pair says.")
    ] = None,
    device: Annotated[str | None, typer.Option(help="auto, cpu, cuda, cuda:1.")] = None,
    attention: Annotated[
        str | None, typer.Option(help="By the backend's name for it: sdpa, eager, FLASH_ATTN, ...")
    ] = None,
    engine: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=VALUE", help="vLLM's engine option, such as enforce_eager=true."
        ),
    ] = None,
    batch: Annotated[list[int] | None, typer.Option(help="Equal prompts in a batch (1).")] = None,
    image_side: Annotated[
        list[int] | None, typer.Option(help="Pixels (256, 512, 1024, 2048, 4096).")
    ] = None,
    query_tokens: Annotated[
        list[int] | None, typer.Option(help="Tokens beside the image (64, 256, 512).")
    ] = None,
    output_tokens: Annotated[
        list[int] | None, typer.Option(help="Tokens generated (8, 128, 256, 512).")
    ] = None,
    repeats: Annotated[int, typer.Option(help="How often each is measured.")] = 9,
    longest: Annotated[
        float, typer.Option(help="Seconds; what takes longer at best is skipped.")
    ] = 60.0,
    out: Annotated[
        Path | None, typer.Option(help="Folder; a later run resumes from what is there.")
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
    _check(sizes, repeats, longest)
    if random_weights and not (model or pair):
        raise UsageError("--random-weights needs --model, such as --model Qwen3-VL-2B, or --pair.")
    out = results_folder(out) if out else None
    require("torch", "torchvision", "transformers", extra="transformers")
    require(*(["matplotlib", "scipy"] if out else []), extra="profiling")
    from ..benchmarks.records import machine_load, write_run_record
    from ..profiling.profile_report import records, tables, write_profile
    from ..profiling.profile_rows import ProfileFile, impossible_rows
    from ..profiling.targets import Grid
    from .rendering import show_tables

    given: dict[str, Any] = {key: tuple(values) for key, values in sizes.items() if values}
    grid = replace(Grid(repeats=repeats, longest=longest), **given)
    options: dict[str, Any] = {"dtype": dtype, "device": device, "attention": attention}
    named = {key: value for key, value in options.items() if value is not None}
    for_engine = _engine_options(engine or [])
    targets = [
        replace(target, **named, engine={**target.engine, **for_engine})
        for target in _targets(model or [], pair, backend, random_weights)
    ]
    if for_engine and not any(target.backend == "vllm" for target in targets):
        raise UsageError("--engine sets options of vLLM's engine; add --backend vllm.")
    load = {"before": machine_load()}
    with _folder(out) as folder:
        file = ProfileFile(folder)
        _measure(targets, grid, file, out)
        load["after"] = machine_load()
        if out:
            write_profile(file.rows, out)
            loads = {when: asdict(one) for when, one in load.items()}
            write_run_record(out, settings=settings, machine_load=loads)
    busy = [one.warning(f"{when} the measurement") for when, one in load.items()]
    for sentence in [*filter(None, busy), *impossible_rows(file.rows)]:
        typer.echo(sentence, err=True)
    if as_json:
        print_json([figure.as_dict() for figure in records(file.rows)])
        return
    show_tables(tables(file.rows))


def _check(sizes: dict[str, list[int] | None], repeats: int, longest: float) -> None:
    """Refuse numbers that nothing can be measured with."""
    for name, values in sizes.items():
        if any(value < (3 if name == "query_tokens" else 1) for value in values or ()):
            raise UsageError(f"The {name.replace('_', ' ')} must be larger.")
    if repeats < 1:
        raise UsageError("The repeats must be at least 1.")
    if not (isfinite(longest) and longest > 0):
        raise UsageError("The seconds of --longest must be a positive number, such as 60.")


@contextmanager
def _folder(out: Path | None) -> Iterator[Path]:
    """Where rows are written: the folder that was named, or one that is gone afterwards.

    Raises:
        ConfigError: Another profile is written there.
    """
    from ..benchmarks.records import holding

    if out:
        with holding(out, "mai profile"):
            yield out
        return
    with tempfile.TemporaryDirectory(prefix="langgraph-mai-profile-") as name:
        yield Path(name)


def _engine_options(given: list[str]) -> dict[str, Any]:
    """Names and values, which are read as in a pair file."""
    import yaml

    found = {}
    for option in given:
        name, equals, value = option.partition("=")
        if not (name and equals):
            raise UsageError(f"--engine takes NAME=VALUE, not {option!r}.")
        try:
            found[name] = yaml.safe_load(value)
        except yaml.YAMLError as error:
            raise UsageError(f"The value of --engine {option!r} cannot be read.") from error
    return found


def _targets(
    models: list[str], pair: str | None, backend: str | None, random_weights: bool
) -> "list[Target]":
    """The models that were named, and those of the pair; else the demo pair."""
    from ..profiling.targets import BACKENDS, demo_targets, model_target, pair_targets

    chosen = next((known for known in BACKENDS if known == backend), None)
    if backend is not None and chosen is None:
        raise UsageError(f"--backend takes {' or '.join(BACKENDS)}, not {backend!r}.")
    runs = chosen or "transformers"
    found = [model_target(name, runs, random_weights=random_weights) for name in models]
    if pair:
        found += pair_targets(pair, chosen, random_weights=random_weights)
    return found or demo_targets(chosen)


def _measure(targets: "list[Target]", grid: Any, file: Any, out: Path | None) -> None:
    """Measure model after model, and show the progress."""
    from ..models.site.sitecustomize import fit_torch_packages

    fit_torch_packages()  # before anything imports torchvision
    from ..profiling.components import profile_models
    from .progress import Progress, says_when_stopped

    kept = (
        f"They are in {str(out)!r}, and the same command resumes there."
        if out
        else "They are lost: name a folder with --out to keep them."
    )
    known = sum(row.median_ms is not None for row in file.rows)
    if known:
        typer.echo(f"{known} rows were measured before; resuming.", err=True)
    rows, logged = 0, time.monotonic()
    progress = Progress()

    def show(target: "Target", row: "ProfileRow") -> None:
        nonlocal rows, logged
        rows += 1
        result = row.skipped or f"{row.median_ms:.2f} ms"
        sizes = f"{row.image_side} px, {row.input_tokens} + {row.output_tokens} tokens"
        line = f"{target.name}, {target.backend}: {row.component}, {sizes}: {result}"
        progress.note(_STEP, line)
        if not sys.stderr.isatty() and time.monotonic() - logged >= _LOG_SECONDS:
            logged = time.monotonic()
            typer.echo(f"row {rows}, {line}", err=True)

    with says_when_stopped(lambda: f"{max(rows, known)} rows are measured. {kept}"), progress:
        progress.start(_STEP)
        profile_models(targets, grid, file, show)
