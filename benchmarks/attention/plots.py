"""Plots of attention on reasonings, in the form of the paper's Figures 3 to 5."""

from typing import Any

from ...plotting.figures import new_figure, png
from ..estimates import Estimate
from .figures import AttentionFigures
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
    """Every plot.

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
    """Figure 3's form: the attention on the reasoning, by layer and head, for each source.

    Returns:
        A matplotlib figure.
    """
    height = 1.9 + 0.22 * max(len(figures.layers), 6)
    figure, axes = new_figure(9.0, height, columns=len(figures.sources))
    panels = axes if len(figures.sources) > 1 else [axes]
    picture = None
    for panel, source in zip(panels, figures.sources, strict=True):
        totals = [
            [
                100 * (figures.head(source, layer, head).total.value or 0.0)
                for head in range(1, figures.heads + 1)
            ]
            for layer in figures.layers
        ]
        picture = panel.imshow(totals, vmin=0, vmax=100, aspect="auto", cmap="viridis")
        panel.set_title(SOURCE_NAMES[source], fontsize=10)
        panel.set_xlabel("head")
        panel.set_ylabel("layer")
        heads = range(0, figures.heads, max(1, figures.heads // 8))
        panel.set_xticks(list(heads), [str(one + 1) for one in heads])
        places = range(0, len(figures.layers), max(1, len(figures.layers) // 12))
        panel.set_yticks(list(places), [f"L{figures.layers[one]}" for one in places])
    figure.colorbar(picture, ax=panels, label="attention on the reasoning (%)")
    figure.suptitle(title, fontsize=11)
    return figure


def sparsity_figure(figures: AttentionFigures, title: str) -> Any:
    """Figure 4's form: how many tokens hold the share of the attention, by layer, with 95% bands.

    Returns:
        A matplotlib figure.
    """
    figure, axes = new_figure(7.0, 4.2)
    layers = list(figures.layers)
    for source in figures.sources:
        needed = [figures.layer(source, layer).needed for layer in layers]
        color = _COLORS[source]
        axes.plot(
            layers,
            [one.value for one in needed],
            marker="o",
            color=color,
            label=SOURCE_NAMES[source],
            **_LINES[source],
        )
        axes.fill_between(layers, *_band(needed), color=color, alpha=0.2, linewidth=0)
        axes.axhline(
            figures.tokens(source).value, color=color, linestyle=":", **_ALL_TOKENS[source]
        )
    axes.set_ylim(bottom=0)
    axes.xaxis.get_major_locator().set_params(integer=True)
    axes.set_xlabel("layer")
    axes.set_ylabel(f"tokens that hold {100 * figures.share:g}% (dotted: all tokens)")
    axes.set_title(title, fontsize=11)
    axes.grid(alpha=0.25)
    axes.legend(fontsize=9, frameon=False)
    return figure


def tokens_figure(figures: AttentionFigures, title: str, layer: int) -> Any:
    """Figure 5's form: the tokens with most attention at a layer and their shares, with 95% bars.

    Returns:
        A matplotlib figure.
    """
    figure, axes = new_figure(9.0, 4.8, columns=len(figures.sources))
    panels = axes if len(figures.sources) > 1 else [axes]
    for panel, source in zip(panels, figures.sources, strict=True):
        found = figures.top_tokens(source, layer)[::-1]
        shares = [100 * (one.share.value or 0.0) for one in found]
        low, high = _band([one.share for one in found])
        bars = [
            [share - 100 * end for share, end in zip(shares, low, strict=True)],
            [100 * end - share for share, end in zip(shares, high, strict=True)],
        ]
        panel.barh(range(len(found)), shares, xerr=bars, color=_COLORS[source], ecolor="#555555")
        # A dollar sign would begin a formula.
        panel.set_yticks(range(len(found)), [one.text.replace("$", r"\$") for one in found])
        panel.set_xlabel("share of the attention on the reasoning (%)")
        panel.set_title(SOURCE_NAMES[source], fontsize=10)
    figure.suptitle(f"{title}, layer {layer}", fontsize=11)
    return figure


def _band(found: list[Estimate]) -> tuple[list[float], list[float]]:
    """Lower and upper ends; the value itself where there is no interval."""
    low = [one.value if one.low is None else one.low for one in found]
    high = [one.value if one.high is None else one.high for one in found]
    return [one or 0.0 for one in low], [one or 0.0 for one in high]
