"""Local vision chat models for LangChain, and the pictures they read.

Importing this package loads neither torch nor transformers; the first answer of a model does.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .errors import ModelError
    from .images import (
        ImageError,
        block_image,
        image_block,
        image_reference,
        is_image_block,
        load_image,
        message_images,
    )
    from .pairs import Pair, load_pair
    from .transformers_chat import ChatTransformers

__all__ = [
    "ChatTransformers",
    "ImageError",
    "ModelError",
    "Pair",
    "block_image",
    "image_block",
    "image_reference",
    "is_image_block",
    "load_image",
    "load_pair",
    "message_images",
]

_HOMES = {
    "ChatTransformers": ".transformers_chat",
    "ModelError": ".errors",
    "Pair": ".pairs",
    "load_pair": ".pairs",
}


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOMES.get(name, ".images"), __name__), name)


def __dir__() -> list[str]:
    return __all__
