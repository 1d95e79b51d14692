"""Questions worth looking at: some of each route, and those that the protocols read differently."""

import base64
import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ...models.images import ImageError, load_image
from ...nodes.prompts import LETTERS
from ..metrics import PROTOCOLS
from ..question import BenchmarkQuestion
from .cascade import ROUTES
from .evaluated import Evaluated, Frame
from .tables import wants_whole_output

_SIDE = 360


Example = dict[str, Any]
"""One question with a strategy's answer, as the page shows it.

Its keys are question (a `BenchmarkQuestion`), choices (with their letters), strategy, answer,
route, fallback, calls, verdicts (what the cascade decided on the way, in words), grades (by
protocol) and images (shrunk, as data URIs; those outside of the evaluation's
folder, which whoever sends a folder could name, are left out).
"""


def route_examples(run: Evaluated, each: int, protocol: str = "typed") -> list[Example]:
    """Return some questions of every route: wrong answers and right ones, from all over the set.

    Args:
        run: The evaluation.
        each: How many of a route.
        protocol: Whose reading tells right from wrong.
    """
    grades = f"grade.{protocol}"
    rows = run.results[(run.results["strategy"] == "mai") & run.results[grades].notna()]
    chosen: list[Any] = []
    for route in ROUTES:
        own = rows[rows["route"] == route]
        wrong, right = own.index[own[grades] < 1], own.index[own[grades] == 1]
        some_wrong = _spread(wrong, max(each // 2, each - len(right)))
        chosen += some_wrong + _spread(right, each - len(some_wrong))
    return _examples(run, rows.loc[chosen])


def disagreements(run: Evaluated) -> Frame:
    """Return the results that two protocols do not grade alike, the cascade's first.

    A protocol that wants nothing but the answer is left out where reasons come first.
    """
    grades = run.results[[f"grade.{protocol}" for protocol in PROTOCOLS]].copy()
    for protocol in PROTOCOLS:
        whole = [wants_whole_output(run, name, protocol) for name in run.results["strategy"]]
        grades.loc[whole, f"grade.{protocol}"] = None
    found = run.results[grades.nunique(axis=1) > 1]
    order = {name: place for place, name in enumerate(["mai", *run.strategies][::-1])}
    return found.sort_values("strategy", key=lambda names: -names.map(order), kind="stable")


def disagreement_records(run: Evaluated) -> list[dict[str, Any]]:
    """Return `disagreements` as plain data.

    Returns:
        Records with id, strategy, answers (the accepted ones), text and grades by protocol.
    """
    return [
        {
            "id": row["question"],
            "strategy": row["strategy"],
            "answers": list(run.questions[row["question"]].answers),
            "text": row["text"],
            "grades": _grades(row),
        }
        for row in disagreements(run).to_dict("records")
    ]


def disagreement_examples(run: Evaluated, limit: int) -> list[Example]:
    """Return the first of `disagreements` as examples.

    Args:
        run: The evaluation.
        limit: How many at most.
    """
    return _examples(run, disagreements(run)[:limit])


def image_uri(reference: str, folder: Path | None = None) -> str:
    """Return an image, shrunk, as a data URI; empty if it cannot be read.

    Args:
        reference: The image.
        folder: Only its files are read; None for any.
    """
    try:
        image = load_image(reference, image_root=folder).image.copy()
    except ImageError:
        return ""
    image.thumbnail((_SIDE, _SIDE))
    buffer = io.BytesIO()
    image.save(buffer, format="JPEG", quality=85)
    return f"data:image/jpeg;base64,{base64.b64encode(buffer.getvalue()).decode()}"


def lettered(question: BenchmarkQuestion) -> tuple[str, ...]:
    """Return a question's options with their letters."""
    both = zip(LETTERS, question.choices, strict=False)
    return tuple(f"{letter}. {text}" for letter, text in both)


def _examples(run: Evaluated, rows: Frame) -> list[Example]:
    found = []
    for row in rows.to_dict("records"):
        question = run.questions[row["question"]]
        own = {key: row[key] for key in ("strategy", "answer", "route", "fallback", "calls")}
        found.append(
            own
            | {
                "question": question,
                "choices": lettered(question),
                "verdicts": _verdicts(row) if row["strategy"] == "mai" else (),
                "grades": _grades(row),
                "images": [uri for one in question.images if (uri := image_uri(one, run.folder))],
            }
        )
    return found


def _verdicts(row: dict[str, Any]) -> list[str]:
    answers = {f"{call['role']} {call['style']}": call["answer"] or "-" for call in row["calls"]}
    small, reasoned, large = (
        answers.get(name, "-") for name in ("small direct", "small reason", "large direct")
    )
    said = [f"direct answers {_words(row['route'] == 'direct')}: {small} and {large}"]
    if row["route"] != "direct":
        agreed = _words(row["route"] == "reasoned")
        said.append(f"reasoned and direct answer {agreed}: {reasoned} and {large}")
    return said


def _grades(row: dict[str, Any]) -> dict[str, float]:
    worth = {protocol: row[f"grade.{protocol}"] for protocol in PROTOCOLS}
    return {name: grade for name, grade in worth.items() if grade == grade}  # noqa: PLR0124  NaN


def _spread(ids: Sequence[Any], count: int) -> list[Any]:
    """Return so many of them, evenly over the whole."""
    count = min(count, len(ids))
    return [ids[len(ids) * k // count] for k in range(count)]


def _words(agreed: bool) -> str:
    return "agree" if agreed else "do not agree"
