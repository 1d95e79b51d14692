"""What some chat models can do beyond chatting; nodes ask for it here, not for classes."""

from typing import ClassVar, Protocol, runtime_checkable


@runtime_checkable
class TakesTimeout(Protocol):
    """A model whose calls take `timeout=` in seconds, and really stop computing when it is over."""

    takes_timeout: ClassVar[bool]


@runtime_checkable
class TakesDraft(Protocol):
    """A model whose calls take `draft=`, a model that writes ahead of it: speculative decoding.

    The output is the model's own greedy one. The message's `response_metadata` says how many tokens
    the draft wrote (`drafted_tokens`), and how many of them are in the output (`accepted_tokens`).
    """

    def check_draft(self, draft: object) -> None:
        """Refuse what cannot draft for this model, as far as can be known before both are loaded.

        Args:
            draft: Any chat model.

        Raises:
            ModelError: It cannot, in one sentence.
        """
        ...


@runtime_checkable
class ForgetsPrefixes(Protocol):
    """A model that can drop what it keeps of earlier prompts."""

    def forget_prefixes(self) -> None:
        """Drop it."""
        ...
