"""What a set of questions asks of a pair: routes, tokens, scores."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, get_args

from .latency import Role

Route = Literal["direct", "reasoned", "transferred"]
Style = Literal["direct", "explain", "reason"]
ROUTES: tuple[Route, ...] = get_args(Route)

DEFAULT_PROMPT_TOKENS = 320
"""A picture of 512x512 pixels (256 tokens) and 64 tokens of text."""


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
        scores: What each strategy scores, in percent, where that is known.
    """

    name: str
    questions: int
    routes: Mapping[Route, int]
    tokens: Mapping[tuple[Role, Style], float]
    reason_tokens: Mapping[Route, float] = field(default_factory=dict)
    prompt_tokens: float = DEFAULT_PROMPT_TOKENS
    scores: Mapping[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Check the counts.

        Raises:
            ValueError: No questions, more disputed ones than there are, or a negative figure.
        """
        if self.questions < 1:
            raise ValueError(f"The workload {self.name!r} has no questions.")
        figures = [*self.routes.values(), *self.tokens.values(), *self.reason_tokens.values()]
        if any(figure < 0 for figure in figures):
            raise ValueError(f"The workload {self.name!r} has a negative figure.")
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

    def count(self, route: Route) -> int:
        """Questions of a route; those that no route is given for went direct."""
        return self.questions - self.disputed if route == "direct" else self.routes.get(route, 0)

    def reasoning(self, route: Route | None) -> float:
        """Mean tokens of the small model's reasoning on a route, or on all questions."""
        mean = self.tokens["small", "reason"]
        return mean if route is None else self.reason_tokens.get(route, mean)
