"""Answers after sparse transfer at several layers, and after full transfer, for a suggestion."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...configs import ConfigError, PromptsConfig, SparseTransfer
from ...models.attention import wanted_layers
from ...models.pairs import Pair
from ...nodes.model_call import Agent
from ...nodes.prepare import read_task
from ...nodes.state import RunState
from ..estimates import Estimate
from ..evaluation.call_store import CallStore
from ..evaluation.evaluate import check_scoring, claim, headline
from ..evaluation.results import Result, graph_input
from ..evaluation.runner import OnProgress, Runner
from ..evaluation.shared_calls import SharedCalls
from ..evaluation.stored_pair import StoredPair
from ..evaluation.variants import Variant
from ..metrics import grades
from ..question import Benchmark, BenchmarkQuestion
from ..report.by_image import score_by_image
from .measure import reasoning_text
from .passes import MeasuredPasses, attention_source
from .suggestion import LayerOutcomes, Outcomes

STRATEGY = "full_transfer"
PROTOCOL = "typed"


@dataclass(frozen=True, slots=True)
class Calibration:
    """What a suggestion is made of.

    Attributes:
        outcomes: Of the questions that have an answer at every layer and after full transfer.
        headline: The benchmark's figure that `scores` are.
        scores: That figure in the typed protocol, by layer; of full transfer at None.
        failures: Id, strategy and error of what failed.
        models: What tells the models from others, by role.
        calls_made: Model calls and passes that this run made.
    """

    outcomes: Outcomes
    headline: str
    scores: Mapping[int | None, Estimate]
    failures: list[dict[str, Any]]
    models: dict[str, dict[str, Any]]
    calls_made: int


async def calibrate(
    benchmark: Benchmark,
    pair: Pair,
    folder: Path,
    *,
    sparse: SparseTransfer,
    layers: Sequence[int],
    prompts: PromptsConfig,
    concurrency: int = 8,
    on_stored: Callable[[int], None] = lambda _: None,
    on_progress: OnProgress = lambda _: None,
) -> Calibration:
    """Answer every question after full transfer, and after sparse transfer at each layer.

    Args:
        benchmark: The calibration sample; layers should then be judged on other questions.
        pair: The models.
        folder: Holds the store of calls and passes.
        sparse: How tokens are selected, but for the layer.
        layers: The layers to choose from; none for all.
        prompts: The wording.
        concurrency: Questions at a time.
        on_stored: Called once, with the number of calls that are stored already.
        on_progress: Called with every result.

    Raises:
        ConfigError: The pair gives no attention, the folder belongs to something else, or no
            question has all its answers.
        ModelError: There is no such layer, or a model's weights cannot be found.
    """
    attention_source(pair)
    check_scoring(benchmark)
    with CallStore(folder) as store:
        models = claim(store, benchmark, pair, prompts)
        on_stored(sum(store.count_calls().values()))
        calls = SharedCalls(store)
        count, passes = await _count_layers(benchmark, pair, models, store, calls, sparse, prompts)
        chosen = wanted_layers(layers or "all", count, pair.name)
        names = {
            layer: Variant(STRATEGY, sparse.model_copy(update={"layer": layer})).name
            for layer in sorted(chosen)
        }
        asked = [STRATEGY, *names.values()]
        stored = StoredPair.of(pair, calls, models, asked)
        graphs = {name: stored.graph(name, prompts) for name in asked}
        runner = Runner(graphs, store, concurrency=concurrency, on_progress=on_progress)
        results = [one for one in await runner.run(benchmark.questions) if one["strategy"] in asked]
    return _calibration(benchmark, names, results, models, stored.made + passes)


async def _count_layers(
    benchmark: Benchmark,
    pair: Pair,
    models: dict[str, dict[str, Any]],
    store: CallStore,
    calls: SharedCalls,
    sparse: SparseTransfer,
    prompts: PromptsConfig,
) -> tuple[int, int]:
    """How many layers there are, by a pass over the first reasoning, and how many calls it took."""
    name = "small_reason"
    stored = StoredPair.of(pair, calls, models, [name])
    source, identity = attention_source(pair)
    reader = Agent("large", pair.large, prompts)
    passes = MeasuredPasses(
        reader, source, models[identity], calls, share=sparse.share, query=sparse.query
    )
    runner = Runner({name: stored.graph(name, prompts)}, store)
    error = ""
    for question in benchmark.questions:
        results = await runner.run([question])
        (result,) = (one for one in results if one["strategy"] == name)
        try:
            state: RunState = {**graph_input(question)}  # type: ignore[typeddict-item]
            task = await asyncio.to_thread(read_task, state)
            measured, _ = await passes.measure(task, reasoning_text(result))
        except Exception as failed:  # noqa: BLE001  another question may do
            error = result["error"] or " ".join(str(failed).split())
            continue
        return max(measured.layers), stored.made + passes.made
    raise ConfigError(f"The attention on none of the reasonings can be read ({error}).")


def _calibration(
    benchmark: Benchmark,
    names: Mapping[int, str],
    results: Sequence[Result],
    models: dict[str, dict[str, Any]],
    calls_made: int,
) -> Calibration:
    """Scores and outcomes of the questions that every strategy answered.

    Raises:
        ConfigError: There is none.
    """
    answered: dict[str, dict[str, Result]] = {STRATEGY: {}, **{one: {} for one in names.values()}}
    failed = []
    for one in results:
        if one["error"] is None:
            answered[one["strategy"]][one["id"]] = one
        else:
            failed.append({key: one[key] for key in ("id", "strategy", "error")})
    worth = {name: grades(benchmark, _texts(found))["typed"] for name, found in answered.items()}
    whole = [
        one
        for one in benchmark.questions
        if all(one.id in worth[name] and one.id in answered[name] for name in answered)
        and all(_selection(answered[name][one.id]) for name in names.values())
    ]
    if not whole:
        first = failed[0]["error"] if failed else "there is no transfer"
        raise ConfigError(f"No question has an answer at every layer ({first}).")
    return Calibration(
        outcomes=_outcomes(whole, names, answered, worth),
        headline=headline(benchmark.metric),
        scores={
            layer: _score(benchmark, whole, answered[name])
            for layer, name in [*names.items(), (None, STRATEGY)]
        },
        failures=failed,
        models=models,
        calls_made=calls_made,
    )


def _outcomes(
    questions: Sequence[BenchmarkQuestion],
    names: Mapping[int, str],
    answered: Mapping[str, Mapping[str, Result]],
    worth: Mapping[str, Mapping[str, float]],
) -> Outcomes:
    def of(name: str) -> LayerOutcomes:
        kept = (_selection(answered[name][one.id])["kept_tokens"] for one in questions)
        return LayerOutcomes(
            tuple(worth[name][one.id] for one in questions), tuple(map(float, kept))
        )

    any_layer = answered[next(iter(names.values()))]
    return Outcomes(
        layers={layer: of(name) for layer, name in names.items()},
        full=tuple(worth[STRATEGY][one.id] for one in questions),
        whole_tokens=tuple(
            float(_selection(any_layer[one.id])["reasoning_tokens"]) for one in questions
        ),
        clusters=tuple(map(_cluster, questions)),
    )


def _score(
    benchmark: Benchmark, questions: Sequence[BenchmarkQuestion], found: Mapping[str, Result]
) -> Estimate:
    return score_by_image(
        headline(benchmark.metric),
        benchmark.metric,
        PROTOCOL,
        questions,
        _texts(found),
        [_cluster(one) for one in questions],
    )


def _selection(result: Result) -> Any:
    """What was selected; nothing if nothing was handed over."""
    return next((call["selection"] for call in result["calls"] if "selection" in call), None)


def _texts(found: Mapping[str, Result]) -> dict[str, str]:
    return {one: str(result["text"]) for one, result in found.items()}


def _cluster(question: BenchmarkQuestion) -> tuple[str, ...]:
    return question.images or (question.id,)
