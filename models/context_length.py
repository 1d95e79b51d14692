"""What servers and engines reply to a prompt that exceeds the model's context.

There is no common form: the numbers are in the error messages of vLLM (several versions), SGLang,
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

_NAMES_IT = re.compile(
    r"context[ _](?:length|window|size)|longer than the maximum|max_model_len|prompt is too long",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Overflow:
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

    def sentence(self, model: str, advice: str, quoted: str) -> str:
        """Return the error message.

        Args:
            model: The model, as people know it.
            advice: What to do.
            quoted: The message itself, for one without numbers.
        """
        has = f"has {self.length} tokens" if self.length else "is too long"
        takes = f"takes at most {self.limit}" if self.limit else f"does not take it ({quoted})"
        return f"The prompt {has} and {model} {takes}, answer included; {advice}."


def read_overflow(message: str) -> Overflow | None:
    """Read an error message; None if it is about something else."""
    if not _NAMES_IT.search(message):
        return None
    return Overflow(_number(_LIMITS, message), _number(_LENGTHS, message))


def _number(patterns: tuple[str, ...], message: str) -> int | None:
    found = (re.search(pattern, message) for pattern in patterns)
    return next((int(match[1]) for match in found if match), None)
