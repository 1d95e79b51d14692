"""Names and numbers on plots, read off the drawn figure."""

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from matplotlib.text import Text

from langgraph_mai.benchmarks.plotting import (
    add_strategy_legend,
    label_decades,
    label_points,
    new_figure,
    png,
)


@settings(max_examples=15)
@given(st.lists(st.tuples(st.integers(0, 6), st.integers(0, 6)), min_size=2, max_size=7))
def test_names_cover_neither_each_other_nor_points_and_stay_inside(coordinates):
    figure, (axes,) = new_figure(7, 5)
    points = [(f"name_{index}", x, y) for index, (x, y) in enumerate(coordinates)]
    for _, x, y in points:
        axes.plot([x], [y], "o")
    axes.margins(0.2)
    texts = label_points(figure, axes, points)
    assert [text.get_text() for text in texts] == [name for name, *_ in points]
    renderer = figure.canvas.get_renderer()
    boxes = [Text.get_window_extent(text, renderer) for text in texts]
    places = [axes.transData.transform((x, y)) for _, x, y in points]
    inside = axes.get_window_extent(renderer)
    assert not any(one.overlaps(other) for one, other in itertools.combinations(boxes, 2))
    for box in boxes:
        assert not any(box.contains(*place) for place in places)
        assert inside.x0 - 2 <= box.x0 <= box.x1 <= inside.x1 + 2


def test_numbers_along_a_log_axis_do_not_run_into_each_other():
    for high in (3, 20, 300, 4000, 1e6):
        figure, (axes,) = new_figure(4.8, 4.4)
        axes.set_xscale("log")
        axes.plot([1, high], [1, 2], "o")
        label_decades(axes.xaxis)
        figure.draw_without_rendering()
        renderer = figure.canvas.get_renderer()
        inside = axes.get_window_extent(renderer)
        extents = [
            one.get_window_extent(renderer) for one in axes.get_xticklabels() if one.get_text()
        ]
        boxes = [box for box in extents if inside.x0 <= (box.x0 + box.x1) / 2 <= inside.x1]
        assert len(boxes) >= 2
        assert not any(one.overlaps(other) for one, other in itertools.pairwise(boxes))


def test_parts_stand_in_rows_of_three():
    for parts in (1, 2, 3, 5, 7):
        figure, axes = new_figure(4, 3, parts)
        assert len(axes) == len(figure.axes) == parts
        assert figure.get_figwidth() == 4 * min(parts, 3)
        assert figure.get_figheight() == 3 * -(-parts // 3)


def test_a_legend_stays_within_its_figure():
    names = ["small_direct", "large_reason", "full_transfer", "mai", "mai:sparse-L3-0.8"]
    for width in (3, 4.8, 8, 14):
        figure, _ = new_figure(width, 4)
        add_strategy_legend(figure, names)
        figure.draw_without_rendering()
        legend = figure.legends[0]
        assert len(legend.get_texts()) == 4  # a variant looks like its strategy
        box = legend.get_window_extent(figure.canvas.get_renderer())
        assert 0 <= box.x0 < box.x1 <= figure.bbox.x1


@pytest.mark.filterwarnings("error")
def test_names_are_drawn_as_they_are():
    figure, (axes,) = new_figure(4, 3)
    axes.barh(["$\\frac b$", "中文", "a_b^c$"], [1, 2, 3])
    axes.set_title("$x^$")
    label_points(figure, axes, [("$\\bad", 1, 1)])
    assert png(figure).startswith(b"\x89PNG")
