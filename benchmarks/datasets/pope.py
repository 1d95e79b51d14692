"""POPE: is there an object in the picture, yes or no; three splits by how the absent are chosen."""

from ..question import BenchmarkQuestion
from .errors import DataError
from .public_set import PublicSet, taken_in_turn, text_of
from .rows import Row

_SPLITS = ("adversarial", "popular", "random")


def _question(row: Row, _number: int) -> BenchmarkQuestion:
    answer, split = text_of(row, "answer").lower(), text_of(row, "category").lower()
    if answer not in ("yes", "no"):
        raise DataError(f"the answer is {answer!r}, not yes or no.")
    return BenchmarkQuestion(
        # The numbers repeat in each split.
        id=f"{split}-{text_of(row, 'question_id')}",
        question=text_of(row, "question"),
        images=(),
        answers=(answer,),
        answer_type="yes_no",
        group={"split": split},
    )


def _renamed(row: Row) -> Row:
    """Of the files in POPE's repository, which are named after their split."""
    if "text" not in row:
        return row
    split = next((name for name in _SPLITS if name in row.get("file", "")), None)
    renamed = {**row, "question": row["text"], "answer": row.get("label")}
    return {**renamed, "category": split} if split else renamed


POPE = PublicSet(
    name="pope",
    hub="lmms-lab/POPE",
    split="test",
    columns=("question_id", "question", "answer", "category", "image"),
    question=_question,
    renamed=_renamed,
    in_turn=taken_in_turn("category"),
)
