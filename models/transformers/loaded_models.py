"""The process-wide cache of loaded models. It loads neither torch nor transformers by itself."""

import gc
import sys
import threading
from typing import TYPE_CHECKING

from .gate import Gate
from .load_errors import explain_import_error
from .model_spec import ModelSpec
from .threads import ThreadShares

if TYPE_CHECKING:
    from .engine import Engine

gate = Gate()
shares = ThreadShares()
_lock = threading.Lock()
_engines: dict[ModelSpec, "Engine"] = {}


def get_engine(spec: ModelSpec) -> "Engine":
    """The loaded model for a spec; loads it at the first call.

    Threads that ask for the same model at once load it once. Models are loaded one after the other.

    Raises:
        ImportError: torch, transformers or torchvision is not installed, or one of them does not
            fit the others.
        ModelError: The model cannot be loaded.
    """
    engine = _engines.get(spec)
    if engine is not None:
        return engine
    with _lock:
        engine = _engines.get(spec)
        if engine is None:
            engine = _load(spec)
            _engines[spec] = engine
        return engine


def release_engine(spec: ModelSpec) -> None:
    """Forget a loaded model, so that its memory is freed once running calls have ended."""
    with _lock:
        engine = _engines.pop(spec, None)
    if engine is None:
        return
    engine.close()
    del engine
    gc.collect()
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_initialized():
        torch.cuda.empty_cache()


def _load(spec: ModelSpec) -> "Engine":
    try:
        from .checkpoint import load_checkpoint
        from .engine import Engine
    except ImportError as error:
        raise explain_import_error(error) from error
    checkpoint = load_checkpoint(spec, gate)
    return Engine(checkpoint, gate, shares)
