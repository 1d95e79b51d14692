"""What a strategy said to a question, as it is stored and written to files."""

import hashlib
import json
from collections.abc import Iterable, Mapping
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from typing_extensions import TypedDict

from ...models.images.sources import read_reference
from ...nodes.state import Fallback, MAIInput, ModelCall, Route
from ..question import BenchmarkQuestion

_CODE = ("answers", "nodes", "graph")


class Result(TypedDict):
    """One strategy's run on one question.

    Attributes:
        id: The question's id.
        strategy: The strategy's name.
        answer: What the run returned; None if it failed.
        text: What the model wrote that the answer stands on; metrics read it. None if it failed.
        route: How far the run went; None if it failed.
        fallback: What stood in for the answer, as in the graph's output.
        calls: Every model call. Their seconds are those of the evaluation, with other calls beside
            them; only timed runs measure.
        error: What failed, in one sentence: the run, or one of its calls. Such a result is not
            scored, and the next evaluation tries again.
    """

    id: str
    strategy: str
    answer: str | None
    text: str | None
    route: Route | None
    fallback: Fallback | None
    calls: list[ModelCall]
    error: str | None


def graph_input(question: BenchmarkQuestion) -> MAIInput:
    """A question as every strategy's graph takes it."""
    return {
        "question": question.question,
        "images": list(question.images),
        "choices": list(question.choices),
        "answer_type": question.answer_type,
    }


def finished(question_id: str, strategy: str, output: Mapping[str, Any]) -> Result:
    """The result of a run that came to its end.

    Args:
        question_id: What was asked.
        strategy: Who was asked.
        output: What the graph returned.
    """
    errors = [f"{call['error']}".rstrip(".") + "." for call in output["calls"] if call["error"]]
    return {
        "id": question_id,
        "strategy": strategy,
        "answer": output["answer"],
        "text": _standing_text(strategy, output),
        "route": output["route"],
        "fallback": output["fallback"],
        "calls": list(output["calls"]),
        "error": " ".join(errors) or None,
    }


def failed(question_id: str, strategy: str, error: object) -> Result:
    """The result of a run that returned nothing."""
    return {
        "id": question_id,
        "strategy": strategy,
        "answer": None,
        "text": None,
        "route": None,
        "fallback": None,
        "calls": [],
        "error": " ".join(str(error).split()) or type(error).__name__,
    }


def failures(results: Iterable[Result]) -> list[Result]:
    """The results that say what failed."""
    return [result for result in results if result["error"] is not None]


def question_key(question: BenchmarkQuestion) -> str:
    """What a result depends on beside the settings of the evaluation, hashed.

    Two questions with the same text, pictures and choices have the same results. So does code that
    reads answers in the same way: after a change of it, results are made anew from stored calls.

    Raises:
        ImageError: A picture cannot be read.
    """
    return _hashed([_asked(question), _code_hash()])


def question_content(question: BenchmarkQuestion) -> str:
    """What is asked, hashed: text, choices, type and pictures, but neither id nor answers.

    Raises:
        ImageError: A picture cannot be read.
    """
    return _hashed(_asked(question))


def _asked(question: BenchmarkQuestion) -> dict[str, Any]:
    return {
        **graph_input(question),
        "images": [_content_hash(image) for image in question.images],
    }


def _hashed(content: Any) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


@cache
def _content_hash(reference: str) -> str:
    return hashlib.sha256(read_reference(reference, allow_fetch=False)).hexdigest()


@cache
def _code_hash() -> str:
    root = Path(str(files(__package__.split(".", maxsplit=1)[0])))
    digest = hashlib.sha256()
    for room in _CODE:
        for path in sorted((root / room).glob("*.py")):
            digest.update(path.read_bytes())
    return digest.hexdigest()


def _standing_text(strategy: str, output: Mapping[str, Any]) -> str:
    """The output that the answer was read from, whole."""
    texts = {f"{call['role']}_{call['style']}": call["text"] for call in output["calls"]}
    fallback = output["fallback"]
    if fallback in texts:
        return str(texts[fallback])
    if fallback is not None:  # the raw text of some call
        return str(output["answer"])
    if strategy == "mai" and output["route"] != "transferred":
        return str(texts["large_direct"])
    return str(output["calls"][-1]["text"])
