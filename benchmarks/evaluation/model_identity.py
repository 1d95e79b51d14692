"""What tells one model from another on disk: its weights and settings, not where it runs."""

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from langchain_core.language_models import BaseChatModel
from pydantic import BaseModel

from ...configs.files import existing_folder

# Settings that change how fast an answer comes, or whether it comes, but not what it says.
_IRRELEVANT = {
    "allow_fetch",
    "batch_size",
    "batch_tokens",
    "draft",
    "max_retries",
    "memory",
    "prefix_cache_bytes",
    "threads",
    "timeout",
}

_WHOLE_BYTES = 64 << 20
_SAMPLES = 64
_SAMPLE_BYTES = 64 << 10


def model_identity(model: BaseChatModel | BaseModel) -> dict[str, Any]:
    """What a model's answers depend on, as JSON values.

    Args:
        model: A chat model of this package, or any that tells its settings to LangChain; or a
            model that only gives attention.

    Returns:
        The class, the settings, and what the weights are: a hash of the files of a local
        checkpoint, or the commit of a hub model (which is downloaded, if it is not here yet).

    Raises:
        ModelError: A hub model cannot be loaded.
    """
    own = model._identifying_params if isinstance(model, BaseChatModel) else model.model_dump()
    settings = {name: value for name, value in own.items() if name not in _IRRELEVANT}
    name = settings.get("model")
    if isinstance(name, str) and "base_url" not in settings and hasattr(model, "load"):
        weights = _weights(name, settings.get("revision"))
        if weights is None:
            model.load()
            weights = _weights(name, settings.get("revision"))
        settings["weights"] = weights
        if existing_folder(name):  # the same files may lie in another place
            settings["model"] = Path(name).name
    plain: dict[str, Any] = json.loads(json.dumps(settings, sort_keys=True, default=str))
    return {"class": type(model).__name__, **plain}


def _weights(name: str, revision: str | None) -> str | None:
    """A checkpoint's content, or the commit of a hub model; None if it is not on this machine."""
    folder = existing_folder(name)
    if folder is not None:
        return checkpoint_hash(folder)
    try:
        from huggingface_hub import try_to_load_from_cache
    except ImportError:
        return None
    found = try_to_load_from_cache(name, "config.json", revision=revision)
    return Path(found).parent.name if isinstance(found, str) else None


def checkpoint_hash(folder: Path) -> str:
    """A hash over the files of a checkpoint; of very large ones, over parts spread over them.

    Args:
        folder: Any folder; the folders inside it do not count.
    """
    digest = hashlib.sha256()
    for path in sorted(path for path in folder.iterdir() if path.is_file()):
        digest.update(f"{path.name} {path.stat().st_size}\n".encode())
        for part in _parts(path):
            digest.update(part)
    return digest.hexdigest()


def _parts(path: Path) -> Iterator[bytes]:
    size = path.stat().st_size
    with path.open("rb") as file:
        if size <= _WHOLE_BYTES:
            yield file.read()
            return
        for number in range(_SAMPLES):
            file.seek((size - _SAMPLE_BYTES) * number // (_SAMPLES - 1))
            yield file.read(_SAMPLE_BYTES)
