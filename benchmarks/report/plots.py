"""Plots of an evaluation, as PNG files: accuracy against cost, and the routes."""

import io
from typing import Any

from ...configs import ConfigError
from ..estimates import Estimate, mean
from .cascade import cascade
from .evaluated import Evaluated

_COLORS = {
    "small": "#d98032",
    "large": "#3f6fb5",
    "full": "#7a5aa6",
    "speculative": "#b0413e",
    "mai": "#2c8c4b",
}
_ROUTE_COLORS = {"direct": "#7fbf7b", "reasoned": "#f0c05a", "transferred": "#b58bc9"}


def plots(run: Evaluated, protocol: str = "typed") -> dict[str, bytes]:
    """Every plot that an evaluation has results for.

    Args:
        run: The evaluation.
        protocol: Whose accuracy is shown.

    Returns:
        PNG files by name, without ending.

    Raises:
        ConfigError: matplotlib is not installed.
    """
    made = {"cost": _cost(run, protocol), "routes": _routes(run, protocol)}
    return {name: png for name, png in made.items() if png is not None}


def _cost(run: Evaluated, protocol: str) -> bytes | None:
    """Accuracy against seconds a question, or against output tokens where nothing was timed."""
    timed = bool(run.timed)
    points = []
    for name in run.results:
        graded = run.grades(name, protocol)
        worth = mean(list(graded.values()), run.clusters(list(graded)))
        cost = run.time(name, "seconds_per_question") if timed else _tokens(run, name)
        if worth.value is not None and cost.value is not None:
            points.append((name, cost, worth))
    if not points:
        return None
    figure, axes = _figure(7.5, 4.8)
    axes.set_xscale("log")
    axes.margins(x=0.15, y=0.08)
    _label_decades(axes.xaxis)
    for name, cost, worth in points:
        color = _COLORS[name.split("_", maxsplit=1)[0]]
        axes.errorbar(
            [cost.value],
            [100 * (worth.value or 0.0)],
            xerr=_bars(cost, 1.0),
            yerr=_bars(worth, 100.0),
            fmt="*" if name == "mai" else "o",
            markersize=13 if name == "mai" else 6,
            color=color,
            elinewidth=1,
            alpha=0.85,
        )
    _label(axes, [(name, cost.value, 100 * (worth.value or 0.0)) for name, cost, worth in points])
    axes.set_xlabel("seconds a question (log)" if timed else "output tokens a question (log)")
    axes.set_ylabel(f"accuracy, {protocol} (%)")
    axes.set_title(f"{run.benchmark.name}, pair {run.pair}: accuracy against cost")
    axes.grid(alpha=0.25, which="both")
    return _png(figure)


def _label_decades(axis: Any) -> None:
    """Plain numbers at some places of every decade, instead of powers of ten."""
    from matplotlib.ticker import LogLocator, NullFormatter

    axis.set_major_locator(LogLocator(subs=(1, 1.5, 2, 3, 5, 7)))
    axis.set_major_formatter("{x:g}")
    axis.set_minor_formatter(NullFormatter())


def _label(axes: Any, points: list[tuple[str, Any, float]]) -> None:
    """Names beside their points; one that would lie on another's is moved down."""
    left, right = axes.get_xlim()
    axes.set_xlim(left, right * (right / left) ** 0.15)  # room for the names on the right
    low, high = axes.get_ylim()
    apart = (high - low) / 22
    taken: list[tuple[float, float]] = []
    for name, x, y in sorted(points, key=lambda point: -point[2]):
        place = y
        while any(abs(place - other) < apart and 1 / 3 < x / near < 3 for near, other in taken):
            place -= apart / 2
        taken.append((x, place))
        axes.annotate(
            name,
            (x, y),
            xytext=(x * 1.03, place + apart / 3),  # above the error bar
            fontsize=8,
            va="bottom",
            arrowprops={"arrowstyle": "-", "color": "#999999", "lw": 0.5},
        )


def _routes(run: Evaluated, protocol: str) -> bytes | None:
    """The routes' shares, with the accuracy inside each."""
    found = cascade(run, protocol)
    if found is None:
        return None
    figure, axes = _figure(7.5, 2.1)
    left = 0.0
    for one in found.routes:
        width = 100 * (one.share.value or 0.0)
        axes.barh([0], [width], left=left, color=_ROUTE_COLORS[one.route], label=_legend(one))
        if width > 8:
            axes.text(left + width / 2, 0, f"{width:.1f}%", ha="center", va="center", fontsize=9)
        left += width
    axes.set_xlim(0, 100)
    axes.set_yticks([])
    axes.set_xlabel("share of the questions (%)")
    axes.set_title(f"{run.benchmark.name}, pair {run.pair}: routes of the cascade")
    figure.legend(loc="outside lower center", ncols=3, fontsize=8, frameon=False)
    return _png(figure)


def _legend(one: Any) -> str:
    value = one.accuracy.value
    right = "none" if value is None else f"{100 * value:.1f}% right"
    return f"{one.route} ({right})"


def _tokens(run: Evaluated, strategy: str) -> Estimate:
    sums = {
        one: float(sum(call["output_tokens"] or 0 for call in result["calls"]))
        for one, result in run.results[strategy].items()
    }
    return mean(list(sums.values()), run.clusters(list(sums)))


def _bars(estimate: Estimate, scale: float) -> list[list[float]] | None:
    if estimate.value is None or estimate.low is None or estimate.high is None:
        return None
    below, above = estimate.value - estimate.low, estimate.high - estimate.value
    return [[scale * max(0.0, below)], [scale * max(0.0, above)]]


def _figure(width: float, height: float) -> tuple[Any, Any]:
    try:
        # Not pyplot: it would keep every figure, and may want a screen.
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ConfigError(
            'Plots need matplotlib: run `pip install "langgraph-mai[plots]"`, or leave them out '
            "with --no-plots."
        ) from error
    figure: Any = Figure(figsize=(width, height), dpi=130, layout="constrained")
    return figure, figure.subplots()


def _png(figure: Any) -> bytes:
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", metadata={"Software": None})
    return buffer.getvalue()
