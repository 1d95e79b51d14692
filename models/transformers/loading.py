"""Loaded models, one per process and kind, and what goes wrong with one as one sentence.

It loads neither torch nor transformers by itself.
"""

import gc
import re
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import version
from importlib.util import find_spec
from typing import TYPE_CHECKING

from ..errors import ModelError

if TYPE_CHECKING:
    from .engine import Engine

INSTALL = 'pip install "langgraph-mai[transformers]"'

_PACKAGES = ("torch", "torchvision", "transformers")

CHECKED = frozenset({("qwen3_vl", "qwen3_vl_text"), ("internvl", "qwen3"), ("internvl", "qwen2")})
"""Types of models, with those of their language models, whose attention was compared with what
transformers' eager implementation says. Others may have sinks, soft caps or windows."""


@dataclass(frozen=True, slots=True)
class ModelSpec:
    """Everything that makes one loaded model differ from another.

    Attributes:
        model: Local folder or hub name.
        revision: Branch, tag or commit of a hub model.
        dtype: Torch dtype by name, or "auto".
        device: Torch device, or "auto".
        attention: Attention implementation of transformers, None for its default.
        threads: CPU threads, None for one for models of fewer than 50 million
            parameters, else torch's number.
        layers: Layers of the language model that are loaded, for attention alone; None for the
            whole model.
    """

    model: str
    revision: str | None = None
    dtype: str = "auto"
    device: str = "auto"
    attention: str | None = None
    threads: int | None = None
    layers: int | None = None


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


# Signs of an error (a class by its name, or words of its message) and what is told instead. Which
# classes exist depends on the libraries' versions.
_REASONS = {
    "GatedRepoError": (
        "The model {name} is gated: accept its terms on the hub and log in with `hf auth login`."
    ),
    "RevisionNotFoundError": "The hub has no revision {revision!r} of the model {name}.",
    "RepositoryNotFoundError|HFValidationError": (
        "The hub has no model {name}, and there is no such folder."
    ),
    "OfflineModeIsEnabled": (
        "The model {name} is neither a folder nor in the local hub cache, and HF_HUB_OFFLINE "
        "forbids to download it; unset that, or give a folder."
    ),
    "LocalEntryNotFoundError|ConnectionError|ConnectError|TransportError": (
        "The model {name} is neither a folder nor in the local hub cache, and the hub cannot be "
        "reached; check the network, or give a folder."
    ),
    "SafetensorError": (
        "The weights of {name} are damaged or were not downloaded whole ({text}); get them again."
    ),
    "no file named": (
        "The checkpoint {name} has no weights (model.safetensors); get the whole checkpoint."
    ),
    "Unrecognized configuration class": (
        "The model {name} does not read images (transformers knows no image-text-to-text model of "
        "its type); take a vision-language checkpoint."
    ),
    "custom code|trust_remote_code": (
        "The model {name} needs program code from its repository, which is not run; take the "
        "checkpoint in transformers' own format (for InternVL, the one ending in -HF)."
    ),
    "does not recognize this architecture": (
        "This version of transformers does not know the type of {name}; upgrade it."
    ),
    "attn_implementation|(?i:attention)": (
        "The attention {attention!r} cannot be used for {name}; try sdpa or eager."
    ),
    "Should have a `model_type` key": (
        "The config.json of {name} does not name a model_type; get the whole checkpoint."
    ),
    "mismatched": "The weights of {name} do not have the shapes that its config.json says.",
}


def explain_import_error(error: ImportError) -> ImportError:
    """Return the error to raise when the libraries of local models cannot be imported."""
    if absent := _absent():
        return ImportError(f"Local models need {', '.join(absent)}; install it with: {INSTALL}")
    *_, innermost = _chain(error)
    versions = ", ".join(f"{name} {version(name)}" for name in _PACKAGES)
    return ImportError(
        f"The installed {versions} do not fit each other ({one_line(innermost).rstrip('.')}); "
        f"install versions that do, all from one place: {INSTALL}"
    )


def explain_load_error(error: Exception, spec: ModelSpec) -> Exception:
    """Return the error to raise instead of a library's: of a missing package, or a ModelError."""
    name, text = repr(spec.model), " ".join(str(error).split())
    if isinstance(error, ModelError):
        return error
    if isinstance(error, ImportError) and "flash" not in text.lower():
        if _absent():
            return explain_import_error(error)
        *_, innermost = _chain(error)
        return ImportError(
            f"The model {name} needs a package ({one_line(innermost)[:200]}); try: {INSTALL}"
        )
    if is_out_of_memory(error):
        return ModelError(
            f"There is not enough memory for the model {name}; free some, or take a smaller model "
            "or dtype."
        )
    kinds = {kind.__name__ for link in _chain(error) for kind in type(link).__mro__}
    for signs, told in _REASONS.items():
        if kinds.intersection(signs.split("|")) or re.search(signs, text):
            named = {"revision": spec.revision, "attention": spec.attention}
            return ModelError(told.format(name=name, text=text, **named))
    return ModelError(f"The model {name} cannot be loaded ({type(error).__name__}: {text[:300]}).")


def is_out_of_memory(error: BaseException) -> bool:
    """Tell whether main or GPU memory ran out."""
    said = re.search("out of memory|can't allocate memory|not enough memory", str(error), re.I)
    return isinstance(error, MemoryError) or (isinstance(error, RuntimeError) and bool(said))


def _absent() -> list[str]:
    return [name for name in _PACKAGES if find_spec(name) is None]


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


def one_line(error: BaseException) -> str:
    """Return what an error says, in one line of at most 300 characters."""
    return " ".join(str(error).split())[:300]


def explain_failure(error: Exception, name: str) -> Exception:
    """Return the error that a caller gets when a loaded model fails."""
    if isinstance(error, ModelError):
        return error
    if is_out_of_memory(error):
        explained = ModelError(
            f"The model {name!r} ran out of memory; lower max_pixels or max_tokens."
        )
    else:
        reason = f"{type(error).__name__}: {one_line(error)}"
        explained = ModelError(f"The model {name!r} failed ({reason}).")
    explained.__cause__ = error
    return explained
