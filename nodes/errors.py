"""What a run raises; every message is one sentence (or two) for the person who started it."""


class MAIError(RuntimeError):
    """A run that has nothing to answer with: every model call failed."""


class MAIInputError(ValueError):
    """An input that cannot be asked about; the message says what to change."""
