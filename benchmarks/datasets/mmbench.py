"""MMBench: multiple choice on perception and reasoning, each question in several rotations."""

from typing import Any

from ..metrics.circular import ROTATION
from ..question import BenchmarkQuestion
from .errors import DataError
from .public_set import PublicSet, text_of
from .rows import Row, Rows

_LETTERS = "ABCD"
_GROUPS = ("category", "l2-category")


def _question(row: Row, _number: int) -> BenchmarkQuestion:
    choices = _choices(row)
    if not _given(row["answer"]):
        raise DataError("it has no answer; the test split is scored by its authors alone.")
    answer = text_of(row, "answer").upper()
    if answer not in _LETTERS[: len(choices)]:
        raise DataError(
            f"the answer is {answer!r}, not the letter of one of {len(choices)} choices."
        )
    hint = f"{str(row['hint']).strip()}\n" if _given(row.get("hint")) else ""
    return BenchmarkQuestion(
        id=str(_index(row["index"])),
        question=hint + text_of(row, "question"),
        images=(),
        answers=(answer,),
        choices=tuple(choices),
        answer_type="choice",
        group={
            name.lower(): str(value)
            for name, value in row.items()
            if name.lower() in _GROUPS and _given(value)
        },
    )


def _choices(row: Row) -> list[str]:
    """The options. "nan" stands for none at their end only; "None", "NA" and the like are texts."""
    cells = [row.get(letter) for letter in _LETTERS]
    while cells and not _given(cells[-1]):
        cells.pop()
    if any(cell is None or not str(cell).strip() for cell in cells):
        raise DataError("an option is empty, and one after it is not.")
    return [str(cell) for cell in cells]


def _given(value: Any) -> bool:
    """Whether a cell holds something; tables that were made with pandas hold "nan" for nothing."""
    return value is not None and str(value).strip().lower() not in ("", "nan")


def _index(value: Any) -> int:
    """A number that some versions of the data set hold as a text."""
    try:
        return int(value)
    except (TypeError, ValueError) as error:
        raise DataError(f"the index is {value!r}, not a number.") from error


def _circles(rows: Rows) -> list[int]:
    """All rotations of a question, then those of the next, so that a limit cuts one circle."""
    indices = [_index(value) for value in rows.column("index")]
    return sorted(range(len(indices)), key=lambda k: (indices[k] % ROTATION, indices[k]))


MMBENCH = PublicSet(
    name="mmbench",
    hub="lmms-lab/MMBench",
    config="en",
    split="dev",
    columns=("index", "question", "hint", "A", "B", "answer", "image"),
    question=_question,
    in_turn=_circles,
)
