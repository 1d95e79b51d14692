"""Plots of evaluations, as PNG files: scores against time and tokens, routes, token economy."""

from collections.abc import Iterator, Sequence
from typing import Any, Literal

from ...plotting.figures import new_figure, new_parts, png
from ...plotting.labels import label_decades, label_points
from ...plotting.strategies import add_strategy_legend, strategy_color, strategy_marker
from ..estimates import Estimate
from .cascade import RouteFigures, cascade
from .economy import EconomyPoint, output_tokens
from .evaluated import Evaluated

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
    """Every plot that an evaluation has results for.

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
    """Scores against what they cost: a point for each strategy of which both are known.

    Args:
        run: The evaluation.
        cost: Seconds of timed runs, or output tokens.
        protocol: Whose scores are shown.

    Returns:
        A matplotlib figure; None if there is no such strategy.
    """
    points, places = [], []
    for name in run.results:
        paid = (
            run.time(name, "seconds_per_question") if cost == "time" else output_tokens(run, name)
        )
        score = run.score(name, protocol)
        if paid.value and score.value is not None:
            points.append((name, paid, score))
            places.append((name, paid.value, 100 * score.value))
    if not points:
        return None
    figure, axes = new_figure(8.0, 5.0)
    axes.set_xscale("log")
    for (name, x, y), (_, paid, score) in zip(places, points, strict=True):
        axes.errorbar(
            [x],
            [y],
            xerr=_bars(paid, 1.0),
            yerr=_bars(score, 100.0),
            fmt=strategy_marker(name),
            markersize=13 if name == "mai" else 6,
            color=strategy_color(name),
            elinewidth=1,
            alpha=0.85,
        )
    axes.set_xlim(*_cost_limits([paid for _, paid, _ in points]))
    axes.set_ylim(*_score_limits([score for *_, score in points]))
    label_decades(axes.xaxis)
    axes.set_xlabel(_AXES[cost])
    axes.set_ylabel(f"{run.headline.replace('_', ' ')}, {protocol} (%), bars: 95%")
    axes.set_title(f"{run.benchmark.name}, pair {run.pair}: score against {cost}")
    axes.grid(alpha=0.25, which="both")
    add_strategy_legend(figure, [name for name, *_ in points])
    label_points(
        figure,
        axes,
        places,
        [bar for _, paid, score in points for bar in _bar_ends(paid, score)],
    )
    return figure


def routes_figure(run: Evaluated, protocol: str = "typed") -> Any:
    """The routes' shares, with the accuracy inside each.

    Returns:
        A matplotlib figure; None if the cascade was not evaluated.
    """
    found = cascade(run, protocol)
    if found is None:
        return None
    figure, axes = new_figure(8.0, 2.1)
    left = 0.0
    for one in found.routes:
        width = 100 * (one.share.value or 0.0)
        axes.barh([0], [width], left=left, color=_ROUTE_COLORS[one.route], label=_legend(one))
        if width > _WIDE_ENOUGH:
            axes.text(left + width / 2, 0, f"{width:.1f}%", ha="center", va="center", fontsize=9)
        left += width
    axes.set_xlim(0, 100)
    axes.set_yticks([])
    axes.set_xlabel("share of the questions (%)")
    axes.set_title(f"{run.benchmark.name}, pair {run.pair}: routes of the cascade")
    figure.legend(loc="outside lower center", ncols=3, fontsize=8, frameon=False)
    return figure


def _legend(one: RouteFigures) -> str:
    """A route's figures: a part that is too narrow for words has them too."""
    value = one.accuracy.value
    right = "" if value is None else f", {100 * value:.1f}% of them right"
    return f"{one.route}: {100 * (one.share.value or 0.0):.1f}%{right}"


def _score_limits(scores: Sequence[Estimate]) -> tuple[float, float]:
    """Room for every interval, never less than ten points."""
    ends = [
        100 * end for one in scores for end in (one.low, one.value, one.high) if end is not None
    ]
    low, high = min(ends), max(ends)
    room = max(0.06 * (high - low), (_LEAST_POINTS - (high - low)) / 2)
    return low - room, high + room


def _cost_limits(costs: Sequence[Estimate]) -> tuple[float, float]:
    """Room for every interval and for names beside the outermost points."""
    ends = [end for one in costs for end in (one.low, one.value, one.high) if end]
    low, high = min(ends), max(ends)
    room = max((high / low) ** 0.2, _LEAST_FACTOR)
    return low / room, high * room


def economy_plot(points: Sequence[EconomyPoint]) -> bytes | None:
    """Score against mean output tokens, a line a model over its styles (Figure 1 b to d).

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
    figure, parts = new_parts(5.6, 4.8, len(benchmarks))
    shown = [[point for point in points if point.benchmark == name] for name in benchmarks]
    for axes, name, own in zip(parts, benchmarks, shown, strict=True):
        axes.set_xscale("log")
        axes.margins(x=0.15, y=0.1)
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
        places = [
            (point.style, point.tokens.value or 0.0, 100 * (point.score.value or 0.0))
            for point in own
        ]
        bars = [bar for point in own for bar in _bar_ends(point.tokens, point.score)]
        label_points(figure, axes, places, bars)
    return png(figure)


def _draw_model(axes: Any, points: Sequence[EconomyPoint]) -> None:
    """A model's styles, joined; what a pair does together, as single marks."""
    together = points[0].role == "pair"
    points = sorted(points, key=lambda point: point.tokens.value or 0.0)
    costs = [point.tokens.value for point in points]
    scores = [100 * (point.score.value or 0.0) for point in points]
    axes.plot(
        costs,
        scores,
        marker="*" if together else "o",
        markersize=12 if together else 6,
        linestyle="none" if together else "-",
        label=points[0].model,
    )
    color = axes.lines[-1].get_color()
    for point, cost, score in zip(points, costs, scores, strict=True):
        bars = {"xerr": _bars(point.tokens, 1.0), "yerr": _bars(point.score, 100.0)}
        axes.errorbar([cost], [score], **bars, fmt="none", color=color, elinewidth=1, alpha=0.6)


def _bars(estimate: Estimate, scale: float) -> list[list[float]] | None:
    if estimate.value is None or estimate.low is None or estimate.high is None:
        return None
    below, above = estimate.value - estimate.low, estimate.high - estimate.value
    return [[scale * max(0.0, below)], [scale * max(0.0, above)]]


def _bar_ends(paid: Estimate, score: Estimate) -> Iterator[tuple[float, float, float, float]]:
    """Where the error bars of a point are: left, bottom, right, top."""
    if paid.value is None or score.value is None:
        return
    x, y = paid.value, 100 * score.value
    if paid.low is not None and paid.high is not None:
        yield paid.low, y, paid.high, y
    if score.low is not None and score.high is not None:
        yield x, 100 * score.low, x, 100 * score.high
