"""`mai evaluate`: strategies on a benchmark, every model call once, results in a folder."""

from collections.abc import Iterable
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..configs import load_pair_config
from .errors import UsageError, reports_errors
from .evaluation_progress import EvaluationProgress
from .evaluation_settings import pair_stem, wording_of
from .exit_codes import RUN_FAILED
from .extras import require
from .options import Debug, Json, PairName
from .output import print_json
from .results_folder import results_folder
from .strategy_options import (
    DEFAULT_STRATEGIES,
    STRATEGY_NAMES,
    KeepSweep,
    LayerSweep,
    ShareSweep,
    read_strategies,
)
from .transfer_options import TransferOption

if TYPE_CHECKING:
    from ..benchmarks.evaluation.ray import RayReplicas
    from ..benchmarks.evaluation.results import Result
    from ..benchmarks.question import Benchmark
    from ..configs import PromptsConfig
    from ..models.pairs import Pair

_KEPT = "What was answered is kept; the same command continues from there."
_NOT_KEPT = "Timed runs start anew."


@reports_errors
def evaluate(
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
    strategy: Annotated[
        list[str] | None,
        typer.Option(
            help=f"A strategy, once for each: {', '.join(STRATEGY_NAMES)}; or all.",
            show_default=", ".join(DEFAULT_STRATEGIES),
        ),
    ] = None,
    prompts: Annotated[
        str | None,
        typer.Option(
            help="The wording: a name in configs/prompts or a file.",
            show_default="the pair's own, else the benchmark's",
        ),
    ] = None,
    limit: Annotated[int | None, typer.Option(min=1, help="Only so many questions.")] = None,
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
    if benchmark == "own" and data is None:
        raise UsageError("Questions of your own need a file; name it with --data FILE.")
    on_ray = _replicas(pair, engine, ray_address, replicas, replica_gpus, timed=timed)
    folder = results_folder(out or f"evaluations/{benchmark}-{pair_stem(pair)}")
    require("rapidfuzz", "scipy", extra="benchmarks")

    from ..benchmarks.datasets import fetch_images, load_benchmark
    from ..benchmarks.evaluation.variants import swept_layers
    from ..models.pairs import load_pair

    models = load_pair(pair)
    if transfer == "sparse":
        models = models.with_layers([None, *swept_layers(strategies)])
    strategies = _available(strategies, models, wants_all="all" in (strategy or []))
    questions = load_benchmark(benchmark, data=data, split=split, limit=limit, folder=folder)
    if allow_fetch:
        questions = fetch_images(questions, folder / "pictures")
    if not questions.questions:
        raise UsageError(f"The benchmark {benchmark!r} has no questions here.")
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
        from .evaluation_rendering import show_evaluation, show_timing

        (show_timing if timed else show_evaluation)(done, str(folder))
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
        failed_calls,
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
        "failed_calls": failed_calls(found.results),
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
