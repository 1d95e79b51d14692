"""The process-wide cache of loaded models. It loads neither torch nor transformers by itself."""

import gc
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from ..errors import ModelError
from .load_errors import ModelSpec, explain_import_error

if TYPE_CHECKING:
    from .engine import Engine

CHECKED = frozenset({("qwen3_vl", "qwen3_vl_text"), ("internvl", "qwen3"), ("internvl", "qwen2")})
"""Types of models, with those of their language models, whose attention was compared with what
transformers' eager implementation says. Others may have sinks, soft caps or windows."""

_lock = threading.Lock()
_engines: dict[ModelSpec, "Engine"] = {}
_layers: dict[ModelSpec, int] = {}


def get_engine(spec: ModelSpec) -> "Engine":
    """Return the engine of a model; load it at the first call.

    Threads that need the same model concurrently load it once. Models are loaded one after the
    other.

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
            with _packages():
                from .checkpoint import load_checkpoint
                from .engine import Engine
            engine = _engines[spec] = Engine(load_checkpoint(spec))
        return engine


def is_loaded(spec: ModelSpec) -> bool:
    """Whether a model is in memory."""
    return spec in _engines


def release_engine(spec: ModelSpec) -> None:
    """Release a loaded model, so that its memory is freed once running calls have ended."""
    with _lock:
        engine = _engines.pop(spec, None)
        _layers.pop(spec, None)
    if engine is None:
        return
    engine.close()
    del engine
    gc.collect()
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_initialized():
        torch.cuda.empty_cache()


def count_layers(spec: ModelSpec) -> int:
    """Return the layers of a model's language model; nothing but its config is read.

    Raises:
        ImportError: torch, transformers or torchvision is not installed.
        ModelError: There is no such model, or its attention cannot be read.
    """
    count = _layers.get(spec)
    if count is not None:
        return count
    with _packages():
        from .checkpoint import read_config
        from .prefix_cache import has_plain_cache
    config = read_config(spec)
    text = config.get_text_config()
    kind = (config.model_type, text.model_type)
    if kind not in CHECKED or not has_plain_cache(config):
        raise ModelError(
            f"The attention of {spec.model!r} cannot be read: that was checked for Qwen3-VL and "
            "for InternVL with a Qwen language model, all layers of which see the whole prompt, "
            f"and this one is of the type {' with '.join(kind)}; transfer the whole reasoning."
        )
    count = int(text.num_hidden_layers)
    with _lock:
        _layers[spec] = count
    return count


def check_draft_files(target: ModelSpec, draft: ModelSpec) -> None:
    """Refuse a model that cannot draft for another one; no weights are read.

    Raises:
        ImportError: torch, transformers or torchvision is not installed.
        ModelError: It cannot, or there is no such model.
    """
    with _packages():
        from .speculation import check_draft_files as check
    check(target, draft)


@contextmanager
def _packages() -> Iterator[None]:
    """Say what to install, if an import fails."""
    try:
        yield
    except ImportError as error:
        raise explain_import_error(error) from error
