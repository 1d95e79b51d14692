"""The process-wide cache of running engines. It does not import vLLM by itself."""

import atexit
import os
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ..errors import ModelError
from .engine_checks import check_engine
from .environment import keep_log, prepare
from .main_script import check_main_script
from .options import EngineSpec
from .start_errors import explain_start

if TYPE_CHECKING:
    from .engine import Engine

_lock = threading.Lock()
_engines: dict[EngineSpec, "Engine"] = {}
_inherited: list["Engine"] = []  # kept, because freeing them would end them for the parent


def get_engine(spec: EngineSpec) -> "Engine":
    """The running engine for a spec; starts it at the first call, and again if it has died.

    Engines start one after the other: each measures the free memory before it takes its share.

    Raises:
        ModelError: vLLM is not installed, or the engine cannot be started.
    """
    engine = _engines.get(spec)
    if engine is not None and not engine.dead:
        return engine
    with _lock:
        engine = _engines.get(spec)
        if engine is not None and engine.dead:
            del _engines[spec]
            engine.close()
            engine = None
        if engine is None:
            engine = _start(spec)
            _engines[spec] = engine
        return engine


def release_engine(spec: EngineSpec) -> None:
    """End an engine, with its processes; calls under way fail."""
    with _lock:
        engine = _engines.pop(spec, None)
        if engine is not None:
            engine.close()


@atexit.register
def release_all() -> None:
    """End every engine of this process."""
    for spec in list(_engines):
        release_engine(spec)


def _leave_to_the_parent() -> None:
    """In a forked process: the engines are the parent's, and their threads are not here."""
    global _lock  # noqa: PLW0603  another thread of the parent's may have held it
    _lock = threading.Lock()
    _inherited.extend(_engines.values())
    _engines.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_leave_to_the_parent)


def _start(spec: EngineSpec) -> "Engine":
    check_main_script()
    check_engine(spec, spec.model)
    log = prepare()
    begin = log.stat().st_size if log and log.exists() else 0
    from .engine import Engine

    try:
        return Engine(spec)
    except ModelError:
        raise
    except Exception as error:
        lines = [*_lines(log, begin), *f"{type(error).__name__}: {error}".splitlines()]
        where = f" (Log: {log})" if log else ""
        keep_log()
        raise ModelError(f"{explain_start(lines, spec.model)}{where}") from error


def _lines(log: Path | None, begin: int) -> Sequence[str]:
    if log is None or not log.exists():
        return []
    with log.open("rb") as file:
        file.seek(begin)
        return file.read().decode(errors="replace").splitlines()
