"""What a benchmark asks of a pair, as rows of files: Tables 10 and 5 of the paper, and more."""

import re
from collections.abc import Sequence
from typing import Annotated, Any, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from ..graph.strategies import STRATEGIES
from .latency import ROLES, Role
from .workload import DEFAULT_AHEAD, DEFAULT_PROMPT_TOKENS, Drafting, Route, Style, Workload

STYLES: dict[str, Style] = {"S": "direct", "E": "explain", "R": "reason"}
"""Styles by the letters of the paper."""

_SCORES = {f"score_{strategy}": strategy for strategy in STRATEGIES} | {
    "mai_score": "mai",
    "small_S": "small_direct",
    "small_R": "small_reason",
    "large_S": "large_direct",
    "full_transfer": "full_transfer",
}
"""Strategies by the columns of their scores: ours, and those of Table 10."""

_Percent = Annotated[float, Field(ge=0, le=100)]
_Count = Annotated[int, Field(ge=0, le=10**12)]
_Tokens = Annotated[float, Field(ge=0, le=1e9)]


ROUTES_COLUMNS = (
    *("benchmark", "questions", "verified_direct", "verified_by_reasoning", "reasoning_transfer"),
    *("small", "large", "reason_tokens_reasoned", "reason_tokens_transferred", "prompt_tokens"),
    *("accept_rate", "ahead", *_SCORES),
)
"""All columns of a routes file."""


def own_name(model: str) -> str:
    """A model's own name: without the owner of a hub name, without folders, without `demo:`."""
    return re.split(r"[/\\:]", model.rstrip("/\\"))[-1]


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
        scores: In percent, by their columns: `score_STRATEGY`, and Table 10's own.
    """

    benchmark: Annotated[str, Field(min_length=1)]
    questions: Annotated[int, Field(ge=1, le=10**12)]
    verified_direct: _Count
    verified_by_reasoning: _Count
    reasoning_transfer: _Count
    small: str | None = None
    large: str | None = None
    reason_tokens_reasoned: _Tokens | None = None
    reason_tokens_transferred: _Tokens | None = None
    prompt_tokens: Annotated[float, Field(gt=0, le=1e9)] | None = None
    accept_rate: Annotated[float, Field(ge=0, le=1)] | None = None
    ahead: Annotated[float, Field(ge=1, le=1e6)] = DEFAULT_AHEAD
    scores: dict[str, _Percent] = {}

    @model_validator(mode="before")
    @classmethod
    def _gather_scores(cls, cells: dict[str, Any]) -> dict[str, Any]:
        columns = [column for column in cells if column in _SCORES]
        for column in cells:
            if column.startswith("score_") and column not in _SCORES:
                raise ValueError(
                    f"the column {column!r} names no strategy; they are {', '.join(STRATEGIES)}."
                )
        return cells | {"scores": {column: cells[column] for column in columns}}

    @model_validator(mode="after")
    def _check_counts(self) -> Self:
        routed = self.verified_direct + self.verified_by_reasoning + self.reasoning_transfer
        if routed > self.questions:
            raise ValueError(
                f"the routes add up to {routed}, which is more than the {self.questions} questions."
            )
        return self

    def scores_by_strategy(self) -> dict[str, float]:
        """Scores in percent."""
        return {_SCORES[column]: score for column, score in self.scores.items()}

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
        by_name = {own_name(name): role for name, role in names.items()}
        role = self.role if self.role else by_name.get(own_name(self.model or ""))
        style = STYLES.get(self.style.upper())
        if role not in ROLES or style is None:
            return None
        return role, style


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
        scores=row.scores_by_strategy(),
        models=(row.small, row.large) if row.small and row.large else None,
    )
