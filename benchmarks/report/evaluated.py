"""An evaluation's folder, checked line by line, as pandas frames: per result and per call."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NotRequired, TypeVar

from pydantic import BaseModel, ConfigDict, FiniteFloat, NonNegativeFloat, TypeAdapter
from pydantic import ValidationError as PydanticError
from typing_extensions import TypedDict

from ...configs import ConfigError
from ...configs.files import existing_folder
from ...nodes.state import CallStyle, Role, Route
from .. import statistics
from ..evaluation.results import QUESTIONS_FILE, RESULTS_FILE, SUMMARY_FILE
from ..evaluation.timed import TIMED_FILE, TIMING_FILE
from ..metrics import METRICS, PROTOCOLS, Protocol, check_scoring, grades, headline
from ..metrics.grading import RULES, YES_NO, Grade, is_unread
from ..question import Benchmark, BenchmarkQuestion
from ..statistics import Estimate
from .table import NOTHING

Frame = Any
"""A pandas DataFrame."""

_Read = TypeVar("_Read")

_LENIENT = ("lmms", "vlmevalkit")
"""Protocols whose F1 is 0 where there is no hit, no false alarm and no miss."""


class _Models(TypedDict):
    small: dict[str, Any]
    large: dict[str, Any]


class RunRecord(BaseModel):
    """What a report needs of `run.json`; the rest is kept as it is."""

    model_config = ConfigDict(extra="allow")

    benchmark: str
    metric: str
    pair: str
    models: _Models
    command: str = ""
    python: str = ""
    versions: dict[str, str] = {}
    machine: dict[str, Any] = {}


class _Selection(TypedDict):
    kept_tokens: int
    reasoning_tokens: int
    reached: float | None
    layer: int | None


class _Call(TypedDict):
    role: Role
    style: CallStyle
    text: str
    answer: str | None
    input_tokens: int | None
    output_tokens: int | None
    drafted_tokens: NotRequired[int | None]
    accepted_tokens: NotRequired[int | None]
    cut: str | None
    selection: NotRequired[_Selection]


class _Result(TypedDict):
    id: str
    strategy: str
    answer: str | None
    text: str | None
    route: Route | None
    fallback: str | None
    calls: list[_Call]
    error: str | None


class _Summary(TypedDict):
    strategy: str
    questions: int


class _Timing(TypedDict):
    strategy: str
    name: str
    value: FiniteFloat | None
    low: NotRequired[FiniteFloat | None]
    high: NotRequired[FiniteFloat | None]
    questions: int


class _Timed(TypedDict):
    id: str
    strategy: str
    seconds: NonNegativeFloat


@dataclass(frozen=True, eq=False, kw_only=True)
class Evaluated:
    """What `mai evaluate` left in a folder.

    Attributes:
        folder: The folder.
        benchmark: The questions.
        questions: The questions by id.
        pair: The pair's name.
        models: The models' names by role.
        results: A row per question and strategy that did not fail: question (its id), image (what
            it is about, a tuple), strategy, route, fallback, answer, text, tokens and large_tokens
            (output tokens of all calls and of the large model's; missing if a call's are unknown),
            drafted, accepted, cut, unread, and for each protocol `grade.PROTOCOL` (from 0 to 1)
            and `score.PROTOCOL` (what the headline figure is computed from).
        calls: A row per model call of these: question, image, strategy, route, some of the call's
            own keys, and those of its selection (sparse transfer).
        failed: Number of failed results by strategy.
        seconds: Timed seconds, a row per question and a column per strategy.
        timing: Figures of the timed runs by strategy and name.
        record: What `run.json` holds.
        written: When the results were written.
    """

    folder: Path
    benchmark: Benchmark
    questions: Mapping[str, BenchmarkQuestion]
    pair: str
    models: Mapping[str, str]
    results: Frame
    calls: Frame
    failed: Mapping[str, int]
    seconds: Frame
    timing: Mapping[tuple[str, str], Estimate]
    record: RunRecord
    written: datetime

    @classmethod
    def read(cls, name: str | Path) -> "Evaluated":
        """Read a folder.

        Raises:
            ConfigError: There is no such folder, no finished evaluation in it (names the file and
                the line), or the extra `benchmarks` is not installed.
        """
        import pandas as pd

        folder = existing_folder(name)
        if folder is None:
            raise ConfigError(f"There is no folder {str(name)!r}; `mai evaluate` makes one.")
        files = _Files(folder)
        record = files.whole("run.json", RunRecord)
        if record.metric not in METRICS:
            raise files.unfinished(f"run.json: the metric {record.metric!r} is unknown")
        questions = files.lines(QUESTIONS_FILE, BenchmarkQuestion)
        found = files.lines(RESULTS_FILE, _Result)
        written = datetime.fromtimestamp((folder / RESULTS_FILE).stat().st_mtime, UTC)
        files.check_complete(questions, found)
        has = [(folder / name).exists() for name in (TIMING_FILE, TIMED_FILE)]
        timing = files.whole(TIMING_FILE, list[_Timing]) if has[0] else []
        lines = files.lines(TIMED_FILE, _Timed) if has[1] else []
        benchmark = Benchmark(
            name=record.benchmark, questions=tuple(questions), prompts="", metric=record.metric
        )
        check_scoring(benchmark)
        timed = pd.DataFrame(lines, columns=["id", "strategy", "seconds"])
        timed = timed.drop_duplicates(["id", "strategy"], keep="last")
        seconds = timed.pivot(index="id", columns="strategy", values="seconds")
        results = result_frame(benchmark, [one for one in found if one["error"] is None])
        return cls(
            folder=folder,
            benchmark=benchmark,
            questions={one.id: one for one in questions},
            pair=record.pair,
            models={
                "small": _model_name("small", record.models["small"]),
                "large": _model_name("large", record.models["large"]),
            },
            results=results,
            calls=call_frame(results),
            failed=Counter(one["strategy"] for one in found if one["error"] is not None),
            seconds=seconds.reindex(timed["id"].unique(), columns=timed["strategy"].unique()),
            timing={
                (one["strategy"], one["name"]): Estimate(
                    one["value"], one.get("low"), one.get("high"), one["questions"]
                )
                for one in timing
            },
            record=record,
            written=written,
        )

    @property
    def strategies(self) -> list[str]:
        """The strategies that have results, in order."""
        return list(self.results["strategy"].unique())

    @property
    def headline(self) -> str:
        """The figure that the paper's tables show of this benchmark."""
        return headline(self.benchmark.metric)

    @property
    def pair_models(self) -> str:
        """Both models' names."""
        return f"{self.models['small']} + {self.models['large']}"

    def of(self, strategy: str) -> Frame:
        """Return a strategy's rows of `results`, by question id."""
        return self.results[self.results["strategy"] == strategy].set_index("question")

    def calls_of(self, strategy: str, role: str, style: str) -> Frame:
        """Return a strategy's calls of one kind, by question id."""
        calls = self.calls
        kind = (calls["strategy"] == strategy) & (calls["role"] == role) & (calls["style"] == style)
        return calls[kind].set_index("question")

    def score(self, strategy: str, protocol: str) -> Estimate:
        """Return the benchmark's headline figure of a strategy under a protocol."""
        return score(self.benchmark, self.of(strategy), protocol)

    def time(self, strategy: str, name: str) -> Estimate:
        """Return a figure of the timed runs."""
        return self.timing.get((strategy, name), NOTHING)

    def time_ratio(self, first: str, second: str) -> Estimate:
        """Return a strategy's seconds over another's, over evaluated questions timed with both."""
        both = self.seconds.reindex(columns=list(dict.fromkeys([first, second]))).dropna()
        both = both[both.index.isin(self.questions)]
        images = [self.questions[one].images or (one,) for one in both.index]
        return statistics.ratio(both[first].tolist(), both[second].tolist(), images)


@dataclass(frozen=True, slots=True)
class _Files:
    """The files of a folder; what is not whole raises a `ConfigError` that names it."""

    folder: Path

    def whole(self, name: str, kind: type[_Read]) -> _Read:
        return self._parsed(self._bytes(name), name, TypeAdapter(kind))

    def lines(self, name: str, kind: type[_Read]) -> list[_Read]:
        adapter = TypeAdapter(kind)
        return [
            self._parsed(line, f"{name}, line {number}", adapter)
            for number, line in enumerate(self._bytes(name).splitlines(), start=1)
        ]

    def check_complete(
        self, questions: Sequence[BenchmarkQuestion], results: Sequence[_Result]
    ) -> None:
        """Compare results with questions and summary: written last, it tells a finished one."""
        if lost := {one["id"] for one in results} - {one.id for one in questions}:
            raise self.unfinished(f"{QUESTIONS_FILE} lacks the question {min(lost)!r}")
        known: dict[str, int] = {}
        for record in self.whole(SUMMARY_FILE, list[_Summary]):
            name = record["strategy"]
            known[name] = max(record["questions"], known.get(name, 0))
        found = Counter(one["strategy"] for one in results if one["error"] is None)
        for name in dict.fromkeys([*(one["strategy"] for one in results), *known]):
            if known.get(name, -1) != found[name]:
                raise self.unfinished(
                    f"{RESULTS_FILE} has {found[name]} results of {name}, {SUMMARY_FILE} "
                    f"{known.get(name, 'none')}"
                )

    def unfinished(self, why: str) -> ConfigError:
        return ConfigError(
            f"The folder {str(self.folder)!r} holds no finished evaluation ({why}); let "
            "`mai evaluate` come to its end there."
        )

    def _parsed(self, text: bytes, place: str, adapter: TypeAdapter[_Read]) -> _Read:
        try:
            return adapter.validate_json(text)
        except PydanticError as error:
            first = error.errors(include_url=False)[0]
            where = ".".join(map(str, first["loc"]))
            why = f"{place}: {where + ': ' if where else ''}{first['msg']}"
            raise self.unfinished(why) from error

    def _bytes(self, name: str) -> bytes:
        try:
            return (self.folder / name).read_bytes()
        except OSError as error:
            raise self.unfinished(f"{name}: {error.strerror}") from error


def result_frame(benchmark: Benchmark, results: Sequence[Any]) -> Frame:
    """Return `Evaluated.results`.

    Args:
        benchmark: The questions.
        results: Lines of `results.jsonl`, or what they are made of; none that failed.
    """
    import pandas as pd

    images = {one.id: one.images or (one.id,) for one in benchmark.questions}
    made = [{"image": images[result["id"]]} | _row(result) for result in results]
    rows = pd.DataFrame(made, columns=["image", *_ROW_KEYS], dtype=object)
    graded = [
        grade(benchmark, own.set_index("question")["text"]).set_index(own.index)
        for _, own in rows.groupby("strategy", sort=False)
    ]
    return rows.join(pd.concat(graded or [grade(benchmark, rows["text"])]))


def call_frame(results: Frame) -> Frame:
    """Return `Evaluated.calls` of `Evaluated.results`."""
    import pandas as pd

    keys = ["question", "image", "strategy", "route"]
    own = ["role", "style", "text", "input_tokens", "output_tokens"]
    rows = [
        {key: result[key] for key in keys} | {**call} | {**call.get("selection", {})}
        for result in results[[*keys, "calls"]].to_dict("records")
        for call in result["calls"]
    ]
    return pd.DataFrame(rows, columns=[*keys, *own, *_Selection.__annotations__])


def grade(benchmark: Benchmark, texts: Frame) -> Frame:
    """Grade outputs.

    Args:
        benchmark: The questions.
        texts: A pandas Series of outputs by question id.

    Returns:
        A frame with the same index: unread, `grade.PROTOCOL` and `score.PROTOCOL`.
    """
    import pandas as pd

    by_id = {str(one): str(text) for one, text in texts.items()}
    worth = grades(benchmark, by_id)
    questions = {one.id: one for one in benchmark.questions if one.id in by_id}
    columns: dict[str, Any] = {
        "unread": [
            is_unread(questions[one], text, right=worth["typed"][one] == 1)
            for one, text in by_id.items()
        ]
    }
    for protocol in PROTOCOLS:
        graded = [worth.get(protocol, {}).get(one) for one in by_id]
        rule = _headline_rule(benchmark, protocol)
        columns[f"grade.{protocol}"] = graded
        columns[f"score.{protocol}"] = (
            [rule(questions[one], text) for one, text in by_id.items()] if rule else graded
        )
    frame = pd.DataFrame(columns, index=texts.index)
    return frame.astype({name: float for name in columns if name != "unread"})


def score(benchmark: Benchmark, rows: Frame, protocol: str) -> Estimate:
    """Return the benchmark's headline figure over some rows; questions of an image together."""
    values = rows[f"score.{protocol}"].dropna()
    if benchmark.metric != "pope":
        return proportion(rows, values)
    found = statistics.f1([value == 1 for value in values], rows["image"][values.index].tolist())
    empty = 0.0 if protocol in _LENIENT and len(rows) and not len(values) else found.value
    return Estimate(empty, found.low, found.high, len(rows), rows["image"].nunique())


def proportion(rows: Frame, values: Frame) -> Estimate:
    """Return the mean of a Series of values from 0 to 1; rows without a value are left out."""
    known = values.dropna().astype(float)
    return statistics.proportion(known.tolist(), rows["image"][known.index].tolist())


def mean(rows: Frame, column: str) -> Estimate:
    """Return the mean of a column without bounds; rows without a value are left out."""
    known = rows[column].dropna().astype(float)
    return statistics.mean(known.tolist(), rows["image"][known.index].tolist())


def difference(first: Frame, second: Frame, protocol: str) -> Estimate:
    """Return the accuracy of some results minus that of others, over the questions in both.

    Args:
        first: Rows of `Evaluated.results` by question id.
        second: The others.
        protocol: Whose reading of the outputs counts.
    """
    column = f"grade.{protocol}"
    gaps = (first[column] - second[column]).reindex(first.index).dropna()
    return statistics.paired_difference(gaps.tolist(), first["image"][gaps.index].tolist())


_ROW_KEYS = (
    "question", "strategy", "route", "fallback", "answer", "text", "calls", "tokens",
    "large_tokens", "drafted", "accepted", "cut",
)  # fmt: skip


def _row(result: Mapping[str, Any]) -> dict[str, Any]:
    calls = result["calls"]
    return {
        **result,
        "question": result["id"],
        "tokens": _tokens(calls),
        "large_tokens": _tokens([call for call in calls if call["role"] == "large"]),
        "drafted": sum(call.get("drafted_tokens") or 0 for call in calls),
        "accepted": sum(call.get("accepted_tokens") or 0 for call in calls),
        "cut": any(call["cut"] for call in calls),
    }


def _tokens(calls: Sequence[_Call]) -> float:
    """Return the sum of output tokens; not a number if some are unknown, as of some servers."""
    counts = [call["output_tokens"] for call in calls]
    return float("nan") if None in counts else float(sum(count or 0 for count in counts))


def _headline_rule(benchmark: Benchmark, protocol: Protocol) -> Grade | None:
    """Return what the headline figure is computed from; None for the grades themselves.

    Of POPE's F1, 1 for a hit and 0 for a false alarm or a miss; what is rightly denied is not in
    it.
    """
    if benchmark.metric == "pope":
        return _hit_by(protocol, YES_NO[protocol])
    if benchmark.metric == "infovqa":
        return RULES[benchmark.metric][headline(benchmark.metric)][protocol]
    return None


def _hit_by(protocol: Protocol, reading: Callable[[BenchmarkQuestion, str], Any]) -> Grade:
    def hit(question: BenchmarkQuestion, text: str) -> float | None:
        answer = reading(question, text)
        is_yes = question.answers[0].strip().lower() == "yes"
        missed = is_yes and answer != "yes" and not (protocol == "lmms" and answer is None)
        return float(is_yes and not missed) if answer == "yes" or missed else None

    return hit


def _model_name(role: str, identity: Mapping[str, Any]) -> str:
    name = identity.get("model") or identity.get("model_name") or role
    return str(name).rpartition("/")[2]
