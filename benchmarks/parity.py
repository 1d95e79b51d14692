"""Whether two backends write the same tokens, and how close the call was where they part."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage


@dataclass(frozen=True, slots=True)
class Difference:
    """Where two outputs for one prompt part.

    Attributes:
        prompt: Place of the prompt in the list.
        token: Place of the first token that differs, from 0.
        reference: The token that the reference wrote; None if its output had ended.
        other: The same for the other backend.
        margin: The other backend's log probability of its likeliest token less that of the next
            one, at that place: near 0, rounding decides. None where its output had ended.
    """

    prompt: int
    token: int
    reference: str | None
    other: str | None
    margin: float | None


def compare_outputs(
    reference: BaseChatModel,
    other: BaseChatModel,
    prompts: Sequence[list[BaseMessage]],
    max_tokens: int,
) -> list[Difference]:
    """Ask both models greedily, and compare token by token.

    Args:
        reference: One model.
        other: The same checkpoint on another backend.
        prompts: What both are asked.
        max_tokens: Limit on each output.

    Returns:
        The differences; none if all outputs are equal.
    """
    asked: dict[str, Any] = {"max_tokens": max_tokens, "logprobs": True}
    inputs: list[Any] = list(prompts)
    ours = reference.batch(inputs, **asked)
    theirs = other.batch(inputs, **asked, top_logprobs=2)
    found = (first_difference(n, *both) for n, both in enumerate(zip(ours, theirs, strict=True)))
    return [difference for difference in found if difference is not None]


def first_difference(prompt: int, reference: AIMessage, other: AIMessage) -> Difference | None:
    """Where two outputs with log probabilities part; None if they are equal."""
    ours, theirs = _tokens(reference), _tokens(other)
    for place in range(max(len(ours), len(theirs))):
        one = ours[place] if place < len(ours) else None
        two = theirs[place] if place < len(theirs) else None
        if one and two and one["token"] == two["token"]:
            continue
        return Difference(
            prompt=prompt,
            token=place,
            reference=one["token"] if one else None,
            other=two["token"] if two else None,
            margin=_margin(two),
        )
    return None


def _tokens(message: AIMessage) -> list[dict[str, Any]]:
    """A message's tokens as far as its text goes; some servers list the end token too."""
    entries: list[dict[str, Any]] = message.response_metadata["logprobs"]["content"]
    text = str(message.text)
    while entries and not text.endswith(entries[-1]["token"]):
        entries = entries[:-1]
    return entries


def _margin(entry: dict[str, Any] | None) -> float | None:
    if entry is None or len(entry["top_logprobs"]) < 2:
        return None
    first, second = (top["logprob"] for top in entry["top_logprobs"][:2])
    return float(first - second)
