"""Questions with known answers, and a benchmark made of them."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from ..answers import AnswerType

ROTATION = 1_000_000
"""In MMBench, rotation k of the question with index i has the index i + k * ROTATION."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchmarkQuestion:
    """One question about images, with its accepted answers.

    Attributes:
        id: Names the question within its benchmark; no other question has it.
        question: What is asked, without the choices.
        images: References as `models.images` takes them, in order.
        answers: The accepted answers, the first of which is shown. Of a choice, the letter.
        choices: Texts of the options, in the order of their letters.
        answer_type: What an output is read as.
        group: The parts of the benchmark that the question belongs to, as {"split": "random"} or
            {"subject": "Art"}.
    """

    id: str
    question: str
    images: tuple[str, ...]
    answers: tuple[str, ...]
    choices: tuple[str, ...] = ()
    answer_type: AnswerType
    group: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Benchmark:
    """A set of questions, and how it is asked and scored.

    Attributes:
        name: Its name, one of `benchmarks.datasets.BENCHMARKS` or that of the user's own file.
        questions: The questions; their ids differ.
        prompts: Name of its prompts in configs/prompts.
        metric: Name of its metric, one of `benchmarks.metrics.METRICS`: that of a public benchmark,
            or "accuracy".
        source: Where the questions are from: a data set on the hub, a file, a seed.
    """

    name: str
    questions: tuple[BenchmarkQuestion, ...]
    prompts: str
    metric: str
    source: str = ""
