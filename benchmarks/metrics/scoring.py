"""From the outputs on a benchmark to its figures: paired by question id, part by part."""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from importlib.util import find_spec

from ...configs import ConfigError
from ..question import ROTATION, Benchmark, BenchmarkQuestion
from ..statistics import Interval, f1_interval, proportion, wilson
from .grading import RULES, YES_NO, Protocol, Score
from .readers import YesNo

METRICS = (*RULES, "pope")
_PACKAGES = ("rapidfuzz", "scipy")
_IN_CIRCLES = {"accuracy", "static_accuracy"}

_HEADLINES = {"pope": "f1", "infovqa": "anls", "chartqa": "relaxed_accuracy"}

Grades = dict[str, float]


def headline(metric: str) -> str:
    """Return the figure that the paper's tables show of a benchmark with this metric."""
    return _HEADLINES.get(metric, "accuracy")


def check_scoring(benchmark: Benchmark) -> None:
    """Make sure that results can be scored, before hours of calls.

    Raises:
        ConfigError: What scores need is not installed.
    """
    try:
        score(benchmark, {})
    except ModuleNotFoundError as error:
        raise ConfigError(str(error)) from error


def score(benchmark: Benchmark, texts: Mapping[str, str]) -> list[Score]:
    """Compute all figures of a benchmark, under every protocol that has them.

    Questions without a text or a known answer are left out of every figure; texts for other ids are
    ignored.

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
    """Grade each output, from 0 (wrong) to 1 (right), under each protocol.

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
                one.id: float(found[one.id] == _right(one))
                for one in benchmark.questions
                if one.id in found
            }
            for protocol, found in _yes_no(benchmark, texts)
        }
    first: dict[Protocol, Grades] = {}
    for (protocol, _), graded in _figures(benchmark, texts).items():
        first.setdefault(protocol, graded)
    return first


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
    """Grade each question in each figure of each protocol."""
    figures: dict[tuple[Protocol, str], Grades] = {}
    for figure, rules in RULES[benchmark.metric].items():
        for protocol, grade in rules.items():
            graded = figures[protocol, figure] = {
                one.id: worth
                for one in benchmark.questions
                if one.answers
                and one.id in texts
                and (worth := grade(one, texts[one.id])) is not None
            }
            if benchmark.metric == "mmbench" and figure in _IN_CIRCLES:
                circular = f"circular_{figure}"
                figures[protocol, circular] = _circular_grades(benchmark.questions, graded)
    return figures


def _parts(
    questions: Sequence[BenchmarkQuestion],
) -> list[tuple[dict[str, str], list[BenchmarkQuestion]]]:
    """Return all questions, then those of each part, in the order in which the parts appear."""
    parts: dict[tuple[str, str], list[BenchmarkQuestion]] = {}
    for question in questions:
        for name in question.group.items():
            parts.setdefault(name, []).append(question)
    return [({}, list(questions)), *((dict([name]), part) for name, part in parts.items())]


def _score(
    protocol: Protocol, figure: str, values: Sequence[float], group: Mapping[str, str]
) -> Score:
    found = proportion(values)
    return Score(protocol, figure, found.value, found.low, found.high, len(values), group)


def _pope(benchmark: Benchmark, texts: Mapping[str, str]) -> Iterator[Score]:
    for protocol, found in _yes_no(benchmark, texts):
        for group, part in _parts(benchmark.questions):
            pairs = [(_right(one), found[one.id]) for one in part if one.id in found]
            yield from _pope_scores(protocol, pairs, group)


def _yes_no(
    benchmark: Benchmark, texts: Mapping[str, str]
) -> Iterator[tuple[Protocol, dict[str, YesNo | None]]]:
    """Return each protocol with what it reads in every text."""
    for protocol, reading in YES_NO.items():
        yield (
            protocol,
            {one.id: reading(one, texts[one.id]) for one in benchmark.questions if one.id in texts},
        )


def _right(question: BenchmarkQuestion) -> str:
    return question.answers[0].strip().lower()


def _circular_grades(
    questions: Sequence[BenchmarkQuestion], grades: Mapping[str, float]
) -> dict[str, float]:
    """Grade each question all of whose rotations are there and graded with 1 or 0.

    Args:
        questions: Questions whose ids are MMBench's indices.
        grades: The grade of each rotation, by id.

    Returns:
        By the id of the unrotated question. Questions with a rotation that is not in the set, or
        not graded, are left out: nothing can be said of them.
    """
    rotations: dict[str, list[BenchmarkQuestion]] = defaultdict(list)
    for question in questions:
        rotations[str(int(question.id) % ROTATION)].append(question)
    return {
        base: float(all(grades[one.id] == 1 for one in group))
        for base, group in rotations.items()
        if len(group) == len(group[0].choices) and all(one.id in grades for one in group)
    }


def _pope_scores(
    protocol: Protocol, pairs: Sequence[tuple[str, YesNo | None]], group: Mapping[str, str]
) -> list[Score]:
    """Compute accuracy, precision, recall, F1 and yes ratio of one part of POPE.

    typed: also the share of outputs that are read as neither. lmms: recall leaves out what is
    neither, and the yes ratio is that of the right answers. vlmevalkit: an undefined ratio is 0,
    and there is no yes ratio. Under typed and strict an undefined ratio has no value; an always-no
    model has no precision, recall 0 and F1 0.

    Args:
        protocol: Whose readings the predictions are.
        pairs: The right answer and the prediction for each question.
        group: The part that they are from.
    """
    # Predictions "yes", "no" or None (neither), where yes is right and where no is.
    where_yes = Counter(predicted for right, predicted in pairs if right == "yes")
    where_no = Counter(predicted for right, predicted in pairs if right != "yes")
    hits, predicted_yes = where_yes["yes"], where_yes["yes"] + where_no["yes"]
    right_yes = where_yes.total() - (where_yes[None] if protocol == "lmms" else 0)
    yes_count = where_yes.total() if protocol == "lmms" else predicted_yes
    proportions = {
        "accuracy": (hits + where_no["no"], len(pairs)),
        "precision": (hits, predicted_yes),
        "recall": (hits, right_yes),
        "yes_ratio": (yes_count, len(pairs)),
    }
    if protocol == "typed":
        proportions["unread"] = (where_yes[None] + where_no[None], len(pairs))
    if protocol == "vlmevalkit":
        del proportions["yes_ratio"]

    def score(metric: str, value: float | None, interval: Interval) -> Score:
        if value is None and len(pairs) and protocol in ("lmms", "vlmevalkit"):
            value = 0.0
        return Score(protocol, metric, value, *interval, len(pairs), group)

    scores = [
        score(metric, part / whole if whole else None, wilson(part, whole))
        for metric, (part, whole) in proportions.items()
    ]
    # F1 is 2 TP / (2 TP + FP + FN), which is defined where precision or recall is not.
    f1 = 2 * hits / (predicted_yes + right_yes) if predicted_yes + right_yes else None
    return [*scores, score("f1", f1, f1_interval(wilson(hits, predicted_yes + right_yes - hits)))]
