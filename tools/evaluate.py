"""`mai evaluate`: strategies on a benchmark, every model call once, results in a folder."""

from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..configs import load_pair_config
from .entry import RUN_FAILED
from .errors import UsageError, reports_errors
from .options import (
    DEFAULT_STRATEGIES,
    STRATEGY_NAMES,
    BenchmarkName,
    DataFile,
    Debug,
    GateFile,
    Json,
    KeepOption,
    LayerOption,
    Limit,
    PairName,
    ShareOption,
    Split,
    TransferOption,
    Wording,
    pair_stem,
    print_json,
    read_benchmark,
    read_strategies,
    read_transfers,
    require,
    results_folder,
    wording_of,
)
from .progress import EvaluationProgress

if TYPE_CHECKING:
    from ..benchmarks.evaluation.ray import RayReplicas
    from ..benchmarks.evaluation.results import Result
    from ..benchmarks.evaluation.runner import Pace
    from ..benchmarks.question import Benchmark
    from ..benchmarks.report.table import Table
    from ..configs import PromptsConfig
    from ..models.pairs import Pair

_KEPT = "What was answered is kept; the same command continues from there."
_NOT_KEPT = "Timed runs start anew."
_TIMES = {
    "total_seconds": "total (s)",
    "seconds_per_question": "a question (s)",
    "seconds_per_question.median": "median",
    "seconds_per_question.p95": "p95",
    "ratio.mai": "over mai",
    "accept_rate": "accept rate",
}
_KINDS = {
    "calls": "calls",
    "input_tokens": "tokens in",
    "cached_tokens": "cached",
    "output_tokens": "out",
}


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
            help=f"A strategy, once for each: {', '.join(STRATEGY_NAMES)}; or all. "
            "With --gate, mai_gated too.",
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
    gate: GateFile = None,
    transfer: TransferOption = "full",
    layer: LayerOption = None,
    share: ShareOption = None,
    keep: KeepOption = None,
    as_json: Json = False,
    debug: Debug = False,  # noqa: ARG001  read by reports_errors
) -> None:
    """Run strategies on a benchmark; run again, it resumes where it was stopped."""
    config = load_pair_config(pair)
    sparse = read_transfers(transfer, config.sparse, layers=layer, shares=share, keeps=keep)
    strategies = read_strategies(strategy, sparse)
    on_ray = _replicas(pair, engine, ray_address, replicas, replica_gpus, timed=timed)
    folder = results_folder(out or f"evaluations/{benchmark}-{pair_stem(pair)}")
    require("rapidfuzz", "scipy", extra="benchmarks")

    from ..benchmarks.datasets import fetch_images
    from ..models.pairs import load_pair
    from ..nodes.confidence import load_calibration
    from .rendering import show_lines, show_tables

    models = load_pair(pair)
    if gate is not None:
        models = replace(models, gate=gate)
    if on_ray and models.gate is not None:
        on_ray = replace(on_ray, gate=load_calibration(models.gate).model_dump_json())
    if sparse:
        models = models.with_layers([None, *(one.layer for one in sparse)])
    strategies = _available(strategies, models, wants_all="all" in (strategy or []))
    questions = read_benchmark(benchmark, data, split, limit, folder)
    if allow_fetch:
        questions = fetch_images(questions, folder / "pictures")
    wording = wording_of(prompts, pair, models, questions)
    wanted = _Wanted(questions, models, strategies, folder, wording)
    with EvaluationProgress(_NOT_KEPT if timed else _KEPT) as progress:
        if timed:
            done = wanted.time(progress, concurrency or 1)
        else:
            done = wanted.evaluate(progress, concurrency or 8, on_ray)
    if as_json:
        print_json({"folder": str(folder)} | done)
    else:
        show_tables(_time_tables(done) if timed else [_score_table(done)])
        show_lines(_notes(done, str(folder)))
    if done["failures"]:
        raise typer.Exit(RUN_FAILED)


@dataclass(frozen=True, slots=True)
class _Wanted:
    """What the command is to do, and where the results go."""

    benchmark: "Benchmark"
    pair: "Pair"
    strategies: list[str]
    folder: Path
    prompts: "PromptsConfig"

    def evaluate(
        self, progress: EvaluationProgress, concurrency: int, replicas: "RayReplicas | None"
    ) -> dict[str, Any]:
        from ..benchmarks.evaluation import results
        from ..benchmarks.evaluation.runner import evaluate as run
        from ..benchmarks.metrics import headline
        from ..benchmarks.records import write_run_record

        def show(pace: "Pace", result: "Result") -> None:
            what = f"{result['id']}, {result['strategy']}"
            progress.show("evaluating", pace, what, result["error"])

        found = run(
            self.benchmark,
            self.pair,
            self.strategies,
            self.folder,
            prompts=self.prompts,
            concurrency=concurrency,
            replicas=replicas,
            on_stored=progress.resume,
            on_result=show,
        )
        done: dict[str, Any] = {
            "benchmark": self.benchmark.name,
            "metric": self.benchmark.metric,
            "headline": headline(self.benchmark.metric),
            "pair": self.pair.name,
            "questions": len(self.benchmark.questions),
            "strategies": list(dict.fromkeys(result["strategy"] for result in found.results)),
            "calls_made": found.calls_made,
            "calls_stored": results.count_calls(found.results),
            "accept_rates": results.accept_rates(found.results),
            "failures": _failures(found.results),
            "failed_calls": found.failed_calls,
        }
        write_run_record(
            self.folder,
            **done,
            data={"source": self.benchmark.source, "sha256": found.questions_hash},
            models=found.models,
            prompts=self.prompts.model_dump(),
        )
        return done | {"summary": found.summary}

    def time(self, progress: EvaluationProgress, concurrency: int) -> dict[str, Any]:
        from ..benchmarks.evaluation import timed
        from ..benchmarks.evaluation.runner import Pace
        from ..benchmarks.evaluation.store import EvaluationStore
        from ..benchmarks.evaluation.variants import strategy_graph
        from ..benchmarks.metrics import check_scoring
        from ..benchmarks.records import machine_load, write_json, write_lines, write_run_record

        names, questions = self.strategies, self.benchmark.questions
        graphs = {name: strategy_graph(name, self.pair, self.prompts) for name in names}
        pace = Pace(len(names) * len(questions))

        def show(run: timed.TimedRun) -> None:
            pace.advance()
            progress.update(f"timing {run.strategy}", pace)

        check_scoring(self.benchmark)
        with EvaluationStore(self.folder) as store:
            models = store.claim(self.benchmark, self.pair, self.prompts)
            load = {"before": machine_load()}
            runs = timed.time_strategies(
                graphs,
                questions,
                models=(self.pair.small, self.pair.large),
                concurrency=concurrency,
                on_answer=show,
            )
            load["after"] = machine_load()
            records = timed.timing_records(runs)
            write_json(self.folder / timed.TIMING_FILE, records)
            write_lines(self.folder / timed.TIMED_FILE, timed.timed_lines(runs))
        done: dict[str, Any] = {
            "benchmark": self.benchmark.name,
            "pair": self.pair.name,
            "questions": len(questions),
            "strategies": names,
            "concurrency": concurrency,
            "machine_load": {when: asdict(one) for when, one in load.items()},
            "failures": _failures(result for run in runs for result in run.results),
        }
        made: dict[str, Any] = {"models": models, "prompts": self.prompts.model_dump()}
        write_run_record(self.folder, name="timed-run.json", **done, **made)
        for when, one in load.items():
            if sentence := one.warning(f"{when} the timing"):
                progress.note(sentence)
        return done | {"timing": records}


def _failures(results: "Iterable[Result]") -> list[dict[str, Any]]:
    keys = ("id", "strategy", "error")
    return [{key: one[key] for key in keys} for one in results if one["error"]]  # type: ignore[literal-required]


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
    """Return the strategies that the pair's models can do; of all, the others are named.

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


def _score_table(done: dict[str, Any]) -> "Table":
    """Return each strategy's main score by protocol."""
    from ..benchmarks.report.table import Table
    from ..benchmarks.statistics import Estimate

    metric, ends = done["headline"], ("value", "low", "high", "questions")
    scores = {
        (one["strategy"], one["protocol"]): Estimate(*(one[end] for end in ends))
        for one in done["summary"]
        if not one["group"] and one["metric"] == metric
    }
    protocols = list(dict.fromkeys(protocol for _, protocol in scores))
    return Table(
        "scores",
        f"{metric.replace('_', ' ')} (%) on {done['questions']} questions of {done['benchmark']}",
        ("strategy", *protocols),
        [
            (name, *(scores.get((name, protocol)) for protocol in protocols))
            for name in done["strategies"]
        ],
    )


def _time_tables(done: dict[str, Any]) -> "list[Table]":
    """Return each strategy's times, and its calls and tokens by role and style."""
    from ..benchmarks.report.table import Table

    found = {(one["strategy"], one["name"]): one["value"] for one in done["timing"]}
    known = {name for _, name in found}
    times = {name: title for name, title in _TIMES.items() if name in known}
    kinds = [(name, one.partition(".")[2]) for name, one in found if one.startswith("calls.")]
    return [
        Table(
            "times",
            f"{done['questions']} questions, {done['concurrency']} at a time",
            ("strategy", *times.values()),
            [(name, *(_number(found.get((name, one))) for one in times)) for name in
             done["strategies"]],
        ),
        Table(
            "calls",
            "Calls and tokens",
            ("strategy", "role", "style", *_KINDS.values()),
            [(name, *call.split("."), *(found[name, f"{one}.{call}"] for one in _KINDS))
             for name, call in kinds],
        ),
    ]  # fmt: skip


def _number(value: float | None) -> str | None:
    return None if value is None else f"{value:.3f}"


def _notes(done: dict[str, Any], folder: str) -> list[str]:
    """Return what else there is to say, a sentence each."""
    notes = [
        f"{strategy}: {rate:.1%} of the draft's tokens are in the outputs."
        for strategy, rate in done.get("accept_rates", {}).items()
    ]
    if "calls_made" in done:
        stored = sum(done["calls_stored"].values())
        notes.append(f"{done['calls_made']} calls made now, {stored} stored.")
    if done["failures"]:
        count = len(done["failures"])
        notes.append(
            f"{count} results failed and are in no score; the same command tries them again."
        )
    return [*notes, f"Results are in {folder}; `mai report {folder}` shows tables."]
