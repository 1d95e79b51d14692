"""Options that say what of a reasoning is handed over."""

from typing import Annotated, Literal

import typer
from pydantic import ValidationError

from ..configs import SparseTransfer
from .errors import UsageError

TransferOption = Annotated[
    str,
    typer.Option(
        "--transfer",
        help="What of a reasoning is read: full, or sparse (the tokens that get most attention).",
    ),
]
LayerOption = Annotated[
    int | None,
    typer.Option(
        "--layer",
        help="Sparse: the layer whose attention counts, 1 for the first.",
        show_default="the pair's",
    ),
]
ShareOption = Annotated[
    float | None,
    typer.Option(
        "--share", help="Sparse: the share of the attention to keep.", show_default="the pair's"
    ),
]
KeepOption = Annotated[
    str | None,
    typer.Option(
        "--keep",
        help="Sparse: attention, or as many tokens by sentences, last, random or small.",
        show_default="the pair's",
    ),
]


def read_transfer(
    transfer: str,
    of_pair: SparseTransfer,
    *,
    layer: int | None = None,
    share: float | None = None,
    keep: str | None = None,
) -> Literal["full"] | SparseTransfer:
    """What the options say, taken together.

    Args:
        transfer: "full" or "sparse".
        of_pair: How the pair selects tokens, where the options do not say.
        layer: The layer whose attention counts.
        share: The share of the attention to keep.
        keep: How tokens are chosen.

    Raises:
        UsageError: No such transfer, values that it cannot have, or some without sparse transfer.
    """
    given = {"layer": layer, "share": share, "keep": keep}
    changed = {name: value for name, value in given.items() if value is not None}
    if transfer not in ("full", "sparse"):
        raise UsageError(f"--transfer is full or sparse, not {transfer!r}.")
    if transfer == "full":
        if changed:
            raise UsageError(
                f"--{next(iter(changed))} is for sparse transfer: add --transfer sparse, or leave "
                "it out."
            )
        return "full"
    try:
        return SparseTransfer.model_validate(of_pair.model_dump() | changed)
    except ValidationError as error:
        problem = error.errors(include_url=False)[0]
        raise UsageError(
            f"--{problem['loc'][0]} cannot be {problem['input']}: {problem['msg']}."
        ) from error


def check_hands_over(strategy: str) -> None:
    """Refuse sparse transfer for a strategy without any transfer.

    Raises:
        UsageError: With the strategies that have one.
    """
    from ..graph import STRATEGIES, TRANSFER_STRATEGIES

    if strategy in STRATEGIES and strategy not in TRANSFER_STRATEGIES:
        raise UsageError(
            f"The strategy {strategy} hands over no reasoning: leave out --transfer, or use one of "
            f"{', '.join(TRANSFER_STRATEGIES)}."
        )
