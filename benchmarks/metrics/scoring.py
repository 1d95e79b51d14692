"""From the outputs on a benchmark to its figures: paired by question id, part by part."""

from collections.abc import Iterator, Mapping, Sequence
from importlib.util import find_spec

from ..question import Benchmark, BenchmarkQuestion
from .circular import circular_grades
from .grading import RULES, YES_NO
from .intervals import share_interval
from .pope import pope_scores
from .scores import Protocol, Score
from .typed import Outcome, outcome
from .yes_no import YesNo

METRICS = (*RULES, "pope")
_PACKAGES = ("rapidfuzz", "scipy")
_IN_CIRCLES = {"accuracy", "static_accuracy"}

Grades = dict[str, float]


def score(benchmark: Benchmark, texts: Mapping[str, str]) -> list[Score]:
    """All figures of a benchmark, under every protocol that has them.

    Questions without a text are left out of every figure (`missing` names them); texts for other
    ids are not looked at.

    Args:
        benchmark: The questions and the metric.
        texts: Final outputs by question id.

    Returns:
        For each protocol and figure one score over all questions, then one for each part of the
        benchmark. A figure that cannot be computed has no value.

    Raises:
        ValueError: No metric has that name.
        ModuleNotFoundError: The extra `benchmarks` is not installed.
    """
    _check(benchmark)
    if benchmark.metric == "pope":
        return list(_pope(benchmark, texts))
    return [
        _score(protocol, figure, [graded[one.id] for one in part if one.id in graded], group)
        for (protocol, figure), graded in _figures(benchmark, texts).items()
        for group, part in _parts(benchmark.questions)
    ]


def grades(benchmark: Benchmark, texts: Mapping[str, str]) -> dict[Protocol, Grades]:
    """What each output is worth, from 0 (wrong) to 1 (right), under each protocol.

    It is the question's share in the accuracy (relaxed on ChartQA); on InfographicVQA in the mean
    ANLS for all protocols but typed.

    Args:
        benchmark: The questions and the metric.
        texts: Final outputs by question id.

    Returns:
        By protocol and question id. Questions without a text, and those that a protocol leaves
        out, are not in it.

    Raises:
        ValueError: No metric has that name.
        ModuleNotFoundError: The extra `benchmarks` is not installed.
    """
    _check(benchmark)
    if benchmark.metric == "pope":
        return {
            protocol: {
                one.id: float(said[one.id] == _right(one))
                for one in benchmark.questions
                if one.id in said
            }
            for protocol, said in _yes_no(benchmark, texts)
        }
    first: dict[Protocol, Grades] = {}
    for (protocol, _), graded in _figures(benchmark, texts).items():
        first.setdefault(protocol, graded)
    return first


def outcomes(benchmark: Benchmark, texts: Mapping[str, str]) -> dict[str, Outcome]:
    """What became of each question that has a text: right, wrong, unread or empty.

    All but right count as wrong in the typed figures; a run that breaks shows in their numbers.

    Args:
        benchmark: The questions and the metric.
        texts: Final outputs by question id.

    Raises:
        ValueError: No metric has that name.
        ModuleNotFoundError: The extra `benchmarks` is not installed.
    """
    graded = grades(benchmark, texts)["typed"]
    return {
        one.id: outcome(one, texts[one.id], right=graded[one.id] == 1)
        for one in benchmark.questions
        if one.id in texts
    }


def missing(benchmark: Benchmark, texts: Mapping[str, str]) -> list[str]:
    """Ids of the questions without a text, in order."""
    return [question.id for question in benchmark.questions if question.id not in texts]


def _check(benchmark: Benchmark) -> None:
    if benchmark.metric not in METRICS:
        raise ValueError(
            f"The metric {benchmark.metric!r} is unknown; use one of {', '.join(METRICS)}."
        )
    absent = [name for name in _PACKAGES if find_spec(name) is None]
    if absent:
        raise ModuleNotFoundError(
            f"Scores need the package {absent[0]}: "
            "pip install 'langgraph-mai[benchmarks]' brings it."
        )


def _figures(benchmark: Benchmark, texts: Mapping[str, str]) -> dict[tuple[Protocol, str], Grades]:
    """What each question is worth in each figure of each protocol."""
    figures: dict[tuple[Protocol, str], Grades] = {}
    for figure, rules in RULES[benchmark.metric].items():
        for protocol, grade in rules.items():
            graded = figures[protocol, figure] = {
                one.id: worth
                for one in benchmark.questions
                if one.id in texts and (worth := grade(one, texts[one.id])) is not None
            }
            if benchmark.metric == "mmbench" and figure in _IN_CIRCLES:
                circular = f"circular_{figure}"
                figures[protocol, circular] = circular_grades(benchmark.questions, graded)
    return figures


def _parts(
    questions: Sequence[BenchmarkQuestion],
) -> list[tuple[dict[str, str], list[BenchmarkQuestion]]]:
    """All questions, then those of each part, in the order in which the parts appear."""
    parts: dict[tuple[str, str], list[BenchmarkQuestion]] = {}
    for question in questions:
        for name in question.group.items():
            parts.setdefault(name, []).append(question)
    return [({}, list(questions)), *((dict([name]), part) for name, part in parts.items())]


def _score(
    protocol: Protocol, figure: str, values: Sequence[float], group: Mapping[str, str]
) -> Score:
    low, high = share_interval(values)
    return Score(
        protocol=protocol,
        metric=figure,
        value=sum(values) / len(values) if values else None,
        low=low,
        high=high,
        questions=len(values),
        group=group,
    )


def _pope(benchmark: Benchmark, texts: Mapping[str, str]) -> Iterator[Score]:
    for protocol, said in _yes_no(benchmark, texts):
        for group, part in _parts(benchmark.questions):
            pairs = [(_right(one), said[one.id]) for one in part if one.id in said]
            yield from pope_scores(protocol, pairs, group)


def _yes_no(
    benchmark: Benchmark, texts: Mapping[str, str]
) -> Iterator[tuple[Protocol, dict[str, YesNo | None]]]:
    """Each protocol with what it reads in every text."""
    for protocol, reading in YES_NO.items():
        yield (
            protocol,
            {one.id: reading(one, texts[one.id]) for one in benchmark.questions if one.id in texts},
        )


def _right(question: BenchmarkQuestion) -> str:
    return question.answers[0].strip().lower()
