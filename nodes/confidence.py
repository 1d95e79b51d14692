"""How sure an answer is: the probability of its tokens, and how often such answers were right.

A probability ranks answers well and promises too much, so it becomes a confidence only by a
calibration: the share of right answers, measured for this very pair of models, on questions that
took the same route with about the same probability.
"""

import math
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Self

from pydantic import Field, ValidationError, model_validator

from ..answers import AnswerType
from ..configs import ConfigError
from ..configs.schemas import Frozen
from .prompts import LETTERS
from .state import CallKey, Fallback, ModelCall, Route

Tokens = Sequence[Sequence[Any]]
"""Of each output token [text, log-probability, alternatives], those as [text, log-probability]."""

TOP_LOGPROBS = 5
"""Alternatives that a call asks for; every known server gives as many."""

_STANDING: dict[str, CallKey] = {
    "confident": "small_direct",
    "direct": "large_direct",
    "reasoned": "large_direct",
    "transferred": "large_transfer",
}


def read_logprobs(metadata: Mapping[str, Any]) -> list[list[Any]] | None:
    """Return the tokens of a message in OpenAI's form, as `Tokens`; None where it has none."""
    logprobs = metadata.get("logprobs")
    content = logprobs.get("content") if isinstance(logprobs, Mapping) else None
    if not content:
        return None
    return [
        [
            entry["token"],
            entry["logprob"],
            [[other["token"], other["logprob"]] for other in entry.get("top_logprobs") or ()],
        ]
        for entry in content
    ]


def answer_probability(
    text: str, answer: str, kind: AnswerType, choices: int, tokens: Tokens
) -> float:
    """Return the probability of the answer in an output.

    It is the product over the answer's tokens; where the answer is not in the text word for word,
    over all tokens. Of yes or no and of letters, it is divided by that of all alternatives.

    Args:
        text: The output.
        answer: The answer that was read from it, as it is shown.
        kind: Its answer type.
        choices: Number of choices.
        tokens: The output's tokens, at least one.
    """
    text = text.strip()
    found = list(re.finditer(rf"(?<!\w){re.escape(answer)}(?!\w)", text, re.IGNORECASE))
    inside = _tokens_of(text, found[-1].span() if found else (0, len(text)), tokens)
    alternatives = {"yes_no": ("yes", "no"), "choice": tuple(LETTERS[:choices].lower())}.get(kind)
    if alternatives and found and inside:
        first, logprob, others = inside[0]
        seen = {first: logprob} | dict(others)
        shares = dict.fromkeys(alternatives, 0.0)
        for token, value in seen.items():
            word = re.sub(r"[\W_]+", "", token).lower()
            means = [one for one in alternatives if word and one.startswith(word)]
            if len(means) == 1:
                shares[means[0]] += math.exp(value)
        if own := shares.get(answer.lower()):
            return own / sum(shares.values())
    return _product(inside or tokens)


def span_probability(text: str, span: tuple[int, int], tokens: Tokens) -> float:
    """Return the probability of the tokens of a span (start, end) of an output."""
    return _product(_tokens_of(text, span, tokens))


def _tokens_of(text: str, span: tuple[int, int], tokens: Tokens) -> Tokens:
    at = -max("".join(token for token, *_ in tokens).find(text), 0)
    inside = []
    for entry in tokens:
        if at < span[1] and at + len(entry[0]) > span[0]:
            inside.append(entry)
        at += len(entry[0])
    return inside


def _product(tokens: Tokens) -> float:
    return min(1.0, math.exp(sum(logprob for _, logprob, _ in tokens)))


def standing_call(
    route: Route, fallback: Fallback | None, calls: Mapping[Any, ModelCall]
) -> ModelCall | None:
    """Return the call whose answer stands; None if it is no call's.

    Args:
        route: How far the run went.
        fallback: Who answered instead.
        calls: The run's calls by their keys.
    """
    return calls.get(fallback or _STANDING[route])


class Rate(Frozen):
    """How often answers from one probability on were right.

    Attributes:
        probability: The lowest probability of these answers.
        rate: Share of right answers.
        interval: Its 95% interval.
        questions: Number of answers.
    """

    probability: float
    rate: float = Field(ge=0, le=1)
    interval: tuple[float | None, float | None]
    questions: int


class Calibration(Frozen):
    """What `mai calibrate` measured of a pair: its file, in JSON.

    Attributes:
        benchmark: The questions' name.
        cascade: What it was measured on: models, prompts, transfer, verifier; see
            `nodes.gate.describe_cascade`.
        risk: Share of all questions on which the gate may change the cascade's answer.
        delta: Chance that the gate changes more of them, over calibrations.
        questions: Number of questions, one of each image.
        losses_allowed: Losses that certify the risk.
        losses: Losses above the threshold.
        threshold: Probability of the small model's answer from which on it stands; None for never.
        figures: What the gate saves and costs, and how good the confidence is: of each figure its
            value and the ends of its 95% interval, as far as there are any.
        confidence: Rates of right answers by route, in the order of their probabilities.
    """

    benchmark: str
    cascade: dict[str, Any]
    risk: float = Field(ge=0, lt=1)
    delta: float = Field(gt=0, lt=1)
    questions: int
    losses_allowed: int
    losses: int
    threshold: float | None = Field(ge=0, le=1)
    figures: dict[str, tuple[float | None, float | None, float | None]]
    confidence: dict[str, list[Rate]]

    @model_validator(mode="after")
    def _skips_within_a_risk(self) -> Self:
        if self.threshold is not None and not self.risk:
            raise ValueError("a threshold needs a risk above 0")
        return self


def rate_at(rates: Sequence[Rate], probability: float) -> float:
    """Return the rate of right answers with about this probability."""
    return next(
        (one.rate for one in reversed(rates) if one.probability <= probability), rates[0].rate
    )


def load_calibration(path: str | Path) -> Calibration:
    """Read a calibration file.

    Raises:
        ConfigError: There is none, or it is not one.
    """
    try:
        return Calibration.model_validate_json(Path(path).read_bytes())
    except OSError as error:
        raise ConfigError(
            f"The calibration {str(path)!r} cannot be read ({error.strerror}); make it with "
            "`mai calibrate`."
        ) from error
    except ValidationError as error:
        problem = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(map(str, problem["loc"])) or "the file"
        raise ConfigError(
            f"{str(path)!r} is no calibration ({where}: {problem['msg']}); make it with "
            "`mai calibrate`."
        ) from error
