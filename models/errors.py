"""What goes wrong with a local model, said in one sentence."""


class ModelError(RuntimeError):
    """A model that cannot be loaded or used; the message says why and what to do."""
