"""`mai attention`: what the large model attends to in reasonings, and which layer to select by."""

import asyncio
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..configs import SparseTransfer, load_pair_config
from .errors import UsageError, reports_errors
from .evaluation_progress import EvaluationProgress
from .evaluation_settings import pair_stem, wording_of
from .exit_codes import RUN_FAILED
from .extras import require
from .options import Debug, Json, PairName
from .output import print_json
from .results_folder import results_folder
from .transfer_options import read_transfer

if TYPE_CHECKING:
    from ..benchmarks.evaluation.runner import Progress
    from ..benchmarks.question import Benchmark
    from ..configs import PromptsConfig
    from ..models.pairs import Pair

_KEPT = "What was answered and read is kept; the same command goes on from there."
RUN_RECORD = "attention-run.json"
SUGGEST_RECORD = "suggest-run.json"


@reports_errors
def attention(
    benchmark: Annotated[
        str,
        typer.Argument(
            help="shapes, pope, mmmu, mmbench, chartqa, infovqa, realworldqa, or own for your own "
            "questions in --data."
        ),
    ],
    *,
    pair: PairName = "demo",
    data: Annotated[
        str | None,
        typer.Option(
            metavar="FILE",
            help="Your own questions (JSON lines), or where the benchmark's data lie.",
        ),
    ] = None,
    split: Annotated[str | None, typer.Option(help="Only this split of the benchmark.")] = None,
    prompts: Annotated[
        str | None,
        typer.Option(
            help="The wording: a name in configs/prompts or a file.",
            show_default="the pair's own, else the benchmark's",
        ),
    ] = None,
    limit: Annotated[int | None, typer.Option(min=1, help="Only so many questions.")] = None,
    share: Annotated[
        float | None,
        typer.Option(
            help="Share of the attention that selected tokens hold.", show_default="the pair's"
        ),
    ] = None,
    suggest: Annotated[
        bool,
        typer.Option(
            "--suggest", metavar="", help="Choose a layer for sparse transfer, by score and tokens."
        ),
    ] = False,
    layer: Annotated[
        list[int] | None,
        typer.Option(
            help="--suggest: a layer to choose from, once for each. Without it: the layer that "
            "the plot of tokens and the page show first.",
            show_default="all; the pair's",
        ),
    ] = None,
    margin: Annotated[
        float,
        typer.Option(
            min=0.0, max=1.0, help="--suggest: how much worse a layer may be and still do as well."
        ),
    ] = 0.02,
    out: Annotated[
        str | None,
        typer.Option(
            metavar="DIR",
            help="Folder for the results.",
            show_default="attention/BENCHMARK-PAIR",
        ),
    ] = None,
    concurrency: Annotated[int, typer.Option(min=1, help="Questions at a time.")] = 8,
    plots: Annotated[bool, typer.Option("--plots/--no-plots", help="Draw the plots.")] = True,
    as_json: Json = False,
    debug: Debug = False,  # noqa: ARG001  read by reports_errors
) -> None:
    """Measure the large model's attention on reasonings; run again, it goes on."""
    sparse = read_transfer("sparse", load_pair_config(pair).sparse, share=share)
    if not isinstance(sparse, SparseTransfer):  # "sparse" was asked for
        raise TypeError(sparse)
    if benchmark == "own" and data is None:
        raise UsageError("Questions of your own need a file; name it with --data FILE.")
    if any(one < 1 for one in layer or ()):
        raise UsageError("--layer counts from 1.")
    folder = results_folder(out or f"attention/{benchmark}-{pair_stem(pair)}")
    require("rapidfuzz", "scipy", "jinja2", extra="benchmarks")
    if plots and not suggest:
        require("matplotlib", extra="plots")

    from ..benchmarks.datasets import load_benchmark
    from ..models.pairs import load_pair

    models = load_pair(pair).with_layers(layer or [sparse.layer])
    questions = load_benchmark(benchmark, data=data, split=split, limit=limit, folder=folder)
    if not questions.questions:
        raise UsageError(f"The benchmark {benchmark!r} has no questions here.")
    wording = wording_of(prompts, pair, models, questions)
    wanted = _Wanted(questions, models, wording, folder, sparse, tuple(layer or ()), concurrency)
    with EvaluationProgress(_KEPT) as progress:
        done = _suggest(wanted, margin, progress) if suggest else _measure(wanted, progress, plots)
    if as_json:
        print_json({"folder": str(folder)} | done)
    else:
        from .attention_rendering import show_attention, show_suggestion

        (show_suggestion if suggest else show_attention)(done, str(folder))
    if done["failures"]:
        raise typer.Exit(RUN_FAILED)


@dataclass(frozen=True, slots=True)
class _Wanted:
    """What the command was asked for."""

    benchmark: "Benchmark"
    pair: "Pair"
    prompts: "PromptsConfig"
    folder: Path
    sparse: SparseTransfer
    layers: tuple[int, ...]
    concurrency: int


def _measure(wanted: _Wanted, progress: EvaluationProgress, plots: bool) -> dict[str, Any]:
    from ..benchmarks.attention.figures import AttentionFigures
    from ..benchmarks.attention.files import write_files
    from ..benchmarks.attention.measure import PassProgress, measure
    from ..benchmarks.attention.page import page
    from ..benchmarks.attention.plots import plots as draw
    from ..benchmarks.attention.tables import records, tables
    from ..records.run_record import write_run_record

    def show_pass(at: PassProgress) -> None:
        progress.update("attention", at.done, at.total, at.rate, at.seconds_left)
        if at.error:
            progress.fail(f"{at.id}, {at.source} reasoning", at.error)

    found = asyncio.run(
        measure(
            wanted.benchmark,
            wanted.pair,
            wanted.folder,
            prompts=wanted.prompts,
            share=wanted.sparse.share,
            concurrency=wanted.concurrency,
            on_stored=progress.go_on,
            on_progress=lambda at: _show_progress("reasoning", at, progress),
            on_pass=show_pass,
        )
    )
    failures = [asdict(one) for one in found.failures]
    done: dict[str, Any] = _facts(wanted) | {
        "attention_of": found.attends,
        "calls_made": found.calls_made,
        "failures": failures,
    }
    if not found.readings:
        return done | {"tables": [], "records": [], "files": []}
    figures = AttentionFigures(found.readings, wanted.sparse.share)
    layer = _shown_layer(wanted, figures.layers)
    title = f"Attention on reasonings: {wanted.benchmark.name}, pair {wanted.pair.name}"
    images = draw(figures, title, layer) if plots else {}
    html = page(figures, title, layer)
    files = write_files(wanted.folder, figures, title, images, html)
    write_run_record(
        wanted.folder,
        name=RUN_RECORD,
        **done,
        shown_layer=layer,
        models=found.models,
        prompts=wanted.prompts.model_dump(),
    )
    return done | {
        "tables": [table.markdown() for table in tables(figures)],
        "records": [one.as_dict() for one in records(figures)],
        "files": [file.name for file in files],
    }


def _shown_layer(wanted: _Wanted, layers: tuple[int, ...]) -> int:
    from ..models.attention import wanted_layers

    asked = wanted.layers or ((wanted.sparse.layer,) if wanted.sparse.layer else None)
    return wanted_layers(asked, len(layers), wanted.pair.name)[0]


def _suggest(wanted: _Wanted, margin: float, progress: EvaluationProgress) -> dict[str, Any]:
    from ..benchmarks.attention.calibration import calibrate
    from ..benchmarks.attention.suggestion import suggest
    from ..benchmarks.attention.suggestion_report import suggestion_record, write_suggestion
    from ..records.run_record import write_run_record

    found = asyncio.run(
        calibrate(
            wanted.benchmark,
            wanted.pair,
            wanted.folder,
            sparse=wanted.sparse,
            layers=wanted.layers,
            prompts=wanted.prompts,
            concurrency=wanted.concurrency,
            on_stored=progress.go_on,
            on_progress=lambda at: _show_progress("answering", at, progress),
        )
    )
    done = _facts(wanted) | {
        "metric": found.headline,
        "margin": margin,
        "calls_made": found.calls_made,
        "failures": found.failures,
    }
    made = suggest(found.outcomes, margin)
    write_suggestion(wanted.folder, made, found, wanted.sparse.share)
    write_run_record(
        wanted.folder,
        name=SUGGEST_RECORD,
        **done,
        models=found.models,
        prompts=wanted.prompts.model_dump(),
    )
    return done | suggestion_record(made, found, wanted.sparse.share)


def _facts(wanted: _Wanted) -> dict[str, Any]:
    return {
        "benchmark": wanted.benchmark.name,
        "pair": wanted.pair.name,
        "questions": len(wanted.benchmark.questions),
        "share": wanted.sparse.share,
        "query": wanted.sparse.query,
    }


def _show_progress(label: str, at: "Progress", progress: EvaluationProgress) -> None:
    progress.update(label, at.done, at.total, at.rate, at.seconds_left)
    if at.result["error"]:
        progress.fail(f"{at.result['id']}, {at.result['strategy']}", at.result["error"])
