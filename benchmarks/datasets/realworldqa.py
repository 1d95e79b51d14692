"""RealWorldQA: questions about everyday scenes, with choices in the question or a short answer."""

import re
from string import ascii_uppercase

from ...answers import infer_answer_type, split_choices
from ..question import BenchmarkQuestion
from .errors import DataError
from .public_set import PublicSet, text_of
from .rows import Row

# The prompt styles say how to answer; what the data says would contradict E and R.
_ANSWER_FORMAT = re.compile(r"\s*please answer directly with [^\n]*$", re.IGNORECASE)


def _question(row: Row, number: int) -> BenchmarkQuestion:
    question, choices = split_choices(_ANSWER_FORMAT.sub("", text_of(row, "question")))
    answer = text_of(row, "answer")
    if choices:
        answer = answer.rstrip(".").upper()
        if answer not in tuple(ascii_uppercase[: len(choices)]):
            raise DataError(
                f"the answer is {answer!r}, not the letter of one of {len(choices)} choices."
            )
    return BenchmarkQuestion(
        id=str(number + 1),
        question=question,
        images=(),
        answers=(answer,),
        choices=choices,
        answer_type="choice" if choices else infer_answer_type(question),
    )


REALWORLDQA = PublicSet(
    name="realworldqa",
    hub="lmms-lab/RealWorldQA",
    split="test",
    columns=("question", "answer", "image"),
    question=_question,
)
