"""What happens between two tokens: choosing the next one, and handing it to its row."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from transformers import LogitsProcessor, StoppingCriteria

from ..errors import ModelError
from .rows import Row, TokenLogprobs
from .sequences import TokenSequence


class Sampler(LogitsProcessor):
    """Turns a greedy search into drawing, for the rows that ask for it.

    The likeliest token after adding Gumbel noise is a draw from the softmax. Every row draws from a
    generator of its own, so a seed gives the same output alone, in a batch, and beside other
    models; torch's global generator is never touched.

    Temperatures below 1 shrink the noise instead of raising the scores, which is the same draw and
    cannot overflow: the smallest temperature is the greedy search.
    """

    def __init__(self, sequences: Sequence[TokenSequence]) -> None:
        """Draw for sequences, in the order of the batch."""
        self.scores: torch.Tensor | None = None
        self._sequences = sequences
        self._draws = any(one.generator for one in sequences)
        self._first = True

    def __call__(self, input_ids: Any, scores: torch.Tensor) -> torch.Tensor:  # noqa: ARG002
        """Add noise to the scores (rows, vocabulary) of the rows that draw."""
        if self._first:
            check_scores(scores)
        self._first = False
        self.scores = scores
        if not self._draws:
            return scores
        noisy = scores.clone()
        for at, one in enumerate(self._sequences):
            if one.generator is not None and not one.row.done:
                exponential = torch.empty(scores.shape[1]).exponential_(generator=one.draws())
                gumbel = -exponential.clamp_min(1e-30).log()
                temperature = one.row.settings.temperature
                noise = gumbel.to(scores.device) * min(temperature, 1.0)
                noisy[at] = scores[at] / max(temperature, 1.0) + noise
        return noisy


class Watch(StoppingCriteria):
    """Hands every new token to its row, and ends the rows that are done or given up.

    Attributes:
        steps: Tokens generated so far, in each row.
        paused: Whether the batch was stopped with rows that are not done.
    """

    def __init__(
        self,
        sequences: Sequence[TokenSequence],
        ends: frozenset[int],
        sampler: Sampler,
        pause: Callable[[int], bool],
        explain: Callable[[Exception], Exception],
    ) -> None:
        """Watch over sequences.

        Args:
            sequences: In the order of the batch.
            ends: Token ids that end an output.
            sampler: Holds the scores that the tokens were chosen from.
            pause: Given the steps so far, whether the batch stops here.
            explain: What a caller is told of an error.
        """
        self.steps = 0
        self.paused = False
        self._sequences = sequences
        self._ends = ends
        self._sampler = sampler
        self._pause = pause
        self._explain = explain

    def __call__(self, input_ids: torch.Tensor, scores: Any, **kwargs: Any) -> torch.Tensor:  # noqa: ARG002
        """Take the last column of `input_ids` (rows, length); returns which rows are done."""
        if self.paused:  # some devices compute one step more
            return torch.ones(len(self._sequences), dtype=torch.bool, device=input_ids.device)
        tokens = input_ids[:, -1].tolist()
        alive = [(at, one) for at, one in enumerate(self._sequences) if not one.row.done]
        # All that can fail for want of memory comes before any row has changed.
        logprobs = {at: self._logprobs(at, one.row, tokens[at]) for at, one in alive}
        self.steps += 1
        for at, one in alive:
            self._hand_over(one, tokens[at], logprobs[at])
        done = [one.row.done for one in self._sequences]
        if not all(done) and self._pause(self.steps):
            self.paused = True
            done = [True] * len(done)
        return torch.tensor(done, device=input_ids.device)

    def _hand_over(self, one: TokenSequence, token: int, logprobs: TokenLogprobs | None) -> None:
        try:
            one.row.accept(token, ends=token in self._ends, logprobs=logprobs)
        except Exception as error:  # noqa: BLE001  (the waiting caller gets it, its neighbours go on)
            one.row.fail(self._explain(error))
        one.append(token)

    def _logprobs(self, at: int, row: Row, token: int) -> TokenLogprobs | None:
        scores = self._sampler.scores
        return None if scores is None else token_logprobs(row, scores[at], token)


def check_scores(scores: torch.Tensor) -> None:
    """Refuse scores that are no numbers.

    Raises:
        ModelError: With what to do.
    """
    if bool(torch.isnan(scores).any()):
        raise ModelError(
            "The model's output is not a number; its dtype is too small for it, so use bfloat16 or "
            "float32."
        )


def token_logprobs(row: Row, scores: torch.Tensor, token: int) -> TokenLogprobs | None:
    """Log probabilities at one place of a row's output, if they were asked for.

    Args:
        row: The row.
        scores: Scores at this place, shape (vocabulary).
        token: The token that was chosen.
    """
    if not row.settings.logprobs:
        return None
    logprobs = torch.log_softmax(scores.float(), dim=-1)
    values, tokens = logprobs.topk(min(row.settings.top_logprobs, logprobs.shape[0]))
    top = tuple(zip(tokens.tolist(), values.tolist(), strict=True))
    return TokenLogprobs(float(logprobs[token]), top)
