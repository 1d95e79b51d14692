"""What servers say when a prompt, or prompt and answer together, exceed the model's context.

There is no common form: the numbers are read from the sentences of vLLM (several versions), SGLang,
llama.cpp and OpenAI.
"""

import re
from dataclasses import dataclass

_LIMITS = (
    r"maximum (?:context|model) length(?: is| of)? \(?(\d+)",
    r"max_model_len=(\d+)",
    r"model's context length \((\d+)",
    r"available context size \((\d+)",
)

_LENGTHS = (
    r"contains (\d+) input tokens",
    r"has (\d+) input tokens",
    r"prompt \(length (\d+)\)",
    r"[Ii]nput length \((\d+)\)",
    r"(\d+) in the messages",
    r"(\d+) tokens from the input messages",
    r"messages resulted in (\d+) tokens",
    r"[Tt]he input \((\d+) tokens\)",
    r"request \((\d+) tokens\)",
)

_SAYS_SO = re.compile(
    r"context[ _](?:length|window|size)|longer than the maximum|max_model_len|prompt is too long",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Overflow:
    """A context that is exceeded.

    Attributes:
        limit: Tokens that the context holds, answer included; None if the server does not say.
        length: Tokens of the prompt; None if the server does not say, or knows only a part.
    """

    limit: int | None
    length: int | None

    def room(self, max_tokens: int | None) -> int | None:
        """How long an answer may be asked for instead, in tokens.

        Args:
            max_tokens: How long it might have been.

        Returns:
            Fewer tokens than those, or None if it was not the answer that did not fit.
        """
        if max_tokens is None or self.limit is None:
            return None
        room = self.limit - (self.length or 0)
        return room if 0 < room < max_tokens else None


def read_overflow(message: str) -> Overflow | None:
    """Read a server's error message; None if it speaks of something else."""
    if not _SAYS_SO.search(message):
        return None
    return Overflow(_number(_LIMITS, message), _number(_LENGTHS, message))


def _number(patterns: tuple[str, ...], message: str) -> int | None:
    found = (re.search(pattern, message) for pattern in patterns)
    return next((int(match[1]) for match in found if match), None)
