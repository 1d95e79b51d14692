"""Local vision chat models for LangChain, and the images they read.

Importing this package loads neither torch nor transformers; the first answer of a model does.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .errors import ModelError
    from .images import (
        ImageError,
        block_image,
        image_reference,
        is_image_block,
        load_image,
    )
    from .pairs import Pair, load_pair
    from .server_chat import ChatServer as ChatServer
    from .transformers.chat import ChatTransformers
    from .vllm_chat import ChatVLLM

__all__ = [
    "ChatTransformers",
    "ChatVLLM",
    "ImageError",
    "ModelError",
    "Pair",
    "block_image",
    "image_reference",
    "is_image_block",
    "load_image",
    "load_pair",
]

_HOMES = {
    "ChatTransformers": ".transformers.chat",
    "ChatVLLM": ".vllm_chat",
    "ModelError": ".errors",
    "ChatServer": ".server_chat",  # not in __all__: it needs an extra
    "Pair": ".pairs",
    "load_pair": ".pairs",
}


def __getattr__(name: str) -> Any:
    if name not in __all__ and name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOMES.get(name, ".images"), __name__), name)


def __dir__() -> list[str]:
    return __all__
