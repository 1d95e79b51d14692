"""The evaluation of a demo pair: its figures against the answers they are made of."""

import pytest

from langgraph_mai.benchmarks.datasets import load_shapes
from langgraph_mai.benchmarks.evaluation.timed import TIMED_FILE
from langgraph_mai.benchmarks.statistics import Estimate
from langgraph_mai.demo.evaluation import STRATEGIES, Figure, Measured, markdown, timed_figures
from langgraph_mai.demo.questions import KINDS


def result(question, strategy, *, right, route):
    text = question.answers[0] if right else "none of them"
    calls = [{"output_tokens": 40 if strategy.endswith("reason") else 2}]
    return {
        "id": question.id,
        "strategy": strategy,
        "answer": text,
        "text": text,
        "route": route,
        "fallback": None,
        "calls": calls,
        "error": None,
    }


@pytest.fixture
def measured(tmp_path):
    """Three kinds of questions in turn: direct and right, direct and wrong, transferred."""
    benchmark = load_shapes(3 * len(KINDS), tmp_path, 5)
    results = []
    for number, question in enumerate(benchmark.questions):
        case = number % 3
        for name in STRATEGIES:
            right = case == 0 or (case == 2 and name in ("large_reason", "full_transfer", "mai"))
            route = ("direct", "direct", "transferred")[case] if name == "mai" else "direct"
            results.append(result(question, name, right=right, route=route))
    return Measured(benchmark, results)


def test_figures_count_right_answers_and_routes(measured):
    figures = {figure.name: figure for figure in measured.figures()}
    expected = {
        "large_reason - large_direct": 100 / 3,
        "small_reason - small_direct": 0,
        "mai - large_reason": 0,
        "direct answers agree": 200 / 3,
        "right where they agree": 50,
        "route transferred": 100 / 3,
        "mai - large_direct where transferred": 100,
        "wrong reasonings repaired by transfer": 50,
        "right reasonings spoiled by transfer": 0,
        "same wrong direct answer of both": 100 / 3,
    }
    assert {name: figures[name].estimate.value for name in expected} == pytest.approx(expected)
    assert figures["large_reason - large_direct"].met
    assert figures["right where they agree"].met is False


def test_tables_name_every_figure_strategy_and_kind(measured):
    table = markdown(measured, measured.figures())
    assert all(word in table for word in (*STRATEGIES, *KINDS, "50 to 80", "at most 3", "**no**"))


def test_an_aim_has_a_least_a_most_both_or_neither():
    estimate = Estimate(5.0, 4.0, 6.0, 10)
    cases = [
        ((None, None), None, ""),
        ((5, None), True, "at least 5"),
        ((None, 4), False, "at most 4"),
        ((1, 5), True, "1 to 5"),
        ((6, 9), False, "6 to 9"),
    ]
    for (least, most), met, aim in cases:
        figure = Figure("x", estimate, "%", least, most)
        assert (figure.met, figure.aim) == (met, aim)
    assert Figure("x", Estimate(None, None, None, 0), "%", 1).met is None


def test_times_are_compared_question_by_question(tmp_path):
    assert timed_figures(tmp_path) == []
    seconds = {"mai": (1, 2, 3), "large_reason": (4, 4, 4)}
    lines = [
        f'{{"id": "{number}", "strategy": "{name}", "seconds": {value}}}'
        for name, own in seconds.items()
        for number, value in enumerate(own)
    ]
    (tmp_path / TIMED_FILE).write_text("\n".join(lines))
    (figure,) = timed_figures(tmp_path)
    assert figure.estimate.value == pytest.approx(0.5)
    assert figure.met
