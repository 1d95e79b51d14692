"""The six public benchmarks: POPE, MMMU, MMBench, ChartQA, InfographicVQA, RealWorldQA."""

import ast
import re
from string import ascii_uppercase
from typing import Any

from ...answers import infer_answer_type, split_choices
from ..question import ROTATION, BenchmarkQuestion
from .public_set import PublicSet, taken_in_turn, text_of
from .rows import EVERY_CONFIG, DataError, Row, Rows

_POPE_SPLITS = ("adversarial", "popular", "random")
_SUBJECT = re.compile(r"[a-z]+_(.+)_\d+")
_PLACEHOLDER = re.compile(r"<image (\d)>")
_LETTERS = "ABCD"
_MMBENCH_GROUPS = ("category", "l2-category")
_CHARTQA_SPLITS = ("human", "augmented")

# The prompt styles say how to answer; what RealWorldQA's data says would contradict E and R.
_ANSWER_FORMAT = re.compile(r"\s*please answer directly with [^\n]*$", re.IGNORECASE)


def _pope_question(row: Row, _number: int) -> BenchmarkQuestion:
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


def _pope_renamed(row: Row) -> Row:
    """Rename columns of the files in POPE's repository, which are named after their split."""
    if "text" not in row:
        return row
    split = next((name for name in _POPE_SPLITS if name in row.get("file", "")), None)
    renamed = {**row, "question": row["text"], "answer": row.get("label")}
    return {**renamed, "category": split} if split else renamed


POPE = PublicSet(  # is there an object in the image; splits by how the absent ones are chosen
    name="pope",
    hub="lmms-lab/POPE",
    split="test",
    columns=("question_id", "question", "answer", "category", "image"),
    question=_pope_question,
    renamed=_pope_renamed,
    in_turn=taken_in_turn("category"),
)


def _mmmu_question(row: Row, _number: int) -> BenchmarkQuestion:
    name = text_of(row, "id")
    open_ended = row["question_type"] == "open"
    choices = () if open_ended else tuple(map(str, _listed(row["options"])))
    answers = tuple(map(str, _listed(row["answer"]))) or (text_of(row, "answer"),)
    if "?" in answers:
        raise DataError("it has no answer; test splits are scored by their authors alone.")
    if not open_ended and len(choices) < 2:
        raise DataError(f"'options' is {row['options']!r}, not a list of choices.")
    # Of the seven images, those are sent that are named: they are numbered as they are sent.
    order = {number: str(place) for place, number in enumerate(_mmmu_numbers(row), start=1)}

    def numbered(text: str) -> str:
        return _PLACEHOLDER.sub(lambda found: f"<image {order[found[1]]}>", text)

    subject = _SUBJECT.fullmatch(name)
    if subject is None:
        raise DataError(f"the id {name!r} does not name a subject, as 'validation_Art_1' does.")
    return BenchmarkQuestion(
        id=name,
        question=numbered(text_of(row, "question")),
        images=(),
        answers=answers,
        choices=tuple(map(numbered, choices)),
        answer_type="short_text" if open_ended else "choice",
        group={"subject": subject[1]},
    )


def _mmmu_images(row: Row) -> list[Any]:
    """Return the images that question and choices name, by their numbers; else the first."""
    return [row.get(f"image_{number}") for number in _mmmu_numbers(row)]


def _mmmu_numbers(row: Row) -> list[str]:
    return sorted(set(_PLACEHOLDER.findall(f"{row['question']} {row['options']}"))) or ["1"]


def _listed(value: Any) -> list[Any]:
    """Return a list that the data holds as such or as Python text; empty for any other text."""
    if isinstance(value, str) and value.lstrip().startswith("["):
        try:
            value = ast.literal_eval(value)
        except (ValueError, SyntaxError):
            return []
    return list(value) if isinstance(value, list | tuple) else []


def _mmmu_by_subject(rows: Rows) -> list[int]:
    """Return the first question of each subject, then the second of each."""
    seen: dict[str, int] = {}
    places: list[tuple[int, int]] = []
    for number, name in enumerate(rows.column("id")):
        subject = str(name).rsplit("_", 1)[0]
        seen[subject] = seen.get(subject, 0) + 1
        places.append((seen[subject], number))
    return [number for _, number in sorted(places)]


MMMU = PublicSet(  # college questions of 30 subjects, with up to seven images
    name="mmmu",
    hub="MMMU/MMMU",
    config=EVERY_CONFIG,
    split="validation",
    columns=("id", "question", "options", "answer", "question_type", "image_1"),
    question=_mmmu_question,
    images=_mmmu_images,
    in_turn=_mmmu_by_subject,
)


def _mmbench_question(row: Row, _number: int) -> BenchmarkQuestion:
    choices = _mmbench_choices(row)
    if not _filled(row["answer"]):
        raise DataError("it has no answer; the test split is scored by its authors alone.")
    answer = text_of(row, "answer").upper()
    if answer not in _LETTERS[: len(choices)]:
        raise _no_letter(answer, choices)
    hint = f"{str(row['hint']).strip()}\n" if _filled(row.get("hint")) else ""
    return BenchmarkQuestion(
        id=str(_mmbench_index(row["index"])),
        question=hint + text_of(row, "question"),
        images=(),
        answers=(answer,),
        choices=tuple(choices),
        answer_type="choice",
        group={
            name.lower(): str(value)
            for name, value in row.items()
            if name.lower() in _MMBENCH_GROUPS and _filled(value)
        },
    )


def _mmbench_choices(row: Row) -> list[str]:
    """Return the options. "nan" stands for none at their end only; "None", "NA" are texts."""
    cells = [row.get(letter) for letter in _LETTERS]
    while cells and not _filled(cells[-1]):
        cells.pop()
    if any(cell is None or not str(cell).strip() for cell in cells):
        raise DataError("an option is empty, and one after it is not.")
    return [str(cell) for cell in cells]


def _filled(value: Any) -> bool:
    """Whether a cell holds something; tables that were made with pandas hold "nan" for nothing."""
    return value is not None and str(value).strip().lower() not in ("", "nan")


def _mmbench_index(value: Any) -> int:
    """Return a number that some versions of the data set hold as a text."""
    try:
        return int(value)
    except (TypeError, ValueError) as error:
        raise DataError(f"the index is {value!r}, not a number.") from error


def _mmbench_circles(rows: Rows) -> list[int]:
    """Return all rotations of a question, then those of the next: a limit cuts one circle."""
    indices = [_mmbench_index(value) for value in rows.column("index")]
    return sorted(range(len(indices)), key=lambda k: (indices[k] % ROTATION, indices[k]))


MMBENCH = PublicSet(  # perception and reasoning, each question in several rotations
    name="mmbench",
    hub="lmms-lab/MMBench",
    config="en",
    split="dev",
    columns=("index", "question", "hint", "A", "B", "answer", "image"),
    question=_mmbench_question,
    in_turn=_mmbench_circles,
)


def _chartqa_question(row: Row, number: int) -> BenchmarkQuestion:
    split = next((name for name in _CHARTQA_SPLITS if name in str(row["type"]).lower()), None)
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


def _chartqa_renamed(row: Row) -> Row:
    """Rename columns of the benchmark's own files ("test_human.json": imgname, query, label)."""
    renamed = dict(row)
    for original, name in (("imgname", "image"), ("query", "question"), ("label", "answer")):
        if original in row and name not in row:
            renamed[name] = row[original]
    if "type" not in row and ("split" in row or "file" in row):
        renamed["type"] = row.get("split", row.get("file"))
    return renamed


CHARTQA = PublicSet(  # questions about charts, written by people (human) or a program (augmented)
    name="chartqa",
    hub="lmms-lab/ChartQA",
    split="test",
    columns=("type", "question", "answer", "image"),
    question=_chartqa_question,
    renamed=_chartqa_renamed,
    in_turn=taken_in_turn("type"),
)


def _infovqa_question(row: Row, _number: int) -> BenchmarkQuestion:
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


INFOVQA = PublicSet(  # questions about infographics, each with the answers that people gave
    name="infovqa",
    hub="lmms-lab/DocVQA",
    config="InfographicVQA",
    split="validation",
    columns=("questionId", "question", "answers", "image"),
    question=_infovqa_question,
)


def _realworldqa_question(row: Row, number: int) -> BenchmarkQuestion:
    question, choices = split_choices(_ANSWER_FORMAT.sub("", text_of(row, "question")))
    answer = text_of(row, "answer")
    if choices:
        answer = answer.rstrip(".").upper()
        if answer not in tuple(ascii_uppercase[: len(choices)]):
            raise _no_letter(answer, choices)
    return BenchmarkQuestion(
        id=str(number + 1),
        question=question,
        images=(),
        answers=(answer,),
        choices=choices,
        answer_type="choice" if choices else infer_answer_type(question),
    )


REALWORLDQA = PublicSet(  # everyday scenes, with choices in the question or a short answer
    name="realworldqa",
    hub="lmms-lab/RealWorldQA",
    split="test",
    columns=("question", "answer", "image"),
    question=_realworldqa_question,
)


def _no_letter(answer: str, choices: Any) -> DataError:
    return DataError(f"the answer is {answer!r}, not the letter of one of {len(choices)} choices.")
