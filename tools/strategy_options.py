"""Options that say which strategies are evaluated, and with which transfer."""

from itertools import product
from typing import Annotated

import typer

from ..configs import SparseTransfer
from .errors import UsageError
from .transfer_options import read_transfer

STRATEGY_NAMES = (  # those of `graph.STRATEGIES`, which would load too much for a help text
    *(
        f"{role}_{style}"
        for role in ("small", "large")
        for style in ("direct", "explain", "reason")
    ),
    *("small_two_stage", "large_two_stage", "full_transfer", "speculative", "mai"),
)
DEFAULT_STRATEGIES = ("small_direct", "large_direct", "large_reason", "mai")

LayerSweep = Annotated[
    list[int] | None,
    typer.Option(
        "--layer",
        help="Sparse: a layer whose attention counts, once for each; 1 is the first.",
        show_default="the pair's",
    ),
]
ShareSweep = Annotated[
    list[float] | None,
    typer.Option(
        "--share",
        help="Sparse: a share of the attention to keep, once for each.",
        show_default="the pair's",
    ),
]
KeepSweep = Annotated[
    list[str] | None,
    typer.Option(
        "--keep",
        help="Sparse: attention, or as many tokens by sentences, last, random or small; once for "
        "each.",
        show_default="the pair's",
    ),
]


def read_strategies(
    named: list[str] | None,
    transfer: str,
    of_pair: SparseTransfer,
    *,
    layers: list[int] | None,
    shares: list[float] | None,
    keeps: list[str] | None,
) -> list[str]:
    """The names of what is evaluated; sparse transfer in every combination that is asked for.

    Args:
        named: Names of strategies, or "all"; None for the default ones.
        transfer: "full" or "sparse".
        of_pair: How the pair selects tokens, where the options do not say.
        layers: Layers whose attention counts.
        shares: Shares of the attention to keep.
        keeps: How tokens are chosen.

    Raises:
        UsageError: No such strategy or transfer, or sparse transfer where nothing is transferred.
    """
    chosen = _known(named)
    # Without a value of an option, the pair's counts.
    given = product(layers or (None,), shares or (None,), keeps or (None,))
    ways = [
        read_transfer(transfer, of_pair, layer=layer, share=share, keep=keep)
        for layer, share, keep in given
    ]
    sparse = [way for way in ways if isinstance(way, SparseTransfer)]
    if not sparse:
        return chosen
    from ..benchmarks.evaluation.variants import Variant
    from ..graph import TRANSFER_STRATEGIES

    if not set(chosen) & set(TRANSFER_STRATEGIES):
        raise UsageError(
            "None of these strategies hands a reasoning over: leave out --transfer, or add one of "
            f"{', '.join(TRANSFER_STRATEGIES)}."
        )
    names = [
        variant.name
        for name in chosen
        for variant in (
            [Variant(name, way) for way in sparse]
            if name in TRANSFER_STRATEGIES
            else [Variant(name)]
        )
    ]
    return list(dict.fromkeys(names))


def _known(named: list[str] | None) -> list[str]:
    from ..graph import STRATEGIES

    chosen = list(dict.fromkeys(named or DEFAULT_STRATEGIES))
    if "all" in chosen:
        return list(STRATEGIES)
    for name in chosen:
        if name not in STRATEGIES:
            raise UsageError(
                f"The strategy {name!r} is unknown; use all, or some of {', '.join(STRATEGIES)}."
            )
    return chosen
