"""An evaluation's folder, read again: questions, results, times, and what each output is worth."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from pathlib import Path
from typing import Any

from ...nodes.state import ModelCall
from ..estimates import Estimate, mean, share
from ..evaluation.evaluate import check_scoring, headline
from ..evaluation.results import Result
from ..metrics import grades, outcomes
from ..question import Benchmark, BenchmarkQuestion
from .by_image import score_by_image
from .folder import EvaluationFolder, RunRecord, TimingRecord


@dataclass(frozen=True)
class Evaluated:
    """What `mai evaluate` left in a folder.

    Attributes:
        folder: The folder.
        benchmark: The questions.
        pair: The pair's name.
        models: The models' names by role.
        results: By strategy and question id; failed ones are not there.
        failed: How many results failed, by strategy.
        timing: The records of `timing.json`; none if nothing was timed.
        timed: Seconds by strategy and question id, if timed.
        record: What `run.json` holds.
        written: When the results were written.
    """

    folder: Path
    benchmark: Benchmark
    pair: str
    models: Mapping[str, str]
    results: Mapping[str, Mapping[str, Result]]
    failed: Mapping[str, int]
    timing: Sequence[TimingRecord]
    timed: Mapping[str, Mapping[str, float]]
    record: RunRecord
    written: datetime
    _grades: dict[str, Mapping[str, Mapping[str, float]]] = field(default_factory=dict)
    _known: dict[tuple[str, str], Estimate] = field(default_factory=dict)

    @classmethod
    def read(cls, name: str | Path) -> "Evaluated":
        """Read a folder.

        Raises:
            ConfigError: There is no such folder, no finished evaluation in it, or the extra
                `benchmarks` is not installed.
        """
        folder = EvaluationFolder(name)
        check_scoring(folder.benchmark)
        results: dict[str, dict[str, Result]] = {}
        failed: dict[str, int] = {}
        for result in folder.results:
            own = results.setdefault(result["strategy"], {})
            if result["error"] is None:
                own[result["id"]] = result
            else:
                failed[result["strategy"]] = failed.get(result["strategy"], 0) + 1
        timed: dict[str, dict[str, float]] = {}
        for line in folder.timed:
            timed.setdefault(line["strategy"], {})[line["id"]] = line["seconds"]
        record = folder.record
        return cls(
            folder=folder.path,
            benchmark=folder.benchmark,
            pair=record.pair,
            models={role: _model_name(role, said) for role, said in record.models.items()},
            results=results,
            failed=failed,
            timing=folder.timing,
            timed=timed,
            record=record,
            written=folder.written,
        )

    @cached_property
    def questions(self) -> Mapping[str, BenchmarkQuestion]:
        """The questions by id."""
        return {question.id: question for question in self.benchmark.questions}

    @property
    def headline(self) -> str:
        """The figure that the paper's tables show of this benchmark."""
        return headline(self.benchmark.metric)

    def clusters(self, ids: Sequence[str]) -> list[tuple[str, ...]]:
        """What is drawn together in a bootstrap: a question's images, or the question itself."""
        return [self.questions[one].images or (one,) for one in ids]

    def texts(self, strategy: str) -> dict[str, str]:
        """A strategy's outputs by question id."""
        return {one: str(r["text"]) for one, r in self.results.get(strategy, {}).items()}

    def grades(self, strategy: str, protocol: str = "typed") -> Mapping[str, float]:
        """What a strategy's outputs are worth, from 0 to 1, by question id."""
        if strategy not in self._grades:
            worth: Any = grades(self.benchmark, self.texts(strategy))
            self._grades[strategy] = worth
        return self._grades[strategy].get(protocol, {})

    def grade_texts(self, texts: Mapping[str, str], protocol: str) -> Mapping[str, float]:
        """What any outputs are worth, by question id."""
        worth: Any = grades(self.benchmark, texts)
        found: Mapping[str, float] = worth.get(protocol, {})
        return found

    def protocols(self, strategy: str) -> list[str]:
        """The protocols that grade a strategy's outputs."""
        self.grades(strategy)
        return list(self._grades[strategy])

    def score(self, strategy: str, protocol: str, ids: Collection[str] | None = None) -> Estimate:
        """The figure that the paper shows of the benchmark; its interval is by image.

        Args:
            strategy: Whose outputs.
            protocol: Whose reading of them counts.
            ids: Of these questions; None for all.
        """
        if ids is not None:
            return self.score_texts(self.texts(strategy), protocol, ids)
        key = strategy, protocol
        if key not in self._known:
            self._known[key] = self.score_texts(self.texts(strategy), protocol)
        return self._known[key]

    def score_texts(
        self, texts: Mapping[str, str], protocol: str, ids: Collection[str] | None = None
    ) -> Estimate:
        """The same of any outputs, by question id."""
        asked = [one for one in texts if ids is None or one in ids]
        if not asked:
            return Estimate(None, None, None, 0)
        return score_by_image(
            self.headline,
            self.benchmark.metric,
            protocol,
            [self.questions[one] for one in asked],
            texts,
            self.clusters(asked),
        )

    def unread(self, strategy: str) -> Estimate:
        """The share of outputs in which no answer of the question's type is found."""
        key = strategy, "unread"
        if key not in self._known:
            became = outcomes(self.benchmark, self.texts(strategy))
            lost = [kind in ("unread", "empty") for kind in became.values()]
            self._known[key] = share(lost, self.clusters(list(became)))
        return self._known[key]

    def calls(self, strategy: str, role: str, style: str) -> dict[str, ModelCall]:
        """A strategy's calls of one kind, by question id."""
        return {
            one: call
            for one, result in self.results.get(strategy, {}).items()
            for call in result["calls"]
            if (call["role"], call["style"]) == (role, style)
        }

    def output_tokens(self, strategy: str, role: str, style: str) -> Estimate:
        """Mean output tokens of a strategy's calls of one kind; questions of an image together."""
        calls = self.calls(strategy, role, style)
        known = {
            one: float(call["output_tokens"])
            for one, call in calls.items()
            if call["output_tokens"] is not None
        }
        return mean(list(known.values()), self.clusters(list(known)))

    def time(self, strategy: str, name: str) -> Estimate:
        """A figure of the timed runs."""
        for one in self.timing:
            if (one["strategy"], one["name"]) == (strategy, name):
                return Estimate(one["value"], one.get("low"), one.get("high"), one["questions"])
        return Estimate(None, None, None, 0)


def _model_name(role: str, identity: Mapping[str, Any]) -> str:
    name = identity.get("model") or identity.get("model_name") or role
    return str(name).rpartition("/")[2]
