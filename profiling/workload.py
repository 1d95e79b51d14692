"""What a benchmark requires of a pair: questions by route, tokens, scores.

Files have the form of Tables 10 and 5 of arXiv 2604.04929, with further columns.
"""

import re
from collections.abc import Mapping
from dataclasses import field
from typing import Annotated, Any, Literal, Self, get_args

from pydantic import ConfigDict, Field, model_validator
from pydantic.dataclasses import dataclass

from ..graph.strategies import STRATEGIES
from .latency import Role

Route = Literal["direct", "reasoned", "transferred", "confident"]
Style = Literal["direct", "explain", "reason"]
ROUTES: tuple[Route, ...] = get_args(Route)
STYLES: dict[str, Style] = {"S": "direct", "E": "explain", "R": "reason"}
"""Styles by the letters of the paper."""

SCORES = {f"score_{strategy}": strategy for strategy in STRATEGIES} | {
    "mai_score": "mai",
    "small_S": "small_direct",
    "small_R": "small_reason",
    "large_S": "large_direct",
    "full_transfer": "full_transfer",
}
"""Strategies by the columns of their scores: ours, and those of Table 10."""

_FINITE = ConfigDict(allow_inf_nan=False)

_Name = Annotated[str, Field(min_length=1)]
_Percent = Annotated[float, Field(ge=0, le=100)]
_Share = Annotated[float, Field(ge=0, le=1)]
_Count = Annotated[int, Field(ge=0, le=10**12)]
_Tokens = Annotated[float, Field(ge=0, le=1e9)]


@dataclass(frozen=True, kw_only=True, config=_FINITE)
class Workload:
    """A benchmark as one pair answers it; in a file, a row of Table 10's form.

    Attributes:
        benchmark: Its name.
        questions: How many there are.
        verified_direct: Those on which the direct answers agree; any that are in no route do, too.
        verified_by_reasoning: Those on which the small model's reasoning agrees with the large
            model's direct answer.
        reasoning_transfer: The others.
        small: The small model's name.
        large: The large model's name.
        tokens: Mean output tokens by role and prompt style.
        reason_tokens_reasoned: Mean tokens of the small model's reasoning on questions that it
            settles, where known; on disagreeing questions it reasons longer than on average.
        reason_tokens_transferred: The same on those that take a transfer.
        prompt_tokens: Mean length of a prompt, images included; by default an image of 512x512
            pixels (256 tokens) and 64 tokens of text.
        instruction_tokens: How much of it follows the prefix that all prompts of a question share:
            the style's instruction and the end of the turn.
        accept_rate: Share of the small model's tokens that the large one accepts in speculative
            decoding, where known.
        ahead: Tokens that it proposes at a time there.
        scores: What each strategy scores, in percent, where known; in a file by the columns
            `score_STRATEGY`, and Table 10's own.
        skipped: Share of all questions on which a gate skips the large model, out of those whose
            direct answers agree.
    """

    benchmark: _Name
    questions: Annotated[int, Field(ge=1, le=10**12)]
    verified_direct: _Count
    verified_by_reasoning: _Count
    reasoning_transfer: _Count
    small: str | None = None
    large: str | None = None
    tokens: Mapping[tuple[Role, Style], _Tokens] = field(default_factory=dict)
    reason_tokens_reasoned: _Tokens | None = None
    reason_tokens_transferred: _Tokens | None = None
    prompt_tokens: Annotated[float, Field(gt=0, le=1e9)] = 320.0
    instruction_tokens: _Tokens = 32.0
    accept_rate: _Share | None = None
    ahead: Annotated[float, Field(ge=1, le=1e6)] = 5.0
    scores: Mapping[str, _Percent] = field(default_factory=dict)
    skipped: _Share = 0.0

    @model_validator(mode="before")
    @classmethod
    def _gather_scores(cls, cells: Any) -> Any:
        if not isinstance(cells, dict):  # the arguments of a call
            return cells
        for column in cells:
            if column.startswith("score_") and column not in SCORES:
                raise ValueError(
                    f"the column {column!r} names no strategy; they are {', '.join(STRATEGIES)}."
                )
        return cells | {"scores": {name: cell for name, cell in cells.items() if name in SCORES}}

    @model_validator(mode="after")
    def _check_counts(self) -> Self:
        routed = self.verified_direct + self.disagreeing
        if routed > self.questions:
            raise ValueError(
                f"the routes add up to {routed}, which is more than the {self.questions} questions."
            )
        if self.count("direct") < 0:
            raise ValueError(
                f"A gate cannot skip {self.skipped:.1%} of the questions of {self.benchmark!r}: "
                "the direct answers agree on fewer."
            )
        return self

    @property
    def disagreeing(self) -> int:
        """Questions on which the direct answers do not agree."""
        return self.verified_by_reasoning + self.reasoning_transfer

    @property
    def prefix_tokens(self) -> float:
        """Tokens that all prompts of a question share."""
        return max(0.0, self.prompt_tokens - self.instruction_tokens)

    def score(self, strategy: str) -> float | None:
        """Return what a strategy scores, in percent; None where that is not known.

        Speculative decoding generates the large model's reasoning, and scores as it does.
        """
        scores = {SCORES.get(name, name): score for name, score in self.scores.items()}
        if strategy == "speculative":
            return scores.get(strategy, scores.get("large_reason"))
        return scores.get(strategy)

    def count(self, route: Route) -> int:
        """Return the questions of a route; those without one went direct."""
        confident = round(self.skipped * self.questions)
        return {
            "direct": self.questions - self.disagreeing - confident,
            "reasoned": self.verified_by_reasoning,
            "transferred": self.reasoning_transfer,
            "confident": confident,
        }[route]

    def reasoning(self, route: Route | None) -> float:
        """Return the mean tokens of the small model's reasoning on a route, or on all questions."""
        known = {
            "reasoned": self.reason_tokens_reasoned,
            "transferred": self.reason_tokens_transferred,
        }.get(route or "")
        return self.tokens["small", "reason"] if known is None else known


@dataclass(frozen=True, kw_only=True, config=_FINITE)
class MeanTokens:
    """A mean of output tokens: a row of Table 5's form.

    Attributes:
        benchmark: Where.
        style: S, E or R; rows of other styles are ignored.
        mean_output_tokens: The mean.
        model: Whose, by name.
        role: Whose: "small" or "large".
    """

    benchmark: _Name
    style: _Name
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
        by_role: dict[str, Role] = {"small": "small", "large": "large"}
        role = by_role.get(self.role) if self.role else by_name.get(base_name(self.model or ""))
        style = STYLES.get(self.style.upper())
        return None if role is None or style is None else (role, style)


def base_name(model: str) -> str:
    """Return a model's name without the owner of a hub name, folders or `demo:`."""
    return re.split(r"[/\\:]", model.rstrip("/\\"))[-1]
