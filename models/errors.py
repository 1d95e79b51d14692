"""What goes wrong with a model, said in one sentence."""

from langchain_core.exceptions import ContextOverflowError


class ModelError(RuntimeError):
    """A model that cannot be loaded or used; the message says why and what to do."""


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


class CallTimeoutError(ModelError, TimeoutError):
    """A call that used up its time."""


class UnreachableError(ModelError, ConnectionError):
    """A server that is not there, broke off, or has a failure of its own; it may work later.

    The model has asked as often as its settings say, so that nobody above needs to.
    """


class EngineEndedError(ModelError, ConnectionError):
    """An engine that ended in mid-run; the next call starts it again."""
