"""The picture world: what is drawn, asked and answered."""

import json
from pathlib import Path
from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from langgraph_mai.answers import parse
from langgraph_mai.demo.held_out import ASKED, held_out
from langgraph_mai.demo.questions import (
    ANSWER_TYPES,
    CHART_KINDS,
    GRID_KINDS,
    KINDS,
    ask,
)
from langgraph_mai.demo.scenes import (
    COLORS,
    SHAPES,
    SIDE,
    SIZE,
    Chart,
    draw,
    sample_chart,
    sample_grid,
)
from langgraph_mai.demo.solutions import misread, solve
from langgraph_mai.demo.training.examples import final
from langgraph_mai.demo.wordings import WORDINGS

seeds = st.integers(0, 2**32)


def asked(kind, seed):
    rng = Random(seed)
    question = None
    while question is None:
        charted = kind in CHART_KINDS or (kind == "form" and seed % 2)
        scene = sample_chart(rng) if charted else sample_grid(rng, dense=kind == "walks")
        question = ask(scene, kind, rng)
    return scene, question


def true_answer(scene, question):
    """The answer counted from the scene itself, not by scanning it as a reasoning does."""
    if isinstance(scene, Chart):
        values = {bar.color: bar.value for bar in scene.bars}
        return {
            "bar_value": lambda: str(values[question.bars[0]]),
            "bar_compare": lambda: (
                "yes" if values[question.bars[0]] > values[question.bars[1]] else "no"
            ),
            "bar_count": lambda: str(sum(value > question.number for value in values.values())),
            "bar_sum": lambda: str(sum(values[color] for color in question.bars)),
            "bar_highest": lambda: COLORS[max(values, key=values.__getitem__)],
        }[question.kind]()
    if question.kind == "walks":
        return ", ".join(end_of_walk(scene, start, question.number) for start in question.starts)
    target = question.target
    meant = [
        item
        for item in scene.cells
        if item
        and (target.color is None or item.color == target.color)
        and (target.shape is None or item.shape == target.shape)
    ]
    if question.kind == "exist":
        return "yes" if meant else "no"
    if question.kind == "compare":
        return "yes" if len(meant) > question.number else "no"
    if question.kind == "count":
        return str(len(meant))
    if question.kind == "choice" and question.choices[0].isdigit():
        return "ABC"[question.choices.index(str(len(meant)))]
    name = COLORS[meant[0].color] if target.color is None else SHAPES[meant[0].shape]
    return "ABC"[question.choices.index(name)] if question.kind == "choice" else name


def end_of_walk(grid, start, steps):
    """The cell's name, by complex numbers: a circle leads up, a square right, and so on."""
    place = complex(start % SIDE, start // SIDE)
    for _ in range(steps):
        item = grid.cells[int(place.imag) * SIDE + int(place.real)]
        place += (-1j, 1, 1j, -1)[item.shape]
    return f"{'ABCDE'[int(place.real)]}{int(place.imag) + 1}"


@pytest.mark.parametrize("kind", KINDS)
@given(seed=seeds)
def test_every_style_ends_in_the_true_answer_and_the_graph_reads_it(kind, seed):
    scene, question = asked(kind, seed)
    solution = solve(scene, question)
    assert solution.direct == true_answer(scene, question)
    for text in (solution.direct, solution.explain, solution.reason):
        assert text == solution.direct or text.endswith(f"Answer: {solution.direct}")
        read = parse(text, ANSWER_TYPES[kind], question.choices, question.text)
        assert read.shown == solution.direct


@given(seed=seeds)
def test_a_form_is_filled_in_as_json_field_by_field(seed):
    scene, question = asked("form", seed)
    solution = solve(scene, question)
    answers = {name: true_answer(scene, field) for name, field in question.fields}
    assert 2 <= len(answers) <= 5
    for text in (solution.direct, *map(final, (solution.explain, solution.reason))):
        assert {name: str(value) for name, value in json.loads(text).items()} == answers


@pytest.mark.parametrize("kind", KINDS)
def test_no_answer_is_right_more_than_two_times_in_three(kind):
    answers = []
    for seed in range(400):
        scene, question = asked(kind, seed)
        answers.append(solve(scene, question).direct)
    assert max(map(answers.count, set(answers))) / len(answers) < 2 / 3


@given(seed=seeds)
def test_a_misread_scene_keeps_its_form(seed):
    rng = Random(seed)
    grid, chart = sample_grid(rng), sample_chart(rng)
    assert len(misread(grid, 0.5, rng).cells) == SIDE * SIDE
    wrong = misread(chart, 0.5, rng)
    assert [bar and bar.color for bar in wrong.columns] == [b and b.color for b in chart.columns]
    assert (misread(grid, 0, rng), misread(chart, 0, rng)) == (grid, chart)


def test_a_slipping_observer_is_wrong_now_and_then():
    rng = Random(1)
    seen = [asked("count", seed) for seed in range(200)]
    wrong = sum(solve(*one, rng, slip=0.1).direct != solve(*one).direct for one in seen)
    assert 40 < wrong < 160


def test_grid_and_chart_questions_do_not_mix():
    rng = Random(1)
    assert all(ask(sample_chart(rng), kind, rng) is None for kind in GRID_KINDS)
    assert all(ask(sample_grid(rng), kind, rng) is None for kind in CHART_KINDS)


def test_there_are_ten_wordings_of_everything():
    assert all(len(set(wordings)) >= 10 for wordings in WORDINGS.values())


@given(seed=seeds)
def test_a_picture_follows_from_scene_and_seed(seed):
    scene = sample_grid(Random(seed))
    first, second = (np.asarray(draw(scene, Random(seed))) for _ in range(2))
    assert first.shape == (SIZE, SIZE, 3)
    assert np.array_equal(first, second)


def test_held_out_questions_are_the_same_every_time_and_damaged_images_drawn_again(tmp_path):
    first = held_out(tmp_path, count=33)
    assert [one.question.kind for one in first[: len(ASKED)]] == list(ASKED)
    whole = [Path(one.image).read_bytes() for one in first]
    kept = Path(first[0].image).stat().st_mtime_ns
    for one, damaged in zip(first[1:], (b"", whole[2][:-20], whole[3][:60]), strict=False):
        Path(one.image).write_bytes(damaged)
    assert held_out(tmp_path, count=33) == first
    assert [Path(one.image).read_bytes() for one in first] == whole
    assert Path(first[0].image).stat().st_mtime_ns == kept
