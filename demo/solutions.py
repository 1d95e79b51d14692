"""What an observer of a scene answers, in each prompt style, right or after a slip."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import TypeAlias

from .questions import Question, cell_name, walk
from .scenes import COLORS, MAX_VALUE, SHAPES, SIDE, Bar, Chart, Grid, Item, Scene

_State: TypeAlias = Bar | int | None


@dataclass(frozen=True, slots=True)
class Solution:
    """The texts an observer writes in the prompt styles S, E and R."""

    direct: str
    explain: str
    reason: str


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
    if question.fields:
        return _solve_form(scene, question, rng, slip)
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


def _solve_form(scene: Scene, question: Question, rng: Random | None, slip: float) -> Solution:
    parts = {name: solve(scene, part, rng, slip) for name, part in question.fields}
    answer = json.dumps(
        {
            name: int(part.direct) if part.direct.isdigit() else part.direct
            for name, part in parts.items()
        }
    )
    lines = [
        line for name, part in parts.items() for line in (name, part.reason.rpartition("\n")[0])
    ]
    return Solution(answer, f"Answer: {answer}", "\n".join([*lines, f"Answer: {answer}"]))


def _solve_walks(grid: Grid, question: Question) -> Solution:
    lines, ends = [], []
    for start in question.starts:
        path = walk(grid, start, question.number) or [start]
        # Who misreads a shape may walk into a wall, and stays there.
        path += [path[-1]] * (question.number + 1 - len(path))
        ends.append(cell_name(path[-1]))
        for step, cell in enumerate(path):
            item = grid.cells[cell] or Item(0, 0)
            lines.append(f"{question.number - step} {cell_name(cell)} {SHAPES[item.shape]}")
    answer = ", ".join(ends)
    return Solution(answer, f"Answer: {answer}", "\n".join([*lines, f"Answer: {answer}"]))


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
