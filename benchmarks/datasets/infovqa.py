"""InfographicVQA: questions about infographics, each with the answers that people gave."""

from ..question import BenchmarkQuestion
from .errors import DataError
from .public_set import PublicSet, text_of
from .rows import Row


def _question(row: Row, _number: int) -> BenchmarkQuestion:
    answers = row["answers"]
    if not isinstance(answers, list) or not answers:
        raise DataError("it has no answers; the test split is scored by its authors alone.")
    return BenchmarkQuestion(
        id=text_of(row, "questionId"),
        question=text_of(row, "question"),
        images=(),
        answers=tuple(map(str, answers)),
        answer_type="short_text",
    )


INFOVQA = PublicSet(
    name="infovqa",
    hub="lmms-lab/DocVQA",
    config="InfographicVQA",
    split="validation",
    columns=("questionId", "question", "answers", "image"),
    question=_question,
)
