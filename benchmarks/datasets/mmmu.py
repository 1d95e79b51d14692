"""MMMU: college questions of 30 subjects, most with choices, with up to seven pictures."""

import ast
import re
from typing import Any

from ..question import BenchmarkQuestion
from .errors import DataError
from .public_set import PublicSet, text_of
from .rows import EVERY_CONFIG, Row, Rows

_SUBJECT = re.compile(r"[a-z]+_(.+)_\d+")
_PLACEHOLDER = re.compile(r"<image (\d)>")


def _question(row: Row, _number: int) -> BenchmarkQuestion:
    name = text_of(row, "id")
    open_ended = row["question_type"] == "open"
    choices = () if open_ended else tuple(map(str, _listed(row["options"])))
    answers = tuple(map(str, _listed(row["answer"]))) or (text_of(row, "answer"),)
    if "?" in answers:
        raise DataError("it has no answer; test splits are scored by their authors alone.")
    if not open_ended and len(choices) < 2:
        raise DataError(f"'options' is {row['options']!r}, not a list of choices.")
    return BenchmarkQuestion(
        id=name,
        question=text_of(row, "question"),
        images=(),
        answers=answers,
        choices=choices,
        answer_type="short_text" if open_ended else "choice",
        group={"subject": _subject(name)},
    )


def _pictures(row: Row) -> list[Any]:
    """The pictures that question and choices name, by their numbers; the first if none is named."""
    text = f"{row['question']} {row['options']}"
    named = sorted(set(_PLACEHOLDER.findall(text))) or ["1"]
    return [row.get(f"image_{number}") for number in named]


def _listed(value: Any) -> list[Any]:
    """A list that the data holds as such or as Python text; empty for any other text."""
    if isinstance(value, str) and value.lstrip().startswith("["):
        try:
            value = ast.literal_eval(value)
        except (ValueError, SyntaxError):
            return []
    return list(value) if isinstance(value, list | tuple) else []


def _subject(name: str) -> str:
    match = _SUBJECT.fullmatch(name)
    if match is None:
        raise DataError(f"the id {name!r} does not name a subject, as 'validation_Art_1' does.")
    return match[1]


def _by_subject(rows: Rows) -> list[int]:
    """The first question of each subject, then the second of each."""
    seen: dict[str, int] = {}
    places: list[tuple[int, int]] = []
    for number, name in enumerate(rows.column("id")):
        subject = str(name).rsplit("_", 1)[0]
        seen[subject] = seen.get(subject, 0) + 1
        places.append((seen[subject], number))
    return [number for _, number in sorted(places)]


MMMU = PublicSet(
    name="mmmu",
    hub="MMMU/MMMU",
    config=EVERY_CONFIG,
    split="validation",
    columns=("id", "question", "options", "answer", "question_type", "image_1"),
    question=_question,
    pictures=_pictures,
    in_turn=_by_subject,
)
