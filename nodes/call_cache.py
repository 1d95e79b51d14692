"""A store of model calls on SQLite: an equal call is not made again.

A call is equal to another one if everything that its output depends on is equal: the model (the
content of its weights, or its revision, and the settings that change outputs), the prompt, the
images' hashes and the settings of the call. Who makes it, and for which strategy, plays no part.
"""

import asyncio
import hashlib
import json
import sqlite3
import threading
from collections.abc import Awaitable, Callable
from concurrent.futures import Future
from pathlib import Path
from typing import Any, TypeVar
from uuid import uuid4

from langchain_core.runnables import RunnableWithFallbacks
from langchain_core.runnables.base import RunnableBindingBase
from pydantic import BaseModel

from ..configs.files import existing_folder

_Result = TypeVar("_Result")

Value = dict[str, Any]
"""The result of a call as JSON values; one with an `error` is not stored."""

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
_LOCK_SECONDS = 60.0


def stored_value(text: Any) -> Value | None:
    """Read a stored value; None for one that is damaged, or written by somebody else."""
    try:
        value = json.loads(text)
    except (RecursionError, TypeError, ValueError):
        return None
    return value if isinstance(value, dict) and not value.get("error") else None


class CallCache:
    """A store of model calls; several threads and processes may use one file.

    A call is stored as soon as it is done, so that a process that is killed loses at most the calls
    on their way. Equal calls at the same time are made once in a process. Failed calls are not
    stored.

    Attributes:
        path: The SQLite file; None keeps the calls in memory.

    Example:
        >>> create_mai(small, large, cache=CallCache("calls.sqlite"))
    """

    def __init__(self, path: str | Path | None = None) -> None:
        """Open or create the file, its folder included.

        Raises:
            OSError: The folder cannot be made.
            sqlite3.Error: The file is no SQLite file, or cannot be written.
        """
        self.path = None if path is None else Path(path)
        if self.path is not None:
            self.path.parent.mkdir(parents=True, exist_ok=True)
        self._lock = threading.Lock()
        self._under_way: dict[str, Future[Value | None]] = {}
        self._identities: dict[int, tuple[Any, list[Any]]] = {}
        self._database = sqlite3.connect(
            self.path or ":memory:",
            timeout=_LOCK_SECONDS,
            isolation_level=None,
            check_same_thread=False,
        )
        self._database.execute("PRAGMA journal_mode=WAL")
        self._database.execute("PRAGMA synchronous=NORMAL")
        self._database.execute(
            "CREATE TABLE IF NOT EXISTS calls (key TEXT PRIMARY KEY, value TEXT NOT NULL)"
        )

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            self._database.close()

    def get(self, key: str) -> Value | None:
        """Return what is stored under a key, or None."""
        with self._lock:
            row = self._database.execute("SELECT value FROM calls WHERE key = ?", [key]).fetchone()
        return stored_value(row[0]) if row else None

    def put(self, key: str, value: Value) -> None:
        """Store a value, also in the place of a damaged one."""
        with self._lock:
            self._database.execute(
                "INSERT OR REPLACE INTO calls VALUES (?, ?)", [key, json.dumps(value)]
            )

    async def acall(
        self, key: str, make: Callable[[], Awaitable[Value]], *, in_loop: bool = True
    ) -> tuple[Value, bool]:
        """Return the stored value of a key, or make and store it.

        Args:
            key: What `key_of` returned.
            make: Makes the call. Errors that it raises come through.
            in_loop: Whether there is an event loop, which nothing may block: then the file is read
                and written in a thread. Without one, nothing is awaited but `make`.

        Returns:
            The value, and whether it was there, or came from an equal call at the same time.
        """

        async def run(function: Callable[..., _Result], *arguments: Any) -> _Result:
            return (
                await asyncio.to_thread(function, *arguments) if in_loop else function(*arguments)
            )

        while (stored := await run(self.get, key)) is None and (pending := self._join(key)):
            # Shielded: whoever waits and is cancelled does not cancel the call of the others.
            waiting = asyncio.shield(asyncio.wrap_future(pending)) if in_loop else None
            shared = await waiting if waiting else pending.result()
            if shared is not None:
                return shared, True
        if stored is not None:
            return stored, True
        value: Value = {"error": "not made"}
        try:
            stored = await run(self.get, key)  # an equal call may have ended since the look above
            value = await make() if stored is None else stored
            return value, stored is not None
        finally:
            await run(self._end, key, value)

    def key_of(self, model: Any, content: Any) -> str:
        """Return the key of a call.

        Args:
            model: The model, also in LangChain's wrappers. Weights are hashed once per model.
            content: What else the output depends on, as JSON values.
        """
        text = json.dumps([self.identity(model), content], sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()

    def identity(self, model: Any) -> list[Any]:
        """Return what tells a model from others, wrappers included.

        A model that says nothing about itself equals no other one.
        """
        if isinstance(model, RunnableBindingBase):
            chosen = (model.config or {}).get("configurable")
            return ["bound", _plain([model.kwargs, chosen]), self.identity(model.bound)]
        if isinstance(model, RunnableWithFallbacks):
            return ["fallbacks", *map(self.identity, model.runnables)]
        # The model is kept, so that no later one comes to lie at its address.
        known = self._identities.get(id(model))
        if known is None:
            known = self._identities.setdefault(id(model), (model, _identity(model)))
        return known[1]

    def _join(self, key: str) -> Future[Value | None] | None:
        """Return the equal call that is under way; None if there is none, and this one begins."""
        with self._lock:
            if key in self._under_way:
                return self._under_way[key]
            self._under_way[key] = Future()
            return None

    def _end(self, key: str, value: Value) -> None:
        """Store a value and share it with whoever waits; after a failure, each makes the call."""
        failed = bool(value.get("error"))
        try:
            if not failed:
                self.put(key, value)
        finally:
            with self._lock:
                pending = self._under_way.pop(key)
            pending.set_result(None if failed else value)


def model_identity(model: Any) -> dict[str, Any]:
    """Return what a model's outputs depend on, as JSON values.

    Args:
        model: A chat model of this package, or any that tells its settings to LangChain; or a
            model that only gives attention.

    Returns:
        The class, the settings, and what the weights are: a hash of the files of a local
        checkpoint, or the commit of a hub model (which is downloaded, if it is not here yet).

    Raises:
        ModelError: A hub model cannot be loaded.
    """
    own = getattr(model, "_identifying_params", None)
    if own is None and isinstance(model, BaseModel):
        own = model.model_dump()
    settings = {name: value for name, value in (own or {}).items() if name not in _IRRELEVANT}
    name = settings.get("model")
    if isinstance(name, str) and "base_url" not in settings and hasattr(model, "load"):
        weights = _weights(name, settings.get("revision"))
        if weights is None:
            model.load()
            weights = _weights(name, settings.get("revision"))
        settings["weights"] = weights
        if existing_folder(name):  # the same files may lie in another place
            settings["model"] = Path(name).name
    plain: dict[str, Any] = json.loads(json.dumps(settings, sort_keys=True, default=repr))
    return {"class": type(model).__name__, **plain}


def _identity(model: Any) -> list[Any]:
    try:
        identity = model_identity(model)
    except (TypeError, ValueError):  # settings with keys that cannot be sorted, or a circle
        identity = {}
    return [type(model).__module__, _plain(identity if len(identity) > 1 else object())]


def _plain(value: Any) -> str:
    """Return a text that equals no other value's."""
    try:
        text = json.dumps(value, sort_keys=True, default=repr)
    except (TypeError, ValueError):
        text = " at 0x"
    # A memory address tells nothing: the next object may come to lie there.
    return str(uuid4()) if " at 0x" in text else text


def _weights(name: str, revision: str | None) -> str | None:
    """Return a checkpoint's hash, or a hub model's commit; None if it is not on this machine."""
    if (folder := existing_folder(name)) is not None:
        return _checkpoint_hash(folder)
    try:
        from huggingface_hub import try_to_load_from_cache
    except ImportError:
        return None
    found = try_to_load_from_cache(name, "config.json", revision=revision)
    return Path(found).parent.name if isinstance(found, str) else None


def _checkpoint_hash(folder: Path) -> str:
    """Return a hash over a folder's own files; of very large ones, over parts of each."""
    digest = hashlib.sha256()
    for path in sorted(path for path in folder.iterdir() if path.is_file()):
        size = path.stat().st_size
        digest.update(f"{path.name} {size}\n".encode())
        with path.open("rb") as file:
            if size <= _WHOLE_BYTES:
                digest.update(file.read())
                continue
            for number in range(_SAMPLES):
                file.seek((size - _SAMPLE_BYTES) * number // (_SAMPLES - 1))
                digest.update(file.read(_SAMPLE_BYTES))
    return digest.hexdigest()
