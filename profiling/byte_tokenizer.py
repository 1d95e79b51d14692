"""A tokenizer of bytes and markers, for models that are never trained.

Imports transformers.
"""

from typing import Any

from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

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

VISION_START, VISION_END = _IDS["<|vision_start|>"], _IDS["<|vision_end|>"]
IMAGE, VIDEO = _IDS["<|image_pad|>"], _IDS["<|video_pad|>"]
"""Ids of the markers that a configuration names."""

NAMED_MARKERS = {
    "start_image_token": "<img>",
    "end_image_token": "</img>",
    "context_image_token": "<|image_pad|>",
    "video_token": "<|video_pad|>",
}
"""Markers by the names that InternVL's processor has for them."""

# transformers leaves it untyped.
_tokenizer: Any = PreTrainedTokenizerFast


def byte_tokenizer() -> Any:
    """One token a byte, and the markers of Qwen3-VL and InternVL."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {letter: number for number, letter in enumerate(alphabet)}
    backend = Tokenizer(models.BPE(vocab=vocabulary, merges=[]))
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    backend.add_special_tokens([AddedToken(marker, special=True) for marker in _MARKERS])
    return _tokenizer(
        tokenizer_object=backend,
        eos_token="<|im_end|>",
        pad_token="<|endoftext|>",
        extra_special_tokens=NAMED_MARKERS,
    )
