"""Tokenizer, processor and untrained models of the demo pair (Qwen3-VL architecture, tiny)."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import torch
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers
from transformers import (
    PreTrainedTokenizerFast,
    Qwen3VLConfig,
    Qwen3VLForConditionalGeneration,
    Qwen3VLProcessor,
    Qwen3VLVideoProcessor,
)
from transformers.models.qwen2_vl.image_processing_qwen2_vl import Qwen2VLImageProcessor

from ...configs import load_prompts
from ..scenes import CELL, COLORS, SHAPES, SIZE
from ..wordings import WORDINGS

Role = Literal["small", "large"]

SPECIAL_TOKENS = (
    "<|endoftext|>",
    "<|im_start|>",
    "<|im_end|>",
    "<|vision_start|>",
    "<|vision_end|>",
    "<|image_pad|>",
    "<|video_pad|>",
)
HIGHEST_NUMBER = 25
MAX_POSITIONS = 2048
_PATCH = CELL // 2
_PIECE = r" ?\p{L}+| ?\p{N}{1,2}| ?[^\s\p{L}\p{N}]|[\r\n]|\s"

CHAT_TEMPLATE = """{%- for message in messages %}<|im_start|>{{ message.role }}
{% if message.content is string %}{{ message.content }}{% else %}{% for part in message.content %}\
{% if part.type == 'image' or 'image' in part or 'image_url' in part %}\
<|vision_start|><|image_pad|><|vision_end|>\
{% elif part.type == 'video' or 'video' in part %}<|vision_start|><|video_pad|><|vision_end|>\
{% elif 'text' in part %}{{ part.text }}{% endif %}{% endfor %}{% endif %}<|im_end|>
{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant
{% endif %}"""

# hidden size, layers, MLP size, heads; the same for the vision tower
_TEXT_SIZES: dict[Role, tuple[int, int, int, int, int]] = {
    "small": (96, 3, 256, 4, 2),
    "large": (160, 4, 448, 5, 5),
}
_VISION_SIZES: dict[Role, tuple[int, int, int, int]] = {
    "small": (64, 2, 128, 2),
    "large": (80, 3, 224, 4),
}


def world_words() -> list[str]:
    """Every word of the world's questions, answers and prompts, sorted."""
    prompts = load_prompts("demo")
    texts = [wording for wordings in WORDINGS.values() for wording in wordings]
    texts += [
        style.instruction
        for style in (prompts.direct, prompts.explain, prompts.reason, prompts.transfer)
    ]
    texts += [*COLORS, *SHAPES, *(shape + "s" for shape in SHAPES)]
    texts += ["shape shapes row rows bar bars yes no Answer", "system user assistant"]
    plain = re.sub(r"\{\w+\}", " ", " ".join(texts))
    return sorted({word.lower() for word in re.findall(r"[A-Za-z]+", plain)})


def build_tokenizer() -> PreTrainedTokenizerFast:
    """One token a word of the world, and a token a byte for everything else.

    Any text goes through unchanged; a number up to 25 is one token.
    """
    alphabet = _byte_characters()
    vocabulary = {alphabet[byte]: byte for byte in range(256)}
    for piece in _pieces():
        key = "".join(alphabet[byte] for byte in piece.encode())
        vocabulary.setdefault(key, len(vocabulary))
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=[], ignore_merges=True))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(_PIECE), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens(
        [AddedToken(token, special=True, normalized=False) for token in SPECIAL_TOKENS]
    )
    build: Any = PreTrainedTokenizerFast  # transformers leaves it untyped
    wrapped: PreTrainedTokenizerFast = build(
        tokenizer_object=tokenizer,
        eos_token="<|im_end|>",
        pad_token="<|endoftext|>",
        model_max_length=MAX_POSITIONS,
        padding_side="left",
        clean_up_tokenization_spaces=False,
    )
    return wrapped


def build_processor() -> Qwen3VLProcessor:
    """The processor: every picture becomes about SIZE x SIZE pixels, 25 image tokens."""
    options: dict[str, Any] = {
        "patch_size": _PATCH,
        "temporal_patch_size": 2,
        "merge_size": 2,
        "image_mean": [0.5] * 3,
        "image_std": [0.5] * 3,
        "size": {"shortest_edge": SIZE * SIZE, "longest_edge": SIZE * SIZE},
    }
    build: Any = Qwen3VLProcessor  # transformers leaves it untyped
    processor: Qwen3VLProcessor = build(
        image_processor=Qwen2VLImageProcessor(**options),
        tokenizer=build_tokenizer(),
        video_processor=Qwen3VLVideoProcessor(**options),
        chat_template=CHAT_TEMPLATE,
    )
    return processor


def build_model(role: Role, seed: int) -> Qwen3VLForConditionalGeneration:
    """An untrained model with weights drawn from `seed`."""
    tokenizer = build_tokenizer()
    hidden, layers, mlp, heads, kv_heads = _TEXT_SIZES[role]
    vision_hidden, depth, vision_mlp, vision_heads = _VISION_SIZES[role]
    end, im_end = _token_id(tokenizer, "<|endoftext|>"), _token_id(tokenizer, "<|im_end|>")
    config = Qwen3VLConfig(
        text_config={
            "vocab_size": (len(tokenizer) + 7) // 8 * 8,
            "hidden_size": hidden,
            "intermediate_size": mlp,
            "num_hidden_layers": layers,
            "num_attention_heads": heads,
            "num_key_value_heads": kv_heads,
            "head_dim": 32,
            "max_position_embeddings": MAX_POSITIONS,
            "rms_norm_eps": 1e-6,
            "initializer_range": 0.04,
            "tie_word_embeddings": True,
            "pad_token_id": end,
            "bos_token_id": end,
            "eos_token_id": im_end,
            "rope_parameters": {
                "rope_type": "default",
                "rope_theta": 2000.0,
                "mrope_section": [6, 5, 5],
                "mrope_interleaved": True,
            },
        },
        vision_config={
            "depth": depth,
            "hidden_size": vision_hidden,
            "intermediate_size": vision_mlp,
            "num_heads": vision_heads,
            "patch_size": _PATCH,
            "spatial_merge_size": 2,
            "temporal_patch_size": 2,
            "out_hidden_size": hidden,
            "num_position_embeddings": (SIZE // _PATCH) ** 2,
            "deepstack_visual_indexes": [depth - 2],
            "initializer_range": 0.04,
        },
        image_token_id=_token_id(tokenizer, "<|image_pad|>"),
        video_token_id=_token_id(tokenizer, "<|video_pad|>"),
        vision_start_token_id=_token_id(tokenizer, "<|vision_start|>"),
        vision_end_token_id=_token_id(tokenizer, "<|vision_end|>"),
        tie_word_embeddings=True,
    )
    torch.manual_seed(seed)
    model = Qwen3VLForConditionalGeneration(config)
    generation = model.generation_config
    generation.eos_token_id = [im_end, end]
    generation.pad_token_id = generation.bos_token_id = end
    generation.do_sample, generation.max_new_tokens = False, 192
    return model


def save_release(model: Qwen3VLForConditionalGeneration, folder: Path) -> None:
    """Write a finished model in float16 with its processor, as any checkpoint is loaded."""
    torch.nn.Module.half(model)
    model.save_pretrained(folder)
    build_processor().save_pretrained(folder)
    for path in folder.iterdir():
        path.chmod(0o644)


def _token_id(tokenizer: PreTrainedTokenizerFast, token: str) -> int:
    number = tokenizer.convert_tokens_to_ids(token)
    if not isinstance(number, int):
        raise TypeError(f"{token!r} must be one token")
    return number


def _pieces() -> Iterator[str]:
    for word in world_words():
        for form in (word, word.capitalize()):
            yield form
            yield " " + form
    for letter in "ABCDEFGH":
        yield letter
        yield " " + letter
    for number in range(HIGHEST_NUMBER + 1):
        yield str(number)
        yield f" {number}"
    yield from (" -", " =", " .", " ,", " ?", " :")


def _byte_characters() -> dict[int, str]:
    """GPT-2's table of printable characters for bytes, which ByteLevel uses."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [byte for byte in range(256) if byte not in printable]
    table = {byte: chr(byte) for byte in printable}
    table |= {byte: chr(256 + k) for k, byte in enumerate(others)}
    return table
