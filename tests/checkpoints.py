"""Tiny random vision-language checkpoints, made offline in about a second each.

The weights are drawn with a large spread (`initializer_range=0.3`), so that the output of a model
that was never trained depends on the picture. The tokenizer knows the 256 bytes and nothing else,
so any text goes in, and broken UTF-8 comes out now and then.
"""

from pathlib import Path

import langgraph_mai.models.transformers  # noqa: F401 - it lets any torchvision be imported

# isort: split
import torch
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
from transformers import (
    GotOcr2ImageProcessor,
    InternVLConfig,
    InternVLForConditionalGeneration,
    InternVLProcessor,
    InternVLVideoProcessor,
    PreTrainedTokenizerFast,
    Qwen2VLImageProcessor,
    Qwen3Config,
    Qwen3VLConfig,
    Qwen3VLForConditionalGeneration,
    Qwen3VLProcessor,
    Qwen3VLVideoProcessor,
)

from langgraph_mai.profiling.checkpoints import Dimensions, load_dimensions

CONTEXT = 1024
"""Longest prompt plus answer of the checkpoints, in tokens."""

_CHAT = (
    "{% for m in messages %}"
    "{% if m.role not in ['system', 'user', 'assistant', 'tool'] %}"
    "{{ raise_exception('There is no role ' + m.role) }}{% endif %}"
    "<|im_start|>{{ m.role }}\n"
    "{% for c in m.content %}{% if c.type == 'image' %}IMAGE{% else %}{{ c.text }}{% endif %}"
    "{% endfor %}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
_SPREAD = 0.3


def save_qwen3_vl(folder: Path, seed: int = 0, context: int = CONTEXT, **text: object) -> Path:
    """A Qwen3-VL checkpoint: 32 px of a picture become one token.

    Args:
        folder: Where it goes.
        seed: Of the weights.
        context: Longest prompt plus answer.
        **text: Settings of the language model.
    """
    tokens = ["<|vision_start|>", "<|vision_end|>", "<|image_pad|>", "<|video_pad|>"]
    tokenizer = _tokenizer(tokens, context)
    text = _text_sizes(tokenizer, context) | text
    pixels = {"shortest_edge": 64 * 64, "longest_edge": 128 * 128}
    sizes = {"patch_size": 16, "merge_size": 2, "size": pixels}
    norm = {"image_mean": [0.5] * 3, "image_std": [0.5] * 3}
    processor = Qwen3VLProcessor(
        image_processor=Qwen2VLImageProcessor(**sizes, **norm),
        tokenizer=tokenizer,
        video_processor=Qwen3VLVideoProcessor(**sizes, **norm),
        chat_template=_CHAT.replace("IMAGE", "<|vision_start|><|image_pad|><|vision_end|>"),
    )
    ids = tokenizer.convert_tokens_to_ids
    config = Qwen3VLConfig(
        text_config={
            **text,
            "rope_parameters": {
                "rope_type": "default",
                "rope_theta": 10_000.0,
                "mrope_section": [4, 2, 2],
                "mrope_interleaved": True,
            },
        },
        vision_config={
            "depth": 2,
            "hidden_size": 32,
            "intermediate_size": 64,
            "num_heads": 2,
            "num_position_embeddings": 64,
            "out_hidden_size": 64,
            "patch_size": 16,
            "spatial_merge_size": 2,
            "deepstack_visual_indexes": [0, 1],
            "initializer_range": _SPREAD,
        },
        vision_start_token_id=ids("<|vision_start|>"),
        vision_end_token_id=ids("<|vision_end|>"),
        image_token_id=ids("<|image_pad|>"),
        video_token_id=ids("<|video_pad|>"),
        tie_word_embeddings=text["tie_word_embeddings"],
    )
    return _save(folder, Qwen3VLForConditionalGeneration, config, processor, seed)


def save_internvl(
    folder: Path,
    seed: int = 0,
    context: int = CONTEXT,
    text_config: type = Qwen3Config,
    **text: object,
) -> Path:
    """A HF-native InternVL checkpoint with Qwen3 text, as InternVL3.5: 4 tokens a 56 px tile.

    Args:
        folder: Where it goes.
        seed: Of the weights.
        context: Longest prompt plus answer.
        text_config: Type of the language model.
        **text: Settings of the language model.
    """
    names = {
        "start_image_token": "<img>",
        "end_image_token": "</img>",
        "context_image_token": "<IMG_CONTEXT>",
        "video_token": "<video>",
    }
    tokenizer = _tokenizer(list(names.values()), context, names)
    tile = {"height": 56, "width": 56}
    norm = {"image_mean": [0.5] * 3, "image_std": [0.5] * 3}
    processor = InternVLProcessor(
        image_processor=GotOcr2ImageProcessor(
            size=tile, crop_to_patches=True, min_patches=1, max_patches=3, **norm
        ),
        tokenizer=tokenizer,
        video_processor=InternVLVideoProcessor(size=tile, **norm),
        image_seq_length=4,
        chat_template=_CHAT.replace("IMAGE", "<IMG_CONTEXT>\n"),
    )
    config = InternVLConfig(
        text_config=text_config(**_text_sizes(tokenizer, context) | text),
        vision_config={
            "hidden_size": 32,
            "intermediate_size": 64,
            "num_hidden_layers": 2,
            "num_attention_heads": 2,
            "image_size": [56, 56],
            "patch_size": [14, 14],
            "initializer_range": _SPREAD,
        },
        image_token_id=tokenizer.convert_tokens_to_ids("<IMG_CONTEXT>"),
        image_seq_length=4,
        downsample_ratio=0.5,
    )
    return _save(folder, InternVLForConditionalGeneration, config, processor, seed)


def small_dimensions(name: str) -> Dimensions:
    """A published model's dimensions, made small enough to be built in a test."""
    known = load_dimensions(name)
    text = {"hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 4}
    text |= {"vocab_size": 1024}
    vision = {"hidden_size": 32, "intermediate_size": 64}
    if known.family == "qwen3_vl":
        vision |= {"depth": 3, "num_heads": 2, "deepstack_visual_indexes": [0, 1, 2]}
    else:
        vision |= {"num_hidden_layers": 3, "num_attention_heads": 2}
    return known.model_copy(update={"text": known.text | text, "vision": known.vision | vision})


def _text_sizes(tokenizer: PreTrainedTokenizerFast, context: int) -> dict[str, object]:
    return {
        "hidden_size": 64,
        "intermediate_size": 128,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": 16,
        "vocab_size": len(tokenizer),
        "max_position_embeddings": context,
        "initializer_range": _SPREAD,
        "eos_token_id": tokenizer.eos_token_id,
        "pad_token_id": tokenizer.pad_token_id,
        "bos_token_id": None,
        "tie_word_embeddings": True,
    }


def _tokenizer(
    special: list[str], context: int, named: dict[str, str] | None = None
) -> PreTrainedTokenizerFast:
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    backend = Tokenizer(
        models.BPE(vocab={letter: at for at, letter in enumerate(alphabet)}, merges=[])
    )
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    controls = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", *special]
    backend.add_special_tokens([AddedToken(token, special=True) for token in controls])
    return PreTrainedTokenizerFast(
        tokenizer_object=backend,
        eos_token="<|im_end|>",
        pad_token="<|endoftext|>",
        extra_special_tokens=named or {},
        model_max_length=context,
    )


def _save(folder: Path, model_class: type, config: object, processor: object, seed: int) -> Path:
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        model = model_class(config)
    model.save_pretrained(folder)
    processor.save_pretrained(folder)
    return folder
