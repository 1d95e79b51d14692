"""One's own questions: a JSON Lines file, checked line by line."""

import json
from pathlib import Path
from string import ascii_uppercase
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError

from ...answers import AnswerType, infer_answer_type, split_choices
from ...models.images import ImageError, image_reference
from ..question import Benchmark, BenchmarkQuestion
from .errors import DataError

_Text = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1)]


class _Line(BaseModel):
    """One line of the file, as docs/evaluation.md describes it."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    id: _Text | None = None
    question: _Text
    images: _Text | list[_Text] = Field(min_length=1)
    answers: _Text | list[_Text] = Field(min_length=1)
    choices: list[_Text] = Field(default=[], max_length=len(ascii_uppercase))
    answer_type: AnswerType | None = None
    group: dict[_Text, _Text] = {}


def load_question_file(path: Path, limit: int | None) -> Benchmark:
    """Read questions from a file.

    Args:
        path: A JSON object on each line: question, images, answers, and optionally choices,
            answer_type, id and group. Paths of images are relative to the file's folder.
        limit: How many questions to read from the top; all by default.

    Raises:
        DataError: Names the line and the key.
    """
    try:
        lines = path.expanduser().read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"{path} cannot be read: {error}") from error
    numbered = [(number, line) for number, line in enumerate(lines, 1) if line.strip()]
    questions: dict[str, BenchmarkQuestion] = {}
    for number, line in numbered[:limit]:
        try:
            question = _question(_parsed(line), number, path.expanduser().parent)
            if question.id in questions:
                raise DataError(f"'id': another question has {question.id!r} too.")
        except DataError as error:
            raise DataError(f"{path}, line {number}: {error}") from error
        questions[question.id] = question
    if not questions:
        raise DataError(f"{path} holds no questions.")
    return Benchmark(
        name=path.stem, questions=tuple(questions.values()), prompts="default", metric="accuracy"
    )


def _parsed(line: str) -> _Line:
    try:
        value: Any = json.loads(line)
    except ValueError as error:
        raise DataError(f"it is not JSON: {error}.") from error
    if not isinstance(value, dict):
        raise DataError(f"it must be an object in braces, not {json.dumps(value)[:40]}.")
    try:
        return _Line.model_validate_json(line)
    except ValidationError as error:
        raise DataError(_problem(error)) from error


def _problem(error: ValidationError) -> str:
    # A misspelt key is missing too: naming it as unknown tells more.
    first = min(error.errors(), key=lambda found: found["type"] != "extra_forbidden")
    key = str(first["loc"][0])
    if first["type"] == "extra_forbidden":
        known = ", ".join(_Line.model_fields)
        return f"unknown key {key!r}; a question has {known}."
    if first["type"] == "missing":
        return f"the key {key!r} is missing."
    shown = json.dumps(first["input"], ensure_ascii=False, default=str)[:80]
    return f"{key!r}: {first['msg']} (it is {shown})."


def _question(line: _Line, number: int, folder: Path) -> BenchmarkQuestion:
    question, choices = line.question, tuple(line.choices)
    if not choices and line.answer_type in (None, "choice"):
        question, choices = split_choices(question)
    answer_type = line.answer_type or infer_answer_type(question, choices)
    if choices and answer_type != "choice":
        raise DataError(f"'answer_type': a question with choices is a choice, not {answer_type}.")
    if answer_type == "choice" and len(choices) < 2:
        raise DataError("'choices': a choice needs at least two options.")
    answers = [line.answers] if isinstance(line.answers, str) else line.answers
    images = [line.images] if isinstance(line.images, str) else line.images
    return BenchmarkQuestion(
        id=line.id or str(number),
        question=question,
        images=tuple(_image(image, folder) for image in images),
        answers=tuple(_letter(answer, choices) if choices else answer for answer in answers),
        choices=choices,
        answer_type=answer_type,
        group=line.group,
    )


def _letter(answer: str, choices: tuple[str, ...]) -> str:
    letters = ascii_uppercase[: len(choices)]
    if answer in choices:
        return letters[choices.index(answer)]
    if len(answer) == 1 and answer.upper() in letters:
        return answer.upper()
    raise DataError(f"'answers': {answer!r} is neither one of the choices nor the letter of one.")


def _image(reference: str, folder: Path) -> str:
    """An absolute path, or a web address as it is."""
    path = folder / Path(reference).expanduser()
    if path.is_file():
        return str(path.resolve())
    try:
        reference = image_reference(reference)
    except ImageError as error:
        raise DataError(f"'images': {error}") from error
    if reference.startswith(("http://", "https://")) or Path(reference).is_file():
        return reference
    raise DataError(f"'images': there is no file {path}.")
