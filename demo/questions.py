"""Questions about scenes, each with one right answer."""

from dataclasses import dataclass
from itertools import product
from random import Random
from typing import Literal

from .scenes import COLORS, MAX_VALUE, SHAPES, SIDE, Chart, Grid, Item, Scene
from .wordings import WORDINGS

Kind = Literal[
    "exist",
    "count",
    "compare",
    "choice",
    "attribute",
    "walks",
    "form",
    "bar_value",
    "bar_compare",
    "bar_count",
    "bar_sum",
    "bar_highest",
]
GRID_KINDS: tuple[Kind, ...] = ("exist", "count", "compare", "choice", "attribute", "walks")
CHART_KINDS: tuple[Kind, ...] = ("bar_value", "bar_compare", "bar_count", "bar_sum", "bar_highest")
KINDS = GRID_KINDS + CHART_KINDS

ANSWER_TYPES = {
    "exist": "yes_no",
    "count": "number",
    "compare": "yes_no",
    "choice": "choice",
    "attribute": "short_text",
    "walks": "list",
    "form": "short_text",
    "bar_value": "number",
    "bar_compare": "yes_no",
    "bar_count": "number",
    "bar_sum": "number",
    "bar_highest": "short_text",
}
WALK_STEPS = (4, 3, 2)
WALKS = 3
COLUMNS = "ABCDE"
_MOVES = ((-1, 0), (0, 1), (1, 0), (0, -1))
"""Row and column steps on a circle (up), square (right), triangle (down) and star (left)."""


@dataclass(frozen=True, slots=True)
class Target:
    """What a grid question is about: a colour, a shape or both (None leaves it open)."""

    color: int | None = None
    shape: int | None = None

    def matches(self, item: Item | None) -> bool:
        """Return whether the item of a cell is meant."""
        return (
            item is not None
            and self.color in (None, item.color)
            and self.shape in (None, item.shape)
        )

    def named(self, plural: bool) -> str:
        """The target in words: "red stars", "blue shape", "circles"."""
        color = "" if self.color is None else COLORS[self.color] + " "
        shape = "shape" if self.shape is None else SHAPES[self.shape]
        return color + shape + ("s" if plural else "")

    def word(self, item: Item | None) -> str:
        """What a scan writes for a cell: "-", or the attribute that the target leaves open."""
        if item is None or not self.matches(item):
            return "-"
        if self.shape is None:
            return SHAPES[item.shape]
        return COLORS[item.color] if self.color is None else "yes"


@dataclass(frozen=True, slots=True)
class Question:
    """A question about a scene.

    Attributes:
        kind: What is asked.
        text: The question in words, without choices.
        choices: Texts of the options of a multiple-choice question.
        target: What a grid question is about.
        number: Threshold of "more than N" and "higher than N", or steps of a walk.
        bars: Colours of the bars a chart question is about.
        starts: Cells that walks start at.
        fields: The fields of a form, each a name and the question that it stands for.
    """

    kind: Kind
    text: str
    choices: tuple[str, ...] = ()
    target: Target = Target()
    number: int = 0
    bars: tuple[int, ...] = ()
    starts: tuple[int, ...] = ()
    fields: tuple[tuple[str, "Question"], ...] = ()

    @property
    def answer_type(self) -> str:
        """The answer type that the graph is told."""
        return ANSWER_TYPES[self.kind]


def ask(scene: Scene, kind: Kind, rng: Random) -> Question | None:
    """A random question of one kind with one right answer, or None if the scene has none."""
    if kind == "form":
        return _ask_form(scene, rng)
    if isinstance(scene, Chart) != (kind in CHART_KINDS):
        return None
    if kind == "walks":
        return _ask_walks(scene, rng) if isinstance(scene, Grid) else None
    for _ in range(30):
        question = (
            _ask_chart(scene, kind, rng)
            if isinstance(scene, Chart)
            else _ask_grid(scene, kind, rng)
        )
        if question is not None:
            return question
    return None


def _ask_grid(grid: Grid, kind: Kind, rng: Random) -> Question | None:
    target = _sample_target(grid, kind, rng)
    count = sum(map(target.matches, grid.cells))
    fields: dict[str, str] = {"one": target.named(False), "many": target.named(True)}
    choices: tuple[str, ...] = ()
    number = 0
    name: str = kind
    if kind == "attribute" or (kind == "choice" and rng.random() < 0.4):
        if count != 1 or (target.color is None) == (target.shape is None):
            return None
        name = "attribute_color" if target.color is None else "attribute_shape"
        if kind == "choice":
            choices = _attribute_choices(grid, target, rng)
    elif kind == "choice":
        name = "count"
        choices = _count_choices(count, rng)
    elif kind == "compare":
        low = rng.random() < 0.6
        number = count - rng.choice((1, 1, 2)) if low else count + rng.choice((0, 0, 1))
        if count == 0 or not 1 <= number <= 12:
            return None
        fields["number"] = str(number)
    if kind == "count" and count == 0 and rng.random() < 0.7:
        return None
    text = rng.choice(WORDINGS[name]).format(**fields)
    return Question(kind, text, choices, target, number)


def _ask_walks(grid: Grid, rng: Random) -> Question | None:
    """Ask where walks end that are as long as the grid allows."""
    paths = [walk(grid, cell, max(WALK_STEPS)) for cell in range(SIDE * SIDE)]
    for steps in WALK_STEPS:
        walks = [path[: steps + 1] for path in paths if len(path) > steps]
        if len({path[-1] for path in walks}) >= WALKS:
            break
    else:
        return None
    starts: list[int] = []
    ends: set[int] = set()
    for path in rng.sample(walks, len(walks)):
        if path[-1] not in ends and len(starts) < WALKS:
            starts.append(path[0])
            ends.add(path[-1])
    names = dict(zip(("first", "second", "third"), map(cell_name, starts), strict=True))
    text = rng.choice(WORDINGS["walks"]).format(number=steps, **names)
    return Question("walks", text, number=steps, starts=tuple(starts))


def _ask_form(scene: Scene, rng: Random) -> Question | None:
    """Ask for two to five things at once, each by the name of its field."""
    kinds: tuple[Kind, ...] = ("count", "count", "count", "attribute")
    if isinstance(scene, Chart):
        kinds = ("bar_value", "bar_value", "bar_value", "bar_highest")
    fields: dict[str, Question] = {}
    for _ in range(rng.randint(2, 6)):
        question = ask(scene, rng.choice(kinds), rng)
        if question is not None and len(fields) < 5:
            fields[_field_name(question)] = question
    text = rng.choice(WORDINGS["form"])
    return Question("form", text, fields=tuple(fields.items())) if len(fields) > 1 else None


def _field_name(question: Question) -> str:
    if question.kind == "bar_value":
        return f"{COLORS[question.bars[0]]}_bar"
    if question.kind == "bar_highest":
        return "highest_bar"
    if question.kind == "count":
        return question.target.named(True).replace(" ", "_")
    left_open = "color" if question.target.color is None else "form"
    return f"{question.target.named(False).replace(' shape', '')}_{left_open}"


def walk(grid: Grid, start: int, steps: int) -> list[int]:
    """Return the cells of a walk, fewer than asked where it leaves the grid or finds no shape."""
    path = [start] if grid.cells[start] is not None else []
    while path and len(path) <= steps:
        item = grid.cells[path[-1]]
        assert item is not None
        row, column = divmod(path[-1], SIDE)
        row, column = row + _MOVES[item.shape][0], column + _MOVES[item.shape][1]
        cell = row * SIDE + column
        inside = 0 <= row < SIDE and 0 <= column < SIDE
        if not inside or cell in path or grid.cells[cell] is None:
            break
        path.append(cell)
    return path


def cell_name(cell: int) -> str:
    """Return the name of a cell by its number in reading order: "A1" is the top left one."""
    return f"{COLUMNS[cell % SIDE]}{cell // SIDE + 1}"


def _sample_target(grid: Grid, kind: Kind, rng: Random) -> Target:
    color, shape = rng.randrange(len(COLORS)), rng.randrange(len(SHAPES))
    if kind == "exist":
        return _exist_target(grid, rng)
    form = rng.random()
    if form < 0.4:
        return Target(color=color)
    if form < 0.8:
        return Target(shape=shape)
    return Target(color=color, shape=shape)


def _exist_target(grid: Grid, rng: Random) -> Target:
    items = [item for item in grid.cells if item is not None]
    shown = {(item.color, item.shape) for item in items}
    if rng.random() < 0.5 and items:
        item = rng.choice(items)
        return Target(item.color, item.shape)
    near = {(a.color, b.shape) for a in items for b in items} - shown
    absent = sorted(near or set(product(range(len(COLORS)), range(len(SHAPES)))) - shown)
    return Target(*rng.choice(absent)) if absent else Target(items[0].color, items[0].shape)


def _count_choices(count: int, rng: Random) -> tuple[str, ...]:
    near = [n for n in range(max(0, count - 2), count + 3) if n != count]
    options = [count, *rng.sample(near, 2)]
    rng.shuffle(options)
    return tuple(map(str, options))


def _attribute_choices(grid: Grid, target: Target, rng: Random) -> tuple[str, ...]:
    names = COLORS if target.color is None else SHAPES
    right = next(word for item in grid.cells if (word := target.word(item)) != "-")
    options = [right, *rng.sample([name for name in names if name != right], 2)]
    rng.shuffle(options)
    return tuple(options)


def _ask_chart(chart: Chart, kind: Kind, rng: Random) -> Question | None:
    bars = list(chart.bars)
    rng.shuffle(bars)
    first, second = bars[0], bars[1]
    number = 0
    asked: tuple[int, ...] = ()
    if kind == "bar_value":
        asked = (first.color,)
    elif kind in ("bar_compare", "bar_sum"):
        if kind == "bar_compare" and first.value == second.value:
            return None
        asked = (first.color, second.color)
    elif kind == "bar_count":
        number = rng.randint(1, MAX_VALUE - 1)
    else:
        values = sorted(bar.value for bar in bars)
        if values[-1] == values[-2]:
            return None
    fields = {"first": COLORS[first.color], "second": COLORS[second.color], "number": str(number)}
    text = rng.choice(WORDINGS[kind]).format(**fields)
    return Question(kind, text, (), Target(), number, asked)
