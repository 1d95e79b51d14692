"""What a benchmark asks of a pair, as rows of files: Tables 10 and 5 of the paper, and more."""

from collections.abc import Sequence
from typing import Annotated, Any, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from ..graph.strategies import STRATEGIES
from .latency import ROLES, Role
from .workload import DEFAULT_AHEAD, DEFAULT_PROMPT_TOKENS, Drafting, Route, Style, Workload

STYLES: dict[str, Style] = {"S": "direct", "E": "explain", "R": "reason"}
"""Styles by the letters of the paper."""

_PAPER_SCORES = {
    "mai_score": "mai",
    "small_S": "small_direct",
    "small_R": "small_reason",
    "large_S": "large_direct",
    "full_transfer": "full_transfer",
}
"""Strategies by Table 10's columns of scores."""

_Percent = Annotated[float, Field(ge=0, le=100)]
_Count = Annotated[int, Field(ge=0)]
_Tokens = Annotated[float, Field(ge=0)]


class _Row(BaseModel):
    model_config = ConfigDict(frozen=True, allow_inf_nan=False)


class RoutesRow(_Row):
    """A benchmark in Table 10's form.

    Attributes:
        benchmark: Its name.
        questions: How many.
        verified_direct: Those on which the direct answers agree.
        verified_by_reasoning: Those on which the small model's reasoning agrees with the large
            model's direct answer.
        reasoning_transfer: The others.
        small: The small model's name, if it is told.
        large: The large model's name, if it is told.
        reason_tokens_reasoned: Mean tokens of the small model's reasoning on questions that it
            settles, if they are known.
        reason_tokens_transferred: The same on those that take a transfer.
        prompt_tokens: Mean length of a prompt, pictures included, if it is known.
        accept_rate: Share of the small model's tokens that the large one keeps in speculative
            decoding, if it is known.
        ahead: Tokens that it writes at a time there.
        scores: By strategy, in percent: the columns `score_STRATEGY`, and Table 10's own.
    """

    benchmark: Annotated[str, Field(min_length=1)]
    questions: Annotated[int, Field(ge=1)]
    verified_direct: _Count
    verified_by_reasoning: _Count
    reasoning_transfer: _Count
    small: str | None = None
    large: str | None = None
    reason_tokens_reasoned: _Tokens | None = None
    reason_tokens_transferred: _Tokens | None = None
    prompt_tokens: Annotated[float, Field(gt=0)] | None = None
    accept_rate: Annotated[float, Field(ge=0, le=1)] | None = None
    ahead: Annotated[float, Field(ge=1)] = DEFAULT_AHEAD
    scores: dict[str, _Percent] = {}

    @model_validator(mode="before")
    @classmethod
    def _gather_scores(cls, cells: dict[str, Any]) -> dict[str, Any]:
        columns = {
            column: column.removeprefix("score_") for column in cells if column.startswith("score_")
        }
        for column, strategy in columns.items():
            if strategy not in STRATEGIES:
                raise ValueError(
                    f"the column {column!r} names no strategy; they are {', '.join(STRATEGIES)}."
                )
        columns = {
            column: _PAPER_SCORES[column] for column in cells.keys() & _PAPER_SCORES
        } | columns
        return cells | {"scores": {strategy: cells[column] for column, strategy in columns.items()}}

    @model_validator(mode="after")
    def _check_counts(self) -> Self:
        routed = self.verified_direct + self.verified_by_reasoning + self.reasoning_transfer
        if routed > self.questions:
            raise ValueError(
                f"the routes add up to {routed}, which is more than the {self.questions} questions."
            )
        return self

    def reason_tokens(self) -> dict[Route, float]:
        """Mean tokens of the small model's reasoning by route, where they are known."""
        known: dict[Route, float | None] = {
            "reasoned": self.reason_tokens_reasoned,
            "transferred": self.reason_tokens_transferred,
        }
        return {route: tokens for route, tokens in known.items() if tokens is not None}


class TokensRow(_Row):
    """A mean of output tokens in Table 5's form.

    Attributes:
        benchmark: Where.
        style: S, E or R; rows of anything else play no part.
        mean_output_tokens: The mean.
        model: Whose, by name.
        role: Whose: "small" or "large".
    """

    benchmark: Annotated[str, Field(min_length=1)]
    style: Annotated[str, Field(min_length=1)]
    mean_output_tokens: _Tokens
    model: str | None = None
    role: str | None = None

    @model_validator(mode="after")
    def _check_owner(self) -> Self:
        if not (self.model or self.role):
            raise ValueError("it says neither which 'model' nor which 'role' it is about.")
        return self

    def call(self, names: dict[str, Role]) -> tuple[Role, Style] | None:
        """Whose calls these are, and in which style; None if they are not the pair's.

        Args:
            names: Roles by the names of models; a role that the row gives counts more.
        """
        role = self.role if self.role else names.get(self.model or "")
        if role not in ROLES or self.style not in STYLES:
            return None
        return role, STYLES[self.style]


def workload_of(
    row: RoutesRow, tokens: Sequence[TokensRow], names: dict[str, Role] | None = None
) -> Workload:
    """A workload from a row of routes and the rows of tokens; of several for one call, the last.

    Args:
        row: The benchmark.
        tokens: Of any benchmarks.
        names: The pair's roles by the names of its models.

    Raises:
        ValueError: The counts do not fit together.
    """
    by_call = {
        call: one.mean_output_tokens
        for one in tokens
        if one.benchmark == row.benchmark and (call := one.call(names or {}))
    }
    return Workload(
        name=row.benchmark,
        questions=row.questions,
        routes={
            "direct": row.verified_direct,
            "reasoned": row.verified_by_reasoning,
            "transferred": row.reasoning_transfer,
        },
        tokens=by_call,
        reason_tokens=row.reason_tokens(),
        prompt_tokens=row.prompt_tokens or DEFAULT_PROMPT_TOKENS,
        drafting=None if row.accept_rate is None else Drafting(row.accept_rate, row.ahead),
        scores=row.scores,
    )
