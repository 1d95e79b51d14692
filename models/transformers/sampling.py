"""What happens between two tokens: choosing the next one, and handing it to its row."""

from collections.abc import Sequence
from typing import Any

import torch
from transformers import LogitsProcessor, StoppingCriteria

from ..errors import ModelError
from .rows import Row


class Sampler(LogitsProcessor):
    """Turns a greedy search into drawing, for the rows that ask for it.

    The likeliest token after adding Gumbel noise is a draw from the softmax. Every row draws from a
    generator of its own, so a seed gives the same output alone, in a batch, and beside other
    models; torch's global generator is never touched.

    Temperatures below 1 shrink the noise instead of raising the scores, which is the same draw and
    cannot overflow: the smallest temperature is the greedy search.
    """

    def __init__(self, rows: Sequence[Row]) -> None:
        """Prepare the rows' random generators."""
        self.scores: torch.Tensor | None = None
        self._rows = rows
        self._generators = [
            torch.Generator().manual_seed(row.seed) if row.settings.temperature > 0 else None
            for row in rows
        ]
        self._first = True

    def __call__(self, input_ids: Any, scores: torch.Tensor) -> torch.Tensor:  # noqa: ARG002
        """Add noise to the scores (rows, vocabulary) of the rows that draw."""
        if self._first and bool(torch.isnan(scores).any()):
            raise ModelError(
                "The model's output is not a number; its dtype is too small for it, so use "
                "bfloat16 or float32."
            )
        self._first = False
        self.scores = scores
        if not any(self._generators):
            return scores
        noisy = scores.clone()
        for at, (row, generator) in enumerate(zip(self._rows, self._generators, strict=True)):
            if generator is not None and not row.done:
                exponential = torch.empty(scores.shape[1]).exponential_(generator=generator)
                gumbel = -exponential.clamp_min(1e-30).log()
                temperature = row.settings.temperature
                noise = gumbel.to(scores.device) * min(temperature, 1.0)
                noisy[at] = scores[at] / max(temperature, 1.0) + noise
        return noisy


class Watch(StoppingCriteria):
    """Hands every new token to its row, and ends the rows that are done or given up."""

    def __init__(self, rows: Sequence[Row], ends: frozenset[int], sampler: Sampler) -> None:
        """Watch over rows.

        Args:
            rows: In the order of the batch.
            ends: Token ids that end an output.
            sampler: Holds the scores that the tokens were chosen from.
        """
        self._rows = rows
        self._ends = ends
        self._sampler = sampler

    def __call__(self, input_ids: torch.Tensor, scores: Any, **kwargs: Any) -> torch.Tensor:  # noqa: ARG002
        """Take the last column of `input_ids` (rows, length); returns which rows are done."""
        tokens = input_ids[:, -1].tolist()
        for at, (row, token) in enumerate(zip(self._rows, tokens, strict=True)):
            if not row.done:
                row.accept(token, ends=token in self._ends, logprob=self._logprob(at, row, token))
        return torch.tensor([row.done for row in self._rows], device=input_ids.device)

    def _logprob(self, at: int, row: Row, token: int) -> float | None:
        if not row.settings.logprobs or self._sampler.scores is None:
            return None
        return float(torch.log_softmax(self._sampler.scores[at].float(), dim=-1)[token])
