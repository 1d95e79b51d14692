"""Names beside the points of a plot, where they cover nothing, and numbers along a log axis."""

from collections.abc import Sequence
from itertools import combinations
from math import dist, inf, log10
from typing import Any

from .figures import plain_texts

_SIDES = ((1.0, 0.0), (-1.0, 0.0), (0.0, 1.0), (0.0, -1.0), (1, 1), (-1, 1), (1, -1), (-1, -1))
_DISTANCES = (8, 14, 20, 28, 36, 46, 58, 72, 90)
_MARK = 7.0
_WORSE = 100
_PLACES = ((1.3, (1, 1.5, 2, 3, 5, 7)), (2, (1, 2, 3, 5)), (3, (1, 2, 5)), (inf, (1,)))
"""Labelled places of a decade, for axes of so many decades at most."""


LONGEST_NAME = 36


def shortened(name: str) -> str:
    """A name that leaves room for the plot: a long one without its middle."""
    if len(name) <= LONGEST_NAME:
        return name
    half = (LONGEST_NAME - 1) // 2
    return f"{name[:half]}…{name[-half:]}"


def label_points(
    figure: Any,
    axes: Any,
    points: Sequence[tuple[str, float, float]],
    bars: Sequence[tuple[float, float, float, float]] = (),
) -> list[Any]:
    """Write each name at the nearest free place to its point, with a line to it.

    Args:
        figure: A matplotlib figure, with its limits and legend in place. Its layout is kept from
            then on.
        axes: Its axes.
        points: Name, x and y in the axes' own units.
        bars: Error bars, from left, bottom to right, top: better not to be written on.

    Returns:
        The texts.
    """
    with plain_texts(figure):
        return _label(figure, axes, points, bars)


def _label(
    figure: Any,
    axes: Any,
    points: Sequence[tuple[str, float, float]],
    bars: Sequence[tuple[float, float, float, float]],
) -> list[Any]:
    from matplotlib.transforms import Bbox

    figure.draw_without_rendering()  # the layout decides where points are
    figure.set_layout_engine("none")
    renderer = figure.canvas.get_renderer()
    inside = axes.get_window_extent(renderer)
    unit = figure.dpi / 72
    places = [axes.transData.transform((x, y)) for _, x, y in points]
    taken = [Bbox.from_bounds(x, y, 0, 0).padded(_MARK * unit) for x, y in places]
    lines = [
        Bbox([axes.transData.transform((x0, y0)), axes.transData.transform((x1, y1))]).padded(unit)
        for x0, y0, x1, y1 in bars
    ]
    texts: dict[int, Any] = {}
    # From above, so that names of points that lie close stand in the order of the points.
    for index in sorted(
        range(len(points)), key=lambda index: (-points[index][2], points[index][1])
    ):
        name, x, y = points[index]
        text = axes.annotate(
            name,
            (x, y),
            xytext=(0, 0),
            textcoords="offset points",
            fontsize=8,
            arrowprops={"arrowstyle": "-", "color": "#999999", "lw": 0.5, "shrinkB": 4},
        )

        def disturbs(place: tuple[float, tuple[float, float]], text: Any = text) -> int:
            """How many marks and names it covers there; bars matter less."""
            box = _place(text, place, renderer)
            beyond = not inside.contains(box.x0, box.y0) or not inside.contains(box.x1, box.y1)
            covered = sum(bool(box.overlaps(one)) for one in taken) + beyond
            return _WORSE * covered + sum(bool(box.overlaps(one)) for one in lines)

        # The first of the best, from near to far.
        best = min(((distance, side) for distance in _DISTANCES for side in _SIDES), key=disturbs)
        taken.append(_place(text, best, renderer))
        texts[index] = text
    made = [texts[index] for index in range(len(points))]
    _untangle(made, places, renderer, unit)
    return made


def _untangle(texts: Sequence[Any], places: Sequence[Any], renderer: Any, unit: float) -> None:
    """Exchange the places of two names where that makes the lines to their points shorter.

    Args:
        texts: The names.
        places: Their points, in pixels.
        renderer: Knows how large texts are.
        unit: Pixels of a point of 1/72 inch.
    """
    for (one, here), (other, there) in combinations(zip(texts, places, strict=True), 2):
        first, second = (_middle(text, renderer) for text in (one, other))
        now = dist(here, first) + dist(there, second)
        if dist(here, second) + dist(there, first) >= now - unit:
            continue
        (x, y), (other_x, other_y) = one.get_position(), other.get_position()
        right, up = ((there - here) / unit).tolist()
        sides = (one.get_ha(), one.get_va()), (other.get_ha(), other.get_va())
        one.set_position((other_x + right, other_y + up))
        other.set_position((x - right, y - up))
        for text, (ha, va) in zip((other, one), sides, strict=True):
            text.set(ha=ha, va=va)
            text.update_positions(renderer)


def _middle(text: Any, renderer: Any) -> tuple[float, float]:
    from matplotlib.text import Text

    box = Text.get_window_extent(text, renderer)
    return (box.x0 + box.x1) / 2, (box.y0 + box.y1) / 2


def _place(text: Any, place: tuple[float, tuple[float, float]], renderer: Any) -> Any:
    """Move a text to one side of its point, and say where it is then."""
    from matplotlib.text import Text

    distance, (right, up) = place
    text.set_position((right * distance, up * distance))
    text.set_ha({1.0: "left", -1.0: "right", 0.0: "center"}[float(right)])
    text.set_va({1.0: "bottom", -1.0: "top", 0.0: "center"}[float(up)])
    text.update_positions(renderer)
    # Without the line to the point, which may cross anything.
    return Text.get_window_extent(text, renderer)


def label_decades(axis: Any) -> None:
    """Plain numbers at some places of every decade, instead of powers of ten.

    Args:
        axis: The x or y axis of matplotlib axes, in logarithms, with its limits in place.
    """
    from matplotlib.ticker import LogLocator, NullFormatter

    low, high = axis.get_view_interval()
    decades = log10(high / low)
    places = next(places for most, places in _PLACES if decades <= most)
    axis.set_major_locator(LogLocator(subs=places))
    axis.set_major_formatter("{x:g}")
    axis.set_minor_formatter(NullFormatter())
