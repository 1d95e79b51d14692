"""What goes wrong before anything is measured."""


class ProfilingInputError(ValueError):
    """A file or setting that cannot be used; the message is one sentence."""
