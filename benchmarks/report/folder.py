"""The files of an evaluation's folder, each line checked: what is not whole is named."""

from collections import Counter
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NotRequired, TypeVar

from pydantic import BaseModel, ConfigDict, FiniteFloat, NonNegativeFloat, TypeAdapter
from pydantic import ValidationError as PydanticError
from typing_extensions import TypedDict

from ...configs import ConfigError
from ...configs.files import existing_folder
from ...nodes.state import CallStyle, Role, Route
from ..evaluation.results import QUESTIONS_FILE, RESULTS_FILE, SUMMARY_FILE
from ..evaluation.timed import TIMED_FILE, TIMING_FILE
from ..metrics import METRICS
from ..question import Benchmark, BenchmarkQuestion

RUN_FILE = "run.json"

_Read = TypeVar("_Read")


class RunRecord(BaseModel):
    """What a report needs of `run.json`; the rest is kept as it is.

    Attributes:
        benchmark: The benchmark's name.
        metric: Its metric.
        pair: The pair's name.
        models: Identities of the models, by role.
        command: How the folder was made.
        python: Version of Python.
        versions: Versions of packages.
        machine: System, processor, cores, GPUs.
    """

    model_config = ConfigDict(extra="allow")

    benchmark: str
    metric: str
    pair: str
    models: dict[str, dict[str, Any]]
    command: str = ""
    python: str = ""
    versions: dict[str, str] = {}
    machine: dict[str, Any] = {}


class TimingRecord(TypedDict):
    """A figure of timed runs."""

    strategy: str
    name: str
    value: FiniteFloat | None
    low: NotRequired[FiniteFloat | None]
    high: NotRequired[FiniteFloat | None]
    questions: int


class TimedLine(TypedDict):
    """The seconds of one question."""

    id: str
    strategy: str
    seconds: NonNegativeFloat


class _Selection(TypedDict):
    kept_tokens: int
    reasoning_tokens: int
    reached: float | None
    layer: int | None


class Call(TypedDict):
    """What a report needs of a `ModelCall`."""

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


class ReadResult(TypedDict):
    """What a report needs of a `Result`."""

    id: str
    strategy: str
    answer: str | None
    text: str | None
    route: Route | None
    fallback: str | None
    calls: list[Call]
    error: str | None


class _SummaryRecord(TypedDict):
    strategy: str
    questions: int


class EvaluationFolder:
    """What `mai evaluate` left in a folder, read and checked.

    Attributes:
        path: The folder.
        record: `run.json`.
        benchmark: The questions.
        results: The results, in their order.
        timing: The figures of timed runs; none if nothing was timed.
        timed: Each question's seconds, if timed.
        written: When the results were written.
    """

    def __init__(self, name: str | Path) -> None:
        """Read a folder.

        Raises:
            ConfigError: There is no such folder, or no finished evaluation in it; names the file
                and the line.
        """
        folder = existing_folder(name)
        if folder is None:
            raise ConfigError(f"There is no folder {str(name)!r}; `mai evaluate` makes one.")
        self.path = folder
        self.record = self._whole(RUN_FILE, RunRecord)
        self.benchmark = self._questions()
        self.results = self._results()
        self.written = datetime.fromtimestamp((folder / RESULTS_FILE).stat().st_mtime, UTC)
        self._check_summary()
        self.timing: list[TimingRecord] = []
        if (folder / TIMING_FILE).exists():
            self.timing = self._whole(TIMING_FILE, list[TimingRecord])
        self.timed: list[TimedLine] = []
        if (folder / TIMED_FILE).exists():
            self.timed = self._lines(TIMED_FILE, TimedLine)

    def _questions(self) -> Benchmark:
        record = self.record
        if record.metric not in METRICS:
            raise self._unfinished(f"{RUN_FILE}: the metric {record.metric!r} is unknown")
        if missing := {"small", "large"} - set(record.models):
            raise self._unfinished(f"{RUN_FILE}: no {' and no '.join(sorted(missing))} model")
        questions = self._lines(QUESTIONS_FILE, BenchmarkQuestion)
        if not questions:
            raise self._unfinished(f"{QUESTIONS_FILE} is empty")
        seen: set[str] = set()
        for number, one in enumerate(questions, start=1):
            if one.id in seen:
                raise self._unfinished(f"{QUESTIONS_FILE}, line {number}: a second {one.id!r}")
            if not one.answers:
                raise self._unfinished(f"{QUESTIONS_FILE}, line {number}: no accepted answer")
            seen.add(one.id)
        return Benchmark(
            name=record.benchmark, questions=tuple(questions), prompts="", metric=record.metric
        )

    def _results(self) -> list[ReadResult]:
        results = self._lines(RESULTS_FILE, ReadResult)
        if not results:
            raise self._unfinished(f"{RESULTS_FILE} is empty")
        known = {question.id for question in self.benchmark.questions}
        for number, one in enumerate(results, start=1):
            place = f"{RESULTS_FILE}, line {number}"
            if one["id"] not in known:
                raise self._unfinished(f"{place}: no question has the id {one['id']!r}")
            if one["error"] is None and None in (one["text"], one["answer"], one["route"]):
                raise self._unfinished(f"{place}: neither an output nor an error")
        return results

    def _check_summary(self) -> None:
        """Compare the results with the summary: written last, it tells a finished evaluation."""
        known: dict[str, int] = {}
        for record in self._whole(SUMMARY_FILE, list[_SummaryRecord]):
            name = record["strategy"]
            known[name] = max(record["questions"], known.get(name, 0))
        found = Counter(one["strategy"] for one in self.results if one["error"] is None)
        for name in dict.fromkeys([*(one["strategy"] for one in self.results), *known]):
            if name not in known:
                raise self._unfinished(f"{SUMMARY_FILE} says nothing of {name}")
            if known[name] != found[name]:
                raise self._unfinished(
                    f"{RESULTS_FILE} has {found[name]} of {known[name]} results of {name}"
                )

    def _whole(self, name: str, kind: type[_Read]) -> _Read:
        return self._parsed(self._bytes(name), name, TypeAdapter(kind))

    def _lines(self, name: str, kind: type[_Read]) -> list[_Read]:
        adapter = TypeAdapter(kind)
        return [
            self._parsed(line, f"{name}, line {number}", adapter)
            for number, line in enumerate(self._bytes(name).splitlines(), start=1)
        ]

    def _parsed(self, text: bytes, place: str, adapter: TypeAdapter[_Read]) -> _Read:
        try:
            return adapter.validate_json(text)
        except PydanticError as error:
            first = error.errors(include_url=False)[0]
            where = ".".join(map(str, first["loc"]))
            why = f"{place}: {where + ': ' if where else ''}{first['msg']}"
            raise self._unfinished(why) from error

    def _bytes(self, name: str) -> bytes:
        try:
            return (self.path / name).read_bytes()
        except FileNotFoundError as error:
            raise self._unfinished(f"there is no {name}") from error
        except OSError as error:
            raise self._unfinished(f"{name}: {error.strerror}") from error

    def _unfinished(self, why: str) -> ConfigError:
        return ConfigError(
            f"The folder {str(self.path)!r} holds no finished evaluation ({why}); let "
            "`mai evaluate` come to its end there."
        )
