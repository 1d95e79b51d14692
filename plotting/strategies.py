"""How strategies are told apart in plots: by kind, the same everywhere."""

from collections.abc import Sequence
from typing import Any

_KIND_NAMES = {
    "small": "small model alone",
    "large": "large model alone",
    "full": "full transfer",
    "speculative": "speculative decoding",
    "mai": "the cascade",
}
_COLORS = {
    "small": "#d98032",
    "large": "#3f6fb5",
    "full": "#7a5aa6",
    "speculative": "#b0413e",
    "mai": "#2c8c4b",
}
_OTHER = "#555555"
_INCHES_A_NAME = 1.6


def strategy_kind(strategy: str) -> str:
    """The kind of a strategy: which models take part, and how."""
    return strategy.split("_", maxsplit=1)[0]


def strategy_color(strategy: str) -> str:
    """The color of a strategy's kind."""
    return _COLORS.get(strategy_kind(strategy), _OTHER)


def strategy_marker(strategy: str) -> str:
    """The mark of a strategy's point: a star for the cascade."""
    return "*" if strategy_kind(strategy) == "mai" else "o"


def add_strategy_legend(figure: Any, strategies: Sequence[str]) -> None:
    """Say below a matplotlib figure what the colors and marks of these strategies stand for."""
    from matplotlib.lines import Line2D

    kinds = dict.fromkeys(strategy_kind(name) for name in strategies)
    marks = [
        Line2D(
            [],
            [],
            marker=strategy_marker(kind),
            linestyle="",
            color=strategy_color(kind),
            label=_KIND_NAMES.get(kind, kind),
        )
        for kind in kinds
    ]
    columns = max(1, min(len(marks), int(figure.get_figwidth() / _INCHES_A_NAME)))
    figure.legend(
        handles=marks, loc="outside lower center", ncols=columns, fontsize=8, frameon=False
    )
