"""What a set of questions asks of a pair: routes, tokens, scores."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import inf
from typing import Literal, get_args

from .latency import Role

Route = Literal["direct", "reasoned", "transferred"]
Style = Literal["direct", "explain", "reason"]
ROUTES: tuple[Route, ...] = get_args(Route)

DEFAULT_PROMPT_TOKENS = 320
"""A picture of 512x512 pixels (256 tokens) and 64 tokens of text."""


DEFAULT_INSTRUCTION_TOKENS = 32
"""What follows the shared prefix of a prompt: the style's instruction and the end of the turn."""

DEFAULT_AHEAD = 5
"""Tokens that a draft writes before the large model reads them, where nobody says."""


@dataclass(frozen=True, slots=True)
class Drafting:
    """Speculative decoding of the large model's reasoning, with the small model as draft.

    Attributes:
        accept_rate: Share of the draft's tokens that are in the output.
        ahead: Tokens that the draft writes before the large model reads them.
    """

    accept_rate: float
    ahead: float = DEFAULT_AHEAD

    def __post_init__(self) -> None:
        """Check the figures.

        Raises:
            ValueError: One is out of range.
        """
        if not (0 <= self.accept_rate <= 1 and 1 <= self.ahead < inf):
            raise ValueError("An accept rate is from 0 to 1, and a draft writes a token at least.")

    @property
    def tokens_per_round(self) -> float:
        """Tokens of the output each time that the large model reads: the kept ones and its own."""
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
            questions that the models dispute make it reason longer than on average.
        prompt_tokens: Mean length of a prompt, pictures included.
        instruction_tokens: How much of it comes after what all prompts about a question share.
        drafting: How speculative decoding goes, where that is known.
        scores: What each strategy scores, in percent, where that is known.
        models: The small and the large model that the routes are of, as their source calls them.
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

    def __post_init__(self) -> None:
        """Check the counts.

        Raises:
            ValueError: No questions, more disputed ones than there are, or a negative figure.
        """
        if self.questions < 1:
            raise ValueError(f"The workload {self.name!r} has no questions.")
        figures = [*self.routes.values(), *self.tokens.values(), *self.reason_tokens.values()]
        if not all(0 <= figure < inf for figure in figures):
            raise ValueError(f"The workload {self.name!r} has a figure below 0, or none at all.")
        if not 0 < self.prompt_tokens < inf:
            raise ValueError(f"The prompts of the workload {self.name!r} must have tokens.")
        if self.disputed > self.questions:
            raise ValueError(f"The workload {self.name!r} has more disputed questions than any.")

    @property
    def transferred(self) -> int:
        """Questions that take a reasoning transfer."""
        return self.routes.get("transferred", 0)

    @property
    def disputed(self) -> int:
        """Questions on which the direct answers do not agree."""
        return self.routes.get("reasoned", 0) + self.transferred

    def score(self, strategy: str) -> float | None:
        """What a strategy scores, in percent; None where that is not known.

        Speculative decoding writes what the large model's reasoning does, and scores as it does
        where nothing else is known.
        """
        alike = "large_reason" if strategy == "speculative" else strategy
        return self.scores.get(strategy, self.scores.get(alike))

    def count(self, route: Route) -> int:
        """Questions of a route; those that no route is given for went direct."""
        return self.questions - self.disputed if route == "direct" else self.routes.get(route, 0)

    def reasoning(self, route: Route | None) -> float:
        """Mean tokens of the small model's reasoning on a route, or on all questions."""
        mean = self.tokens["small", "reason"]
        return mean if route is None else self.reason_tokens.get(route, mean)
