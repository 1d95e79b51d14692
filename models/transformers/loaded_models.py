"""The process-wide cache of loaded models. It loads neither torch nor transformers by itself."""

import gc
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
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
_layers: dict[ModelSpec, int] = {}


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


def get_engine_to(spec: ModelSpec, depth: int) -> "Engine":
    """A loaded model that has at least the lower layers of its language model.

    One that is loaded whole, or deeper, will do. Otherwise it is loaded to this depth, instead of
    those that are less deep: their memory is freed once running calls have ended.

    Args:
        spec: The whole model.
        depth: How many layers are needed.

    Raises:
        ImportError: torch, transformers or torchvision is not installed.
        ModelError: The model cannot be loaded.
    """
    engine = _loaded_to(spec, depth)
    if engine is not None:
        return engine
    with _lock:
        engine = _loaded_to(spec, depth)
        if engine is None:
            shallower = _depths(spec)
            for one in shallower:
                # It is not closed: who holds it already may still use it.
                del _engines[one]
            if shallower:
                _free_memory()
            wanted = replace(spec, depth=depth)
            engine = _engines[wanted] = _load(wanted)
        return engine


def release_engines_to(spec: ModelSpec) -> None:
    """Forget a model as far as it is loaded to some depth; one that is loaded whole stays."""
    for one in _depths(spec):
        release_engine(one)
    with _lock:
        _layers.pop(spec, None)


def layer_count(spec: ModelSpec) -> int:
    """Layers of a model's language model; nothing but its config is read.

    Raises:
        ImportError: torch, transformers or torchvision is not installed.
        ModelError: There is no such model, or its attention cannot be read.
    """
    count = _layers.get(spec)
    if count is None:
        with _packages():
            from .attention_layers import count_layers
            from .checkpoint import read_config
        count = count_layers(read_config(spec), spec.model)
        with _lock:
            _layers[spec] = count
    return count


def check_draft(target: ModelSpec, draft: ModelSpec) -> None:
    """Refuse a model that cannot write ahead for another one; no weights are read.

    Raises:
        ImportError: torch, transformers or torchvision is not installed.
        ModelError: It cannot, or there is no such model.
    """
    with _packages():
        from .draft_checks import check_draft_files
    check_draft_files(target, draft)


def release_engine(spec: ModelSpec) -> None:
    """Forget a loaded model, so that its memory is freed once running calls have ended."""
    with _lock:
        engine = _engines.pop(spec, None)
    if engine is None:
        return
    engine.close()
    del engine
    _free_memory()


def _free_memory() -> None:
    gc.collect()
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_initialized():
        torch.cuda.empty_cache()


def _loaded_to(spec: ModelSpec, depth: int) -> "Engine | None":
    """The whole model or else the deepest, if it is deep enough."""
    loaded = {one.depth: engine for one, engine in tuple(_engines.items()) if _is_of(one, spec)}
    if None in loaded:
        return loaded[None]
    deepest = max((known for known in loaded if known is not None), default=0)
    return loaded[deepest] if deepest >= depth else None


def _depths(spec: ModelSpec) -> list[ModelSpec]:
    return [one for one in tuple(_engines) if one.depth is not None and _is_of(one, spec)]


def _is_of(one: ModelSpec, spec: ModelSpec) -> bool:
    return replace(one, depth=None) == spec


def _load(spec: ModelSpec) -> "Engine":
    with _packages():
        from .checkpoint import load_checkpoint
        from .engine import Engine
    checkpoint = load_checkpoint(spec, gate)
    return Engine(checkpoint, gate, shares)


@contextmanager
def _packages() -> Iterator[None]:
    """Say what to install, if an import fails."""
    try:
        yield
    except ImportError as error:
        raise explain_import_error(error) from error
