"""Models of real dimensions with random weights: latency does not depend on the values.

Imports torch and transformers.
"""

from typing import Any

import torch
from transformers import (
    AutoModelForImageTextToText,
    InternVLConfig,
    Qwen3Config,
    Qwen3VLConfig,
)
from transformers.initialization import no_init_weights
from transformers.models.got_ocr2 import GotOcr2ImageProcessor
from transformers.models.qwen2_vl import Qwen2VLImageProcessor

from .byte_tokenizer import IMAGE, VIDEO, VISION_END, VISION_START
from .dimensions import Dimensions

_SPREAD = 0.02
_TILE = 1 << 20
NORM: dict[str, Any] = {"image_mean": [0.5] * 3, "image_std": [0.5] * 3}
"""How the processors of these models scale pixels."""

# transformers leaves these untyped.
_models: Any = AutoModelForImageTextToText
_qwen_images: Any = Qwen2VLImageProcessor
_internvl_images: Any = GotOcr2ImageProcessor


def random_model(config: Any, dtype: torch.dtype, device: torch.device, attention: str) -> Any:
    """Build a model on a device.

    Args:
        config: Its configuration, such as `model_config` makes.
        dtype: Of the weights.
        device: Where it computes.
        attention: Attention implementation of transformers.
    """
    with torch.device(device), no_init_weights():
        model = _models.from_config(config, dtype=dtype, attn_implementation=attention)
    tile = torch.randn(_TILE, device=device).mul_(_SPREAD).to(dtype)
    with torch.no_grad():
        for weight in model.parameters():
            _fill(weight.view(-1), tile)
    return model.eval()


def shape_only(config: Any) -> Any:
    """The model of a configuration without any weights in memory."""
    with torch.device("meta"):
        return _models.from_config(config)


def image_processor(dimensions: Dimensions) -> Any:
    """What turns pictures into the model's input. Qwen's shrinks none of up to 4096x4096 pixels."""
    if dimensions.family == "qwen3_vl":
        pixels = {"shortest_edge": 256 * 256, "longest_edge": 4096 * 4096}
        return _qwen_images(patch_size=16, merge_size=2, size=pixels, **NORM)
    tile = {"height": 448, "width": 448}
    return _internvl_images(size=tile, crop_to_patches=True, min_patches=1, max_patches=12, **NORM)


def model_config(dimensions: Dimensions) -> Any:
    """The configuration as transformers has it; markers are those of `byte_tokenizer`."""
    tied = dimensions.tied_embeddings
    text: dict[str, Any] = {
        **dimensions.text,
        "max_position_embeddings": dimensions.context,
        "tie_word_embeddings": tied,
        "eos_token_id": None,
        "bos_token_id": None,
        "pad_token_id": None,
    }
    if dimensions.family == "internvl":
        config: Any = InternVLConfig
        return config(
            text_config=Qwen3Config(**text, rope_parameters=_rope(1_000_000.0)),
            vision_config={**dimensions.vision, "image_size": [448, 448], "patch_size": [14, 14]},
            image_token_id=IMAGE,
            image_seq_length=256,
            downsample_ratio=0.5,
            tie_word_embeddings=tied,
        )
    rope = _rope(5_000_000.0) | {"mrope_section": [24, 20, 20], "mrope_interleaved": True}
    vision = {
        **dimensions.vision,
        "num_position_embeddings": 2304,
        "out_hidden_size": dimensions.text["hidden_size"],
        "patch_size": 16,
        "spatial_merge_size": 2,
        "temporal_patch_size": 2,
    }
    qwen: Any = Qwen3VLConfig
    return qwen(
        text_config={**text, "rope_parameters": rope},
        vision_config=vision,
        image_token_id=IMAGE,
        video_token_id=VIDEO,
        vision_start_token_id=VISION_START,
        vision_end_token_id=VISION_END,
        tie_word_embeddings=tied,
    )


def _rope(theta: float) -> dict[str, Any]:
    return {"rope_type": "default", "rope_theta": theta}


def _fill(weights: torch.Tensor, tile: torch.Tensor) -> None:
    """Copy a block of random numbers over and over; drawing billions would take minutes."""
    for start in range(0, weights.numel(), tile.numel()):
        part = weights[start : start + tile.numel()]
        part.copy_(tile[: part.numel()])
