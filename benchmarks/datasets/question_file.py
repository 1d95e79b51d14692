"""Questions of the user's own: a JSON Lines file, checked line by line."""

import json
import re
from collections import Counter
from pathlib import Path
from string import ascii_uppercase
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError

from ...answers import AnswerType, infer_answer_type, split_choices
from ...configs.files import existing_file
from ...models.images import ImageError, describe, image_reference
from ...models.images.sources import local_path
from ..question import Benchmark, BenchmarkQuestion
from .rows import DataError, DataListError, numbered_lines, parse_json, read_text

_Text = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1)]


class _Line(BaseModel):
    """One line of the file, as docs/evaluation.md describes it."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    id: _Text | None = None
    question: _Text
    images: _Text | list[_Text] = Field(min_length=1)
    answers: _Text | list[_Text]
    choices: list[_Text] = Field(default=[], max_length=len(ascii_uppercase))
    answer_type: AnswerType | None = None
    group: dict[_Text, _Text] = {}


def load_question_file(path: Path, limit: int | None, folder: Path) -> Benchmark:
    """Read questions from a file.

    Args:
        path: A JSON object on each line: question, images, answers ([] if unknown, which no score
            counts), and optionally choices,
            answer_type, id and group. Paths of images are relative to the file's folder.
        limit: How many questions to read from the top; all by default.
        folder: Where images that are only data are written, once each.

    Raises:
        DataError: Names line and key of every error.
    """
    file = existing_file(path)
    if file is None:
        raise DataError(f"{path} cannot be read: there is no such file.")
    questions: dict[str, BenchmarkQuestion] = {}
    errors = []
    text = read_text(file)
    if text.lstrip().startswith("["):
        raise DataError(f"{path} is a JSON list; write one question a line, without the brackets.")
    for number, line in numbered_lines(text)[:limit]:
        try:
            question = _question(_parsed(line), number, file.parent, folder)
            if question.id in questions:
                raise DataError(f"'id': another question has {question.id!r} too.")
            questions[question.id] = question
        except DataError as error:
            errors.append(f"line {number}: {error}")
    if errors:
        raise DataListError.of(str(path), errors)
    if not questions:
        raise DataError(f"{path} holds no questions.")
    return Benchmark(
        name=path.stem,
        questions=tuple(questions.values()),
        prompts="default",
        metric="accuracy",
        source=str(path),
    )


def _parsed(line: str) -> _Line:
    value = parse_json(line)
    pairs = json.loads(line, object_pairs_hook=list) if isinstance(value, dict) else []
    if twice := next((key for key, count in Counter(k for k, _ in pairs).items() if count > 1), ""):
        raise DataError(f"the key {twice!r} is given twice.")
    if not isinstance(value, dict):
        raise DataError(f"it must be an object in braces, not {json.dumps(value)[:40]}.")
    try:
        return _Line.model_validate_json(line)
    except ValidationError as error:
        raise DataError(_problem(error)) from error


def _problem(error: ValidationError) -> str:
    # A misspelt key is missing too: naming it as unknown tells more.
    first = min(error.errors(), key=lambda found: found["type"] != "extra_forbidden")
    if not first["loc"]:  # JSON that Python's reader takes, but not pydantic's: half characters
        return f"it is not JSON: {first['msg']}."
    key = str(first["loc"][0])
    if first["type"] == "extra_forbidden":
        known = ", ".join(_Line.model_fields)
        return f"unknown key {key!r}; a question has {known}."
    if first["type"] == "missing":
        return f"the key {key!r} is missing."
    shown = json.dumps(first["input"], ensure_ascii=False, default=str)[:80]
    return f"{key!r}: {first['msg']} (it is {shown})."


def _question(line: _Line, number: int, base: Path, folder: Path) -> BenchmarkQuestion:
    question, choices = line.question, _unlettered(line.choices)
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
        images=tuple(_image(image, base, folder) for image in images),
        answers=tuple(_letter(answer, choices) if choices else answer for answer in answers),
        choices=choices,
        answer_type=answer_type,
        group=line.group,
    )


def _unlettered(choices: list[str]) -> tuple[str, ...]:
    """Take the letters off options that all have their own ("A. 3"): prompts letter them."""
    matches = [
        re.fullmatch(rf"\(?{letter}[.):]\s+(\S.*)", choice, re.IGNORECASE)
        for letter, choice in zip(ascii_uppercase, choices, strict=False)
    ]
    found = [match[1] for match in matches if match]
    return tuple(found if choices and len(found) == len(choices) else choices)


def _letter(answer: str, choices: tuple[str, ...]) -> str:
    letters = ascii_uppercase[: len(choices)]
    if answer in choices:
        return letters[choices.index(answer)]
    if re.match(rf"\(?[{letters}]([.):]\s|$)", answer, re.IGNORECASE):  # "A", "A. 3"
        return answer.lstrip("(")[0].upper()
    raise DataError(f"'answers': {answer!r} is neither one of the choices nor the letter of one.")


def _image(reference: str, base: Path, folder: Path) -> str:
    """Return an absolute path, or a web address as it is."""
    beside = existing_file(base / reference) or existing_file(reference)
    if beside is not None:
        return str(beside.resolve())
    try:
        found = image_reference(reference, folder)
        if found.startswith(("http://", "https://")):
            return found
        file = existing_file(local_path(found))
    except ImageError as error:
        raise DataError(f"'images': {error}") from error
    if file is None:
        raise DataError(f"'images': there is no file {describe(str(base / reference))}.")
    return str(file)
