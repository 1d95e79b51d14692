"""Plots of evaluations, as PNG files: scores against time and tokens, routes, token economy."""

from collections.abc import Sequence
from typing import Any, Literal

from ..plotting import (
    add_strategy_legend,
    error_bars,
    label_decades,
    label_points,
    new_figure,
    png,
    strategy_color,
    strategy_marker,
)
from ..statistics import Estimate
from .cascade import route_rows
from .economy import EconomyPoint
from .evaluated import Evaluated, mean

Cost = Literal["time", "tokens"]

_AXES: dict[Cost, str] = {
    "time": "seconds a question (log)",
    "tokens": "output tokens a question, small and large model's counted alike (log)",
}
_ROUTE_COLORS = {"direct": "#7fbf7b", "reasoned": "#f0c05a", "transferred": "#b58bc9"}
_WIDE_ENOUGH = 6.0
_LEAST_POINTS = 10.0
_LEAST_FACTOR = 1.6


def plots(run: Evaluated, protocol: str = "typed") -> dict[str, bytes]:
    """Draw every plot that an evaluation has results for.

    Args:
        run: The evaluation.
        protocol: Whose scores are shown.

    Returns:
        PNG files by name, without ending: the score against time and against tokens, the routes.

    Raises:
        ConfigError: matplotlib is not installed.
    """
    made = {
        "time": cost_figure(run, "time", protocol),
        "tokens": cost_figure(run, "tokens", protocol),
        "routes": routes_figure(run, protocol),
    }
    return {name: png(figure) for name, figure in made.items() if figure is not None}


def cost_figure(run: Evaluated, cost: Cost, protocol: str = "typed") -> Any:
    """Draw scores against costs: a point for each strategy of which both are known.

    Args:
        run: The evaluation.
        cost: Seconds of timed runs, or output tokens.
        protocol: Whose scores are shown.

    Returns:
        A matplotlib figure; None if there is no such strategy.
    """
    points: list[tuple[str, Estimate, Estimate]] = []
    for name in run.strategies:
        seconds = run.time(name, "seconds_per_question")
        paid = seconds if cost == "time" else mean(run.of(name), "tokens")
        score = run.score(name, protocol)
        if paid.value and score.value is not None:
            points.append((name, paid, score))
    if not points:
        return None
    figure, (axes,) = new_figure(8.0, 5.0)
    axes.set_xscale("log")
    for name, paid, score in points:
        _draw_point(axes, paid, score, strategy_color(name), strategy_marker(name))
    low, high = _ends([paid for _, paid, _ in points])
    low = low or min(paid.value or high for _, paid, _ in points)  # an axis in logarithms
    space = max((high / low) ** 0.2, _LEAST_FACTOR)  # for intervals and names
    axes.set_xlim(low / space, high * space)
    low, high = _ends([score for *_, score in points], 100)
    margin = max(0.06 * (high - low), (_LEAST_POINTS - (high - low)) / 2)
    axes.set_ylim(low - margin, high + margin)
    label_decades(axes.xaxis)
    axes.set_xlabel(_AXES[cost])
    axes.set_ylabel(f"{run.headline.replace('_', ' ')}, {protocol} (%), bars: 95%")
    axes.set_title(f"{run.benchmark.name}, pair {run.pair}: score against {cost}")
    axes.grid(alpha=0.25, which="both")
    add_strategy_legend(figure, [name for name, *_ in points])
    label_points(figure, axes, [(name, *_place(paid, score)) for name, paid, score in points])
    return figure


def routes_figure(run: Evaluated, protocol: str = "typed") -> Any:
    """Draw the routes' shares, with the accuracy inside each.

    Returns:
        A matplotlib figure; None if the cascade was not evaluated.
    """
    rows: list[Any] = list(route_rows(run, protocol))
    if not rows:
        return None
    figure, (axes,) = new_figure(8.0, 2.1)
    left = 0.0
    for route, share, accuracy, *_ in rows:
        width = 100 * (share.value or 0.0)
        right = "" if accuracy.value is None else f", {100 * accuracy.value:.1f}% of them right"
        # The legend has the figures too: a part may be too narrow for words.
        label = f"{route}: {width:.1f}%{right}"
        axes.barh([0], [width], left=left, color=_ROUTE_COLORS[route], label=label)
        if width > _WIDE_ENOUGH:
            axes.text(left + width / 2, 0, f"{width:.1f}%", ha="center", va="center", fontsize=9)
        left += width
    axes.set_xlim(0, 100)
    axes.set_yticks([])
    axes.set_xlabel("share of the questions (%)")
    axes.set_title(f"{run.benchmark.name}, pair {run.pair}: routes of the cascade")
    figure.legend(loc="outside lower center", ncols=3, fontsize=8, frameon=False)
    return figure


def economy_plot(points: Sequence[EconomyPoint]) -> bytes | None:
    """Draw score against mean output tokens, a line per model over its styles (Figure 1 b to d).

    Args:
        points: What `economy` found; each benchmark has a part of its own.

    Returns:
        A PNG file, None if there are no points.

    Raises:
        ConfigError: matplotlib is not installed.
    """
    benchmarks = list(dict.fromkeys(point.benchmark for point in points))
    if not benchmarks:
        return None
    figure, parts = new_figure(5.6, 4.8, len(benchmarks))
    shown = [[point for point in points if point.benchmark == name] for name in benchmarks]
    for axes, name, own in zip(parts, benchmarks, shown, strict=True):
        axes.set_xscale("log")
        axes.margins(x=0.25, y=0.1)
        for model in dict.fromkeys(point.model for point in own):
            _draw_model(axes, [point for point in own if point.model == model])
        label_decades(axes.xaxis)
        axes.set_xlabel("output tokens a question (log)")
        axes.set_title(name)
        axes.set_ylabel("score (%)")
        axes.grid(alpha=0.25, which="both")
        axes.legend(
            fontsize=8, loc="upper center", bbox_to_anchor=(0.5, -0.13), ncols=3, frameon=False
        )
    for axes, own in zip(parts, shown, strict=True):
        places = [(point.style, *_place(point.tokens, point.score)) for point in own]
        label_points(figure, axes, places)
    return png(figure)


def _draw_model(axes: Any, points: Sequence[EconomyPoint]) -> None:
    """Join a model's styles by a line; what a pair does together are single marks."""
    together = points[0].role == "pair"
    points = sorted(points, key=lambda point: point.tokens.value or 0.0)
    places = [_place(point.tokens, point.score) for point in points]
    (line,) = axes.plot(
        *zip(*places, strict=True),
        linestyle="none" if together else "-",
        marker="*" if together else "o",
        markersize=12 if together else 6,
        label=points[0].model,
    )
    for point in points:
        _draw_point(axes, point.tokens, point.score, line.get_color(), "none")


def _draw_point(axes: Any, cost: Estimate, score: Estimate, color: str, marker: str) -> None:
    x, y = _place(cost, score)
    axes.errorbar(
        [x],
        [y],
        xerr=error_bars(cost),
        yerr=error_bars(score, 100.0),
        fmt=marker,
        markersize=13 if marker == "*" else 6,
        color=color,
        elinewidth=1,
        alpha=0.7,
    )


def _place(cost: Estimate, score: Estimate) -> tuple[float, float]:
    return cost.value or 0.0, 100 * (score.value or 0.0)


def _ends(found: Sequence[Estimate], scale: float = 1.0) -> tuple[float, float]:
    """Return the lowest and the highest end of intervals."""
    ends = [(one.value, one.low, one.high) for one in found]
    known = [scale * end for three in ends for end in three if end is not None]
    return min(known), max(known)
