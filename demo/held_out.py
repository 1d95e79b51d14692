"""The held-out questions that the demo pair's figures are measured on; nothing trained on them."""

from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from random import Random

from PIL import Image

from ..configs.files import write_whole
from .questions import CHART_KINDS, KINDS, Kind, Question, ask
from .scenes import Scene, draw, sample_chart, sample_grid
from .solutions import solve

REPORT_SEED = 70_707
"""Seed of the published figures. Choices between designs are made on other seeds."""
COUNT = 2_000
ASKED: tuple[Kind, ...] = (*KINDS, "walks")
"""The kinds in the order in which they are asked; one in six is hard to answer directly."""


@dataclass(frozen=True, slots=True)
class HeldOut:
    """One question about one picture.

    Attributes:
        number: Its place in the set, from 0.
        scene: What the picture shows.
        question: What is asked.
        answer: The right answer.
        image: Path of the picture, a PNG of 160x160 pixels.
    """

    number: int
    scene: Scene
    question: Question
    answer: str
    image: str


def held_out(
    folder: Path, count: int = COUNT, seed: int = REPORT_SEED, noise: float = 1.0
) -> list[HeldOut]:
    """The first `count` questions of a seed, the kinds in turn, a fresh picture each.

    Args:
        folder: Where the pictures are written; those that are there whole are kept.
        count: Number of questions.
        seed: Decides everything.
        noise: As for `draw`.

    Raises:
        ConfigError: A picture cannot be written.
    """
    rng = Random(seed)
    items: list[HeldOut] = []
    while len(items) < count:
        kind = ASKED[len(items) % len(ASKED)]
        charted = kind in CHART_KINDS
        scene = sample_chart(rng) if charted else sample_grid(rng, dense=kind == "walks")
        picture_rng = Random(rng.getrandbits(64))
        question = ask(scene, kind, rng)
        if question is None:
            continue
        path = folder / f"{len(items):05}.png"
        if not _is_whole(path):
            write_whole(path, _png(draw(scene, picture_rng, noise)))
        answer = solve(scene, question).direct
        items.append(HeldOut(len(items), scene, question, answer, str(path)))
    return items


def _is_whole(path: Path) -> bool:
    """Whether a picture is there, with nothing missing or changed."""
    try:
        with Image.open(path) as picture:
            picture.verify()
    except (OSError, SyntaxError, ValueError):  # PIL raises a SyntaxError for a damaged PNG
        return False
    return True


def _png(picture: Image.Image) -> bytes:
    stream = BytesIO()
    picture.save(stream, format="PNG")
    return stream.getvalue()
