"""Plots as PNG files without a screen: figures, labels beside points, how strategies look."""

import io
import re
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from math import ceil, inf, log10
from typing import Any

from ..configs import ConfigError
from .statistics import Estimate

LONGEST_NAME = 36

_PARTS_IN_A_ROW = 3
_INCHES_A_NAME = 1.6
_ITERATIONS = 400
_TICKS = ((1.3, (1, 1.5, 2, 3, 5, 7)), (2, (1, 2, 3, 5)), (3, (1, 2, 5)), (inf, (1,)))
"""Labelled places of a decade, for axes of so many decades at most."""

_KINDS = {
    "small": ("small model alone", "#d98032"),
    "large": ("large model alone", "#3f6fb5"),
    "full": ("full transfer", "#7a5aa6"),
    "speculative": ("speculative decoding", "#b0413e"),
    "mai": ("the cascade", "#2c8c4b"),
}
"""Name and color of each kind of strategy, by the first word of its name."""


def new_figure(width: float, height: float, parts: int = 1) -> tuple[Any, list[Any]]:
    """Create an empty matplotlib figure.

    Args:
        width: Of a part, in inches.
        height: Of a part, in inches.
        parts: Number of axes, in rows of three.

    Returns:
        The figure and its axes.

    Raises:
        ConfigError: matplotlib or adjustText is not installed.
    """
    try:
        import adjustText  # noqa: F401  needed later; missing, it is missing now
        from matplotlib.backends.backend_agg import FigureCanvasAgg

        # Not pyplot: it would keep every figure, and may want a screen.
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ConfigError(
            'Plots need matplotlib: run `pip install "langgraph-mai[plots]"`, or leave them out '
            "with --no-plots."
        ) from error
    columns = min(parts, _PARTS_IN_A_ROW)
    rows = ceil(parts / columns)
    figure: Any = Figure(figsize=(width * columns, height * rows), dpi=130, layout="constrained")
    FigureCanvasAgg(figure)  # it knows how large texts are
    axes = figure.subplots(rows, columns, squeeze=False).flatten().tolist()
    for unused in axes[parts:]:
        unused.remove()
    return figure, axes[:parts]


def png(figure: Any) -> bytes:
    """Draw a figure as a PNG file; names with dollar signs are shown as they are."""
    buffer = io.BytesIO()
    with _plain_texts(figure):
        figure.savefig(buffer, format="png", metadata={"Software": None})
    return buffer.getvalue()


def error_bars(estimate: Estimate, scale: float = 1.0) -> list[list[float]] | None:
    """Return an estimate's interval as matplotlib's `xerr` and `yerr` of one point."""
    value, low, high = estimate.value, estimate.low, estimate.high
    if value is None or low is None or high is None:
        return None
    return [[scale * max(0.0, value - low)], [scale * max(0.0, high - value)]]


def label_points(figure: Any, axes: Any, points: Sequence[tuple[str, float, float]]) -> list[Any]:
    """Write each name near its point, clear of other names and points.

    Args:
        figure: A matplotlib figure, with its limits and legend in place. Its layout is kept from
            then on.
        axes: Its axes.
        points: Name, x and y in the units of the axes.

    Returns:
        The texts.
    """
    from adjustText import adjust_text

    with _plain_texts(figure):
        figure.draw_without_rendering()  # the layout decides where points are
        figure.set_layout_engine("none")
        texts = [
            axes.text(x, y, name, fontsize=8, ha="center", va="center") for name, x, y in points
        ]
        # A limit of time would place them differently on every machine.
        adjust_text(
            texts,
            ax=axes,
            iter_lim=_ITERATIONS,
            objects=axes.scatter([x for _, x, _ in points], [y for *_, y in points], 90, alpha=0),
            expand=(1.1, 1.3),
            force_text=(0.3, 0.6),
            force_static=(0.3, 0.6),
            force_explode=(0.6, 1.2),
            arrowprops={"arrowstyle": "-", "color": "#999999", "lw": 0.5, "shrinkB": 4},
        )
    return texts


def label_decades(axis: Any) -> None:
    """Write plain numbers at some places of every decade, instead of powers of ten.

    Args:
        axis: The logarithmic x or y axis of matplotlib axes, with its limits in place.
    """
    from matplotlib.ticker import LogLocator, NullFormatter

    low, high = axis.get_view_interval()
    decades = log10(high / low)
    axis.set_major_locator(LogLocator(subs=next(at for most, at in _TICKS if decades <= most)))
    axis.set_major_formatter("{x:g}")
    axis.set_minor_formatter(NullFormatter())


def shortened(name: str) -> str:
    """Cut the middle out of a name that would take the plot's space."""
    if len(name) <= LONGEST_NAME:
        return name
    half = (LONGEST_NAME - 1) // 2
    return f"{name[:half]}…{name[-half:]}"


def strategy_color(strategy: str) -> str:
    """Return the color of a strategy's kind."""
    return _KINDS.get(_kind(strategy), ("", "#555555"))[1]


def strategy_marker(strategy: str) -> str:
    """Return the mark of a strategy's point: a star for the cascade."""
    return "*" if _kind(strategy) == "mai" else "o"


def add_strategy_legend(figure: Any, strategies: Sequence[str]) -> None:
    """Explain the colors and marks of these strategies below a matplotlib figure."""
    from matplotlib.lines import Line2D

    marks = [
        Line2D(
            [],
            [],
            marker=strategy_marker(kind),
            linestyle="",
            color=strategy_color(kind),
            label=_KINDS.get(kind, (kind,))[0],
        )
        for kind in dict.fromkeys(map(_kind, strategies))
    ]
    columns = max(1, min(len(marks), int(figure.get_figwidth() / _INCHES_A_NAME)))
    figure.legend(
        handles=marks, loc="outside lower center", ncols=columns, fontsize=8, frameon=False
    )


def _kind(strategy: str) -> str:
    return re.split("[:_]", strategy, maxsplit=1)[0]


@contextmanager
def _plain_texts(figure: Any) -> Iterator[None]:
    """Draw dollar signs as such, not as formulas, and unknown letters without a warning."""
    from matplotlib import rc_context
    from matplotlib.text import Text

    for text in figure.findobj(Text):
        text.set_parse_math(False)
    with rc_context({"text.parse_math": False}), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing from")
        yield
