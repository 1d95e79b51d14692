"""A checkpoint folder of real dimensions without weights, for engines that read folders.

Imports torch and transformers.
"""

from pathlib import Path
from typing import Any

import torch
from transformers import (
    InternVLProcessor,
    InternVLVideoProcessor,
    Qwen3VLProcessor,
    Qwen3VLVideoProcessor,
)

from .byte_tokenizer import byte_tokenizer
from .dimensions import Dimensions
from .random_weights import NORM, image_processor, model_config

_ARCHITECTURES = {
    "qwen3_vl": "Qwen3VLForConditionalGeneration",
    "internvl": "InternVLForConditionalGeneration",
}
_PICTURE = {
    "qwen3_vl": "<|vision_start|><|image_pad|><|vision_end|>",
    "internvl": "<|image_pad|>\n",
}
_CHAT = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{% for part in m.content %}"
    "{% if part.type == 'image' %}PICTURE{% else %}{{ part.text }}{% endif %}{% endfor %}"
    "<|im_end|>\n{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)

# transformers leaves these untyped.
_qwen: Any = Qwen3VLProcessor
_qwen_video: Any = Qwen3VLVideoProcessor
_internvl: Any = InternVLProcessor
_internvl_video: Any = InternVLVideoProcessor


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
    config.architectures = [_ARCHITECTURES[dimensions.family]]
    config.save_pretrained(folder)
    _processor(dimensions).save_pretrained(folder)
    return folder


def _processor(dimensions: Dimensions) -> Any:
    images = image_processor(dimensions)
    parts = {
        "image_processor": images,
        "tokenizer": byte_tokenizer(),
        "chat_template": _CHAT.replace("PICTURE", _PICTURE[dimensions.family]),
    }
    if dimensions.family == "qwen3_vl":
        sizes = {"patch_size": images.patch_size, "merge_size": images.merge_size}
        video = _qwen_video(**sizes, size=images.size, **NORM)
        return _qwen(**parts, video_processor=video)
    video = _internvl_video(size=images.size, **NORM)
    return _internvl(**parts, video_processor=video, image_seq_length=256)
