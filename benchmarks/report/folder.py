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

_Read = TypeVar("_Read")


class _Models(TypedDict):
    small: dict[str, Any]
    large: dict[str, Any]


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
    models: _Models
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
        self.record = record = self._whole("run.json", RunRecord)
        if record.metric not in METRICS:
            raise self._unfinished(f"run.json: the metric {record.metric!r} is unknown")
        questions = tuple(self._lines(QUESTIONS_FILE, BenchmarkQuestion))
        self.benchmark = Benchmark(
            name=record.benchmark, questions=questions, prompts="", metric=record.metric
        )
        self.results = self._lines(RESULTS_FILE, ReadResult)
        self.written = datetime.fromtimestamp((folder / RESULTS_FILE).stat().st_mtime, UTC)
        self._check_complete()
        self.timing: list[TimingRecord] = []
        if (folder / TIMING_FILE).exists():
            self.timing = self._whole(TIMING_FILE, list[TimingRecord])
        self.timed: list[TimedLine] = []
        if (folder / TIMED_FILE).exists():
            self.timed = self._lines(TIMED_FILE, TimedLine)

    def _check_complete(self) -> None:
        """Compare results with questions and summary: written last, it tells a finished evaluation.

        Raises:
            ConfigError: Something is missing.
        """
        lost = {one["id"] for one in self.results} - {one.id for one in self.benchmark.questions}
        if lost:
            raise self._unfinished(f"{QUESTIONS_FILE} lacks the question {min(lost)!r}")
        known: dict[str, int] = {}
        for record in self._whole(SUMMARY_FILE, list[_SummaryRecord]):
            name = record["strategy"]
            known[name] = max(record["questions"], known.get(name, 0))
        found = Counter(one["strategy"] for one in self.results if one["error"] is None)
        for name in dict.fromkeys([*(one["strategy"] for one in self.results), *known]):
            if known.get(name, -1) != found[name]:
                raise self._unfinished(
                    f"{RESULTS_FILE} has {found[name]} results of {name}, {SUMMARY_FILE} "
                    f"{known.get(name, 'none')}"
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
        except OSError as error:
            raise self._unfinished(f"{name}: {error.strerror}") from error

    def _unfinished(self, why: str) -> ConfigError:
        return ConfigError(
            f"The folder {str(self.path)!r} holds no finished evaluation ({why}); let "
            "`mai evaluate` come to its end there."
        )
