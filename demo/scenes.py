"""The made-up picture world: grids of coloured shapes and bar charts on noisy 160x160 pictures."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from random import Random
from typing import TypeAlias

import numpy as np
from PIL import Image, ImageDraw, ImageFont

COLORS = ("red", "green", "blue", "yellow")
SHAPES = ("circle", "square", "triangle", "star")
SIDE = 5
CELL = 32
SIZE = SIDE * CELL
MAX_VALUE = 9

_RGB = ((215, 45, 45), (45, 175, 65), (55, 85, 220), (225, 200, 50))
_BASELINE = 152
_UNIT = 15


@dataclass(frozen=True, slots=True)
class Item:
    """A coloured shape in a cell; `color` and `shape` index COLORS and SHAPES."""

    color: int
    shape: int


@dataclass(frozen=True, slots=True)
class Bar:
    """A bar of a chart; `color` indexes COLORS and `value` is 1 to MAX_VALUE."""

    color: int
    value: int


@dataclass(frozen=True, slots=True)
class Grid:
    """SIDE x SIDE cells in reading order, each an item or empty."""

    cells: tuple[Item | None, ...]


@dataclass(frozen=True, slots=True)
class Chart:
    """SIDE columns from left to right, each a bar or empty; no colour stands twice."""

    columns: tuple[Bar | None, ...]

    @property
    def bars(self) -> tuple[Bar, ...]:
        """The bars from left to right."""
        return tuple(bar for bar in self.columns if bar is not None)


Scene: TypeAlias = Grid | Chart


def sample_scene(rng: Random) -> Scene:
    """A random scene: a chart one time in five, else a grid, every other one dense."""
    return sample_chart(rng) if rng.random() < 0.2 else sample_grid(rng, dense=rng.random() < 0.5)


def sample_grid(rng: Random, dense: bool = False) -> Grid:
    """A grid with 30% to 80% of its cells filled and uneven shares of colours and shapes.

    A `dense` one, on which one can walk from shape to shape, has 60% to 100% and evener shapes.
    """
    fill = rng.uniform(0.6, 1) if dense else rng.uniform(0.3, 0.8)
    color_weights = [rng.gammavariate(1.2, 1) for _ in COLORS]
    shape_weights = [rng.gammavariate(4 if dense else 1.2, 1) for _ in SHAPES]
    colors = rng.choices(range(len(COLORS)), color_weights, k=SIDE * SIDE)
    shapes = rng.choices(range(len(SHAPES)), shape_weights, k=SIDE * SIDE)
    return Grid(
        tuple(
            Item(color, shape) if rng.random() < fill else None
            for color, shape in zip(colors, shapes, strict=True)
        )
    )


def sample_chart(rng: Random) -> Chart:
    """A chart of two to four bars of different colours in random columns."""
    count = rng.choice((2, 3, 4, 4))
    colors = rng.sample(range(len(COLORS)), count)
    columns: list[Bar | None] = [None] * SIDE
    for column, color in zip(sorted(rng.sample(range(SIDE), count)), colors, strict=True):
        columns[column] = Bar(color, rng.randint(1, MAX_VALUE))
    return Chart(tuple(columns))


def draw(scene: Scene, rng: Random, noise: float = 1.0) -> Image.Image:
    """A noisy RGB picture of a scene, SIZE x SIZE pixels.

    Args:
        scene: What is shown.
        rng: Decides background, jitter of place, size and colour, stray lines and pixel noise.
        noise: Scale of the colour jitter and the pixel noise; the demo pair was trained at 1.
    """
    base = rng.uniform(20, 235)
    ground = _shift((base, base, base), 8, rng)
    image = Image.new("RGB", (SIZE, SIZE), ground)
    pen = ImageDraw.Draw(image)
    if isinstance(scene, Grid):
        for index, item in enumerate(scene.cells):
            if item is not None:
                _draw_item(pen, index, item, rng, noise)
    else:
        _draw_axis(pen, base)
        for column, bar in enumerate(scene.columns):
            if bar is not None:
                _draw_bar(pen, column, bar, rng, noise)
    for _ in range(rng.randrange(3)):
        ends = [rng.uniform(0, SIZE) for _ in range(4)]
        pen.line(ends, fill=_shift((128, 128, 128), 70, rng), width=1)
    return _add_noise(image, rng, noise)


def _draw_item(pen: ImageDraw.ImageDraw, index: int, item: Item, rng: Random, noise: float) -> None:
    row, column = divmod(index, SIDE)
    radius = rng.uniform(6.5, 12)
    x = column * CELL + CELL / 2 + rng.uniform(-3, 3)
    y = row * CELL + CELL / 2 + rng.uniform(-3, 3)
    color = _shift(_RGB[item.color], 20 * noise, rng)
    name = SHAPES[item.shape]
    if name == "circle":
        pen.ellipse((x - radius, y - radius, x + radius, y + radius), fill=color)
    elif name == "square":
        half = radius * 0.88
        pen.rectangle((x - half, y - half, x + half, y + half), fill=color)
    else:
        tilt = rng.uniform(-0.25, 0.25) - math.pi / 2
        radii: Sequence[float] = (1.1,) * 3 if name == "triangle" else (1.1, 0.48) * 5
        pen.polygon(
            [
                (
                    x + radius * scale * math.cos(tilt + k * 2 * math.pi / len(radii)),
                    y + radius * scale * math.sin(tilt + k * 2 * math.pi / len(radii)),
                )
                for k, scale in enumerate(radii)
            ],
            fill=color,
        )


def _draw_axis(pen: ImageDraw.ImageDraw, base: float) -> None:
    ink = int(base - 60 if base > 128 else base + 60)
    for value in range(MAX_VALUE + 1):
        y = _BASELINE - value * _UNIT
        pen.line((8, y, SIZE, y), fill=(ink, ink, ink), width=1)
        pen.text((1, y - 5), str(value), fill=(ink, ink, ink), font=_font())


def _draw_bar(pen: ImageDraw.ImageDraw, column: int, bar: Bar, rng: Random, noise: float) -> None:
    x = column * CELL + CELL / 2 + 2 + rng.uniform(-2, 2)
    half = rng.uniform(6.5, 10)
    top = _BASELINE - bar.value * _UNIT + rng.uniform(-2, 2)
    box = (max(x - half, 9), top, x + half, _BASELINE)
    pen.rectangle(box, fill=_shift(_RGB[bar.color], 20 * noise, rng))


def _shift(color: Sequence[float], spread: float, rng: Random) -> tuple[int, int, int]:
    red, green, blue = (int(min(255, max(0, part + rng.gauss(0, spread)))) for part in color)
    return red, green, blue


def _add_noise(image: Image.Image, rng: Random, noise: float) -> Image.Image:
    pixels = np.asarray(image, dtype=np.float32)
    source = np.random.default_rng(rng.getrandbits(32))
    grain = source.standard_normal((SIZE, SIZE, 1), dtype=np.float32)
    noisy = pixels + grain * (rng.uniform(3, 22) * noise)
    return Image.fromarray(np.clip(noisy, 0, 255).astype(np.uint8))


@cache
def _font() -> ImageFont.ImageFont | ImageFont.FreeTypeFont:
    return ImageFont.load_default(9)
