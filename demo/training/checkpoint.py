"""Tokenizer, processor and models of the demo pair (Qwen3-VL architecture, tiny).

Sizes, chat template and image processing are those of the checkpoints that the package carries.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import torch
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers
from transformers import (
    AutoTokenizer,
    GenerationConfig,
    PreTrainedTokenizerFast,
    Qwen3VLConfig,
    Qwen3VLForConditionalGeneration,
    Qwen3VLProcessor,
)

from ...configs import load_prompts
from ..scenes import COLORS, SHAPES
from ..wordings import WORDINGS

Role = Literal["small", "large"]

WEIGHTS = Path(__file__).parents[1] / "weights"
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
_PIECE = r" ?\p{L}+| ?\p{N}{1,2}| ?[^\s\p{L}\p{N}]|[\r\n]|\s"


def world_words() -> list[str]:
    """Every word of the world's questions, answers and prompts, sorted."""
    prompts = load_prompts("demo")
    texts = [wording for wordings in WORDINGS.values() for wording in wordings]
    texts += [
        style.instruction
        for style in (prompts.direct, prompts.explain, prompts.reason, prompts.transfer)
    ]
    texts += [*COLORS, *SHAPES, *(shape + "s" for shape in SHAPES)]
    texts += [
        "shape shapes row rows bar bars yes no Answer with JSON number string color form",
        "system user assistant",
    ]
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
    """Return the processor: every image becomes about SIZE x SIZE pixels, 25 image tokens."""
    build: Any = Qwen3VLProcessor  # transformers leaves it untyped
    kept = build.from_pretrained(WEIGHTS / "small")
    processor: Qwen3VLProcessor = build(
        image_processor=kept.image_processor,
        tokenizer=build_tokenizer(),
        video_processor=kept.video_processor,
        chat_template=kept.chat_template,
    )
    return processor


def build_model(role: Role, seed: int) -> Qwen3VLForConditionalGeneration:
    """Return an untrained model with weights drawn from `seed`."""
    tokenizer = build_tokenizer()
    config: Any = Qwen3VLConfig.from_pretrained(WEIGHTS / role, dtype="float32")
    generation = GenerationConfig.from_pretrained(WEIGHTS / role)
    numbers = tokenizer.get_vocab()
    end, im_end = numbers["<|endoftext|>"], numbers["<|im_end|>"]
    config.image_token_id = numbers["<|image_pad|>"]
    config.video_token_id = numbers["<|video_pad|>"]
    config.vision_start_token_id = numbers["<|vision_start|>"]
    config.vision_end_token_id = numbers["<|vision_end|>"]
    text = config.text_config
    text.vocab_size = (len(tokenizer) + 7) // 8 * 8
    text.pad_token_id = text.bos_token_id = end
    text.eos_token_id = im_end
    generation.eos_token_id = [im_end, end]
    generation.pad_token_id = generation.bos_token_id = end
    torch.manual_seed(seed)
    model = Qwen3VLForConditionalGeneration(config)
    model.generation_config = generation
    return model


def warm_start(role: Role, folder: Path, seed: int) -> Qwen3VLForConditionalGeneration:
    """Return a model with the weights of a trained one; words that are new start from `seed`."""
    old = Qwen3VLForConditionalGeneration.from_pretrained(folder, dtype=torch.float32)
    known = AutoTokenizer.from_pretrained(folder).get_vocab()
    model = build_model(role, seed)
    weights, kept = model.state_dict(), old.state_dict()
    for name, value in kept.items():
        if "embed_tokens" in name or "lm_head" in name:
            for token, number in build_tokenizer().get_vocab().items():
                if token in known:
                    weights[name][number] = value[known[token]]
        else:
            weights[name] = value
    model.load_state_dict(weights)
    return model


def save_release(model: Qwen3VLForConditionalGeneration, folder: Path) -> None:
    """Write a finished model in float16 with its processor, as any checkpoint is loaded."""
    torch.nn.Module.half(model)
    model.save_pretrained(folder)
    build_processor().save_pretrained(folder)
    for path in folder.iterdir():
        path.chmod(0o644)


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
    yield "JSON"
    yield " JSON"
    yield from (" -", " =", " .", " ,", " ?", " :", ' "', " {")


def _byte_characters() -> dict[int, str]:
    """GPT-2's table of printable characters for bytes, which ByteLevel uses."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [byte for byte in range(256) if byte not in printable]
    table = {byte: chr(byte) for byte in printable}
    table |= {byte: chr(256 + k) for k, byte in enumerate(others)}
    return table
