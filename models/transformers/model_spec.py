"""What names a loaded model, and what brings local models onto a machine."""

from dataclasses import dataclass

INSTALL = 'pip install "langgraph-mai[transformers]"'


@dataclass(frozen=True, slots=True)
class ModelSpec:
    """Everything that makes one loaded model differ from another.

    Attributes:
        model: Local folder or hub name.
        revision: Branch, tag or commit of a hub model.
        dtype: Torch dtype by name, or "auto".
        device: Torch device, or "auto".
        attention: Attention implementation of transformers, None for its default.
        threads: CPU threads, None for the default that `engine.Engine` describes.
        depth: Layers of the language model that are loaded, for attention alone; None for the
            whole model.
    """

    model: str
    revision: str | None = None
    dtype: str = "auto"
    device: str = "auto"
    attention: str | None = None
    threads: int | None = None
    depth: int | None = None
