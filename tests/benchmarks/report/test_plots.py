"""Plots: every strategy is on them, and what is written is legible."""

from dataclasses import replace

import pytest

from langgraph_mai.benchmarks.report.economy import economy
from langgraph_mai.benchmarks.report.evaluated import Evaluated
from langgraph_mai.benchmarks.report.plots import cost_figure, economy_plot, plots, routes_figure

from .conftest import call, cascade_result, reason_result, result, write_evaluation

STRATEGIES = [
    ("small_direct", "direct", 1),
    ("small_reason", "reason", 40),
    ("small_two_stage", "reason", 41),
    ("large_direct", "direct", 1),
    ("large_explain", "explain", 12),
    ("large_two_stage", "reason", 42),
    ("full_transfer", "reason", 41),
]


def evaluated(folder, wrong=lambda _: False, timed=True):
    results = [one(n) for n in range(10) for one in (cascade_result, reason_result)]
    for name, style, tokens in STRATEGIES:
        for n in range(10):
            text = "no" if wrong(n) else "yes"
            role = "small" if name.startswith("small") else "large"
            calls = [call(role, style, text, tokens + n % 2)]
            results.append(result(n, name, "direct", calls, text))
    if wrong(0) and wrong(1):
        results = [one | {"text": "no"} for one in results]
    return Evaluated.read(write_evaluation(folder, results, timed=timed))


@pytest.fixture(scope="module")
def crowded(tmp_path_factory):
    return evaluated(tmp_path_factory.mktemp("crowded") / "ten", lambda n: n == 0)


def names(figure):
    return [text.get_text() for text in figure.axes[0].texts if text.get_text()]


def test_plots_are_images_of_both_costs_and_the_routes(crowded):
    made = plots(crowded)
    assert list(made) == ["time", "tokens", "routes"]
    assert all(png.startswith(b"\x89PNG") for png in made.values())


def test_timing_two_strategies_takes_no_others_off_the_plot_of_tokens(crowded):
    assert set(names(cost_figure(crowded, "time"))) == {"mai", "large_reason"}
    assert set(names(cost_figure(crowded, "tokens"))) == set(crowded.strategies)


def test_without_times_there_is_no_plot_of_them(tmp_path):
    run = evaluated(tmp_path / "untimed", timed=False)
    assert cost_figure(run, "time") is None
    assert set(plots(run)) == {"tokens", "routes"}


def test_the_token_economy_of_several_benchmarks_is_one_image(crowded):
    points = economy([crowded])
    other = [replace(point, benchmark="other") for point in points]
    for drawn in (points, [*points, *other]):
        assert economy_plot(drawn).startswith(b"\x89PNG")
    assert economy_plot([]) is None


def test_colors_and_axes_are_explained(crowded):
    figure = cost_figure(crowded, "tokens")
    said = {text.get_text() for text in figure.legends[0].get_texts()}
    assert said == {"small model alone", "large model alone", "full transfer", "the cascade"}
    (axes,) = figure.axes
    assert "counted alike" in axes.get_xlabel()
    assert axes.get_ylabel().startswith("accuracy, typed (%)")


def test_scores_that_are_all_alike_have_an_axis_and_bars(tmp_path):
    for right in (False, True):
        run = evaluated(tmp_path / str(right), lambda _, right=right: not right)
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
