"""Figures and their PNG files, without a screen."""

import io
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from math import ceil
from typing import Any

from ..configs import ConfigError

PARTS_IN_A_ROW = 3


def new_parts(width: float, height: float, parts: int) -> tuple[Any, list[Any]]:
    """An empty matplotlib figure of several parts, in rows of three.

    Args:
        width: Of a part, in inches.
        height: Of a part, in inches.
        parts: How many.

    Raises:
        ConfigError: matplotlib is not installed.
    """
    columns = min(parts, PARTS_IN_A_ROW)
    rows = ceil(parts / columns)
    figure, grid = new_figure(width * columns, height * rows, columns, rows)
    axes = list(grid.flat) if parts > 1 else [grid]
    for unused in axes[parts:]:
        unused.remove()
    return figure, axes[:parts]


def new_figure(width: float, height: float, columns: int = 1, rows: int = 1) -> tuple[Any, Any]:
    """An empty matplotlib figure and its axes.

    Args:
        width: In inches.
        height: In inches.
        columns: How many axes stand side by side; of more than one, an array is returned.
        rows: How many of these stand above each other.

    Raises:
        ConfigError: matplotlib is not installed.
    """
    try:
        # Not pyplot: it would keep every figure, and may want a screen.
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ConfigError(
            'Plots need matplotlib: run `pip install "langgraph-mai[plots]"`, or leave them out '
            "with --no-plots."
        ) from error
    figure: Any = Figure(figsize=(width, height), dpi=130, layout="constrained")
    FigureCanvasAgg(figure)  # it knows how large texts are
    return figure, figure.subplots(rows, columns)


def png(figure: Any) -> bytes:
    """A figure as a PNG file; whatever its names hold is shown as it is."""
    buffer = io.BytesIO()
    with plain_texts(figure):
        figure.savefig(buffer, format="png", metadata={"Software": None})
    return buffer.getvalue()


@contextmanager
def plain_texts(figure: Any) -> Iterator[None]:
    """Draw dollar signs of names as such, not as formulas, and unknown letters without a word."""
    from matplotlib import rc_context
    from matplotlib.text import Text

    for text in figure.findobj(Text):
        text.set_parse_math(False)
    with rc_context({"text.parse_math": False}), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing from")
        yield
