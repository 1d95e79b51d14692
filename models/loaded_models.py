"""The process-wide cache of loaded models. It loads neither torch nor transformers by itself."""

import gc
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .engine import Engine

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
    """

    model: str
    revision: str | None = None
    dtype: str = "auto"
    device: str = "auto"
    attention: str | None = None
    threads: int | None = None


class Gate:
    """Lets models compute at the same time, but none while another one is being loaded.

    While transformers loads a checkpoint it changes torch's default dtype for the whole process. A
    model that computes in another thread at that moment would create some of its tensors in the
    wrong dtype, and answer differently without an error.
    """

    def __init__(self) -> None:
        """Nobody is inside."""
        self._changed = threading.Condition()
        self._computing = 0
        self._loading = False
        self._loads_waiting = 0

    @contextmanager
    def computing(self) -> Iterator[None]:
        """Held while a model computes."""
        with self._changed:
            self._changed.wait_for(lambda: not self._loading and not self._loads_waiting)
            self._computing += 1
        try:
            yield
        finally:
            with self._changed:
                self._computing -= 1
                self._changed.notify_all()

    @contextmanager
    def loading(self) -> Iterator[None]:
        """Held while a checkpoint is loaded; goes before computations that have not begun."""
        with self._changed:
            self._loads_waiting += 1
            self._changed.wait_for(lambda: not self._loading and not self._computing)
            self._loads_waiting -= 1
            self._loading = True
        try:
            yield
        finally:
            with self._changed:
                self._loading = False
                self._changed.notify_all()


gate = Gate()
_lock = threading.Lock()
_engines: dict[ModelSpec, "Engine"] = {}


def get_engine(spec: ModelSpec) -> "Engine":
    """The loaded model for a spec; loads it at the first call.

    Threads that ask for the same model at once load it once. Models are loaded one after the other.

    Raises:
        ImportError: torch, transformers or torchvision is not installed.
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
        raise ImportError(
            f"Local models need torch, torchvision and transformers ({error}); install them with: "
            f"{INSTALL}"
        ) from error
    checkpoint = load_checkpoint(spec, gate)
    return Engine(checkpoint, gate)
