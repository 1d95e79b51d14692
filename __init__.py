"""Multi-agent inference for vision-language models, as a LangGraph graph.

Importing this package is quick: each name below is imported when it is first used, so neither
LangGraph nor torch loads before something needs it.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .configs import ConfigError, PromptsConfig, SparseTransfer, load_prompts
    from .graph import ChatMAI, create_mai, create_strategy
    from .models.errors import ModelError
    from .models.images import ImageError, image_reference
    from .models.pairs import Pair, load_pair
    from .models.server import ChatServer as ChatServer
    from .models.transformers.chat import ChatTransformers
    from .models.vllm.chat import ChatVLLM
    from .nodes.call_cache import CallCache
    from .nodes.gate import Gate
    from .nodes.settings import MAIContext
    from .nodes.state import (
        MAIError,
        MAIInput,
        MAIInputError,
        MAIOutput,
        MAIState,
        ModelCall,
        Route,
    )
    from .nodes.verification import Judge
    from .tools.vision_middleware import VisionMiddleware as VisionMiddleware
    from .tools.vision_tool import create_vision_tool

__version__ = "0.2.0"

_HOME = {
    "ConfigError": "configs",
    "PromptsConfig": "configs",
    "SparseTransfer": "configs",
    "load_prompts": "configs",
    "ChatMAI": "graph",
    "create_mai": "graph",
    "create_strategy": "graph",
    "ImageError": "models.images",
    "image_reference": "models.images",
    "Pair": "models.pairs",
    "load_pair": "models.pairs",
    "ChatServer": "models.server",  # not in __all__: it needs an extra
    "ChatTransformers": "models.transformers.chat",
    "ChatVLLM": "models.vllm.chat",
    "ModelError": "models.errors",
    "CallCache": "nodes.call_cache",
    "Gate": "nodes.gate",
    "MAIContext": "nodes.settings",
    "MAIError": "nodes.state",
    "MAIInputError": "nodes.state",
    "Judge": "nodes.verification",
    "MAIInput": "nodes.state",
    "MAIOutput": "nodes.state",
    "MAIState": "nodes.state",
    "ModelCall": "nodes.state",
    "Route": "nodes.state",
    "VisionMiddleware": "tools.vision_middleware",  # not in __all__: it needs an extra
    "create_vision_tool": "tools.vision_tool",
}

__all__ = [
    "CallCache",
    "ChatMAI",
    "ChatTransformers",
    "ChatVLLM",
    "ConfigError",
    "Gate",
    "ImageError",
    "Judge",
    "MAIContext",
    "MAIError",
    "MAIInput",
    "MAIInputError",
    "MAIOutput",
    "MAIState",
    "ModelCall",
    "ModelError",
    "Pair",
    "PromptsConfig",
    "Route",
    "SparseTransfer",
    "__version__",
    "create_mai",
    "create_strategy",
    "create_vision_tool",
    "image_reference",
    "load_pair",
    "load_prompts",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f".{_HOME[name]}", __name__), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
