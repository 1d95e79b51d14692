"""`mai evaluate`: strategies on a benchmark, every model call once, results in a folder."""

from collections.abc import Iterable
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.text import Text

from ..configs import load_pair_config
from .entry import RUN_FAILED
from .errors import UsageError, reports_errors
from .options import (
    DEFAULT_STRATEGIES,
    STRATEGY_NAMES,
    BenchmarkName,
    DataFile,
    Debug,
    Json,
    KeepSweep,
    LayerSweep,
    Limit,
    PairName,
    ShareSweep,
    Split,
    TransferOption,
    Wording,
    pair_stem,
    print_json,
    read_benchmark,
    read_strategies,
    require,
    results_folder,
    wording_of,
)
from .progress import EvaluationProgress

if TYPE_CHECKING:
    from ..benchmarks.evaluation.ray import RayReplicas
    from ..benchmarks.evaluation.results import Result
    from ..benchmarks.question import Benchmark
    from ..configs import PromptsConfig
    from ..models.pairs import Pair

_KEPT = "What was answered is kept; the same command continues from there."
_KINDS = ("calls", "input_tokens", "cached_tokens", "output_tokens")
_NOT_KEPT = "Timed runs start anew."


@reports_errors
def evaluate(
    benchmark: BenchmarkName,
    *,
    pair: PairName = "demo",
    data: DataFile = None,
    split: Split = None,
    strategy: Annotated[
        list[str] | None,
        typer.Option(
            help=f"A strategy, once for each: {', '.join(STRATEGY_NAMES)}; or all.",
            show_default=", ".join(DEFAULT_STRATEGIES),
        ),
    ] = None,
    prompts: Wording = None,
    limit: Limit = None,
    out: Annotated[
        str | None,
        typer.Option(
            metavar="DIR",
            help="Folder for the results.",
            show_default="evaluations/BENCHMARK-PAIR",
        ),
    ] = None,
    allow_fetch: Annotated[
        bool,
        typer.Option("--allow-fetch", metavar="", help="Download images that are web addresses."),
    ] = False,
    concurrency: Annotated[
        int | None,
        typer.Option(min=1, help="Questions at a time.", show_default="8; timed, 1"),
    ] = None,
    timed: Annotated[
        bool,
        typer.Option(
            "--timed", metavar="", help="Measure the time: warm, for real, without the store."
        ),
    ] = False,
    engine: Annotated[
        str, typer.Option(help="local: in this process. ray: on Ray, by replicas of the pair.")
    ] = "local",
    ray_address: Annotated[
        str | None,
        typer.Option(
            metavar="HOST:PORT",
            help="The Ray cluster to join, or auto.",
            show_default="a Ray on this machine alone",
        ),
    ] = None,
    replicas: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Replicas of the pair on Ray.",
            show_default="as GPUs suffice; without GPUs, 1",
        ),
    ] = None,
    replica_gpus: Annotated[
        int | None,
        typer.Option(min=0, help="GPUs of each replica.", show_default="1 for models on GPUs"),
    ] = None,
    transfer: TransferOption = "full",
    layer: LayerSweep = None,
    share: ShareSweep = None,
    keep: KeepSweep = None,
    as_json: Json = False,
    debug: Debug = False,  # noqa: ARG001  read by reports_errors
) -> None:
    """Run strategies on a benchmark; run again, it resumes where it was stopped."""
    strategies = read_strategies(
        strategy, transfer, load_pair_config(pair).sparse, layers=layer, shares=share, keeps=keep
    )
    on_ray = _replicas(pair, engine, ray_address, replicas, replica_gpus, timed=timed)
    folder = results_folder(out or f"evaluations/{benchmark}-{pair_stem(pair)}")
    require("rapidfuzz", "scipy", extra="benchmarks")

    from ..benchmarks.datasets import fetch_images
    from ..benchmarks.evaluation.variants import swept_layers
    from ..models.pairs import load_pair

    models = load_pair(pair)
    if transfer == "sparse":
        models = models.with_layers([None, *swept_layers(strategies)])
    strategies = _available(strategies, models, wants_all="all" in (strategy or []))
    questions = read_benchmark(benchmark, data, split, limit, folder)
    if allow_fetch:
        questions = fetch_images(questions, folder / "pictures")
    wording = wording_of(prompts, pair, models, questions)
    run = _time if timed else partial(_evaluate, replicas=on_ray)
    with EvaluationProgress(_NOT_KEPT if timed else _KEPT) as progress:
        done = run(
            questions, models, strategies, folder, wording, concurrency or (1 if timed else 8),
            progress,
        )  # fmt: skip
    if as_json:
        print_json({"folder": str(folder)} | done)
    else:
        (_show_timing if timed else _show_evaluation)(done, str(folder))
    if done["failures"]:
        raise typer.Exit(RUN_FAILED)


def _evaluate(
    benchmark: "Benchmark",
    pair: "Pair",
    strategies: list[str],
    folder: Path,
    wording: "PromptsConfig",
    concurrency: int,
    progress: EvaluationProgress,
    replicas: "RayReplicas | None",
) -> dict[str, Any]:
    from ..benchmarks.evaluation.results import (
        Result,
        accept_rates,
        count_calls,
        failures,
    )
    from ..benchmarks.evaluation.runner import Pace
    from ..benchmarks.evaluation.runner import evaluate as run
    from ..benchmarks.metrics import headline
    from ..benchmarks.records import write_run_record

    def show(pace: Pace, result: Result) -> None:
        progress.update("evaluating", pace)
        if result["error"]:
            progress.fail(f"{result['id']}, {result['strategy']}", result["error"])

    found = run(
        benchmark,
        pair,
        strategies,
        folder,
        prompts=wording,
        concurrency=concurrency,
        replicas=replicas,
        on_stored=progress.resume,
        on_result=show,
    )
    done: dict[str, Any] = {
        "benchmark": benchmark.name,
        "metric": benchmark.metric,
        "headline": headline(benchmark.metric),
        "pair": pair.name,
        "questions": len(benchmark.questions),
        "strategies": list(dict.fromkeys(result["strategy"] for result in found.results)),
        "calls_made": found.calls_made,
        "calls_stored": count_calls(found.results),
        "accept_rates": accept_rates(found.results),
        "failures": _failures(failures(found.results)),
        "failed_calls": found.failed_calls,
    }
    write_run_record(folder, **done, models=found.models, prompts=wording.model_dump())
    return done | {"summary": found.summary}


def _time(
    benchmark: "Benchmark",
    pair: "Pair",
    strategies: list[str],
    folder: Path,
    wording: "PromptsConfig",
    concurrency: int,
    progress: EvaluationProgress,
) -> dict[str, Any]:
    from ..benchmarks.evaluation.results import failures
    from ..benchmarks.evaluation.runner import Pace
    from ..benchmarks.evaluation.store import EvaluationStore
    from ..benchmarks.evaluation.timed import (
        TIMED_FILE,
        TIMING_FILE,
        TimedRun,
        time_strategies,
        timed_lines,
        timing_records,
    )
    from ..benchmarks.evaluation.variants import strategy_graph
    from ..benchmarks.metrics import check_scoring
    from ..benchmarks.records import machine_load, write_json, write_lines, write_run_record

    graphs = {name: strategy_graph(name, pair, wording) for name in strategies}
    pace = Pace(len(strategies) * len(benchmark.questions))

    def show(run: TimedRun) -> None:
        pace.advance()
        progress.update(f"timing {run.strategy}", pace)

    check_scoring(benchmark)
    with EvaluationStore(folder) as store:
        models = store.claim(benchmark, pair, wording)
        load = {"before": machine_load()}
        runs = time_strategies(
            graphs,
            benchmark.questions,
            models=(pair.small, pair.large),
            concurrency=concurrency,
            on_answer=show,
        )
        load["after"] = machine_load()
        records = timing_records(runs)
        write_json(folder / TIMING_FILE, records)
        write_lines(folder / TIMED_FILE, timed_lines(runs))
    done: dict[str, Any] = {
        "benchmark": benchmark.name,
        "pair": pair.name,
        "questions": len(benchmark.questions),
        "strategies": strategies,
        "concurrency": concurrency,
        "machine_load": {when: asdict(one) for when, one in load.items()},
        "failures": _failures(result for run in runs for result in failures(run.results)),
    }
    write_run_record(
        folder, name="timed-run.json", **done, models=models, prompts=wording.model_dump()
    )
    for when, one in load.items():
        if sentence := one.warning(f"{when} the timing"):
            progress.note(sentence)
    return done | {"timing": records}


def _failures(results: "Iterable[Result]") -> list[dict[str, Any]]:
    return [{key: one[key] for key in ("id", "strategy", "error")} for one in results]


def _replicas(
    pair: str,
    engine: str,
    address: str | None,
    count: int | None,
    gpus: int | None,
    *,
    timed: bool,
) -> "RayReplicas | None":
    if engine not in ("local", "ray"):
        raise UsageError(f"--engine takes local or ray, not {engine!r}.")
    if engine == "local":
        if (address, count, gpus) != (None, None, None):
            raise UsageError("--ray-address, --replicas and --replica-gpus go with --engine ray.")
        return None
    if timed:
        raise UsageError("--timed measures this machine: leave --engine ray out.")
    from ..benchmarks.evaluation.ray import RayReplicas

    return RayReplicas(load_pair_config(pair), address, count, gpus)


def _available(strategies: list[str], pair: "Pair", *, wants_all: bool) -> list[str]:
    """Those of the strategies that the pair's models can do; of all, the others are named.

    Raises:
        UsageError: One that was asked for by its name is none of them.
    """
    from ..graph import unavailable

    reasons = {name: unavailable(name, pair.small, pair.large, files=True) for name in strategies}
    for name, reason in reasons.items():
        if reason and not wants_all:
            raise UsageError(reason)
        if reason:
            typer.echo(f"Without {name}: {reason}", err=True)
    return [name for name in strategies if not reasons[name]]


def _show_evaluation(done: dict[str, Any], folder: str) -> None:
    """Print each strategy's main score by protocol, what the calls cost, and where the results are.

    Args:
        done: What the command found out.
        folder: Where the results are.
    """
    from .rendering import figure_table

    console = Console(highlight=False)
    metric = done["headline"]
    figures = [one for one in done["summary"] if not one["group"] and one["metric"] == metric]
    protocols = list(dict.fromkeys(one["protocol"] for one in figures))
    table = figure_table(
        "strategy", "questions", *(f"{metric.replace('_', ' ')}\n{name}" for name in protocols)
    )
    for strategy in done["strategies"]:
        own = {one["protocol"]: one for one in figures if one["strategy"] == strategy}
        asked = max((one["questions"] for one in own.values()), default=0)
        table.add_row(strategy, str(asked), *(_score(own.get(name)) for name in protocols))
    console.print(table)
    for strategy, rate in done["accept_rates"].items():
        sentence = f"{strategy}: {_share(rate)} of the draft's tokens are in the outputs."
        console.print(Text(sentence, "dim"))
    stored = sum(done["calls_stored"].values())
    console.print(Text(f"{done['calls_made']} calls made now, {stored} stored.", "dim"))
    if done["failures"]:
        count = len(done["failures"])
        sentence = f"{count} results failed and are in no score; the same command tries them again."
        console.print(Text(sentence, "bold red"))
    console.print(Text(f"Results are in {folder}; `mai report {folder}` shows tables.", "dim"))


def _show_timing(done: dict[str, Any], folder: str) -> None:
    """Print each strategy's times, and its calls and tokens by role and style.

    Args:
        done: What the command found out.
        folder: Where the results are.
    """
    from .rendering import figure_table

    console = Console(highlight=False)
    found = {(one["strategy"], one["name"]): one["value"] for one in done["timing"]}
    drafted = any(name == "accept_rate" for _, name in found)
    columns = ("total (s)", "a question (s)", "median", "p95", "calls", "over mai")
    times = figure_table("strategy", *columns, *(["accept rate"] if drafted else []))
    for strategy in done["strategies"]:
        names = ("seconds_per_question", "seconds_per_question.median", "seconds_per_question.p95")
        times.add_row(
            strategy,
            _number(found[strategy, "total_seconds"], 1),
            *(_number(found[strategy, name], 3) for name in names),
            str(found[strategy, "calls"]),
            _number(found.get((strategy, "ratio.mai")), 2),
            *([_share(found.get((strategy, "accept_rate")))] if drafted else []),
        )
    console.print(times)
    calls = figure_table(
        "strategy", "role", "style", "calls", "tokens in", "cached", "out", words={"role", "style"}
    )
    for strategy, name in found:
        kind, _, call = name.partition(".")
        if kind == "calls" and call:
            values = [found[strategy, f"{one}.{call}"] for one in _KINDS]
            calls.add_row(
                strategy, *call.split("."), *("-" if v is None else str(v) for v in values)
            )
    console.print(calls)
    sentence = (
        f"{done['questions']} questions, {done['concurrency']} at a time; times are in {folder}."
    )
    console.print(Text(sentence, "dim"))


def _score(figure: dict[str, Any] | None) -> str:
    if figure is None or figure["value"] is None:
        return "-"
    value = f"{100 * figure['value']:.1f}"
    if figure["low"] is None:
        return value
    return f"{value} ({100 * figure['low']:.1f}-{100 * figure['high']:.1f})"


def _share(value: float | None) -> str:
    return "-" if value is None else f"{value:.1%}"


def _number(value: float | None, places: int) -> str:
    return "-" if value is None else f"{value:.{places}f}"
