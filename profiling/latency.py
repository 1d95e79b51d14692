"""How long one model call takes, from the latencies of its components."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from itertools import pairwise
from statistics import fmean
from typing import Annotated, Literal, Self, get_args

from pydantic import ConfigDict, Field, model_validator
from pydantic.dataclasses import dataclass

from .csv_rows import ProfilingInputError
from .profile_rows import ProfileRow

Role = Literal["small", "large"]
ROLES: tuple[Role, ...] = get_args(Role)

SHORTEST_STEP = 1e-12
"""Seconds; a shorter decode step is a rounding error."""

DEFAULT_BATCH_SLOPE = 0.04
"""Used where no batch was measured: a decode step of 32 sequences takes 2.2 times that of one.

`paper.batch_slope` derives 0.042 from Tables 5 and 12 of arXiv 2604.04929.
"""


_Seconds = Annotated[float, Field(ge=0)]
Curve = tuple[tuple[int, _Seconds], ...]
"""Seconds by prompt tokens, ascending."""


@dataclass(frozen=True, config=ConfigDict(allow_inf_nan=False))
class ModelLatency:
    """Component latencies of one model on one machine.

    Attributes:
        model: Its name.
        prefill: (prompt tokens, seconds to encode the prompt), ascending, image tokens included;
            without the seconds that `images` holds.
        seconds_per_token: One decode step at batch size 1.
        least_seconds: Lower bound of a call. The paper's direct answers cost as much as 8 tokens.
        batch_slope: What each further sequence of a batch adds to a decode step, as a share of it.
        images: (prompt tokens, seconds of the image in it), ascending: the vision encoder and,
            where it was measured, preprocessing. Prompts encoded together each pay it.
        overhead_seconds: What a call costs beside the model's own work; 0 where only components
            were measured.
    """

    model: str
    prefill: Annotated[Curve, Field(min_length=1)]
    seconds_per_token: Annotated[float, Field(ge=SHORTEST_STEP)]
    least_seconds: _Seconds = 0.0
    batch_slope: _Seconds = DEFAULT_BATCH_SLOPE
    images: Curve = ()
    overhead_seconds: _Seconds = 0.0

    @model_validator(mode="after")
    def _check_order(self) -> Self:
        for curve in (self.prefill, self.images):
            sizes = [tokens for tokens, _ in curve]
            if sizes != sorted(set(sizes)):
                raise ValueError(f"{self.model!r} needs prefill times by ascending prompt tokens.")
        return self

    @property
    def prefill_per_token(self) -> float:
        """Seconds that each further prompt token adds, from the largest prompts measured."""
        if len(self.prefill) < 2:
            tokens, seconds = self.prefill[0]
            return seconds / tokens if tokens else 0.0
        (few, short), (many, long) = self.prefill[0], self.prefill[-1]
        return max(0.0, (long - short) / (many - few))

    def prefill_seconds(self, prompt_tokens: float) -> float:
        """Return the seconds to encode a whole prompt, interpolated between measured ones.

        Args:
            prompt_tokens: Its length, image included. Prompts shorter than the measured ones cost
                as much as the shortest; longer ones add `prefill_per_token` a token.
        """
        return self.batch_prefill_seconds(prompt_tokens, [prompt_tokens])

    def batch_prefill_seconds(self, new_tokens: float, new_questions: Sequence[float]) -> float:
        """Return the seconds to encode several prompts together.

        Args:
            new_tokens: Tokens of all of them that no prefix cache holds.
            new_questions: Lengths of the questions, image included, of those without a cached
                prefix: their images are new.
        """
        if not new_questions:
            return self.suffix_seconds(new_tokens)
        images = sum(map(self.image_seconds, new_questions))
        many, _ = self.prefill[-1]
        beyond = self.prefill_per_token * max(0.0, new_tokens - many)
        return _interpolate(self.prefill, new_tokens) + beyond + images

    def image_seconds(self, prompt_tokens: float) -> float:
        """Return the seconds of the image in a prompt of this length, beside `prefill`."""
        return _interpolate(self.images, prompt_tokens) if self.images else 0.0

    def suffix_seconds(self, new_tokens: float) -> float:
        """Return the seconds to encode what follows a cached prefix: at least a decode step."""
        return max(self.seconds_per_token, self.prefill_per_token * new_tokens)

    def step_seconds(self, batch: int) -> float:
        """Return the seconds of one decode step of a batch."""
        return self.seconds_per_token * (1 + self.batch_slope * (batch - 1))

    def call_seconds(
        self,
        prompt_tokens: float,
        output_tokens: float,
        cached_tokens: float = 0.0,
        question_tokens: float | None = None,
    ) -> float:
        """Return the seconds of one call on its own, without `least_seconds`.

        Args:
            prompt_tokens: Length of the prompt, cached prefix included.
            output_tokens: Tokens generated.
            cached_tokens: How much of the prompt the prefix cache holds.
            question_tokens: How much of the prompt is the question with its image; None for all.
        """
        question = prompt_tokens if question_tokens is None else question_tokens
        new = [] if cached_tokens else [question]
        prefill = self.batch_prefill_seconds(prompt_tokens - cached_tokens, new)
        decode = output_tokens * self.seconds_per_token
        return self.overhead_seconds + prefill + decode


def _interpolate(curve: Sequence[tuple[int, float]], tokens: float) -> float:
    """Return a curve's seconds: linear between its points, outside as at its ends."""
    if tokens <= curve[0][0]:
        return curve[0][1]
    for (few, short), (many, long) in pairwise(curve):
        if tokens <= many:
            return short + (long - short) * (tokens - few) / (many - few)
    return curve[-1][1]


Latencies = Mapping[Role, ModelLatency]
"""The latencies of a pair, by role."""


def profile_latency(
    rows: Sequence[ProfileRow], model: str, backend: str | None = None
) -> ModelLatency:
    """Return the component latencies of a profiled model.

    Time to first token includes the vision encoder and the first token. A decode step is
    subtracted, because the simulator counts every output token as one; the vision encoder and
    preprocessing are kept apart, because prompts encoded together each pay them. Where noise made a
    longer prompt the faster one, both get the time between (isotonic regression).

    Args:
        rows: Rows of `profile.csv`.
        model: Its name there.
        backend: What ran it; None if only one did.

    Raises:
        ProfilingInputError: No such model, measured in several ways, or needed rows are missing.
    """
    own = _measured_one_way(rows, model, backend)
    alone = [row for row in own if row.batch == 1]
    decoded = [row for row in alone if row.component == "decode" and row.output_tokens]
    first = [row for row in alone if row.component == "ttft"]
    if not decoded or not first:
        raise ProfilingInputError(
            f"The profile of {model!r} lacks the rows of ttft or decode at batch 1."
        )
    step = _step_seconds(decoded)
    if step < SHORTEST_STEP:
        raise ProfilingInputError(f"The decoding of {model!r} takes no time in the profile.")
    by_image = {(row.component, row.image_side): row.median_ms or 0.0 for row in reversed(alone)}
    prefill: dict[int, list[float]] = defaultdict(list)
    images: dict[int, list[float]] = defaultdict(list)
    for row in first:
        vision = by_image.get(("vision", row.image_side), 0.0)
        prepared = by_image.get(("preprocess", row.image_side), 0.0)
        prefill[row.input_tokens].append((row.median_ms or 0.0) - vision - 1000 * step)
        images[row.input_tokens].append(prepared + vision)
    slopes = [
        (_step_seconds([row]) / step - 1) / (row.batch - 1)
        for row in own
        if row.component == "decode" and row.batch > 1
    ]
    return ModelLatency(
        model,
        _ascending(prefill),
        step,
        batch_slope=max(0.0, fmean(slopes)) if slopes else DEFAULT_BATCH_SLOPE,
        images=_ascending(images) if any(map(any, images.values())) else (),
    )


def _measured_one_way(
    rows: Sequence[ProfileRow], model: str, backend: str | None
) -> list[ProfileRow]:
    measured = [row for row in rows if row.median_ms]
    own = [row for row in measured if row.model == model and backend in {None, row.backend}]
    if not own:
        known = ", ".join(dict.fromkeys(f"{row.model} ({row.backend})" for row in measured))
        raise ProfilingInputError(
            f"The profile has no measured model {model!r}, only {known or 'none'}."
        )
    ways = dict.fromkeys(" ".join(filter(None, row.settings.values())) for row in own)
    if len(ways) > 1:
        raise ProfilingInputError(
            f"The profile holds {model!r} measured in several ways ({'; '.join(ways)}): choose one "
            "with --backend, or profile them into folders of their own."
        )
    return own


def _ascending(milliseconds: Mapping[int, Sequence[float]]) -> tuple[tuple[int, float], ...]:
    """Return mean seconds by prompt tokens; more tokens never take less."""
    from scipy.optimize import isotonic_regression

    sizes = sorted(milliseconds)
    means = [max(0.0, fmean(milliseconds[size]) / 1000) for size in sizes]
    weights = [float(len(milliseconds[size])) for size in sizes]
    fitted = isotonic_regression(means, weights=weights)
    return tuple(zip(sizes, map(float, fitted.x), strict=True))


def _step_seconds(decoded: Sequence[ProfileRow]) -> float:
    milliseconds = sum((row.median_ms or 0.0) for row in decoded)
    return milliseconds / sum(row.output_tokens for row in decoded) / 1000
