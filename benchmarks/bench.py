"""How near the cascade is to the time that its model calls need.

All figures are ratios or differences within one process and one run; what is compared is measured
in turn, question by question, so that a busy machine slows both.
"""

import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypedDict

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langgraph.graph import END, START, StateGraph

from ..configs.files import write_whole
from ..graph import STRATEGIES, create_mai, create_strategy, unavailable
from ..models.capabilities import SupportsLogprobs
from ..models.pairs import Pair, clear_caches
from ..nodes.confidence import TOP_LOGPROBS
from ..nodes.model_call import Agent, PromptStyle, agent_request
from ..nodes.prepare import read_task
from ..nodes.state import MAIInput, ModelCall, Task
from .datasets import load_shapes
from .evaluation.results import Result, graph_input
from .evaluation.timed import TimedRun, time_strategies
from .question import BenchmarkQuestion
from .records import Record, write_records, write_run_record
from .report.table import Table
from .statistics import mean, median, ratio

CONCURRENCY = (1, 8, 32)
"""Numbers of concurrent questions."""

GOALS: dict[str, tuple[str, float]] = {
    "graph_overhead_ratio": ("at most", 2.0),
    "wall_over_critical_path": ("at most", 1.10),
    "prefix_recomputed_share": ("at most", 0.05),
    "speedup_32_over_1": ("at least", 4.0),
}
"""What the figures should be."""

_SEED = 41_414
_REPEATS = 3
_OVERHEAD_RUNS = 60

Progress = Callable[[str], object]


def bench(pair: Pair, folder: Path, count: int, progress: Progress) -> list[Record]:
    """Measure everything.

    Args:
        pair: Two models; questions are those of the demo world, whatever the pair.
        folder: Where the images are drawn.
        count: Number of questions of each figure.
        progress: Told what is being measured.
    """
    many = load_shapes(max(count, *CONCURRENCY), folder, _SEED).questions
    asked = many[:count]
    progress("graph without models")
    records = graph_overhead(pair, asked[0])
    progress("loading the models")
    runs = _time_all(pair, asked, progress)
    cascade = next(run for run in runs if run.strategy == "mai")
    records += critical_path(cascade)
    records += recomputed(pair, asked, cascade)
    records += [
        Record.of(
            f"time_over_mai.{run.strategy}",
            ratio(run.question_seconds, cascade.question_seconds),
            "ratio",
        )
        for run in runs
        if run is not cascade
    ]
    records += probability_time(pair, asked)
    return records + concurrency(pair, many, count, progress)


def graph_overhead(pair: Pair, question: BenchmarkQuestion) -> list[Record]:
    """Time a run whose models answer immediately and agree, and an empty graph of the same form.

    The empty graph has the same nodes and edges, takes the same way, and does nothing.
    """
    instant = InstantModel(answer="2")
    graph = create_mai(instant, instant, prompts=pair.prompts)
    empty = _empty_graph(graph)
    given: MAIInput = {**graph_input(question), "choices": [], "answer_type": "number"}
    ours, theirs = [], []
    graph.invoke(given)
    for _ in range(_OVERHEAD_RUNS):
        theirs.append(_milliseconds(empty, {"question": question.question}))
        ours.append(_milliseconds(graph, given))
    ratios = [one / other for one, other in zip(ours, theirs, strict=True)]
    return [
        Record.of(name, median(values), unit, note=f"{_OVERHEAD_RUNS} runs of one question")
        for name, values, unit in (
            ("graph_overhead_ratio", ratios, "ratio"),
            ("graph_overhead_ms", ours, "ms"),
            ("empty_graph_ms", theirs, "ms"),
        )
    ]


def critical_path(run: TimedRun) -> list[Record]:
    """Compare wall time with the calls that follow each other: on all questions, and by route.

    Of the two direct calls, which run concurrently, the longer one counts.
    """
    name = "wall_over_critical_path"
    ratios: dict[str, list[float]] = defaultdict(list)
    for result, seconds in zip(run.results, run.question_seconds, strict=True):
        direct = [call["seconds"] for call in result["calls"] if call["style"] == "direct"]
        later = [call["seconds"] for call in result["calls"] if call["style"] != "direct"]
        path = max(direct, default=0.0) + sum(later)
        if path and result["error"] is None:
            ratios[name].append(seconds / path)
            ratios[f"{name}.{result['route']}"].append(seconds / path)
    return [Record.of(key, median(values), "ratio") for key, values in ratios.items()]


def recomputed(pair: Pair, asked: Sequence[BenchmarkQuestion], run: TimedRun) -> list[Record]:
    """Measure the share of prompt tokens that the cascade's second calls compute once more.

    Of the longest common token prefix with the same model's first prompt. Without a value for
    models that do not count their tokens, and where all direct answers agree.
    """
    name, unit = "prefix_recomputed_share", "share"
    if not all(hasattr(model, "prompt_token_ids") for model in (pair.small, pair.large)):
        return [Record(name, None, unit, note="the models do not count their tokens")]
    again, shared = [], []
    for question, result in zip(asked, run.results, strict=True):
        task = read_task(dict(graph_input(question)))  # type: ignore[arg-type]
        found = [(_common_prefix(pair, task, call, result), call) for call in result["calls"]]
        if any(common for common, _ in found):
            shared.append(float(sum(common for common, _ in found)))
            lacking = (max(0, common - (call["cached_tokens"] or 0)) for common, call in found)
            again.append(float(sum(lacking)))
    if not shared:
        note = (
            f"both models agreed on all {len(asked)} questions, so no prompt was computed twice; "
            "ask more questions"
        )
        return [Record(name, None, unit, questions=0, note=note)]
    return [Record.of(name, ratio(again, shared), unit)]


def probability_time(pair: Pair, asked: Sequence[BenchmarkQuestion]) -> list[Record]:
    """Compare the small model's direct calls with and without log-probabilities, in turn."""
    name = "logprobs_time_ratio"
    if not isinstance(pair.small, SupportsLogprobs):
        return [Record(name, None, "ratio", note="the small model takes no logprobs")]
    asks: dict[str, Any] = {"logprobs": True, "top_logprobs": TOP_LOGPROBS}
    seconds: dict[bool, list[float]] = {True: [], False: []}
    for number, question in enumerate(asked):
        task = read_task(dict(graph_input(question)))  # type: ignore[arg-type]
        request = agent_request(Agent("small", pair.small, pair.prompts), "direct", task)
        for wants in (number % 2 == 0, number % 2 == 1):
            clear_caches([pair.small])
            start = time.perf_counter()
            pair.small.invoke(
                request.messages, max_tokens=request.max_tokens, **(asks if wants else {})
            )
            seconds[wants].append(time.perf_counter() - start)
    return [Record.of(name, ratio(seconds[True], seconds[False]), "ratio")]


def concurrency(
    pair: Pair, many: Sequence[BenchmarkQuestion], count: int, progress: Progress
) -> list[Record]:
    """Measure questions per second at several numbers of concurrent ones.

    Every number is compared with the same questions one by one, with nothing left of them.

    Args:
        pair: Two models.
        many: As many questions as run concurrently, and at least `count`.
        count: How many are asked; more where more run concurrently.
        progress: Told what is being measured.
    """
    graphs = {"mai": create_mai(pair.small, pair.large, prompts=pair.prompts)}
    rates: dict[int, list[float]] = defaultdict(list)
    speedups: dict[int, list[float]] = defaultdict(list)
    for repeat in range(_REPEATS):
        alone: list[float] = []
        for number in CONCURRENCY:
            progress(f"{number} questions at a time ({repeat + 1} of {_REPEATS})")
            size = max(count, *CONCURRENCY) if number == 1 else max(count, number)
            (run,) = time_strategies(
                graphs,
                many[:size],
                models=(pair.small, pair.large),
                concurrency=number,
                turn=size,
            )
            alone = alone or run.question_seconds
            seconds = run.seconds / size
            rates[number].append(1 / seconds)
            speedups[number].append((mean(alone[:size]).value or 0.0) / seconds)
    records = [
        Record.of(f"questions_per_second.{number}", median(values), "questions/s")
        for number, values in rates.items()
    ]
    return records + [
        Record.of(f"speedup_{number}_over_1", median(speedups[number]), "ratio")
        for number in CONCURRENCY[1:]
    ]


class InstantModel(BaseChatModel):
    """Answers immediately, so that what is left of a run's time is the graph's own.

    Attributes:
        answer: What it answers to every prompt.
    """

    answer: str

    @property
    def _llm_type(self) -> str:
        return "langgraph-mai-instant"

    def _generate(
        self,
        messages: list[BaseMessage],  # noqa: ARG002
        stop: list[str] | None = None,  # noqa: ARG002
        run_manager: Any = None,  # noqa: ARG002
        **kwargs: Any,  # noqa: ARG002
    ) -> ChatResult:
        return ChatResult(generations=[ChatGeneration(message=AIMessage(content=self.answer))])


def write_bench(out: Path, records: Sequence[Record], **settings: Any) -> None:
    """Write bench.json, bench.md and run.json.

    Args:
        out: The folder; it is made.
        records: What was measured.
        **settings: The command's settings, its defaults included.

    Raises:
        ConfigError: They cannot be written.
    """
    write_records(out / "bench.json", records)
    write_whole(out / "bench.md", table(records).markdown())
    write_run_record(out, settings=settings)


def table(records: Sequence[Record]) -> Table:
    """Return all figures as texts, with their goals."""
    columns = ("figure", "value", "95% interval", "questions", "goal", "met")
    rows = [
        (
            record.name,
            _value(record),
            "" if record.low is None else f"{record.low:.3g} to {record.high:.3g}",
            str(record.questions),
            " ".join(map(str, GOALS.get(record.name, ()))),
            _met(record),
        )
        for record in records
    ]
    notes = [f"{record.name}: {record.note}." for record in records if record.note]
    return Table("bench", "How near the cascade is to its calls", columns, rows, notes=notes)


def _value(record: Record) -> str:
    if record.number is None:
        return "not measured"
    unit = "" if record.unit in {"ratio", "share"} else f" {record.unit}"
    return f"{record.number:.3g}{unit}"


def _met(record: Record) -> str:
    """Return whether a figure meets its goal; empty without a goal."""
    if record.name not in GOALS:
        return ""
    if record.number is None:
        return "not measured"
    words, bound = GOALS[record.name]
    met = record.number <= bound if words == "at most" else record.number >= bound
    return "yes" if met else "no"


def _time_all(pair: Pair, asked: Sequence[BenchmarkQuestion], progress: Progress) -> list[TimedRun]:
    """Time each strategy that the pair can do, on the same questions in turn."""
    graphs: dict[str, Any] = {
        name: create_strategy(name, pair.small, pair.large, prompts=pair.prompts)
        for name in STRATEGIES
        if unavailable(name, pair.small, pair.large, files=True) is None
    }
    done = 0

    def show(_: TimedRun) -> None:
        nonlocal done
        done += 1
        question = (done - 1) // len(graphs) + 1
        progress(f"strategies, question {question} of {len(asked)}")

    return time_strategies(graphs, asked, models=(pair.small, pair.large), on_answer=show)


def _empty_graph(graph: Any) -> Any:
    """Build a graph with the nodes and edges of another one, whose nodes do nothing."""
    drawing = graph.get_graph()
    builder: Any = StateGraph(_Nothing)
    for name in drawing.nodes:
        if name not in (START, END):
            builder.add_node(name, _do_nothing)
    branches: dict[str, list[str]] = defaultdict(list)
    for edge in drawing.edges:
        if edge.conditional:
            branches[edge.source].append(edge.target)
        else:
            builder.add_edge(edge.source, edge.target)
    for source, targets in branches.items():
        builder.add_conditional_edges(source, lambda _: "respond", targets)
    return builder.compile()


class _Nothing(TypedDict):
    question: str


def _do_nothing(_: _Nothing) -> dict[str, Any]:
    return {}


def _milliseconds(graph: Any, given: Any) -> float:
    start = time.perf_counter()
    graph.invoke(given)
    return 1000 * (time.perf_counter() - start)


def _common_prefix(pair: Pair, task: Task, call: ModelCall, result: Result) -> int:
    """Return the tokens that a second call shares with the same model's direct one; else 0."""
    kind = call["role"], call["style"]
    if kind not in {("small", "reason"), ("large", "transfer")}:
        return 0
    style: PromptStyle = "reason" if call["style"] == "reason" else "transfer"
    reasonings = [one["text"] for one in result["calls"] if one["style"] == "reason"]
    model: Any = getattr(pair, call["role"])
    agent = Agent("small" if call["role"] == "small" else "large", model, pair.prompts)
    first = model.prompt_token_ids(agent_request(agent, "direct", task).messages)
    second = model.prompt_token_ids(
        agent_request(agent, style, task, reasonings[0] if style == "transfer" else "").messages
    )
    shortest = min(len(first), len(second))
    return next((at for at in range(shortest) if first[at] != second[at]), shortest)
