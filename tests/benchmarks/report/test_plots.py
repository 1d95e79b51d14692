"""Plots: every strategy is on them, and what is written is legible."""

from dataclasses import replace

import pytest

from langgraph_mai.benchmarks.report.economy import economy
from langgraph_mai.benchmarks.report.evaluated import Evaluated
from langgraph_mai.benchmarks.report.plots import cost_figure, economy_plot, plots, routes_figure

from .conftest import both, call, result, write_evaluation

STRATEGIES = [
    ("small_direct", "direct", 1),
    ("small_reason", "reason", 40),
    ("large_explain", "explain", 12),
    ("full_transfer", "reason", 41),
]


def evaluated(folder, wrong, timed=True):
    results = both()
    for name, style, tokens in STRATEGIES:
        role = name.partition("_")[0].replace("full", "large")
        for n in range(10):
            text = "no" if wrong(n) else "yes"
            calls = [call(role, style, text, tokens + n % 2)]
            results.append(result(n, name, "direct", calls, text))
    if wrong(0) and wrong(1):
        results = [one | {"text": "no"} for one in results]
    return Evaluated.read(write_evaluation(folder, results, timed=timed))


@pytest.fixture(scope="module")
def crowded(tmp_path_factory):
    return evaluated(tmp_path_factory.mktemp("crowded") / "ten", lambda n: n == 0)


def test_a_plot_of_costs_has_every_strategy_and_explains_colors_and_axes(crowded):
    figure = cost_figure(crowded, "tokens")
    (axes,) = figure.axes
    assert {text.get_text() for text in axes.texts if text.get_text()} == set(crowded.strategies)
    said = {text.get_text() for text in figure.legends[0].get_texts()}
    assert said == {"small model alone", "large model alone", "full transfer", "the cascade"}
    assert "counted alike" in axes.get_xlabel()
    assert axes.get_ylabel().startswith("accuracy, typed (%)")
    timed = {text.get_text() for text in cost_figure(crowded, "time").axes[0].texts}
    assert timed - {""} == {"mai", "large_reason"}


def test_plots_are_images_and_those_of_several_benchmarks_one(tmp_path):
    run = evaluated(tmp_path / "untimed", lambda n: n == 0, timed=False)
    made = plots(run)  # without times, there is no plot of them
    assert list(made) == ["tokens", "routes"]
    points = economy([run])
    other = [replace(point, benchmark="other") for point in points]
    for drawn in (*made.values(), economy_plot([*points, *other])):
        assert drawn.startswith(b"\x89PNG")
    assert economy_plot([]) is None


@pytest.mark.parametrize("right", [False, True])
def test_scores_that_are_all_alike_have_an_axis_and_bars(tmp_path, right):
    run = evaluated(tmp_path / "alike", lambda _: not right)
    score = run.score("small_direct", "typed")
    assert score.value == float(right)
    low, high = cost_figure(run, "tokens").axes[0].get_ylim()
    assert high - low >= 10
    assert low <= 100 * score.low
    assert 100 * score.high <= high


def test_every_route_has_its_share_however_small(crowded):
    figure = routes_figure(crowded)
    said = [text.get_text() for text in figure.legends[0].get_texts()]
    assert said == [
        "direct: 60.0%, 83.3% of them right",
        "reasoned: 20.0%, 100.0% of them right",
        "transferred: 20.0%, 50.0% of them right",
    ]
