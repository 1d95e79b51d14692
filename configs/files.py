"""Files that people name: YAML configurations by name or path, and files written whole."""

import difflib
import os
import reprlib
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar

import yaml
from pydantic import ValidationError

from .schemas import (
    ConfigError,
    Frozen,
    ModelConfig,
    PairConfig,
    PromptsConfig,
    SparseTransfer,
    StyleConfig,
)

_HERE = Path(__file__).parent
_Config = TypeVar("_Config", bound=Frozen)


def list_pairs() -> list[str]:
    """Return the names of the pairs that come with the package."""
    return _names("pairs")


def list_prompts() -> list[str]:
    """Return the names of the prompt files that come with the package."""
    return _names("prompts")


def load_pair_config(name_or_path: str | Path) -> PairConfig:
    """Read a pair by name (configs/pairs) or from a YAML file of the user's own.

    Raises:
        ConfigError: No such pair or file, not YAML, an unknown or missing key, a bad value.
    """
    path = _find("pairs", "pair", name_or_path)
    pair = _read(path, PairConfig)
    updates: dict[str, object] = {
        role: _beside(path, getattr(pair, role))
        for role in ("small", "large")
        if pair.backend_of(role) != "server"
    }
    if isinstance(pair.selector, ModelConfig):
        updates["selector"] = _beside(path, pair.selector)
    texts = path.parent / pair.prompts
    named = pair.prompts in list_prompts()
    if not named and (_is_relative(pair.prompts) or existing_file(texts)):
        updates["prompts"] = str(texts.resolve())
    for name in ("gate", "audit"):
        if file := getattr(pair, name):
            updates[name] = str((path.parent / file).resolve())
    return pair.model_copy(update=updates)


def load_prompts(name_or_path: str | Path = "default") -> PromptsConfig:
    """Read prompts by name (configs/prompts) or from a YAML file of the user's own.

    Raises:
        ConfigError: No such file, not YAML, an unknown or missing key, a bad value.
    """
    return _read(_find("prompts", "prompts", name_or_path), PromptsConfig)


def _beside(pair_file: Path, model: ModelConfig) -> ModelConfig:
    """Return the model with its folder made absolute, if it lies where the pair file does."""
    folder = pair_file.parent / model.model
    if _is_relative(model.model) or existing_folder(folder):
        return model.model_copy(update={"model": str(folder.resolve())})
    return model


def _is_relative(name: str) -> bool:
    return name.startswith(("./", "../"))


def _names(folder: str) -> list[str]:
    return sorted(path.stem for path in (_HERE / folder).glob("*.yaml"))


def _find(folder: str, what: str, name_or_path: str | Path) -> Path:
    if not isinstance(name_or_path, str | os.PathLike):
        raise ConfigError(
            f"The {what} cannot be {_shown(name_or_path)}: give a name or the path of a YAML file."
        )
    text = str(name_or_path)
    if text in _names(folder):
        return _HERE / folder / f"{text}.yaml"
    path = existing_file(text)
    if path:
        return path
    if text.endswith((".yaml", ".yml", ".json")) or "/" in text:
        raise ConfigError(f"There is no {what} file {_shown(text)}.")
    near = difflib.get_close_matches(text, _names(folder), n=1)
    hint = f"did you mean {near[0]!r}?" if near else f"known: {', '.join(_names(folder))}."
    nothing = "There are no" if what == "prompts" else "There is no"
    raise ConfigError(f"{nothing} {what} {_shown(text)}; {hint}")


def _read(path: Path, schema: type[_Config]) -> _Config:
    try:
        data: Any = yaml.load(path.read_text(encoding="utf-8"), UniqueKeyLoader)
    except (OSError, RecursionError, ValueError, yaml.YAMLError) as error:
        # A ValueError: bytes that are no UTF-8, a date that is none.
        reason = " ".join(str(error).split())
        raise ConfigError(f"{path} cannot be read as YAML: {reason}") from error
    if not isinstance(data, dict):
        raise ConfigError(f"{path} must hold keys and values, not {type(data).__name__}.")
    try:
        return schema.model_validate(data)
    except ValidationError as error:
        raise ConfigError(f"{path}: {_first_problem(error)}") from error


def _first_problem(error: ValidationError) -> str:
    # A misspelt key is missing too: naming it as unknown tells more.
    problem = min(error.errors(), key=lambda found: found["type"] != "extra_forbidden")
    # "[key]" marks a key that is itself the problem, other brackets one of several forms.
    key = ".".join(str(part) for part in problem["loc"] if not str(part).startswith("["))
    if problem["type"] == "extra_forbidden":
        return f"unknown key {key!r}; {_what_instead(str(problem['loc'][-1]))}."
    if problem["type"] == "missing":
        return f"the key {key!r} is missing; add it."
    message = problem["msg"].removeprefix("Value error, ")
    if not key:  # about several keys at once; the message names them
        return f"{message}."
    # A key, or an address with a password, may have been written there.
    if problem["loc"][-1] in {"base_url", "api_key_env"} or "@" in str(problem["input"]):
        return f"{key!r}: {message}."
    return f"{key!r}: {message} (it is {_shown(problem['input'])})."


def _what_instead(name: str) -> str:
    if name in {"api_key", "key", "token"}:
        return "keys are never in a file: set api_key_env to an environment variable that holds it"
    schemas = (PairConfig, ModelConfig, PromptsConfig, StyleConfig, SparseTransfer)
    known = {key for schema in schemas for key in schema.model_fields}
    near = difflib.get_close_matches(name, known, n=1)
    return f"write {near[0]!r} if you mean that" if near else "remove it or correct its name"


def _shown(value: object) -> str:
    """A value as error messages show it, cut if it is long."""
    shortened = reprlib.Repr()
    shortened.maxstring = 120
    return shortened.repr(value)


class UniqueKeyLoader(yaml.SafeLoader):
    """`yaml.SafeLoader` that refuses a repeated key; merges (`<<`) may still be overridden."""

    def compose_mapping_node(self, anchor: Any) -> yaml.MappingNode:
        """Read a mapping; raise yaml.MarkedYAMLError if a key is given twice."""
        node: yaml.MappingNode = super().compose_mapping_node(anchor)
        seen = set()
        for key, _ in node.value:
            name = (key.tag, key.value) if isinstance(key, yaml.ScalarNode) else key
            if name in seen:
                raise yaml.MarkedYAMLError(
                    problem=f"the key {key.value!r} is given twice", problem_mark=key.start_mark
                )
            seen.add(name)
        return node


def write_whole(path: Path, content: bytes | str) -> None:
    """Write a file, text as UTF-8, in a folder that is made if needed.

    Whoever is killed meanwhile, or runs out of disk, leaves the file as it was before; none ever
    sees half of it.

    Raises:
        ConfigError: It cannot be written; says why.
    """
    part = path.with_name(f"{path.name}.{os.getpid()}-{threading.get_ident()}.part")
    with writing(path):
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            part.write_bytes(content.encode() if isinstance(content, str) else content)
            part.replace(path)
        except OSError:
            with suppress(OSError):  # what was wrong above may be wrong here too
                part.unlink(missing_ok=True)
            raise


def check_folder(folder: Path) -> None:
    """Check that files can be written into a folder, or that it can be made; leave nothing there.

    Raises:
        ConfigError: They cannot, or it cannot; says why.
    """
    with writing(folder):
        there = next(path for path in (folder, *folder.absolute().parents) if path.exists())
        if not there.is_dir():
            raise NotADirectoryError(0, f"{there} is a file")
        with tempfile.TemporaryFile(dir=there) as probe:
            probe.write(bytes(4096))
            probe.flush()


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Raise a ConfigError for an OSError inside: a file or folder cannot be written, and why."""
    try:
        yield
    except OSError as error:
        raise ConfigError(
            f"{str(path)!r} cannot be written ({error.strerror or error}); free space there, make "
            "it writable, or name another folder."
        ) from error


def existing_file(name: str | Path) -> Path | None:
    """Return the file of this name; None if there is none or no such name can be."""
    return path if (path := _existing(name)) and path.is_file() else None


def existing_folder(name: str | Path) -> Path | None:
    """Return the folder of this name; None if there is none or no such name can be."""
    return path if (path := _existing(name)) and path.is_dir() else None


def _existing(name: str | Path) -> Path | None:
    try:
        path = Path(name).expanduser()
        return path if path.exists() else None
    except (OSError, RuntimeError, ValueError):  # too long, ~ of nobody, a null byte, a surrogate
        return None
