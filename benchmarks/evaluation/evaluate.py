"""An evaluation: a benchmark, a pair and strategies in; a folder of results out."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from ...configs import ConfigError, PromptsConfig
from ...graph import create_strategy
from ...models.pairs import Pair
from ...nodes.accept_rate import accept_rate
from ..metrics import score
from ..question import Benchmark, BenchmarkQuestion
from .call_store import CallStore
from .model_identity import model_identity
from .ray_engine import RayEngine, RayReplicas
from .results import Result, failures
from .runner import OnProgress, Runner
from .stored_model import StoredModel

QUESTIONS_FILE = "questions.jsonl"
RESULTS_FILE = "results.jsonl"
SUMMARY_FILE = "summary.json"

_HEADLINES = {"pope": "f1", "infovqa": "anls", "chartqa": "relaxed_accuracy"}


@dataclass(frozen=True, slots=True)
class Evaluation:
    """What came of one evaluation.

    Attributes:
        results: A result for each question and strategy, strategies of former evaluations in the
            same folder included.
        summary: What `summary.json` holds.
        models: What tells the two models from others, by role.
        calls_made: Model calls that this evaluation made.
        calls_stored: Distinct calls in the folder, by role and style.
        failed_calls: Calls that failed and have not succeeded since.
    """

    results: list[Result]
    summary: list[dict[str, Any]]
    models: Mapping[str, dict[str, Any]]
    calls_made: int
    calls_stored: Mapping[str, int]
    failed_calls: list[dict[str, Any]]

    @property
    def failures(self) -> list[Result]:
        """The results that say what failed."""
        return failures(self.results)


async def evaluate(
    benchmark: Benchmark,
    pair: Pair,
    strategies: Sequence[str],
    folder: Path,
    *,
    prompts: PromptsConfig | None = None,
    concurrency: int = 8,
    on_progress: OnProgress = lambda _: None,
    replicas: RayReplicas | None = None,
) -> Evaluation:
    """Ask what has no answer yet, score it, and write the folder's files.

    Args:
        benchmark: The questions.
        pair: The models.
        strategies: Names of strategies.
        folder: Holds the store of calls, and gets the files. It belongs to one benchmark, pair
            and wording for good.
        prompts: The wording; None for the pair's.
        concurrency: Runs at a time; on Ray, in each replica.
        on_progress: Called with every result.
        replicas: Who answers instead of this process; made of the same pair.

    Raises:
        ConfigError: The folder belongs to another evaluation or is in use, a strategy is unknown,
            the extra `benchmarks` is not installed, or there is no room for the replicas.
        ModelError: A model's weights cannot be found.
    """
    wording = pair.prompts if prompts is None else prompts
    with CallStore(folder) as store:
        models = _claim(store, benchmark, pair, wording)
        small = StoredModel(pair.small, store, "small", models["small"])
        large = StoredModel(pair.large, store, "large", models["large"])
        graphs = {name: create_strategy(name, small, large, prompts=wording) for name in strategies}
        engine = None
        if replicas is not None:
            engine = RayEngine(replicas, pair, store, models, strategies, wording, concurrency)
        runner = Runner(
            graphs, store, concurrency=concurrency, on_progress=on_progress, engine=engine
        )
        results = await runner.run(benchmark.questions)
        summary = summarize(benchmark, results)
        write_lines(folder / QUESTIONS_FILE, map(question_record, benchmark.questions))
        write_lines(folder / RESULTS_FILE, results)
        write_json(folder / SUMMARY_FILE, summary)
        return Evaluation(
            results=results,
            summary=summary,
            models=models,
            calls_made=small.made + large.made + (engine.made if engine else 0),
            calls_stored=store.count_calls(),
            failed_calls=store.failures(),
        )


def claim(
    folder: Path, benchmark: Benchmark, pair: Pair, prompts: PromptsConfig
) -> dict[str, dict[str, Any]]:
    """Make sure that a folder belongs to an evaluation, and note it in a new one.

    Returns:
        What tells the two models from others, by role.

    Raises:
        ConfigError: As for `evaluate`.
        ModelError: As for `evaluate`.
    """
    with CallStore(folder) as store:
        return _claim(store, benchmark, pair, prompts)


def summarize(benchmark: Benchmark, results: Sequence[Result]) -> list[dict[str, Any]]:
    """The scores of every strategy; failed questions are not among theirs."""
    records = []
    for strategy in dict.fromkeys(result["strategy"] for result in results):
        texts = {
            result["id"]: result["text"]
            for result in results
            if result["strategy"] == strategy
            and result["error"] is None
            and result["text"] is not None
        }
        records += [
            {"strategy": strategy, **asdict(figure), "group": dict(figure.group)}
            for figure in score(benchmark, texts)
        ]
    return records


def accept_rates(results: Sequence[Result]) -> dict[str, float]:
    """Of the tokens that drafts wrote, the share in the outputs, by strategies that have drafts."""
    rates = {
        name: accept_rate(
            call for one in results if one["strategy"] == name for call in one["calls"]
        )
        for name in dict.fromkeys(result["strategy"] for result in results)
    }
    return {name: rate for name, rate in rates.items() if rate is not None}


def headline(metric: str) -> str:
    """The figure that the paper shows of a benchmark with this metric."""
    return _HEADLINES.get(metric, "accuracy")


def question_record(question: BenchmarkQuestion) -> dict[str, Any]:
    """A question as `questions.jsonl` holds it."""
    return asdict(question) | {"group": dict(question.group)}


def write_lines(path: Path, records: Any) -> None:
    """Write a record a line, whole or not at all."""
    text = "".join(json.dumps(record, ensure_ascii=False) + "\n" for record in records)
    _replace(path, text)


def write_json(path: Path, value: Any) -> None:
    """Write one JSON value, whole or not at all."""
    _replace(path, json.dumps(value, indent=1, ensure_ascii=False) + "\n")


def check_scoring(benchmark: Benchmark) -> None:
    """Make sure that results can be scored, before hours of calls.

    Raises:
        ConfigError: What scores need is not installed.
    """
    try:
        score(benchmark, {})
    except ModuleNotFoundError as error:
        raise ConfigError(str(error)) from error


def _claim(
    store: CallStore, benchmark: Benchmark, pair: Pair, prompts: PromptsConfig
) -> dict[str, dict[str, Any]]:
    check_scoring(benchmark)
    models = {"small": model_identity(pair.small), "large": model_identity(pair.large)}
    store.claim(
        {
            "benchmark": benchmark.name,
            "small model": models["small"],
            "large model": models["large"],
            "prompts": prompts.model_dump(mode="json"),
        }
    )
    return models


def _replace(path: Path, text: str) -> None:
    draft = path.with_name(f"{path.name}.draft")
    draft.write_text(text, encoding="utf-8")
    draft.replace(path)
