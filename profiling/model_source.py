"""Where a profiled model comes from: its configuration and image processor, without weights.

Imports torch and transformers.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from transformers import AutoConfig, AutoProcessor

from ..configs.files import existing_folder
from ..models.errors import ModelError
from ..models.transformers.load_errors import explain_load_error
from ..models.transformers.memory import free_device_memory
from ..models.transformers.model_spec import ModelSpec
from ..models.weights import model_weights
from .dimensions import load_dimensions
from .model_sizes import ModelSizes
from .random_checkpoint import write_checkpoint
from .random_weights import image_processor, model_config, shape_only
from .target import Target

DTYPES = ("auto", "float32", "bfloat16", "float16")

# transformers leaves it untyped.
_processors: Any = AutoProcessor


@dataclass(frozen=True, slots=True)
class ModelSource:
    """A model before it is in memory.

    Attributes:
        config: Its configuration.
        images: Its image processor.
        dtype: What its weights will be.
        sizes: What its parts weigh.
    """

    config: Any
    images: Any
    dtype: torch.dtype
    sizes: ModelSizes


def random_source(target: Target) -> ModelSource:
    """A model of random weights, by a name of dimensions.yaml or by a checkpoint's folder.

    Raises:
        ModelError: The folder cannot be used, or the dtype is not known.
        ConfigError: The dimensions are not known.
    """
    folder = existing_folder(target.name)
    if folder:
        return checkpoint_source(target, str(folder))
    dimensions = load_dimensions(target.name)
    dtype = _dtype(target.dtype, torch.bfloat16)
    return _source(target, model_config(dimensions), image_processor(dimensions), dtype)


def checkpoint_source(target: Target, folder: str) -> ModelSource:
    """A checkpoint's configuration and image processor.

    Args:
        target: What is profiled.
        folder: Its folder or hub name.

    Raises:
        ModelError: They cannot be read, or the dtype is not known.
    """
    try:
        found = {"revision": target.revision, "trust_remote_code": False}
        config = AutoConfig.from_pretrained(folder, **found)
        images = _processors.from_pretrained(folder, **found).image_processor
    except Exception as error:
        raise explain_load_error(error, ModelSpec(target.name, target.revision)) from error
    own = config.dtype or config.get_text_config().dtype or torch.float32
    return _source(target, config, images, _dtype(target.dtype, own))


@contextmanager
def checkpoint_folder(target: Target) -> Iterator[str]:
    """A folder or hub name of a model's checkpoint; one of random weights may hold none.

    Raises:
        ConfigError: The dimensions are not known.
    """
    if not target.random_weights or existing_folder(target.name):
        yield model_weights(target.name)
        return
    dimensions = load_dimensions(target.name)
    with TemporaryDirectory(prefix="langgraph-mai-random-") as folder:
        name = target.name.rpartition("/")[2]
        yield str(write_checkpoint(dimensions, Path(folder) / name))


def check_memory(source: ModelSource, name: str, device: torch.device) -> None:
    """Refuse a model whose weights alone do not fit; the system would kill the process instead.

    Raises:
        ModelError: They do not.
    """
    free, needed = free_device_memory(device), source.sizes.total_bytes
    if free is not None and needed > free:
        raise ModelError(
            f"The model {name!r} needs {needed / 1e9:.1f} GB for its weights in "
            f"{str(source.dtype).removeprefix('torch.')} and {free / 1e9:.1f} GB are free; free "
            "some, or take a smaller model or dtype."
        )


def _source(target: Target, config: Any, images: Any, dtype: torch.dtype) -> ModelSource:
    sizes = ModelSizes(target.name, shape_only(config), images, dtype)
    return ModelSource(config, images, dtype, sizes)


def _dtype(name: str, own: Any) -> torch.dtype:
    if name not in DTYPES:
        raise ModelError(f"The dtype {name!r} is not known; use one of {', '.join(DTYPES)}.")
    chosen: Any = own if name == "auto" else name
    dtype: torch.dtype = getattr(torch, chosen) if isinstance(chosen, str) else chosen
    return dtype
