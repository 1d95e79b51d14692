"""An evaluation: a benchmark, a pair and strategies in; a folder of results out."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from ...configs import ConfigError, PromptsConfig
from ...models.images import ImageError
from ...models.pairs import Pair
from ...nodes.model_call import accept_rate
from ...records.json_files import write_json, write_lines
from ..metrics import score
from ..question import Benchmark, BenchmarkQuestion
from .call_store import CallStore
from .model_identity import model_identity
from .ray_engine import RayEngine, RayReplicas
from .results import Result, failures, question_content
from .runner import OnProgress, Runner
from .shared_calls import SharedCalls
from .stored_pair import StoredPair

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
    on_stored: Callable[[int], None] = lambda _: None,
    on_progress: OnProgress = lambda _: None,
    replicas: RayReplicas | None = None,
) -> Evaluation:
    """Ask what has no answer yet, score it, and write the folder's files.

    Args:
        benchmark: The questions.
        pair: The models.
        strategies: Names of strategies, with sparse transfer those of a `Variant`.
        folder: Holds the store of calls, and gets the files. It belongs to one benchmark, pair
            and wording for good, and its files never hold less than before.
        prompts: The wording; None for the pair's.
        concurrency: Runs at a time; on Ray, in each replica.
        on_stored: Called once, with the number of calls that are stored already.
        on_progress: Called with every result.
        replicas: Who answers instead of this process; made of the same pair.

    Raises:
        ConfigError: The folder belongs to another evaluation, has results of questions that are
            not asked now, is in use, or cannot be written; a strategy is unknown; the extra
            `benchmarks` is not installed; or there is no room for the replicas.
        ModelError: A model's weights cannot be found.
    """
    wording = pair.prompts if prompts is None else prompts
    check_scoring(benchmark)
    with CallStore(folder) as store:
        models = claim(store, benchmark, pair, wording)
        _check_all_asked(folder, benchmark)
        on_stored(sum(store.count_calls().values()))
        calls = SharedCalls(store)
        stored = StoredPair.of(pair, calls, models, strategies)
        graphs = {name: stored.graph(name, wording) for name in strategies}
        engine = None
        if replicas is not None:
            engine = RayEngine(replicas, pair, calls, models, strategies, wording, concurrency)
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
            calls_made=stored.made + (engine.made if engine else 0),
            calls_stored=store.count_calls(),
            failed_calls=store.failures(),
        )


@contextmanager
def claimed(
    folder: Path, benchmark: Benchmark, pair: Pair, prompts: PromptsConfig
) -> Iterator[dict[str, dict[str, Any]]]:
    """Make sure that a folder belongs to an evaluation, note it in a new one, and hold it.

    Yields:
        What tells the two models from others, by role.

    Raises:
        ConfigError: As for `evaluate`.
        ModelError: As for `evaluate`.
    """
    check_scoring(benchmark)
    with CallStore(folder) as store:
        yield claim(store, benchmark, pair, prompts)


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


def check_scoring(benchmark: Benchmark) -> None:
    """Make sure that results can be scored, before hours of calls.

    Raises:
        ConfigError: What scores need is not installed.
    """
    try:
        score(benchmark, {})
    except ModuleNotFoundError as error:
        raise ConfigError(str(error)) from error


def claim(
    store: CallStore, benchmark: Benchmark, pair: Pair, prompts: PromptsConfig
) -> dict[str, dict[str, Any]]:
    """Note in a store what is evaluated there, or make sure that it is the same as before.

    Returns:
        What tells the models from others, by role.

    Raises:
        ConfigError: The store belongs to another evaluation.
        ModelError: A model's weights cannot be found.
    """
    models = {role: model_identity(model) for role, model in pair.models().items()}
    store.claim(
        {
            "benchmark": benchmark.name,
            **{f"{role} model": identity for role, identity in models.items()},
            "prompts": prompts.model_dump(mode="json"),
        }
    )
    contents = {}
    for question in benchmark.questions:
        try:
            contents[question.id] = question_content(question)
        except ImageError:  # it fails by itself, and is asked again when its picture is there
            continue
    store.claim_questions(contents)
    return models


def _check_all_asked(folder: Path, benchmark: Benchmark) -> None:
    """Make sure that no result of a finished evaluation would be lost from the files."""
    try:
        lines = (folder / QUESTIONS_FILE).read_text(encoding="utf-8").split("\n")
        before = {json.loads(line)["id"] for line in lines if line}
    except (OSError, ValueError, KeyError, TypeError):  # nothing that could be lost
        return
    left_out = before - {question.id for question in benchmark.questions}
    if left_out:
        raise ConfigError(
            f"The folder {str(folder)!r} holds results of {len(before)} questions, and "
            f"{len(left_out)} of them are not asked now: ask them too (leave --limit out or raise "
            "it, with the same --split and --data), or name another folder with --out."
        )
