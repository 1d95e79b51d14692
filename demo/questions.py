"""Questions about scenes, and how an observer answers them in each prompt style."""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import product
from random import Random
from typing import Literal, TypeAlias

from .scenes import COLORS, MAX_VALUE, SHAPES, SIDE, Bar, Chart, Grid, Item, Scene
from .wordings import WORDINGS

Kind = Literal[
    "exist",
    "count",
    "compare",
    "choice",
    "attribute",
    "walks",
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
    "bar_value": "number",
    "bar_compare": "yes_no",
    "bar_count": "number",
    "bar_sum": "number",
    "bar_highest": "short_text",
}
WALK_STEPS = (3, 4, 5)
_State: TypeAlias = Bar | int | None
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
    """

    kind: Kind
    text: str
    choices: tuple[str, ...] = ()
    target: Target = Target()
    number: int = 0
    bars: tuple[int, ...] = ()
    starts: tuple[int, ...] = ()

    @property
    def answer_type(self) -> str:
        """The answer type that the graph is told."""
        return ANSWER_TYPES[self.kind]


@dataclass(frozen=True, slots=True)
class Solution:
    """The texts an observer writes in the prompt styles S, E and R."""

    direct: str
    explain: str
    reason: str


def ask(scene: Scene, kind: Kind, rng: Random) -> Question | None:
    """A random question of one kind with one right answer, or None if the scene has none."""
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


def solve(
    scene: Scene, question: Question, rng: Random | None = None, slip: float = 0.0
) -> Solution:
    """What an observer who sees `scene` answers.

    Args:
        scene: The scene as seen, which may differ from the true one.
        question: The question, asked about the true scene.
        rng: Decides the slips; only needed with `slip`.
        slip: Chance, a line of reasoning, that a running count goes wrong by one.
    """
    slips = _Slips(rng, slip)
    if isinstance(scene, Chart):
        return _solve_chart(scene, question, slips)
    return _solve_grid(scene, question, slips)


def misread(scene: Scene, chance: float, rng: Random) -> Scene:
    """The scene as a careless observer sees it: each cell or bar is misread with `chance`."""
    if isinstance(scene, Grid):
        return Grid(
            tuple(_misread_item(c, rng) if rng.random() < chance else c for c in scene.cells)
        )
    return Chart(
        tuple(
            _misread_bar(bar, rng) if bar is not None and rng.random() < chance * 3 else bar
            for bar in scene.columns
        )
    )


def _misread_item(item: Item | None, rng: Random) -> Item | None:
    if item is None:
        return Item(rng.randrange(len(COLORS)), rng.randrange(len(SHAPES)))
    kind = rng.random()
    if kind < 0.5:
        return Item(item.color, (item.shape + rng.randrange(1, len(SHAPES))) % len(SHAPES))
    if kind < 0.85:
        return Item((item.color + rng.randrange(1, len(COLORS))) % len(COLORS), item.shape)
    return None


def _misread_bar(bar: Bar, rng: Random) -> Bar:
    step = rng.choice((-1, 1))
    return Bar(bar.color, bar.value + step if 1 <= bar.value + step <= MAX_VALUE else bar.value)


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
    paths = [_walk(grid, cell, max(WALK_STEPS)) for cell in range(SIDE * SIDE)]
    for steps in rng.sample(WALK_STEPS, len(WALK_STEPS)):
        ends = {path[0]: path[steps] for path in paths if len(path) > steps}
        if len(set(ends.values())) > 1:
            break
    else:
        return None
    first = rng.choice(list(ends))
    second = rng.choice([start for start, end in ends.items() if end != ends[first]])
    text = rng.choice(WORDINGS["walks"]).format(
        first=_cell_name(first), second=_cell_name(second), number=steps
    )
    return Question("walks", text, number=steps, starts=(first, second))


def _walk(grid: Grid, start: int, steps: int) -> list[int]:
    """Return the cells of a walk, fewer than asked where it leaves the grid or finds no shape."""
    path = [start] if grid.cells[start] is not None else []
    while path and len(path) <= steps:
        item = grid.cells[path[-1]]
        assert item is not None  # noqa: S101
        row, column = divmod(path[-1], SIDE)
        row, column = row + _MOVES[item.shape][0], column + _MOVES[item.shape][1]
        cell = row * SIDE + column
        inside = 0 <= row < SIDE and 0 <= column < SIDE
        if not inside or cell in path or grid.cells[cell] is None:
            break
        path.append(cell)
    return path


def _cell_name(cell: int) -> str:
    return f"{COLUMNS[cell % SIDE]}{cell // SIDE + 1}"


def _solve_walks(grid: Grid, question: Question) -> Solution:
    lines, ends = [], []
    for start in question.starts:
        path = _walk(grid, start, question.number) or [start]
        # Who misreads a shape may walk into a wall, and stays there.
        path += [path[-1]] * (question.number + 1 - len(path))
        ends.append(_cell_name(path[-1]))
        for step, cell in enumerate(path):
            item = grid.cells[cell] or Item(0, 0)
            lines.append(f"{question.number - step} {_cell_name(cell)} {SHAPES[item.shape]}")
    answer = ", ".join(ends)
    return Solution(answer, f"Answer: {answer}", "\n".join([*lines, f"Answer: {answer}"]))


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


class _Slips:
    """Adds one to a running count, or takes one away, now and then."""

    def __init__(self, rng: Random | None, chance: float) -> None:
        self._rng, self._chance = rng, chance

    def apply(self, count: int) -> int:
        if self._rng is None or self._rng.random() >= self._chance:
            return count
        return max(0, count + self._rng.choice((-1, 1)))


def _solve_grid(grid: Grid, question: Question, slips: _Slips) -> Solution:
    if question.kind == "walks":
        return _solve_walks(grid, question)
    target = question.target
    named = question.kind == "attribute" or (
        question.kind == "choice" and not question.choices[0].isdigit()
    )
    total, seen = 0, "-"
    lines, row_totals = [], []
    for row in range(SIDE):
        indices = range(row * SIDE, (row + 1) * SIDE)
        words = [target.word(grid.cells[index]) for index in indices]
        found = [word for word in words if word != "-"]
        total = slips.apply(total + len(found))
        seen = found[-1] if found else seen
        row_totals.append((found[-1] if found else "-") if named else str(len(found)))
        lines.append(f"row {row + 1} {' '.join(words)} = {seen if named else total}")
    running = seen if named else str(total)
    answer = _grid_answer(question, total, running)
    return Solution(
        answer,
        f"rows {' '.join(row_totals)}\nAnswer: {answer}",
        "\n".join(lines) + f"\nAnswer: {answer}",
    )


def _grid_answer(question: Question, total: int, running: str) -> str:
    if question.kind == "exist":
        return "yes" if total else "no"
    if question.kind == "compare":
        return "yes" if total > question.number else "no"
    if question.kind == "choice":
        return "ABC"[_nearest(question.choices, running)]
    return running


def _nearest(choices: tuple[str, ...], running: str) -> int:
    if running in choices:
        return choices.index(running)
    if running.isdigit() and choices[0].isdigit():
        return min(range(len(choices)), key=lambda k: abs(int(choices[k]) - int(running)))
    return 0


def _solve_chart(chart: Chart, question: Question, slips: _Slips) -> Solution:
    step = _CHART_STEPS[question.kind]
    state: _State = None
    lines = []
    for bar in chart.bars:
        state = step(state, bar, question)
        if isinstance(state, int):
            state = slips.apply(state)
        lines.append(f"{COLORS[bar.color]} bar {bar.value} = {_shown(state, question)}")
    answer = _shown(state, question)
    if question.kind == "bar_compare":
        answer = "yes" if isinstance(state, Bar) and state.color == question.bars[0] else "no"
    elif answer == "-":
        answer = "0"
    values = " ".join(f"{COLORS[bar.color]} {bar.value}" for bar in chart.bars)
    return Solution(answer, f"{values}\nAnswer: {answer}", "\n".join(lines) + f"\nAnswer: {answer}")


def _shown(state: _State, question: Question) -> str:
    if state is None:
        return "-"
    if isinstance(state, int):
        return str(state)
    return str(state.value) if question.kind == "bar_value" else COLORS[state.color]


def _keep_asked(state: _State, bar: Bar, question: Question) -> _State:
    return bar if bar.color in question.bars else state


def _keep_higher(state: _State, bar: Bar, question: Question) -> _State:
    if question.bars and bar.color not in question.bars:
        return state
    return bar if not isinstance(state, Bar) or bar.value > state.value else state


def _count_higher(state: _State, bar: Bar, question: Question) -> _State:
    return (state if isinstance(state, int) else 0) + (bar.value > question.number)


def _add_asked(state: _State, bar: Bar, question: Question) -> _State:
    return (state if isinstance(state, int) else 0) + (
        bar.value if bar.color in question.bars else 0
    )


_CHART_STEPS: dict[str, Callable[[_State, Bar, Question], _State]] = {
    "bar_value": _keep_asked,
    "bar_compare": _keep_higher,
    "bar_highest": _keep_higher,
    "bar_count": _count_higher,
    "bar_sum": _add_asked,
}
