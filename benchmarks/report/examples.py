"""Questions worth looking at: some of each route, and those that the protocols read differently."""

import base64
import io
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from ...models.images import ImageError, load_image
from ...nodes.prompts import LETTERS
from ...nodes.state import ModelCall
from ..evaluation.results import Result
from ..question import BenchmarkQuestion
from .cascade import ROUTES
from .evaluated import Evaluated
from .protocols import wants_whole_output

_SIDE = 360


@dataclass(frozen=True, slots=True)
class Example:
    """One question with what a strategy said to it.

    Attributes:
        question: The question.
        choices: Its options with their letters.
        strategy: Who answered.
        result: The run.
        grades: What the output is worth, by protocol.
        pictures: The images as data URIs, shrunk; one that is gone is left out.
    """

    question: BenchmarkQuestion
    choices: tuple[str, ...]
    strategy: str
    result: Result
    grades: dict[str, float]
    pictures: tuple[str, ...]

    @property
    def calls(self) -> list[ModelCall]:
        """The model calls, in order."""
        return self.result["calls"]

    @property
    def verdicts(self) -> list[str]:
        """What the cascade decided on the way, in words."""
        answers = {f"{call['role']} {call['style']}": call["answer"] for call in self.calls}
        small, large = answers.get("small direct"), answers.get("large direct")
        if self.strategy != "mai":
            return []
        route = self.result["route"]
        said = [f"direct answers {_words(route == 'direct')}: {small or '-'} and {large or '-'}"]
        if route != "direct":
            reasoned = answers.get("small reason")
            said.append(
                f"reasoned and direct answer {_words(route == 'reasoned')}: {reasoned or '-'} and "
                f"{large or '-'}"
            )
        return said


def route_examples(run: Evaluated, each: int, protocol: str = "typed") -> list[Example]:
    """Some questions of every route: wrong answers and right ones in turn, from all over the set.

    Args:
        run: The evaluation.
        each: How many of a route.
        protocol: Whose reading tells right from wrong.
    """
    graded = run.grades("mai", protocol)
    chosen: list[str] = []
    for route in ROUTES:
        ids = [
            one
            for one, result in run.results.get("mai", {}).items()
            if result["route"] == route and one in graded
        ]
        wrong = [one for one in ids if graded[one] < 1]
        right = [one for one in ids if graded[one] == 1]
        some_wrong = _spread(wrong, max(each // 2, each - len(right)))
        chosen += some_wrong + _spread(right, each - len(some_wrong))
    return [_example(run, "mai", one) for one in chosen]


def disagreements(run: Evaluated) -> Iterator[tuple[str, str]]:
    """Strategy and question id of every output that two protocols do not grade alike.

    A protocol that wants nothing but the answer is left out where reasons come first.
    """
    for strategy in run.results:
        protocols = [
            name for name in run.protocols(strategy) if not wants_whole_output(run, strategy, name)
        ]
        for one in run.results[strategy]:
            worth = {run.grades(strategy, name).get(one) for name in protocols} - {None}
            if len(worth) > 1:
                yield strategy, one


def disagreement_records(run: Evaluated) -> list[dict[str, Any]]:
    """Every output that two protocols do not grade alike, the cascade's first.

    Returns:
        Records with id, strategy, answers (the accepted ones), text and grades by protocol.
    """
    return [
        {
            "id": one,
            "strategy": strategy,
            "answers": list(run.questions[one].answers),
            "text": str(run.results[strategy][one]["text"]),
            "grades": _grades(run, strategy, one),
        }
        for strategy, one in sorted(disagreements(run), key=_cascade_first)
    ]


def disagreement_examples(run: Evaluated, limit: int) -> list[Example]:
    """What protocols do not grade alike, the cascade's outputs first.

    Args:
        run: The evaluation.
        limit: How many at most.
    """
    found = sorted(disagreements(run), key=_cascade_first)
    return [_example(run, *pair) for pair in found[:limit]]


def _example(run: Evaluated, strategy: str, one: str) -> Example:
    question = run.questions[one]
    lettered = zip(LETTERS, question.choices, strict=False)
    return Example(
        question=question,
        choices=tuple(f"{letter}. {text}" for letter, text in lettered),
        strategy=strategy,
        result=run.results[strategy][one],
        grades=_grades(run, strategy, one),
        pictures=tuple(filter(None, map(picture_uri, question.images))),
    )


def _grades(run: Evaluated, strategy: str, one: str) -> dict[str, float]:
    worth = {name: run.grades(strategy, name).get(one) for name in run.protocols(strategy)}
    return {name: grade for name, grade in worth.items() if grade is not None}


def _cascade_first(pair: tuple[str, str]) -> bool:
    return pair[0] != "mai"


def picture_uri(reference: str) -> str:
    """A picture, shrunk, as a data URI; empty if it cannot be read."""
    try:
        picture = load_image(reference).image
    except ImageError:
        return ""
    picture.thumbnail((_SIDE, _SIDE))
    buffer = io.BytesIO()
    picture.save(buffer, format="JPEG", quality=85)
    return f"data:image/jpeg;base64,{base64.b64encode(buffer.getvalue()).decode()}"


def _spread(ids: Sequence[str], count: int) -> list[str]:
    """So many of them, evenly over the whole."""
    count = min(count, len(ids))
    return [ids[len(ids) * k // count] for k in range(count)]


def _words(agreed: bool) -> str:
    return "agree" if agreed else "do not agree"
