"""`mai attention`: what the large model attends to in reasonings, and which layer to select by."""

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..configs import load_pair_config
from .entry import RUN_FAILED
from .errors import UsageError, reports_errors
from .options import (
    BenchmarkName,
    DataFile,
    Debug,
    Json,
    Limit,
    PairName,
    Split,
    Wording,
    pair_stem,
    print_json,
    read_benchmark,
    read_transfers,
    require,
    results_folder,
    wording_of,
)
from .progress import EvaluationProgress

if TYPE_CHECKING:
    from ..benchmarks.attention.measure import Measured
    from ..benchmarks.evaluation.results import Result
    from ..benchmarks.evaluation.runner import Pace
    from ..benchmarks.question import Benchmark
    from ..benchmarks.report.table import Table

_KEPT = "What was answered and read is kept; the same command continues from there."
RUN_RECORD = "attention-run.json"


@reports_errors
def attention(
    benchmark: BenchmarkName,
    *,
    pair: PairName = "demo",
    data: DataFile = None,
    split: Split = None,
    prompts: Wording = None,
    limit: Limit = None,
    share: Annotated[
        float | None,
        typer.Option(
            help="Share of the attention that selected tokens hold.", show_default="the pair's"
        ),
    ] = None,
    scores: Annotated[
        bool,
        typer.Option(
            "--scores",
            metavar="",
            help="Answer too after sparse transfer at each layer: a table of score and tokens.",
        ),
    ] = False,
    layer: Annotated[
        list[int] | None,
        typer.Option(
            help="--scores: a layer to answer at, once for each. Without it: the layer that the "
            "plot of tokens and the page show first.",
            show_default="all; the pair's",
        ),
    ] = None,
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
    """Measure the large model's attention on reasonings; run again, it resumes."""
    shares = None if share is None else [share]
    (sparse,) = read_transfers("sparse", load_pair_config(pair).sparse, shares=shares)
    if any(one < 1 for one in layer or ()):
        raise UsageError("--layer counts from 1.")
    folder = results_folder(out or f"attention/{benchmark}-{pair_stem(pair)}")
    require("rapidfuzz", "scipy", "jinja2", "pandas", extra="benchmarks")
    if plots:
        require("matplotlib", "adjustText", extra="plots")

    from ..benchmarks.attention.measure import measure
    from ..benchmarks.attention.tables import layer_strategies
    from ..models.attention import wanted_layers
    from ..models.pairs import load_pair
    from .rendering import show_lines, show_tables

    models = load_pair(pair).with_layers(layer or ([] if sparse.layer is None else [sparse.layer]))
    questions = read_benchmark(benchmark, data, split, limit, folder)
    wording = wording_of(prompts, pair, models, questions)

    def strategies(count: int) -> list[str]:
        chosen = wanted_layers(layer or "all", count, models.name)
        return layer_strategies(sorted(chosen), sparse) if scores else []

    with EvaluationProgress(_KEPT) as progress:

        def show(pace: "Pace", result: "Result") -> None:
            label = "reasoning" if result["strategy"].endswith("_reason") else "answering"
            progress.show(label, pace, f"{result['id']}, {result['strategy']}", result["error"])

        found = measure(
            questions,
            models,
            folder,
            prompts=wording,
            share=sparse.share,
            answers=strategies,
            concurrency=concurrency,
            on_stored=progress.resume,
            on_result=show,
            on_pass=lambda pace, what, error: progress.show("attention", pace, what, error),
        )
    failures = [asdict(one) for one in found.failures]
    keys = ("id", "strategy", "error")
    failures += [{key: one[key] for key in keys} for one in found.answers if one["error"]]  # type: ignore[literal-required]
    done: dict[str, Any] = {
        "benchmark": questions.name,
        "pair": models.name,
        "questions": len(questions.questions),
        "share": sparse.share,
        "query": sparse.query,
        "attention_of": found.attends,
        "calls_made": found.calls_made,
        "failures": failures,
    }
    tables: list[Table] = []
    written: dict[str, Any] = {"records": [], "files": []}
    if found.readings:
        title = f"Attention on reasonings: {questions.name}, pair {models.name}"
        own = layer or (sparse.layer and [sparse.layer])
        first = wanted_layers(own or None, len(found.readings[0].measured.layers), models.name)[0]
        made = done | {"shown_layer": first, "prompts": wording.model_dump()}
        tables, written = _write(folder, questions, found, sparse.share, title, first, plots, made)
    if as_json:
        shown = {"tables": [table.markdown() for table in tables], **written}
        print_json({"folder": str(folder)} | done | shown)
    else:
        show_tables(tables)
        notes = [f"{found.calls_made} calls and passes made now."]
        if failures:
            count = len(failures)
            notes.append(f"{count} failed and are in no figure; the same command tries them again.")
        show_lines([*notes, f"Files in {folder}: {', '.join(written['files']) or 'none'}."])
    if failures:
        raise typer.Exit(RUN_FAILED)


def _write(
    folder: Path,
    questions: "Benchmark",
    found: "Measured",
    share: float,
    title: str,
    layer: int,
    plots: bool,
    made: dict[str, Any],
) -> "tuple[list[Table], dict[str, Any]]":
    """Write all files, and return the tables, the records and the files' names."""
    from ..benchmarks.attention.figures import AttentionFigures
    from ..benchmarks.attention.plots import plots as draw
    from ..benchmarks.attention.tables import layer_table, page, records, tables, write_files
    from ..benchmarks.records import write_run_record

    figures = AttentionFigures(found.readings, share)
    shown, said = tables(figures), records(figures)
    if found.answers:
        by_layer, more = layer_table(questions, found.answers)
        shown, said = [*shown, by_layer], [*said, *more]
    images = draw(figures, title, layer) if plots else {}
    html = page(figures, title, layer)
    files = write_files(folder, figures, title, shown, said, images, html)
    write_run_record(folder, name=RUN_RECORD, **made, models=found.models)
    return shown, {"records": [one.as_dict() for one in said], "files": files}
