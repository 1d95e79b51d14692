"""Plots of attention, as they are drawn."""

import numpy as np
from attention_readings import reading
from matplotlib.colors import to_rgb

from langgraph_mai.benchmarks.attention.figures import AttentionFigures
from langgraph_mai.benchmarks.attention.plots import sparsity_figure

REASONING = "red red - = yes"


def seen(figure, lines):
    """How many pixels along each line are nearest to its color, for each that it is long."""
    figure.canvas.draw()
    drawn = np.asarray(figure.canvas.buffer_rgba())[::-1, :, :3] / 255  # the first row is below
    colors = np.array([to_rgb("white"), *(to_rgb(line.get_color()) for line in lines)])
    nearest = np.linalg.norm(drawn[:, :, None] - colors, axis=3).argmin(axis=2)
    places = lines[0].get_transform().transform(lines[0].get_xydata())
    columns = np.arange(round(places[0, 0]), round(places[-1, 0]) + 1)
    rows = np.interp(columns, places[:, 0], places[:, 1]).round().astype(int)
    along = np.stack([nearest[rows + up, columns] for up in range(-6, 7)])
    return [(along == number).sum() / len(columns) for number in range(1, len(colors))]


def test_lines_that_are_the_same_are_both_seen():
    weights = np.random.default_rng(1).dirichlet(np.ones(12), size=(3, 2))[..., :5]
    readings = [
        reading("q", source, REASONING, weights, images=("1.png",)) for source in ("small", "large")
    ]
    figure = sparsity_figure(AttentionFigures(readings, 0.8), "title")
    (axes,) = figure.axes
    axes.get_legend().remove()
    lines = {}
    for line in axes.get_lines():
        lines.setdefault(tuple(line.get_ydata()), []).append(line)
    assert [len(same) for same in lines.values()] == [2, 2]  # tokens needed, all tokens
    for same in lines.values():
        assert min(seen(figure, same)) > 0.25
