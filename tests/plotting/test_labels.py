"""Names and numbers on plots, read off the drawn figure."""

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from matplotlib.text import Text

from langgraph_mai.plotting.figures import new_figure, new_parts, png
from langgraph_mai.plotting.labels import label_decades, label_points
from langgraph_mai.plotting.strategies import add_strategy_legend


def drawn(points, bars=()):
    figure, axes = new_figure(7, 5)
    for _, x, y in points:
        axes.plot([x], [y], "o")
    axes.margins(0.2)
    texts = label_points(figure, axes, points, bars)
    renderer = figure.canvas.get_renderer()
    places = [axes.transData.transform((x, y)) for _, x, y in points]
    return texts, [Text.get_window_extent(text, renderer) for text in texts], places


def middle(box):
    return (box.x0 + box.x1) / 2, (box.y0 + box.y1) / 2


def turns(a, b, c):
    return (b[0] - a[0]) * (c[1] - a[1]) - (b[1] - a[1]) * (c[0] - a[0])


def cross(first, second):
    """Whether two lines from points to the middles of names cross."""
    (a, b), (c, d) = first, second
    return turns(a, b, c) * turns(a, b, d) < 0 and turns(c, d, a) * turns(c, d, b) < 0


@settings(deadline=None, max_examples=15)
@given(st.lists(st.tuples(st.integers(0, 6), st.integers(0, 6)), min_size=2, max_size=7))
def test_names_stay_at_their_points_and_apart(coordinates):
    points = [(f"name_{index}", x, y) for index, (x, y) in enumerate(coordinates)]
    texts, boxes, places = drawn(points)
    assert [text.get_text() for text in texts] == [name for name, *_ in points]
    assert not any(one.overlaps(other) for one, other in itertools.combinations(boxes, 2))
    lines = [(tuple(place), middle(box)) for place, box in zip(places, boxes, strict=True)]
    pairs = itertools.combinations(zip(coordinates, lines, strict=True), 2)
    assert not any(cross(one, other) for (here, one), (there, other) in pairs if here != there)


def test_of_two_points_above_each_other_the_upper_ones_name_is_above():
    points = [("speculative", 40, 99), ("large_reason", 40, 99.1), ("two_stage", 42, 100)]
    points += [("full_transfer", 42, 99.05)]
    _, boxes, _ = drawn(points, [(39, 99, 45, 99), (39, 100, 45, 100)])
    assert middle(boxes[2])[1] > middle(boxes[3])[1]


@pytest.mark.parametrize("high", [3, 20, 300, 4000, 1e6])
def test_numbers_along_a_log_axis_do_not_run_into_each_other(high):
    figure, axes = new_figure(4.8, 4.4)
    axes.set_xscale("log")
    axes.plot([1, high], [1, 2], "o")
    label_decades(axes.xaxis)
    figure.draw_without_rendering()
    renderer = figure.canvas.get_renderer()
    inside = axes.get_window_extent(renderer)
    boxes = [
        box
        for label in axes.get_xticklabels()
        if label.get_text()
        and inside.x0 <= middle(box := label.get_window_extent(renderer))[0] <= inside.x1
    ]
    assert len(boxes) >= 2
    assert not any(one.overlaps(other) for one, other in itertools.pairwise(boxes))


@pytest.mark.parametrize("parts", [1, 2, 3, 5, 7])
def test_parts_stand_in_rows_of_three(parts):
    figure, axes = new_parts(4, 3, parts)
    assert len(axes) == len(figure.axes) == parts
    assert figure.get_figwidth() == 4 * min(parts, 3)
    assert figure.get_figheight() == 3 * -(-parts // 3)


@pytest.mark.parametrize("width", [3, 4.8, 8, 14])
def test_a_legend_stays_within_its_figure(width):
    figure, _ = new_figure(width, 4)
    add_strategy_legend(figure, ["small_direct", "large_reason", "full_transfer", "mai"])
    figure.draw_without_rendering()
    box = figure.legends[0].get_window_extent(figure.canvas.get_renderer())
    assert 0 <= box.x0 < box.x1 <= figure.bbox.x1


@pytest.mark.filterwarnings("error")
def test_names_are_drawn_as_they_are():
    figure, axes = new_figure(4, 3)
    axes.barh(["$\\frac b$", "中文", "a_b^c$"], [1, 2, 3])
    axes.set_title("$x^$")
    label_points(figure, axes, [("$\\bad", 1, 1)])
    assert png(figure).startswith(b"\x89PNG")
