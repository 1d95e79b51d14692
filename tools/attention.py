"""`mai attention`: what the large model attends to in reasonings, and which layer to select by."""

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..configs import SparseTransfer, load_pair_config
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
    read_transfer,
    require,
    results_folder,
    wording_of,
)
from .progress import EvaluationProgress

if TYPE_CHECKING:
    from ..benchmarks.evaluation.results import Result
    from ..benchmarks.evaluation.runner import Pace
    from ..benchmarks.question import Benchmark
    from ..benchmarks.report.table import Table
    from ..configs import PromptsConfig
    from ..models.pairs import Pair

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
    sparse = read_transfer("sparse", load_pair_config(pair).sparse, share=share)
    if not isinstance(sparse, SparseTransfer):  # "sparse" was asked for
        raise TypeError(sparse)
    if any(one < 1 for one in layer or ()):
        raise UsageError("--layer counts from 1.")
    folder = results_folder(out or f"attention/{benchmark}-{pair_stem(pair)}")
    require("rapidfuzz", "scipy", "jinja2", "pandas", extra="benchmarks")
    if plots:
        require("matplotlib", "adjustText", extra="plots")

    from ..models.pairs import load_pair

    models = load_pair(pair).with_layers(layer or ([] if sparse.layer is None else [sparse.layer]))
    questions = read_benchmark(benchmark, data, split, limit, folder)
    wording = wording_of(prompts, pair, models, questions)
    wanted = _Wanted(
        questions, models, wording, folder, sparse, tuple(layer or ()), concurrency, scores
    )
    with EvaluationProgress(_KEPT) as progress:
        done, tables = _measure(wanted, progress, plots)
    if as_json:
        print_json({"folder": str(folder)} | done)
    else:
        _show(done, tables, str(folder))
    if done["failures"]:
        raise typer.Exit(RUN_FAILED)


@dataclass(frozen=True, slots=True)
class _Wanted:
    """What the command is to do."""

    benchmark: "Benchmark"
    pair: "Pair"
    prompts: "PromptsConfig"
    folder: Path
    sparse: SparseTransfer
    layers: tuple[int, ...]
    concurrency: int
    scores: bool

    def strategies(self, layers: int) -> list[str]:
        """Return the strategies of the table by layer."""
        from ..benchmarks.attention.layers import layer_strategies
        from ..models.attention import wanted_layers

        if not self.scores:
            return []
        chosen = wanted_layers(self.layers or "all", layers, self.pair.name)
        return layer_strategies(sorted(chosen), self.sparse)

    def shown_layer(self, layers: int) -> int:
        """Return the layer that the plot of tokens and the page show first."""
        from ..models.attention import wanted_layers

        own = (self.sparse.layer,) if self.sparse.layer else None
        return wanted_layers(self.layers or own, layers, self.pair.name)[0]


def _measure(
    wanted: _Wanted, progress: EvaluationProgress, plots: bool
) -> "tuple[dict[str, Any], list[Table]]":
    from ..benchmarks.attention.figures import AttentionFigures
    from ..benchmarks.attention.layers import layer_table
    from ..benchmarks.attention.measure import Failure, Reading, measure
    from ..benchmarks.attention.page import page
    from ..benchmarks.attention.plots import plots as draw
    from ..benchmarks.attention.tables import records, tables, write_files
    from ..benchmarks.records import write_run_record

    def show_pass(pace: "Pace", made: Reading | Failure) -> None:
        progress.update("attention", pace)
        if isinstance(made, Failure):
            progress.fail(f"{made.id}, {made.source} reasoning", made.error)

    def show_result(pace: "Pace", result: "Result") -> None:
        label = "reasoning" if result["strategy"].endswith("_reason") else "answering"
        progress.update(label, pace)
        if result["error"]:
            progress.fail(f"{result['id']}, {result['strategy']}", result["error"])

    found = measure(
        wanted.benchmark,
        wanted.pair,
        wanted.folder,
        prompts=wanted.prompts,
        share=wanted.sparse.share,
        answers=wanted.strategies,
        concurrency=wanted.concurrency,
        on_stored=progress.resume,
        on_result=show_result,
        on_pass=show_pass,
    )
    failures = [asdict(one) for one in found.failures]
    keys = ("id", "strategy", "error")
    failures += [{key: one[key] for key in keys} for one in found.answers if one["error"]]  # type: ignore[literal-required]
    done: dict[str, Any] = {
        "benchmark": wanted.benchmark.name,
        "pair": wanted.pair.name,
        "questions": len(wanted.benchmark.questions),
        "share": wanted.sparse.share,
        "query": wanted.sparse.query,
        "attention_of": found.attends,
        "calls_made": found.calls_made,
        "failures": failures,
    }
    if not found.readings:
        return done | {"tables": [], "records": [], "files": []}, []
    figures = AttentionFigures(found.readings, wanted.sparse.share)
    layer = wanted.shown_layer(len(figures.layers))
    title = f"Attention on reasonings: {wanted.benchmark.name}, pair {wanted.pair.name}"
    made, said = tables(figures), records(figures)
    if found.answers:
        by_layer, more = layer_table(wanted.benchmark, found.answers)
        made, said = [*made, by_layer], [*said, *more]
    images = draw(figures, title, layer) if plots else {}
    html = page(figures, title, layer)
    files = write_files(wanted.folder, figures, title, made, said, images, html)
    write_run_record(
        wanted.folder,
        name=RUN_RECORD,
        **done,
        shown_layer=layer,
        models=found.models,
        prompts=wanted.prompts.model_dump(),
    )
    return done | {
        "tables": [table.markdown() for table in made],
        "records": [one.as_dict() for one in said],
        "files": files,
    }, made


def _show(done: dict[str, Any], tables: "list[Table]", folder: str) -> None:
    """Print the figures by layer, and where the rest is."""
    from rich.console import Console
    from rich.text import Text

    from .rendering import show_tables

    show_tables(tables)
    console = Console(highlight=False)
    if done["failures"]:
        count = len(done["failures"])
        sentence = f"{count} failed and are in no figure; the same command tries them again."
        console.print(Text(sentence, "bold red"))
    console.print(Text(f"{done['calls_made']} calls and passes made now.", "dim"))
    if done["files"]:
        console.print(Text(f"In {folder}: {', '.join(done['files'])}.", "dim"))
