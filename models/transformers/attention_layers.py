"""Which models tell their attention, and how many layers they have.

Imports transformers: only modules of a loaded model import this one.
"""

from typing import Any

from ..errors import ModelError
from .key_values import plain_cache

CHECKED = frozenset({("qwen3_vl", "qwen3_vl_text"), ("internvl", "qwen3"), ("internvl", "qwen2")})
"""Types of models, with those of their language models, whose attention was compared with what
transformers' eager implementation says. Others may have sinks, soft caps or windows."""


def count_layers(config: Any, name: str) -> int:
    """Layers of a model's language model.

    Args:
        config: The transformers config.
        name: What the model is called in error messages.

    Raises:
        ModelError: Its attention cannot be read.
    """
    text = config.get_text_config()
    kind = (config.model_type, text.model_type)
    if kind not in CHECKED or plain_cache(config) is None:
        raise ModelError(
            f"The attention of {name!r} cannot be read: that was checked for Qwen3-VL and for "
            "InternVL with a Qwen language model, all layers of which see the whole prompt, and "
            f"this one is of the type {' with '.join(kind)}; transfer the whole reasoning."
        )
    count: int = text.num_hidden_layers
    return count
