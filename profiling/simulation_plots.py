"""Plots of a simulation: seconds a question, and what a score costs in tokens."""

from collections.abc import Sequence

from ..plotting.figures import new_parts, png
from ..plotting.labels import label_decades, label_points, shortened
from ..plotting.strategies import add_strategy_legend, strategy_color, strategy_marker
from .simulation import Totals


def simulation_plots(totals: Sequence[Totals]) -> dict[str, bytes]:
    """PNG files by name: `seconds`, and `economy` where scores are known.

    Raises:
        ConfigError: matplotlib is not installed.
    """
    by_benchmark = {
        name: [row for row in totals if row.workload == name]
        for name in dict.fromkeys(row.workload for row in totals)
    }
    found = {"seconds": _seconds_plot(by_benchmark)}
    scored = {
        name: own
        for name, rows in by_benchmark.items()
        if (own := [row for row in rows if row.score is not None])
    }
    if scored:
        found["economy"] = _economy_plot(scored)
    return found


def _seconds_plot(totals: dict[str, list[Totals]]) -> bytes:
    """Seconds a question of every strategy, benchmark by benchmark."""
    figure, parts = new_parts(4.2, 3.8, len(totals))
    for axes, (benchmark, rows) in zip(parts, totals.items(), strict=True):
        # Names at every part: a set without an accept rate has no speculative decoding.
        each = [row.seconds / row.questions for row in rows]
        colors = [strategy_color(row.strategy) for row in rows]
        bars = axes.barh([row.strategy for row in rows], each, color=colors)
        axes.bar_label(bars, [f"{seconds:.3g}" for seconds in each], padding=3, fontsize=8)
        axes.margins(x=0.15)
        axes.invert_yaxis()
        axes.set_title(shortened(benchmark))
        axes.set_xlabel("seconds a question, one after the other")
    return png(figure)


def _economy_plot(totals: dict[str, list[Totals]]) -> bytes:
    """Score against mean output tokens, a point a strategy, benchmark by benchmark (Figure 1)."""
    figure, parts = new_parts(4.8, 4.4, len(totals))
    for axes, (benchmark, rows) in zip(parts, totals.items(), strict=True):
        axes.set_xscale("log")
        axes.margins(x=0.2, y=0.12)
        for row in rows:
            axes.plot(
                [row.output_tokens],
                [row.score],
                marker=strategy_marker(row.strategy),
                markersize=12 if row.strategy == "mai" else 6,
                linestyle="none",
                color=strategy_color(row.strategy),
            )
        label_decades(axes.xaxis)
        axes.set_title(shortened(benchmark))
        axes.set_xlabel("output tokens a question (log)")
        axes.set_ylabel("score (%)")
        axes.grid(alpha=0.25, which="both")
    add_strategy_legend(figure, [row.strategy for rows in totals.values() for row in rows])
    for axes, rows in zip(parts, totals.values(), strict=True):
        points = [(row.strategy, row.output_tokens, row.score or 0.0) for row in rows]
        label_points(figure, axes, points)
    return png(figure)
