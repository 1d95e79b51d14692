"""The demo world as a benchmark: generated, the same each time, nothing to download."""

from pathlib import Path
from typing import cast

from ...answers import AnswerType
from ...demo.held_out import COUNT, REPORT_SEED, held_out
from ..question import Benchmark, BenchmarkQuestion


def load_shapes(limit: int | None, folder: Path) -> Benchmark:
    """The held-out questions that the demo pair's published figures are measured on.

    Args:
        limit: How many, the kinds of questions in turn; all 2,000 by default.
        folder: Where the pictures are drawn.
    """
    items = held_out(folder / "pictures" / str(REPORT_SEED), COUNT if limit is None else limit)
    questions = [
        BenchmarkQuestion(
            id=f"{item.number:05}",
            question=item.question.text,
            images=(str(Path(item.image).resolve()),),
            answers=(item.answer,),
            choices=item.question.choices,
            answer_type=cast("AnswerType", item.question.answer_type),
            group={"kind": item.question.kind},
        )
        for item in items
    ]
    return Benchmark(name="shapes", questions=tuple(questions), prompts="demo", metric="accuracy")
