"""ChartQA: questions about charts, written by people (human) or by a program (augmented)."""

from ..question import BenchmarkQuestion
from .errors import DataError
from .public_set import PublicSet, taken_in_turn, text_of
from .rows import Row

_SPLITS = ("human", "augmented")


def _question(row: Row, number: int) -> BenchmarkQuestion:
    split = next((name for name in _SPLITS if name in str(row["type"]).lower()), None)
    if split is None:
        raise DataError(f"its type is {row['type']!r}, neither human nor augmented.")
    return BenchmarkQuestion(
        id=str(number + 1),
        question=text_of(row, "question"),
        images=(),
        answers=(text_of(row, "answer"),),
        answer_type="short_text",
        group={"split": split},
    )


def _renamed(row: Row) -> Row:
    """Of the benchmark's own files ("test_human.json": imgname, query, label) and their like."""
    renamed = dict(row)
    for original, name in (("imgname", "image"), ("query", "question"), ("label", "answer")):
        if original in row and name not in row:
            renamed[name] = row[original]
    if "type" not in row and ("split" in row or "file" in row):
        renamed["type"] = row.get("split", row.get("file"))
    return renamed


CHARTQA = PublicSet(
    name="chartqa",
    hub="lmms-lab/ChartQA",
    split="test",
    columns=("type", "question", "answer", "image"),
    question=_question,
    renamed=_renamed,
    in_turn=taken_in_turn("type"),
)
