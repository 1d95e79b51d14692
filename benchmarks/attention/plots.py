"""Plots of attention on reasonings, in the form of the paper's Figures 3 to 5."""

from collections.abc import Sequence
from typing import Any

from ..plotting import new_figure, png
from ..statistics import Estimate
from .figures import ALL_HEADS, AttentionFigures
from .tables import SOURCE_NAMES

_COLORS = {"small": "#d98032", "large": "#3f6fb5"}

# Where both lines are the same, the small model's is seen on both sides of the large one's.
_LINES: dict[str, dict[str, Any]] = {
    "small": {"linewidth": 4.0, "markersize": 8, "zorder": 2.1},
    "large": {"linewidth": 1.5, "markersize": 4, "zorder": 2.2, "linestyle": "--"},
}
_ALL_TOKENS: dict[str, dict[str, Any]] = {
    "small": {"linewidth": 3.0, "zorder": 2.1},
    "large": {"linewidth": 1.0, "zorder": 2.2},
}


def plots(figures: AttentionFigures, title: str, layer: int) -> dict[str, bytes]:
    """Draw every plot.

    Args:
        figures: What was measured.
        title: What it was measured on, in a line.
        layer: The layer whose tokens are shown.

    Returns:
        PNG files by name, without ending: total attention by layer and head ("heads"), tokens
        needed by layer ("sparsity"), the tokens with most attention ("tokens").

    Raises:
        ConfigError: matplotlib is not installed.
    """
    made = {
        "heads": heads_figure(figures, title) if figures.heads else None,
        "sparsity": sparsity_figure(figures, title),
        "tokens": tokens_figure(figures, title, layer),
    }
    return {name: png(figure) for name, figure in made.items() if figure is not None}


def heads_figure(figures: AttentionFigures, title: str) -> Any:
    """Draw Figure 3's form: the attention on the reasoning, by layer and head, for each source.

    Returns:
        A matplotlib figure.
    """
    count, layers = len(figures.sources), figures.layers
    figure, panels = new_figure(9.0 / count, 1.9 + 0.22 * max(len(layers), 6), count)
    image = None
    for panel, source in zip(panels, figures.sources, strict=True):
        totals = [
            [
                100 * (figures.means[source, layer, head]["total_attention"].value or 0.0)
                for head in figures.heads
            ]
            for layer in layers
        ]
        image = panel.imshow(totals, vmin=0, vmax=100, aspect="auto", cmap="viridis")
        panel.set_title(SOURCE_NAMES[source], fontsize=10)
        panel.set_xlabel("head")
        panel.set_ylabel("layer")
        heads = range(0, len(figures.heads), max(1, len(figures.heads) // 8))
        panel.set_xticks(list(heads), [str(figures.heads[one]) for one in heads])
        places = range(0, len(layers), max(1, len(layers) // 12))
        panel.set_yticks(list(places), [f"L{layers[one]}" for one in places])
    figure.colorbar(image, ax=panels, label="attention on the reasoning (%)")
    figure.suptitle(title, fontsize=11)
    return figure


def sparsity_figure(figures: AttentionFigures, title: str) -> Any:
    """Draw Figure 4's form: tokens that hold the share of attention, by layer, with 95% bands.

    Returns:
        A matplotlib figure.
    """
    figure, (axes,) = new_figure(7.0, 4.2)
    layers = list(figures.layers)
    for source in figures.sources:
        needed = [figures.means[source, layer, ALL_HEADS]["tokens_needed"] for layer in layers]
        color = _COLORS[source]
        values = [one.value for one in needed]
        name = SOURCE_NAMES[source]
        axes.plot(layers, values, marker="o", color=color, label=name, **_LINES[source])
        axes.fill_between(layers, *_band(needed), color=color, alpha=0.2, linewidth=0)
        tokens = figures.tokens[source].value
        axes.axhline(tokens, color=color, linestyle=":", **_ALL_TOKENS[source])
    axes.set_ylim(bottom=0)
    axes.xaxis.get_major_locator().set_params(integer=True)
    axes.set_xlabel("layer")
    axes.set_ylabel(f"tokens that hold {100 * figures.share:g}% (dotted: all tokens)")
    axes.set_title(title, fontsize=11)
    axes.grid(alpha=0.25)
    axes.legend(fontsize=9, frameon=False)
    return figure


def tokens_figure(figures: AttentionFigures, title: str, layer: int) -> Any:
    """Draw Figure 5's form: the tokens with most attention at a layer, with 95% bars.

    Returns:
        A matplotlib figure.
    """
    count = len(figures.sources)
    figure, panels = new_figure(9.0 / count, 4.8, count)
    for panel, source in zip(panels, figures.sources, strict=True):
        found = figures.top_tokens(source, layer)[::-1]
        shares = [100 * (share.value or 0.0) for _, share, _ in found]
        low, high = _band([share for _, share, _ in found])
        bars = [
            [share - 100 * end for share, end in zip(shares, low, strict=True)],
            [100 * end - share for share, end in zip(shares, high, strict=True)],
        ]
        panel.barh(range(len(found)), shares, xerr=bars, color=_COLORS[source], ecolor="#555555")
        panel.set_yticks(range(len(found)), [text for text, *_ in found])
        panel.set_xlabel("share of the attention on the reasoning (%)")
        panel.set_title(SOURCE_NAMES[source], fontsize=10)
    figure.suptitle(f"{title}, layer {layer}", fontsize=11)
    return figure


def _band(found: Sequence[Estimate]) -> tuple[list[float], list[float]]:
    """Return lower and upper ends; the value itself where there is no interval."""
    low = [one.value if one.low is None else one.low for one in found]
    high = [one.value if one.high is None else one.high for one in found]
    return [one or 0.0 for one in low], [one or 0.0 for one in high]
