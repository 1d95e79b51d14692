"""Speculative decoding: a draft writes a few tokens ahead, the target reads them in one pass.

The target keeps those that it would have written itself, so the output is its own greedy one. The
draft sees the pictures; transformers' assisted generation shows it none.

Imports torch and transformers: only modules of a loaded model import this one.
"""

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from ..completion import Drafted
from .key_values import plain_cache
from .prompt import Prompt
from .sampling import check_scores

AHEAD = 5
"""Tokens that the draft writes before the target reads them."""

Accept = Callable[[int, torch.Tensor], bool]
"""Takes the target's next token and its scores (vocabulary); returns whether more are wanted."""


@dataclass(frozen=True, slots=True)
class Draft:
    """A model that writes ahead, with its own reading of a prompt.

    Attributes:
        model: The transformers model.
        prompt: The prompt as this model takes it.
    """

    model: Any
    prompt: Prompt


class Reader:
    """One model with the keys and values of one conversation.

    Positions are given from outside and nothing is kept on the model, so that a model may read here
    while its own thread generates.
    """

    def __init__(self, model: Any, prompt: Prompt) -> None:
        """Read nothing yet.

        Args:
            model: The transformers model.
            prompt: A prompt whose prefixes may be reused: its positions are known.
        """
        self._model = model
        self._prompt = prompt
        self._cache: Any = plain_cache(model.config)
        takes = inspect.signature(model.forward).parameters
        self._takes = takes.keys()
        # Older versions of transformers call it otherwise.
        self._cache_name = "cache" if "cache" in takes else "past_key_values"
        self._length = 0

    def read_prompt(self) -> torch.Tensor:
        """Scores (1, vocabulary) of what follows the prompt."""
        wanted = {key: value for key, value in self._prompt.inputs.items() if key in self._takes}
        # Alone, no token is padding; without a mask, none is kept on the model either.
        wanted.pop("attention_mask", None)
        wanted.pop("mm_token_type_ids", None)
        return self._forward(wanted, self._prompt.positions, self._prompt.length, 1)

    def read(self, tokens: Sequence[int]) -> torch.Tensor:
        """Scores (tokens, vocabulary) of what follows each of these."""
        count = len(tokens)
        positions = self._prompt.positions
        if positions is not None:
            behind = self._length - self._prompt.length + 1
            positions = positions[:, -1:] + torch.arange(behind, behind + count)
        return self._forward({"input_ids": torch.tensor([list(tokens)])}, positions, count, count)

    def forget(self, tokens: int) -> None:
        """Take the last tokens out of the keys and values again."""
        if tokens:
            self._cache.crop(-tokens)
            self._length -= tokens

    def _forward(
        self, inputs: dict[str, Any], positions: torch.Tensor | None, count: int, wanted: int
    ) -> torch.Tensor:
        if positions is not None:
            inputs["position_ids"] = positions[:, None]
        self._length += count
        output = self._model(
            **{key: self._place(value) for key, value in inputs.items()},
            **{self._cache_name: self._cache, "use_cache": True, "logits_to_keep": wanted},
        )
        scores: torch.Tensor = output.logits[0, -wanted:]
        return scores

    def _place(self, value: torch.Tensor) -> torch.Tensor:
        dtype = self._model.dtype if value.is_floating_point() else None
        return value.to(device=self._model.device, dtype=dtype)


class Speculation:
    """A target and a draft on one conversation."""

    def __init__(
        self,
        target: Reader,
        draft: Reader,
        ends: frozenset[int],
        drafted: Drafted,
        ahead: int = AHEAD,
    ) -> None:
        """Read nothing yet.

        Args:
            target: Whose output is wanted.
            draft: A faster model with the same token ids.
            ends: Tokens that end an output; the draft writes nothing behind one.
            drafted: Where the draft's tokens are counted.
            ahead: Tokens that the draft writes at most before the target reads them.
        """
        self._target = target
        self._draft = draft
        self._ends = ends
        self._drafted = drafted
        self._ahead = ahead

    def run(self, limit: int, accept: Accept) -> None:
        """Write.

        Args:
            limit: Limit on the output, in tokens.
            accept: Takes the tokens, one by one.
        """
        scores = self._target.read_prompt()
        check_scores(scores)
        self._draft.read_prompt()
        token = int(scores[0].argmax())
        written = 1
        unread = [token]
        if not accept(token, scores[0]):
            return
        while written < limit:
            # The target writes a token of its own behind those that it keeps.
            guesses = self._guess(unread, min(self._ahead, limit - written - 1))
            scores = self._target.read([token, *guesses])
            own = scores.argmax(-1).tolist()
            kept = 0
            while kept < len(guesses) and guesses[kept] == own[kept]:
                kept += 1
            self._drafted.written += len(guesses)
            for at in range(kept + 1):
                written += 1
                self._drafted.accepted += at < kept  # before the output may be complete
                if not accept(own[at], scores[at]):
                    return
            token = own[kept]
            self._target.forget(len(guesses) - kept)
            unread = self._unread(unread, guesses, kept, token)

    def _guess(self, unread: Sequence[int], count: int) -> list[int]:
        """The draft's next tokens, after it has read what it does not know yet."""
        guesses: list[int] = []
        while len(guesses) < count and not (guesses and guesses[-1] in self._ends):
            scores = self._draft.read(guesses[-1:] or unread)
            guesses.append(int(scores[-1].argmax()))
        return guesses

    def _unread(
        self, unread: Sequence[int], guesses: Sequence[int], kept: int, token: int
    ) -> list[int]:
        """What the draft has to read next; what it read beyond the kept tokens, it forgets."""
        if not guesses:
            return [*unread, token]
        # It has not read the last token that it wrote.
        self._draft.forget(max(0, len(guesses) - 1 - kept))
        return [*guesses[kept - 1 :], token] if kept == len(guesses) else [token]
