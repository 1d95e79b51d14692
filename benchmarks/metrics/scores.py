"""One figure of a benchmark under one protocol."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, get_args

Protocol = Literal["typed", "strict", "vlmevalkit", "lmms"]
"""Whose reading of an output counts.

typed: ours, `answers.parse` and `answers.agree`. strict: the rule of the benchmark's own script or
paper. vlmevalkit, lmms: what VLMEvalKit and lmms-eval do, without a judge model.
"""

PROTOCOLS: tuple[Protocol, ...] = get_args(Protocol)


@dataclass(frozen=True, slots=True, kw_only=True)
class Score:
    """One figure with its 95% interval.

    Attributes:
        protocol: Whose reading of the outputs it is, one of `PROTOCOLS`.
        metric: What is measured: "accuracy", "circular_accuracy", "precision", ...
        value: A fraction from 0 to 1; None where nothing can be computed (no output, or a ratio
            whose denominator is 0).
        low: Lower end of the interval; None where there is none.
        high: Upper end.
        questions: How many questions it is about.
        group: The part of the benchmark, as {"split": "random"}; empty for all of it.
    """

    protocol: str
    metric: str
    value: float | None
    low: float | None
    high: float | None
    questions: int
    group: Mapping[str, str] = field(default_factory=dict)
