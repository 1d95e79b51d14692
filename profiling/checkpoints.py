"""Models before they are loaded, and models of real dimensions with random weights.

Latency does not depend on the values, so random weights measure a published model without a
download. Imports torch and transformers.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal

import torch
import transformers
import yaml
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
from transformers.initialization import no_init_weights

from ..configs import ConfigError
from ..configs.files import existing_folder
from ..configs.schemas import Frozen
from ..models.errors import ModelError
from ..models.local_chat import model_weights
from ..models.transformers.checkpoint import DTYPES, free_memory, read_config, read_processor
from ..models.transformers.loading import ModelSpec
from .model_sizes import ModelSizes
from .targets import Target

_SPREAD = 0.02
_TILE = 1 << 20
_NORM: dict[str, Any] = {"image_mean": [0.5] * 3, "image_std": [0.5] * 3}
"""How the processors of these models scale pixels."""

_MARKERS = (
    "<|endoftext|>",
    "<|im_start|>",
    "<|im_end|>",
    "<|vision_start|>",
    "<|vision_end|>",
    "<|image_pad|>",
    "<|video_pad|>",
    "<img>",
    "</img>",
)
_BYTES = 256
_IDS = {marker: _BYTES + number for number, marker in enumerate(_MARKERS)}
_NAMED_MARKERS = {
    "start_image_token": "<img>",
    "end_image_token": "</img>",
    "context_image_token": "<|image_pad|>",
    "video_token": "<|video_pad|>",
}
"""Markers by the names that InternVL's processor has for them."""

_IMAGE = {
    "qwen3_vl": "<|vision_start|><|image_pad|><|vision_end|>",
    "internvl": "<|image_pad|>\n",
}
_CHAT = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{% for part in m.content %}"
    "{% if part.type == 'image' %}IMAGE{% else %}{{ part.text }}{% endif %}{% endfor %}"
    "<|im_end|>\n{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)

# transformers leaves its classes untyped.
_hf: Any = transformers


class Dimensions(Frozen):
    """Dimensions of a published model (dimensions.yaml).

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
    """Return the names of the models whose dimensions are known."""
    return list(_read_dimensions())


def load_dimensions(model: str) -> Dimensions:
    """Return a model's dimensions.

    Args:
        model: A name such as "Qwen3-VL-2B"; that of the hub (Qwen/Qwen3-VL-2B-Instruct) will do.

    Raises:
        ConfigError: They are not known.
    """
    known = _read_dimensions()
    name = model.rpartition("/")[2].removesuffix("-HF").removesuffix("-Instruct")
    name = name.replace("InternVL3_5", "InternVL3.5")
    if name not in known:
        raise ConfigError(
            f"The dimensions of {model!r} are not known; use one of {', '.join(known)}, or the "
            "folder of a checkpoint; other hub names work without --random-weights."
        )
    return Dimensions(**known[name])


def _read_dimensions() -> dict[str, Any]:
    file = Path(__file__).parent / "dimensions.yaml"
    found: dict[str, Any] = yaml.safe_load(file.read_text(encoding="utf-8"))
    return found


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
    """Return a model of random weights, by a name of dimensions.yaml or by a checkpoint's folder.

    Raises:
        ModelError: The folder cannot be used, or the dtype is not known.
        ConfigError: The dimensions are not known.
    """
    folder = existing_folder(target.name)
    if folder:
        return checkpoint_source(target, str(folder))
    dimensions = load_dimensions(target.name)
    own = torch.bfloat16
    return _source(target, model_config(dimensions), image_processor(dimensions), own)


def checkpoint_source(target: Target, folder: str) -> ModelSource:
    """Return a checkpoint's configuration and image processor.

    Args:
        target: What is profiled.
        folder: Its folder or hub name.

    Raises:
        ModelError: They cannot be read, or the dtype is not known.
    """
    spec = ModelSpec(folder, target.revision)
    config = read_config(spec)
    own = config.dtype or config.get_text_config().dtype or torch.float32
    return _source(target, config, read_processor(spec).image_processor, own)


def _source(target: Target, config: Any, images: Any, own: Any) -> ModelSource:
    if target.dtype not in DTYPES:
        raise ModelError(
            f"The dtype {target.dtype!r} is not known; use one of {', '.join(DTYPES)}."
        )
    chosen: Any = own if target.dtype == "auto" else target.dtype
    dtype: torch.dtype = getattr(torch, chosen) if isinstance(chosen, str) else chosen
    sizes = ModelSizes(target.name, shape_only(config), images, dtype)
    return ModelSource(config, images, dtype, sizes)


@contextmanager
def checkpoint_folder(target: Target) -> Iterator[str]:
    """Provide a model's checkpoint folder or hub name; one of random weights may hold none.

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
    free, needed = free_memory(device), source.sizes.total_bytes
    if free is not None and needed > free:
        raise ModelError(
            f"The model {name!r} needs {needed / 1e9:.1f} GB for its weights in "
            f"{str(source.dtype).removeprefix('torch.')} and {free / 1e9:.1f} GB are free; free "
            "some, or take a smaller model or dtype."
        )


def random_model(config: Any, dtype: torch.dtype, device: torch.device, attention: str) -> Any:
    """Build a model on a device.

    Args:
        config: Its configuration, such as `model_config` makes.
        dtype: Of the weights.
        device: Where it computes.
        attention: Attention implementation of transformers.
    """
    automatic = _hf.AutoModelForImageTextToText
    with torch.device(device), no_init_weights():
        model = automatic.from_config(config, dtype=dtype, attn_implementation=attention)
    # The same numbers over and over: drawing billions would take minutes.
    tile = torch.randn(_TILE, device=device).mul_(_SPREAD).to(dtype)
    with torch.no_grad():
        for weight in model.parameters():
            for part in weight.view(-1).split(_TILE):
                part.copy_(tile[: part.numel()])
    return model.eval()


def shape_only(config: Any) -> Any:
    """Return the model of a configuration without any weights in memory."""
    with torch.device("meta"):
        return _hf.AutoModelForImageTextToText.from_config(config)


def image_processor(dimensions: Dimensions) -> Any:
    """Return the image processor. Qwen's shrinks no image of up to 4096x4096 pixels."""
    if dimensions.family == "qwen3_vl":
        pixels = {"shortest_edge": 256 * 256, "longest_edge": 4096 * 4096}
        return _hf.Qwen2VLImageProcessor(patch_size=16, merge_size=2, size=pixels, **_NORM)
    tile = {"height": 448, "width": 448}
    return _hf.GotOcr2ImageProcessor(
        size=tile, crop_to_patches=True, min_patches=1, max_patches=12, **_NORM
    )


def model_config(dimensions: Dimensions) -> Any:
    """Return the configuration of transformers; markers are those of the byte tokenizer."""
    rope: dict[str, Any] = {"rope_type": "default"}
    text: dict[str, Any] = {
        **dimensions.text,
        "max_position_embeddings": dimensions.context,
        "tie_word_embeddings": dimensions.tied_embeddings,
        "bos_token_id": None,
        "eos_token_id": None,
        "pad_token_id": None,
    }
    if dimensions.family == "internvl":
        rope["rope_theta"] = 1_000_000.0
        return _hf.InternVLConfig(
            text_config=_hf.Qwen3Config(**text, rope_parameters=rope),
            vision_config={**dimensions.vision, "image_size": [448, 448], "patch_size": [14, 14]},
            image_token_id=_IDS["<|image_pad|>"],
            image_seq_length=256,
            downsample_ratio=0.5,
            tie_word_embeddings=dimensions.tied_embeddings,
        )
    rope |= {"rope_theta": 5_000_000.0, "mrope_section": [24, 20, 20], "mrope_interleaved": True}
    vision = {
        **dimensions.vision,
        "num_position_embeddings": 2304,
        "out_hidden_size": dimensions.text["hidden_size"],
        "patch_size": 16,
        "spatial_merge_size": 2,
        "temporal_patch_size": 2,
    }
    return _hf.Qwen3VLConfig(
        text_config={**text, "rope_parameters": rope},
        vision_config=vision,
        image_token_id=_IDS["<|image_pad|>"],
        video_token_id=_IDS["<|video_pad|>"],
        vision_start_token_id=_IDS["<|vision_start|>"],
        vision_end_token_id=_IDS["<|vision_end|>"],
        tie_word_embeddings=dimensions.tied_embeddings,
    )


def write_checkpoint(dimensions: Dimensions, folder: Path) -> Path:
    """Write configuration (in bfloat16), tokenizer and processor, and no weights.

    Args:
        dimensions: The model's sizes.
        folder: Where to, made if needed.

    Returns:
        The folder.
    """
    folder.mkdir(parents=True, exist_ok=True)
    config = model_config(dimensions)
    config.dtype = torch.bfloat16
    config.architectures = [type(shape_only(config)).__name__]
    config.save_pretrained(folder)
    images = image_processor(dimensions)
    parts = {
        "image_processor": images,
        "tokenizer": _byte_tokenizer(),
        "chat_template": _CHAT.replace("IMAGE", _IMAGE[dimensions.family]),
    }
    if dimensions.family == "qwen3_vl":
        sizes = {"patch_size": images.patch_size, "merge_size": images.merge_size}
        video = _hf.Qwen3VLVideoProcessor(**sizes, size=images.size, **_NORM)
        processor = _hf.Qwen3VLProcessor(**parts, video_processor=video)
    else:
        video = _hf.InternVLVideoProcessor(size=images.size, **_NORM)
        processor = _hf.InternVLProcessor(**parts, video_processor=video, image_seq_length=256)
    processor.save_pretrained(folder)
    return folder


def _byte_tokenizer() -> Any:
    """Return a tokenizer of bytes, and the markers of Qwen3-VL and InternVL."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {letter: number for number, letter in enumerate(alphabet)}
    backend = Tokenizer(models.BPE(vocab=vocabulary, merges=[]))
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    backend.add_special_tokens([AddedToken(marker, special=True) for marker in _MARKERS])
    return _hf.PreTrainedTokenizerFast(
        tokenizer_object=backend,
        eos_token="<|im_end|>",
        pad_token="<|endoftext|>",
        extra_special_tokens=_NAMED_MARKERS,
    )
