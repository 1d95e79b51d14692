"""Dimensions of published models (dimensions.yaml): these can be built without a download."""

from pathlib import Path
from typing import Any, Literal

import yaml

from ..configs import ConfigError
from ..configs.schemas import Frozen

_FILE = Path(__file__).parent / "dimensions.yaml"


class Dimensions(Frozen):
    """One model's.

    Attributes:
        family: Which architecture of transformers it is.
        parameters: Billions of parameters, as its model card says.
        language_parameters: Those of the language model, where the card tells them apart.
        context: Longest prompt plus output, in tokens.
        text: Of the language model, by transformers' names.
        tied_embeddings: Whether the output layer is the embedding.
        vision: Of the vision encoder, by transformers' names.
    """

    family: Literal["qwen3_vl", "internvl"]
    parameters: float
    language_parameters: float | None = None
    context: int
    text: dict[str, int]
    tied_embeddings: bool
    vision: dict[str, Any]


def list_dimensions() -> list[str]:
    """Names of the models whose dimensions are known."""
    return list(_read())


def load_dimensions(model: str) -> Dimensions:
    """A model's dimensions.

    Args:
        model: A name such as "Qwen3-VL-2B"; that of the hub (Qwen/Qwen3-VL-2B-Instruct) will do.

    Raises:
        ConfigError: They are not known.
    """
    known = _read()
    name = model.rpartition("/")[2].removesuffix("-HF").removesuffix("-Instruct")
    name = name.replace("InternVL3_5", "InternVL3.5")
    if name not in known:
        raise ConfigError(
            f"The dimensions of {model!r} are not known; use one of {', '.join(known)}, or the "
            "folder of a checkpoint; other hub names work without --random-weights."
        )
    return Dimensions(**known[name])


def _read() -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load(_FILE.read_text(encoding="utf-8"))
    return found
