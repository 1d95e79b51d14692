"""Loads a vision-language checkpoint from a folder or the hub; what goes wrong is one sentence.

Imports torch and transformers: only `loaded_models` imports this module, at the first load.
"""

import logging
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from huggingface_hub import snapshot_download
from transformers import AutoConfig, AutoModel, AutoModelForImageTextToText
from transformers.utils import logging as transformers_logging

from ...configs.files import existing_folder
from ..errors import ModelError
from .checkpoint_files import check_json_files, load_processor
from .device import find_device
from .gate import Gate
from .load_errors import explain_load_error
from .memory import free_device_memory
from .model_spec import ModelSpec

DTYPES = ("auto", "float32", "bfloat16", "float16")

_HUB_NAME = re.compile(r"[\w.-]+(/[\w.-]+)?")
_SMALL_FILES = ["*.json", "*.jinja", "*.txt", "*.model", "*.tiktoken"]
_WEIGHTS = ["*.safetensors"]
# Second copies of the weights in other formats.
_IGNORED = ["original/*", "consolidated*", "onnx/*"]

# transformers leaves them untyped.
_writing_models: Any = AutoModelForImageTextToText
_headless_models: Any = AutoModel


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A model in memory with its processor.

    Attributes:
        name: As the user gave it, for error messages.
        model: The transformers model, in evaluation mode, on its device.
        processor: The transformers processor.
        threads: CPU threads to compute with, None for the default.
        depth: Layers of the language model that were loaded, without what writes tokens from
            them; None for the whole model.
    """

    name: str
    model: Any
    processor: Any
    threads: int | None
    depth: int | None = None


def read_config(spec: ModelSpec) -> Any:
    """A checkpoint's config, as transformers reads it; of hub models, the small files only.

    Raises:
        ImportError: A package is missing.
        ModelError: Anything else, in one sentence.
    """
    try:
        folder = _find_files(spec, _SMALL_FILES)
        check_json_files(folder, spec.model)
        return AutoConfig.from_pretrained(folder, trust_remote_code=False)
    except ModelError:
        raise
    except Exception as error:
        raise explain_load_error(error, spec) from error


def read_processor(spec: ModelSpec) -> Any:
    """A checkpoint's processor without its weights; of hub models, the small files only.

    Raises:
        ImportError: A package is missing.
        ModelError: Anything else, in one sentence.
    """
    try:
        with _quiet():
            return load_processor(_find_files(spec, _SMALL_FILES), spec.model)
    except ModelError:
        raise
    except Exception as error:
        raise explain_load_error(error, spec) from error


def load_checkpoint(spec: ModelSpec, gate: Gate) -> Checkpoint:
    """Find, check and load a checkpoint. Missing files of hub models are downloaded first.

    Raises:
        ImportError: A package is missing.
        ModelError: Anything else, in one sentence.
    """
    device = find_device(spec.device)
    if spec.dtype not in DTYPES:
        raise ModelError(f"The dtype {spec.dtype!r} is not known; use one of {', '.join(DTYPES)}.")
    config = read_config(spec)
    models = _writing_models if spec.depth is None else _headless_models
    try:
        dtype = _dtype(spec.dtype, config)
        if spec.depth is not None:
            _keep_layers(config.get_text_config(), spec.depth)
        with gate.loading(), _quiet():
            _check_memory(spec, models, config, dtype, device)
        folder = _find_files(spec, [*_SMALL_FILES, *_WEIGHTS])
        with gate.loading(), _quiet():
            processor = load_processor(folder, spec.model)
            model, report = models.from_pretrained(
                folder,
                config=config,
                dtype=dtype,
                attn_implementation=spec.attention,
                trust_remote_code=False,
                output_loading_info=True,
            )
        _check_complete(spec, report)
        if spec.depth is None:
            _check_no_layer_left(spec, report, model)
        model = model.to(device).eval()
    except ModelError:
        raise
    except Exception as error:
        raise explain_load_error(error, spec) from error
    return Checkpoint(
        name=spec.model,
        model=model,
        processor=processor,
        threads=spec.threads,
        depth=spec.depth,
    )


def _keep_layers(text: Any, depth: int) -> None:
    """Leave out the layers above; what is said of each layer is cut with them."""
    text.num_hidden_layers = depth
    if getattr(text, "layer_types", None):
        text.layer_types = text.layer_types[:depth]


def _find_files(spec: ModelSpec, patterns: list[str]) -> Path:
    """The folder with a checkpoint's files."""
    folder = existing_folder(spec.model)
    if folder:
        if not (folder / "config.json").is_file():
            raise ModelError(
                f"The folder {spec.model!r} holds no config.json and so is no checkpoint."
            )
        return folder
    if not _HUB_NAME.fullmatch(spec.model) or spec.model.startswith("."):
        raise ModelError(f"There is no model folder {spec.model!r}.")
    return Path(
        snapshot_download(
            spec.model,
            revision=spec.revision,
            allow_patterns=patterns,
            ignore_patterns=_IGNORED,
        )
    )


def _dtype(name: str, config: Any) -> torch.dtype:
    if name != "auto":
        return getattr(torch, name)  # type: ignore[no-any-return]
    chosen = config.dtype or config.get_text_config().dtype or torch.float32
    return getattr(torch, chosen) if isinstance(chosen, str) else chosen


def _check_memory(
    spec: ModelSpec, models: Any, config: Any, dtype: torch.dtype, device: torch.device
) -> None:
    """Refuse a model whose weights alone do not fit; the system would kill the process instead."""
    free = free_device_memory(device)
    if free is None:
        return
    with torch.device("meta"):
        shape = models.from_config(config)
    needed = sum(weight.numel() for weight in shape.parameters()) * dtype.itemsize
    if needed > free:
        where = "on the GPU" if device.type == "cuda" else "in memory"
        raise ModelError(
            f"The model {spec.model!r} needs {_gigabytes(needed)} for its weights in "
            f"{str(dtype).removeprefix('torch.')} and {_gigabytes(free)} are free {where}; free "
            "some, or take a smaller model or dtype."
        )


def _gigabytes(size: int) -> str:
    return f"{size / 1e9:.1f} GB"


def _check_complete(spec: ModelSpec, report: dict[str, Any]) -> None:
    """Refuse a checkpoint without some weights; transformers fills those with random numbers."""
    missing = sorted(report["missing_keys"])
    if missing:
        raise ModelError(
            f"The checkpoint {spec.model!r} lacks {len(missing)} of the model's weights, such as "
            f"{missing[0]}; get the whole checkpoint."
        )


def _check_no_layer_left(spec: ModelSpec, report: dict[str, Any], model: Any) -> None:
    """Refuse a checkpoint with more layers than its config says; transformers leaves them out.

    Other weights that the model has no place for (heads for training, buffers of older versions)
    change nothing and may be there: a layer is told by its siblings, named alike but for numbers.
    """
    alike = {_without_numbers(name) for name, _ in model.named_parameters()}
    left = sorted(key for key in report["unexpected_keys"] if _without_numbers(key) in alike)
    if left:
        raise ModelError(
            f"The checkpoint {spec.model!r} holds {len(left)} weights of layers that its "
            f"config.json does not count, such as {left[0]}; get the files of one checkpoint."
        )


def _without_numbers(key: str) -> str:
    return re.sub(r"\d+", "#", key)


@contextmanager
def _quiet() -> Iterator[None]:
    """Keep transformers from drawing bars and reports while a model loads, then put all back."""
    logger = logging.getLogger("transformers")
    level = logger.level
    logger.setLevel(logging.ERROR)
    hook = transformers_logging.set_tqdm_hook(
        lambda factory, args, kwargs: factory(*args, **{**kwargs, "disable": True})
    )
    try:
        yield
    finally:
        transformers_logging.set_tqdm_hook(hook)
        logger.setLevel(level)
