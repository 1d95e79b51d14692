"""What goes wrong with a model, said in one sentence."""

import re
from typing import NamedTuple

from langchain_core.exceptions import ContextOverflowError

# What servers and engines reply to a prompt that is too long has no common form: these are the
# messages of vLLM (several versions), SGLang, llama.cpp and OpenAI.
_OVERFLOW = re.compile(
    r"context[ _](?:length|window|size)|longer than the maximum|max_model_len|prompt is too long",
    re.IGNORECASE,
)
_LIMIT = re.compile(
    r"maximum (?:context|model) length(?: is| of)? \(?(\d+)"
    r"|max_model_len=(\d+)|model's context length \((\d+)|available context size \((\d+)"
)
_LENGTH = re.compile(
    r"contains (\d+) input tokens|has (\d+) input tokens|prompt \(length (\d+)\)"
    r"|[Ii]nput length \((\d+)\)|(\d+) in the messages|(\d+) tokens from the input messages"
    r"|messages resulted in (\d+) tokens|[Tt]he input \((\d+) tokens\)|request \((\d+) tokens\)"
)


class ModelError(RuntimeError):
    """A model that cannot be loaded or used; the message says why and what to do."""


class Overflow(NamedTuple):
    """A context that is exceeded.

    Attributes:
        limit: Tokens that the context holds, answer included; None if unknown.
        length: Tokens of the prompt; None if unknown.
    """

    limit: int | None
    length: int | None

    def shorter(self, max_tokens: int | None) -> int | None:
        """Return how many tokens an answer can have instead of `max_tokens`.

        Returns:
            Fewer tokens than those; None if it was not the answer that did not fit.
        """
        if max_tokens is None or self.limit is None:
            return None
        remaining = self.limit - (self.length or 0)
        return remaining if 0 < remaining < max_tokens else None

    def error(self, model: str, advice: str) -> "ContextLengthError":
        """Return the error for it; `model` and `advice` are what its message says."""
        has = f"has {self.length} tokens" if self.length else "is too long"
        takes = f"takes at most {self.limit}" if self.limit else "takes fewer"
        return ContextLengthError(
            f"The prompt {has} and {model} {takes}, answer included; {advice}.",
            limit=self.limit,
            length=self.length,
        )


class ContextLengthError(ModelError, ContextOverflowError):
    """A prompt that is longer than the model's context.

    Attributes:
        limit: Tokens that the context holds, answer included; None if unknown.
        length: Tokens of the prompt; None if unknown.
    """

    def __init__(
        self, message: str, *, limit: int | None = None, length: int | None = None
    ) -> None:
        """Keep the two numbers beside the message."""
        super().__init__(message)
        self.limit = limit
        self.length = length


def read_overflow(message: str) -> Overflow | None:
    """Read a server's or engine's error message; None if it is about something else."""
    if not _OVERFLOW.search(message):
        return None
    limit, length = (pattern.search(message) for pattern in (_LIMIT, _LENGTH))
    return Overflow(
        limit and int(limit[limit.lastindex or 0]), length and int(length[length.lastindex or 0])
    )


class CallTimeoutError(ModelError, TimeoutError):
    """A call that used up its time."""


class UnreachableError(ModelError, ConnectionError):
    """A server that is not there, broke off, or has a failure of its own; it may work later.

    The model has asked as often as its settings say, so that nobody above needs to.
    """


class EngineEndedError(ModelError, ConnectionError):
    """An engine that ended in mid-run; the next call starts it again."""
