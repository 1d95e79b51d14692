"""How long one model call takes, from the latencies of its components."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Literal, get_args

SHORTEST_STEP = 1e-12
"""Seconds; a shorter decode step is a rounding error."""

Role = Literal["small", "large"]
ROLES: tuple[Role, ...] = get_args(Role)

DEFAULT_BATCH_SLOPE = 0.04
"""Used where no batch was measured: a decode step of 32 sequences takes 2.2 times that of one.

`paper_tables.batch_slope` derives 0.042 from the paper's Tables 5 and 12.
"""


@dataclass(frozen=True, slots=True)
class ModelLatency:
    """Component latencies of one model on one machine.

    Attributes:
        model: Its name.
        prefill: (prompt tokens, seconds until the prompt is read), ascending; its pictures' tokens
            are included, and so is the work on pictures, but for what `pictures` says of it.
        seconds_per_token: One decode step at batch size 1.
        least_seconds: No call is shorter. The paper's direct answers cost as much as 8 tokens.
        batch_slope: What each further sequence of a batch adds to a decode step, as a share of it.
        pictures: (prompt tokens, seconds of the picture in it), ascending: the vision encoder and,
            where it was measured, preparing. Prompts that are read together each pay it.
        overhead_seconds: What a call costs beside the model's own work: messages, tokens, pictures
            made ready, waiting for threads. Nothing where only components were measured.
    """

    model: str
    prefill: tuple[tuple[int, float], ...]
    seconds_per_token: float
    least_seconds: float = 0.0
    batch_slope: float = DEFAULT_BATCH_SLOPE
    pictures: tuple[tuple[int, float], ...] = ()
    overhead_seconds: float = 0.0

    def __post_init__(self) -> None:
        """Check the figures.

        Raises:
            ValueError: No prefill, or a figure that is no time.
        """
        for curve in (self.prefill, self.pictures):
            sizes = [tokens for tokens, _ in curve]
            if sizes != sorted(set(sizes)) or not self.prefill:
                raise ValueError(f"{self.model!r} needs prefill times by ascending prompt tokens.")
        times = [seconds for _, seconds in (*self.prefill, *self.pictures)]
        others = [self.least_seconds, self.batch_slope, self.overhead_seconds, *times]
        finite = all(map(math.isfinite, [self.seconds_per_token, *others]))
        if not finite or min(others) < 0 or self.seconds_per_token < SHORTEST_STEP:
            raise ValueError(
                f"The latencies of {self.model!r} must be finite and not negative, and a decode "
                "step must take time."
            )

    @property
    def prefill_per_token(self) -> float:
        """Seconds that each further prompt token adds, from the largest prompts measured."""
        if len(self.prefill) < 2:
            tokens, seconds = self.prefill[0]
            return seconds / tokens if tokens else 0.0
        (few, short), (many, long) = self.prefill[0], self.prefill[-1]
        return max(0.0, (long - short) / (many - few))

    def prefill_seconds(self, prompt_tokens: float) -> float:
        """Seconds to read a whole prompt: between measured prompts by interpolation.

        Args:
            prompt_tokens: Its length, pictures included. Shorter ones than were measured cost as
                much as the shortest; longer ones go on by `prefill_per_token`.
        """
        return self.read_seconds(prompt_tokens, [prompt_tokens])

    def read_seconds(self, new_tokens: float, whole_prompts: Sequence[float]) -> float:
        """Seconds to read prompts together.

        Args:
            new_tokens: Tokens of all of them that no cached prefix holds.
            whole_prompts: Lengths of the questions, pictures included, of those that have no cached
                prefix: their pictures are new.
        """
        if not whole_prompts:
            return self.suffix_seconds(new_tokens)
        pictures = sum(map(self.picture_seconds, whole_prompts))
        many, _ = self.prefill[-1]
        beyond = self.prefill_per_token * max(0.0, new_tokens - many)
        return _between(self.prefill, new_tokens) + beyond + pictures

    def picture_seconds(self, prompt_tokens: float) -> float:
        """Seconds of the picture in a prompt, apart from what `prefill` holds of it.

        Args:
            prompt_tokens: Length of the prompt. Beyond those that were measured, nothing is added.
        """
        return _between(self.pictures, prompt_tokens) if self.pictures else 0.0

    def suffix_seconds(self, new_tokens: float) -> float:
        """Seconds to read what follows a cached prefix: at least one pass through the weights."""
        return max(self.seconds_per_token, self.prefill_per_token * new_tokens)

    def step_seconds(self, batch: int) -> float:
        """One decode step of a batch."""
        return self.seconds_per_token * (1 + self.batch_slope * (batch - 1))

    def call_seconds(
        self,
        prompt_tokens: float,
        output_tokens: float,
        cached_tokens: float = 0.0,
        question_tokens: float | None = None,
    ) -> float:
        """One call on its own.

        Args:
            prompt_tokens: Length of the prompt, cached prefix included.
            output_tokens: Tokens written.
            cached_tokens: How much of the prompt the engine's prefix cache holds.
            question_tokens: How much of the prompt is the question with its picture; None for all.
        """
        asked = prompt_tokens if question_tokens is None else question_tokens
        read = self.read_seconds(prompt_tokens - cached_tokens, [] if cached_tokens else [asked])
        written = output_tokens * self.seconds_per_token
        return max(self.least_seconds, self.overhead_seconds + read + written)

    def drafted(
        self, draft: "ModelLatency", ahead: float, tokens_per_round: float
    ) -> "ModelLatency":
        """The same model where another one drafts for it, with the mean seconds of a token.

        Args:
            draft: The draft's latencies.
            ahead: Tokens that it writes before this model reads them in one pass.
            tokens_per_round: Tokens of the output that come of it.
        """
        one_round = ahead * draft.seconds_per_token + self.suffix_seconds(ahead + 1)
        return replace(self, seconds_per_token=one_round / tokens_per_round)

    def without_floor(self) -> "ModelLatency":
        """The same model where a short call may be as short as its components say."""
        return replace(self, least_seconds=0.0)


def _between(curve: Sequence[tuple[int, float]], tokens: float) -> float:
    """A curve's seconds: between its points by interpolation, outside as at its ends."""
    if tokens <= curve[0][0]:
        return curve[0][1]
    for (few, short), (many, long) in pairwise(curve):
        if tokens <= many:
            return short + (long - short) * (tokens - few) / (many - few)
    return curve[-1][1]


Latencies = Mapping[Role, ModelLatency]
"""The latencies of a pair, by role."""
