"""Speculative decoding with a draft model that sees the picture, one prompt at a time.

The draft writes a few tokens ahead, the target reads them in one pass and keeps those that it would
have written itself, so that the output is the target's own greedy one. transformers' assisted
generation does not show the picture to its draft. Imports torch.
"""

import inspect
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from PIL import Image
from transformers import DynamicCache

from ..models.chat_format import Turn
from ..models.errors import ModelError
from ..models.transformers.checkpoint import Checkpoint

AHEAD = 5
"""Tokens that the draft writes before the target reads them."""

_cache: Any = DynamicCache  # transformers leaves it untyped


@dataclass(frozen=True, slots=True)
class Written:
    """An output.

    Attributes:
        tokens: Its token ids, the end token included.
        text: The same as text, special tokens left out.
        drafted: Tokens that the draft wrote.
        accepted: Those that the target kept.
        seconds: Wall clock, preparing the prompt included.
    """

    tokens: list[int]
    text: str
    drafted: int
    accepted: int
    seconds: float


class SpeculativeDecoder:
    """A target and, if there is one, its draft."""

    def __init__(
        self, target: Checkpoint, draft: Checkpoint | None = None, ahead: int = AHEAD
    ) -> None:
        """Take over loaded checkpoints.

        Args:
            target: Whose output is wanted.
            draft: A faster model with the same tokenizer; None writes token by token.
            ahead: Tokens that the draft writes before the target reads them.

        Raises:
            ModelError: The two have different tokenizers.
        """
        if draft and _vocabulary(draft) != _vocabulary(target):
            raise ModelError(
                f"{draft.name!r} cannot draft for {target.name!r}: their tokenizers differ."
            )
        self._target = target
        self._draft = draft
        self._ahead = ahead

    def write(
        self, turns: Sequence[Turn], images: Sequence[Image.Image], max_tokens: int
    ) -> Written:
        """Answer a conversation, greedily.

        Args:
            turns: As chat templates take it.
            images: Its pictures, in order.
            max_tokens: Limit on the output.
        """
        begun = time.perf_counter()
        with torch.inference_mode():
            target = _Reader(self._target, turns, images)
            if self._draft is None:
                tokens, drafted, accepted = self._alone(target, max_tokens), 0, 0
            else:
                draft = _Reader(self._draft, turns, images)
                tokens, drafted, accepted = self._together(target, draft, max_tokens)
        text = self._target.processor.tokenizer.decode(tokens, skip_special_tokens=True)
        seconds = time.perf_counter() - begun
        return Written(tokens, text, drafted, accepted, seconds)

    def _alone(self, target: "_Reader", max_tokens: int) -> list[int]:
        tokens = [target.first]
        while len(tokens) < max_tokens and tokens[-1] not in target.ends:
            tokens += target.read(tokens[-1:])
        return tokens

    def _together(
        self, target: "_Reader", draft: "_Reader", max_tokens: int
    ) -> tuple[list[int], int, int]:
        tokens = [target.first]
        drafted = accepted = 0
        while len(tokens) < max_tokens and tokens[-1] not in target.ends:
            ahead = min(self._ahead, max_tokens - len(tokens))
            guesses = _guess(draft, tokens, ahead)
            # Its own next token after the last one, and after each guess.
            own = target.read([tokens[-1], *guesses])
            kept = 0
            while kept < ahead and guesses[kept] == own[kept]:
                kept += 1
            drafted, accepted = drafted + ahead, accepted + kept
            written = own[: kept + 1]
            ends = [index for index, token in enumerate(written) if token in target.ends]
            tokens += written[: ends[0] + 1] if ends else written
            target.forget(ahead - kept)
            draft.forget(max(0, ahead - 1 - kept))
        return tokens[:max_tokens], drafted, accepted


class _Reader:
    """One model with the cache of one conversation.

    Attributes:
        first: Its first token of the answer.
        ends: Tokens that end an answer.
        seen: Tokens of the answer that are in its cache.
    """

    def __init__(
        self, checkpoint: Checkpoint, turns: Sequence[Turn], images: Sequence[Image.Image]
    ) -> None:
        """Read the prompt."""
        model, processor = checkpoint.model, checkpoint.processor
        text = processor.apply_chat_template(
            list(turns), add_generation_prompt=True, tokenize=False
        )
        shown = {"images": list(images)} if images else {}
        inputs = processor(text=[text], return_tensors="pt", **shown)
        self._model = model
        self._cache = _cache(config=model.config.get_text_config())
        takes = inspect.signature(model.forward).parameters
        self._cache_name = "cache" if "cache" in takes else "past_key_values"
        own = model.generation_config.eos_token_id
        self.ends = {*(own if isinstance(own, list) else [own]), processor.tokenizer.eos_token_id}
        self._forget_positions()
        kept = {key: self._place(value) for key, value in inputs.items() if key in takes}
        self.first = self._forward(kept, 1)[0]
        self.seen = 0

    def read(self, tokens: Sequence[int]) -> list[int]:
        """Its next token after each of these."""
        ids = torch.tensor([list(tokens)], device=self._model.device)
        self.seen += len(tokens)
        return self._forward({"input_ids": ids}, len(tokens))

    def forget(self, tokens: int) -> None:
        """Take the last tokens out of the cache again."""
        if tokens:
            self._cache.crop(-tokens)
            self.seen -= tokens

    def _forward(self, inputs: dict[str, torch.Tensor], wanted: int) -> list[int]:
        caching = {self._cache_name: self._cache, "use_cache": True}
        output = self._model(**inputs, **caching, logits_to_keep=wanted)
        found: list[int] = output.logits[0, -wanted:].argmax(-1).tolist()
        return found

    def _forget_positions(self) -> None:
        """Qwen keeps the offset of its positions on the model from call to call."""
        for part in self._model.modules():
            if hasattr(part, "rope_deltas"):
                part.rope_deltas = None

    def _place(self, value: Any) -> Any:
        dtype = self._model.dtype if value.is_floating_point() else None
        return value.to(device=self._model.device, dtype=dtype)


def _guess(draft: _Reader, tokens: Sequence[int], ahead: int) -> list[int]:
    """The draft's next tokens, after it has read what it does not know yet."""
    guesses = draft.read(tokens[draft.seen :])[-1:]
    while len(guesses) < ahead:
        guesses += draft.read(guesses[-1:])
    return guesses


def _vocabulary(checkpoint: Checkpoint) -> dict[str, int]:
    found: dict[str, int] = checkpoint.processor.tokenizer.get_vocab()
    return found
