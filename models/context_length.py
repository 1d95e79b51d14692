"""What servers and engines reply to a prompt that exceeds the model's context.

There is no common form: the numbers are in the error messages of vLLM (several versions), SGLang,
llama.cpp and OpenAI.
"""

import re
from typing import NamedTuple

_LIMIT = re.compile(
    r"maximum (?:context|model) length(?: is| of)? \(?(\d+)"
    r"|max_model_len=(\d+)|model's context length \((\d+)|available context size \((\d+)"
)
_LENGTH = re.compile(
    r"contains (\d+) input tokens|has (\d+) input tokens|prompt \(length (\d+)\)"
    r"|[Ii]nput length \((\d+)\)|(\d+) in the messages|(\d+) tokens from the input messages"
    r"|messages resulted in (\d+) tokens|[Tt]he input \((\d+) tokens\)|request \((\d+) tokens\)"
)
_OVERFLOW = re.compile(
    r"context[ _](?:length|window|size)|longer than the maximum|max_model_len|prompt is too long",
    re.IGNORECASE,
)


class Overflow(NamedTuple):
    """A context that is exceeded.

    Attributes:
        limit: Tokens that the context holds, answer included; None if the message does not say.
        length: Tokens of the prompt; None if the message does not say, or knows only a part.
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

    def sentence(self, model: str, advice: str) -> str:
        """Return the error message.

        Args:
            model: The model, as people know it.
            advice: What to do.
        """
        has = f"has {self.length} tokens" if self.length else "is too long"
        takes = f"takes at most {self.limit}" if self.limit else "takes fewer"
        return f"The prompt {has} and {model} {takes}, answer included; {advice}."


def read_overflow(message: str) -> Overflow | None:
    """Read an error message; None if it is about something else."""
    if not _OVERFLOW.search(message):
        return None
    return Overflow(_number(_LIMIT, message), _number(_LENGTH, message))


def _number(pattern: re.Pattern[str], message: str) -> int | None:
    found = pattern.search(message)
    return int(found[found.lastindex or 0]) if found else None
