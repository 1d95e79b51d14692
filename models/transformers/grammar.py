"""Outputs held to a JSON schema: llguidance says which tokens may come next.

Imports torch: only modules of a loaded model import this one.
"""

import json
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import torch

from ..errors import ModelError


class Grammar:
    """The schema of one output, and how far the output is in it."""

    def __init__(self, tokenizer: Any, schema: Mapping[str, Any]) -> None:
        """Begin before the first token.

        Raises:
            ModelError: llguidance is not installed, or does not know the schema.
        """
        try:
            from llguidance import LLMatcher
        except ImportError as error:
            raise ModelError(
                "To hold an output to a schema, llguidance is needed: run `pip install llguidance`."
            ) from error
        compact: Any = {"whitespace_flexible": False}  # its type is private
        grammar = LLMatcher.grammar_from_json_schema(json.dumps(schema), defaults=compact)
        self._matcher = LLMatcher(_tokens(tokenizer), grammar)
        if problem := self._matcher.get_error():
            raise ModelError(f"The schema cannot be followed ({' '.join(problem.split())[:200]}).")

    def mask(self, scores: torch.Tensor) -> torch.Tensor:
        """Return the scores (vocabulary), those of forbidden tokens at minus infinity."""
        bits = torch.frombuffer(bytearray(self._matcher.compute_bitmask()), dtype=torch.uint8)
        allowed = (bits[:, None] >> torch.arange(8, dtype=torch.uint8) & 1).bool().flatten()
        short = max(0, scores.shape[0] - allowed.shape[0])
        allowed = torch.nn.functional.pad(allowed, (0, short))[: scores.shape[0]]
        return scores.masked_fill(~allowed.to(scores.device), -torch.inf)

    def take(self, token: int) -> None:
        """Go on behind a token."""
        self._matcher.consume_token(token)


@lru_cache(maxsize=8)
def _tokens(tokenizer: Any) -> Any:
    """Return llguidance's own tokenizer, which takes long to make."""
    from llguidance.hf import from_tokenizer

    return from_tokenizer(tokenizer, eos_token=tokenizer.eos_token_id)
