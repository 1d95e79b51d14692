"""How much of the prompt that two calls share an engine's prefix cache gives to the second one."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from langchain_core.messages import BaseMessage

from ..models.chat_format import chat_turns, prompt_text
from ..models.images import block_image


@dataclass(frozen=True, slots=True)
class Reuse:
    """One pair of calls.

    Attributes:
        shared: Tokens that the two prompts have in common from the start, pictures included.
        block: Tokens of one block of the engine's KV cache; only whole blocks are reused.
        cached: Tokens of the second prompt that the engine did not compute.
    """

    shared: int
    block: int
    cached: int

    @property
    def reusable(self) -> int:
        """Tokens in the full blocks of the shared prefix."""
        return self.shared // self.block * self.block


def reused_share(pairs: Sequence[Reuse]) -> float | None:
    """Cached tokens over those in the full blocks of the shared prefixes; None without any."""
    reusable = sum(pair.reusable for pair in pairs)
    if not reusable:
        return None
    # What lies beyond the shared prefix was reused from some other call.
    return sum(min(pair.cached, pair.reusable) for pair in pairs) / reusable


def shared_tokens(processor: Any, one: Sequence[BaseMessage], two: Sequence[BaseMessage]) -> int:
    """Tokens that two prompts have in common from the start.

    Args:
        processor: The checkpoint's processor, from transformers.
        one: The messages of a prompt.
        two: Those of another one about the same pictures.
    """
    ours, theirs = _token_ids(processor, one), _token_ids(processor, two)
    shortest = min(len(ours), len(theirs))
    return next((n for n in range(shortest) if ours[n] != theirs[n]), shortest)


def _token_ids(processor: Any, messages: Sequence[BaseMessage]) -> list[int]:
    turns, decoded = chat_turns(messages, block_image)
    images = [one.image for one in decoded]
    text = prompt_text(processor, turns, len(images), "the model")
    features = processor(text=[text], **({"images": images} if images else {}))
    return list(features["input_ids"][0])
