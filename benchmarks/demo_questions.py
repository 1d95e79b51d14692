"""Held-out questions of the demo world, as the graph takes them."""

from pathlib import Path

from ..demo.held_out import held_out
from ..nodes.state import MAIInput


def demo_questions(folder: Path, count: int, seed: int) -> list[MAIInput]:
    """Inputs for `create_mai`'s graph, each about a picture of its own.

    Args:
        folder: Where the pictures are written.
        count: Number of questions.
        seed: Decides everything; sets of different seeds share no picture.
    """
    return [
        {
            "question": item.question.text,
            "images": [item.image],
            "choices": list(item.question.choices),
            "answer_type": item.question.answer_type,
        }
        for item in held_out(folder / str(seed), count, seed)
    ]
