"""Which tokens of a reasoning are handed over in sparse transfer."""

from typing import Literal

from pydantic import Field, field_validator

from .frozen import Frozen
from .numbers import refuse_bool

Keep = Literal["attention", "sentences", "last", "random", "small"]


class SparseTransfer(Frozen):
    """How sparse transfer selects tokens (the paper's sparse reasoning transfer, Table 9).

    The attention that one position of the transfer prompt pays to the tokens of the reasoning, at
    one layer and in the mean over its heads, says how much each token matters. The smallest set of
    tokens that holds `share` of it is handed over. The other values of `keep` hand over as many
    tokens, chosen otherwise, to show what selecting by attention buys.

    Attributes:
        layer: Layer of the language model, 1 for the first; None for the same depth as layer 22 of
            36, which did best for its tokens in the paper's Table 9.
        share: Share of the attention on the reasoning that the kept tokens hold, above 0, at most
            1; 1 keeps every token.
        query: Position whose attention is read, counted from the end of the prompt: -1 is the last
            one, which writes the first token of the answer.
        keep: "attention"; or, for the same number of tokens: "sentences" (whole ones, those with
            most attention first), "last" (the end of the reasoning), "random", "small" (by the
            small model's own attention).
    """

    layer: int | None = Field(default=None, ge=1)
    share: float = Field(default=0.8, gt=0, le=1, allow_inf_nan=False)
    query: int = Field(default=-1, lt=0)
    keep: Keep = "attention"

    _numbers_only = field_validator("layer", "share", "query", mode="before")(refuse_bool)
