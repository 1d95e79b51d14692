"""What a benchmark requires of a pair: routes, tokens, scores; and its rows in files.

The files have the form of Tables 10 and 5 of arXiv 2604.04929, with further columns.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import inf
from typing import Annotated, Any, Literal, Self, get_args

from pydantic import BaseModel, ConfigDict, Field, model_validator

from ..graph.strategies import STRATEGIES
from .latency import ROLES, Role

Route = Literal["direct", "reasoned", "transferred", "confident"]
Style = Literal["direct", "explain", "reason"]
ROUTES: tuple[Route, ...] = get_args(Route)
STYLES: dict[str, Style] = {"S": "direct", "E": "explain", "R": "reason"}
"""Styles by the letters of the paper."""

DEFAULT_PROMPT_TOKENS = 320
"""An image of 512x512 pixels (256 tokens) and 64 tokens of text."""

DEFAULT_INSTRUCTION_TOKENS = 32
"""What follows the shared prefix of a prompt: the style's instruction and the end of the turn."""

DEFAULT_AHEAD = 5
"""Tokens that a draft model proposes before they are verified."""


@dataclass(frozen=True, slots=True)
class Drafting:
    """Speculative decoding of the large model's reasoning, with the small model as draft.

    Attributes:
        accept_rate: Share of the proposed tokens that are in the output.
        ahead: Tokens that the draft proposes before the large model verifies them.
    """

    accept_rate: float
    ahead: float = DEFAULT_AHEAD

    def __post_init__(self) -> None:
        """Validate the figures.

        Raises:
            ValueError: One is out of range.
        """
        if not (0 <= self.accept_rate <= 1 and 1 <= self.ahead < inf):
            raise ValueError("An accept rate is from 0 to 1, and a draft writes a token at least.")

    @property
    def tokens_per_round(self) -> float:
        """Output tokens of each verification: the accepted ones and the large model's own."""
        return 1 + self.accept_rate * self.ahead


@dataclass(frozen=True, slots=True)
class Workload:
    """A benchmark as one pair answers it.

    Attributes:
        name: The benchmark.
        questions: How many there are.
        routes: Questions by the route that the cascade takes.
        tokens: Mean output tokens by role and prompt style.
        reason_tokens: Mean tokens of the small model's reasoning by route, where they are known;
            on disagreeing questions it reasons longer than on average.
        prompt_tokens: Mean length of a prompt, images included.
        instruction_tokens: How much of it follows the prefix that all prompts of a question share.
        drafting: How speculative decoding goes, where that is known.
        scores: What each strategy scores, in percent, where that is known.
        models: The small and the large model of the routes, as their source names them.
        skipped: Share of all questions on which a gate skips the large model, out of those whose
            direct answers agree.
    """

    name: str
    questions: int
    routes: Mapping[Route, int]
    tokens: Mapping[tuple[Role, Style], float]
    reason_tokens: Mapping[Route, float] = field(default_factory=dict)
    prompt_tokens: float = DEFAULT_PROMPT_TOKENS
    instruction_tokens: float = DEFAULT_INSTRUCTION_TOKENS
    drafting: Drafting | None = None
    scores: Mapping[str, float] = field(default_factory=dict)
    models: tuple[str, str] | None = None
    skipped: float = 0.0

    def __post_init__(self) -> None:
        """Validate the counts.

        Raises:
            ValueError: No questions, more disagreeing ones than there are, or a negative figure.
        """
        if self.questions < 1:
            raise ValueError(f"The workload {self.name!r} has no questions.")
        figures = [*self.routes.values(), *self.tokens.values(), *self.reason_tokens.values()]
        if not all(0 <= figure < inf for figure in figures):
            raise ValueError(f"The workload {self.name!r} has a figure below 0, or none at all.")
        if not 0 < self.prompt_tokens < inf:
            raise ValueError(f"The prompts of the workload {self.name!r} must have tokens.")
        if self.disagreeing > self.questions:
            raise ValueError(f"The workload {self.name!r} has more disputed questions than any.")
        if not 0 <= self.skipped * self.questions <= self.questions - self.disagreeing:
            raise ValueError(
                f"A gate cannot skip {self.skipped:.1%} of the questions of {self.name!r}: the "
                "direct answers agree on fewer."
            )

    @property
    def disagreeing(self) -> int:
        """Questions on which the direct answers do not agree."""
        return self.routes.get("reasoned", 0) + self.routes.get("transferred", 0)

    @property
    def prefix_tokens(self) -> float:
        """Tokens that all prompts of a question share."""
        return max(0.0, self.prompt_tokens - self.instruction_tokens)

    def score(self, strategy: str) -> float | None:
        """Return what a strategy scores, in percent; None where that is not known.

        Speculative decoding generates the large model's reasoning, and scores as it does.
        """
        alike = "large_reason" if strategy == "speculative" else strategy
        return self.scores.get(strategy, self.scores.get(alike))

    def count(self, route: Route) -> int:
        """Return the questions of a route; those without one went direct."""
        confident = round(self.skipped * self.questions)
        known = {"direct": self.questions - self.disagreeing - confident, "confident": confident}
        return known.get(route, self.routes.get(route, 0))

    def reasoning(self, route: Route | None) -> float:
        """Return the mean tokens of the small model's reasoning on a route, or on all questions."""
        mean = self.tokens["small", "reason"]
        return mean if route is None else self.reason_tokens.get(route, mean)


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


def base_name(model: str) -> str:
    """Return a model's name without the owner of a hub name, folders or `demo:`."""
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
        small: The small model's name.
        large: The large model's name.
        reason_tokens_reasoned: Mean tokens of the small model's reasoning on questions that it
            settles.
        reason_tokens_transferred: The same on those that take a transfer.
        prompt_tokens: Mean length of a prompt, images included.
        accept_rate: Share of the small model's tokens that the large one accepts in speculative
            decoding.
        ahead: Tokens that it proposes at a time there.
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
        for column in cells:
            if column.startswith("score_") and column not in _SCORES:
                raise ValueError(
                    f"the column {column!r} names no strategy; they are {', '.join(STRATEGIES)}."
                )
        return cells | {"scores": {name: cell for name, cell in cells.items() if name in _SCORES}}

    @model_validator(mode="after")
    def _check_counts(self) -> Self:
        routed = self.verified_direct + self.verified_by_reasoning + self.reasoning_transfer
        if routed > self.questions:
            raise ValueError(
                f"the routes add up to {routed}, which is more than the {self.questions} questions."
            )
        return self

    def scores_by_strategy(self) -> dict[str, float]:
        """Return the scores in percent."""
        return {_SCORES[column]: score for column, score in self.scores.items()}


class TokensRow(_Row):
    """A mean of output tokens in Table 5's form.

    Attributes:
        benchmark: Where.
        style: S, E or R; rows of other styles are ignored.
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

    def call(self, names: Mapping[str, Role]) -> tuple[Role, Style] | None:
        """Return whose calls these are, and their style; None if they are not the pair's.

        Args:
            names: Roles by the names of models; a role in the row has precedence.
        """
        by_name = {base_name(name): role for name, role in names.items()}
        role = self.role if self.role else by_name.get(base_name(self.model or ""))
        style = STYLES.get(self.style.upper())
        return None if role not in ROLES or style is None else (role, style)


def workload_of(row: RoutesRow, tokens: Sequence[TokensRow], names: Mapping[str, Role]) -> Workload:
    """Build a workload from a row of routes and the rows of tokens.

    Args:
        row: The benchmark.
        tokens: Of any benchmarks; of several for one call, the last counts.
        names: The pair's roles by the names of its models.

    Raises:
        ValueError: The counts contradict each other.
    """
    reasoning: dict[Route, float | None] = {
        "reasoned": row.reason_tokens_reasoned,
        "transferred": row.reason_tokens_transferred,
    }
    return Workload(
        name=row.benchmark,
        questions=row.questions,
        routes={
            "direct": row.verified_direct,
            "reasoned": row.verified_by_reasoning,
            "transferred": row.reasoning_transfer,
        },
        tokens={
            call: one.mean_output_tokens
            for one in tokens
            if one.benchmark == row.benchmark and (call := one.call(names))
        },
        reason_tokens={route: count for route, count in reasoning.items() if count is not None},
        prompt_tokens=row.prompt_tokens or DEFAULT_PROMPT_TOKENS,
        drafting=None if row.accept_rate is None else Drafting(row.accept_rate, row.ahead),
        scores=row.scores_by_strategy(),
        models=(row.small, row.large) if row.small and row.large else None,
    )
