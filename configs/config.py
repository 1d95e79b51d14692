"""The YAML files of this folder as frozen pydantic models; unknown keys are refused by name."""

import difflib
import os
import reprlib
from pathlib import Path
from typing import Any, Literal, TypeVar

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from ..answers import AnswerType
from .paths import existing_file, existing_folder
from .unique_keys import UniqueKeyLoader

HERE = Path(__file__).parent


class ConfigError(ValueError):
    """A configuration that cannot be used; the message is one sentence that says what to change."""


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class StyleConfig(_Frozen):
    """One prompt style: how a model is told to answer, and how long it may write.

    Attributes:
        instruction: The last part of the prompt. It starts with a letter, so that no tokenizer
            joins its first token with the line break that ends the shared prefix.
        max_tokens: Limit on the output, in tokens.
    """

    instruction: str = Field(min_length=1)
    max_tokens: int = Field(gt=0)

    @field_validator("instruction")
    @classmethod
    def _starts_with_a_letter(cls, value: str) -> str:
        if not value[0].isalpha():
            raise ValueError("must start with a letter, or the prompt prefix cannot be reused")
        return value


class TransferConfig(StyleConfig):
    """Reasoning transfer and two-stage: the prompt that hands a finished reasoning to a model.

    Attributes:
        instruction: Holds `{reasoning}` once, where the reasoning goes.
    """

    @field_validator("instruction")
    @classmethod
    def _holds_the_reasoning(cls, value: str) -> str:
        if value.count("{reasoning}") != 1:
            raise ValueError("must hold {reasoning} exactly once")
        return value


class PromptsConfig(_Frozen):
    """Every text the graph puts around a question (the paper's prompt styles S, E and R).

    Attributes:
        system: System message, or None for none.
        choice: One line per choice, with `{letter}` and `{text}`.
        direct: Style S, answer at once.
        explain: Style E, explain, then answer.
        reason: Style R, reason step by step, then answer on a last line.
        transfer: The direct style with a finished reasoning before it.
        answer_hints: A sentence per answer type, put where an instruction holds `{hint}`; missing
            types get none.
    """

    system: str | None = None
    choice: str = "{letter}. {text}"
    direct: StyleConfig
    explain: StyleConfig
    reason: StyleConfig
    transfer: TransferConfig
    answer_hints: dict[AnswerType, str] = Field(default_factory=dict)

    @field_validator("choice")
    @classmethod
    def _shows_letter_and_text(cls, value: str) -> str:
        letter, text = "\0\1", "\2\3"
        try:
            shown = value.format(letter=letter, text=text)
        except (AttributeError, LookupError, MemoryError, OverflowError, TypeError, ValueError):
            shown = ""
        if letter not in shown or text not in shown:
            raise ValueError("must hold {letter} and {text}, and no other braces than {{ and }}")
        return value


class ModelConfig(_Frozen):
    """One model of a pair.

    Attributes:
        model: Local folder or hub name. What starts with `./` or `../`, or names a folder below
            the pair file's own, is taken from there; `demo:NAME` from the weights that the package
            carries.
        revision: Branch, tag or commit of a hub model.
        dtype: Torch dtype by name, or "auto" for the checkpoint's own.
        device: "auto" (a GPU if there is one), "cpu", "cuda", "cuda:1", "mps".
        attention: Attention implementation of transformers; None for its default.
        max_pixels: Images with more pixels are shrunk to this; None leaves it to the processor.
    """

    model: str = Field(min_length=1)
    revision: str | None = None
    dtype: Literal["auto", "float32", "bfloat16", "float16"] = "auto"
    device: str = "auto"
    attention: str | None = None
    max_pixels: int | None = Field(default=None, gt=0)


class PairConfig(_Frozen):
    """A small and a large model that answer together.

    Attributes:
        description: One line for people.
        backend: What runs the models.
        prompts: Name of a file in configs/prompts, or a path to one, from the pair file's folder.
        small: The small agent's model.
        large: The large agent's model.
    """

    description: str = ""
    backend: Literal["transformers"] = "transformers"
    prompts: str = "default"
    small: ModelConfig
    large: ModelConfig


_Config = TypeVar("_Config", bound=BaseModel)


def list_pairs() -> list[str]:
    """Names of the pairs that come with the package."""
    return _names("pairs")


def list_prompts() -> list[str]:
    """Names of the prompt files that come with the package."""
    return _names("prompts")


def load_pair_config(name_or_path: str | Path) -> PairConfig:
    """Read a pair by name (configs/pairs) or from a YAML file of the user's own.

    Raises:
        ConfigError: No such pair or file, not YAML, an unknown or missing key, a bad value.
    """
    path = _find("pairs", "pair", name_or_path)
    pair = _read(path, PairConfig)
    updates: dict[str, object] = {
        "small": _beside(path, pair.small),
        "large": _beside(path, pair.large),
    }
    texts = path.parent / pair.prompts
    named = pair.prompts in list_prompts()
    if not named and (_is_relative(pair.prompts) or existing_file(texts)):
        updates["prompts"] = str(texts.resolve())
    return pair.model_copy(update=updates)


def load_prompts(name_or_path: str | Path = "default") -> PromptsConfig:
    """Read prompts by name (configs/prompts) or from a YAML file of the user's own.

    Raises:
        ConfigError: No such file, not YAML, an unknown or missing key, a bad value.
    """
    return _read(_find("prompts", "prompts", name_or_path), PromptsConfig)


def _beside(pair_file: Path, model: ModelConfig) -> ModelConfig:
    """The model with its folder made absolute, if it lies where the pair file does."""
    folder = pair_file.parent / model.model
    if _is_relative(model.model) or existing_folder(folder):
        return model.model_copy(update={"model": str(folder.resolve())})
    return model


def _is_relative(name: str) -> bool:
    return name.startswith(("./", "../"))


def _names(folder: str) -> list[str]:
    return sorted(path.stem for path in (HERE / folder).glob("*.yaml"))


def _find(folder: str, what: str, name_or_path: str | Path) -> Path:
    if not isinstance(name_or_path, str | os.PathLike):
        raise ConfigError(
            f"The {what} cannot be {_shown(name_or_path)}: give a name or the path of a YAML file."
        )
    text = str(name_or_path)
    if text in _names(folder):
        return HERE / folder / f"{text}.yaml"
    path = existing_file(text)
    if path:
        return path
    if text.endswith((".yaml", ".yml")) or "/" in text:
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
    # "[key]" marks a key that is itself the problem.
    key = ".".join(str(part) for part in problem["loc"] if part != "[key]")
    if problem["type"] == "extra_forbidden":
        return f"unknown key {key!r}; remove it or correct its name."
    if problem["type"] == "missing":
        return f"the key {key!r} is missing; add it."
    return f"{key!r}: {problem['msg']} (it is {_shown(problem['input'])})."


def _shown(value: object) -> str:
    """A value as error messages show it, cut if it is long."""
    shortened = reprlib.Repr()
    shortened.maxstring = 120
    return shortened.repr(value)
