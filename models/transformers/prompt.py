"""From a conversation to the tensors of a prompt, and from tokens to text.

Imports torch and transformers: only modules of a loaded model import this one.
"""

import hashlib
import sys
import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import accumulate, groupby
from typing import Any

import torch
from cachetools import LRUCache, cached
from transformers import BatchEncoding

from ..chat_format import MARK, Turn, prompt_text, tokenize
from ..errors import ContextLengthError, ModelError
from ..images import DecodedImage
from .checkpoint import Checkpoint
from .loading import one_line
from .prefix_cache import has_plain_cache

Inputs = dict[str, torch.Tensor]

REUSING = frozenset({"internvl", "qwen3_vl"})
"""Model types whose outputs were shown to be the same with reused prefixes: every token sees only
those before it, and positions can be given from outside."""

PREPARED_BYTES = 256 << 20
"""Memory that preprocessed images may take, for all models of the process together."""


@dataclass(frozen=True, slots=True)
class PromptImage:
    """An image inside a prompt: positions of its tokens, and what the model takes of it alone."""

    start: int
    end: int
    inputs: Inputs


@dataclass(frozen=True, slots=True)
class Prompt:
    """A prompt as the model takes it.

    Attributes:
        inputs: Tensors with a batch of one: input_ids, attention_mask, pixel_values and so on.
        tokens: The token ids.
        capacity: Tokens that the model's context has left for the answer.
        chain: One number per token, which stands for it and everything before it, the images'
            content included; equal prefixes have equal numbers. Empty if no prefix of this prompt
            may be reused.
        images: The images, in order; only where `chain` is not empty.
        positions: Position ids, shape (4, tokens): in the text, then in time, height and width.
            None for models that count through.
    """

    inputs: Inputs
    tokens: list[int]
    capacity: int
    chain: tuple[int, ...] = ()
    images: tuple[PromptImage, ...] = ()
    positions: torch.Tensor | None = None

    def boundary(self, position: int) -> int:
        """Return the last position up to `position` that does not lie inside an image."""
        inside = (one.start for one in self.images if one.start < position < one.end)
        return next(inside, position)

    def positions_to(self, count: int) -> torch.Tensor:
        """Return the position ids of the first `count` tokens, generated ones included."""
        if self.positions is None:
            raise TypeError("this model counts its positions itself")
        behind = torch.arange(1, count - self.positions.shape[1] + 1)
        return torch.cat([self.positions, self.positions[:, -1:] + behind], dim=1)[:, :count]


def image_inputs(images: Iterable[PromptImage]) -> Inputs:
    """Return what the model takes of several images, one after the other; nothing for none."""
    parts = [image.inputs for image in images]
    return {key: torch.cat([part[key] for part in parts]) for key in (parts[0] if parts else ())}


def can_reuse(config: Any) -> bool:
    """Tell whether a model's KV caches can be cut at a token and taken up again."""
    return config.model_type in REUSING and has_plain_cache(config)


class Encoder:
    """A checkpoint's processor at work; locked, because tokenizers fail when threads share them."""

    def __init__(self, checkpoint: Checkpoint) -> None:
        """Take over a loaded checkpoint, whose processor is used from here alone."""
        self.name = checkpoint.name
        self._config = config = checkpoint.model.config
        self.processor = processor = checkpoint.processor
        self.tokenizer = tokenizer = processor.tokenizer
        self._images = _SharedPreprocessing(processor.image_processor)
        processor.image_processor = self._images
        processor.tokenizer = _CuttingTokenizer(tokenizer)
        self._lock = threading.Lock()
        self.marker: str | None = getattr(processor, "image_token", None)
        text = config.get_text_config()
        self._context: int = getattr(text, "max_position_embeddings", None) or sys.maxsize
        self.reuses = can_reuse(config)
        self._rope_index = getattr(checkpoint.model.base_model, "get_rope_index", None)
        # A model that was loaded for its attention has no generation config.
        own = getattr(getattr(checkpoint.model, "generation_config", None), "eos_token_id", None)
        ends = [*(own if isinstance(own, list) else [own]), tokenizer.eos_token_id]
        self.end_tokens = frozenset(end for end in ends if end is not None)
        pad = tokenizer.pad_token_id
        self.pad_token = pad if pad is not None else next(iter(sorted(self.end_tokens)), 0)

    def encode(self, turns: Sequence[Turn], images: Sequence[DecodedImage]) -> Prompt:
        """Render the chat template, tokenize, and preprocess the images.

        Raises:
            ContextLengthError: The prompt is longer than the model's context.
            ModelError: The template does not know a role, or does not show an image.
        """
        digests = tuple(image.digest for image in images)
        with self._lock:
            text = prompt_text(self.processor, turns, len(images), self.name)
            extra: dict[str, Any] = {"images": [image.image for image in images]} if images else {}
            bos = self.tokenizer.bos_token
            if bos and text.startswith(bos):  # the template wrote it already
                extra["add_special_tokens"] = False
            self._images.digests = digests
            try:
                features = self.processor(text=[text], return_tensors="pt", **extra)
            except (ValueError, IndexError, RuntimeError, TypeError) as error:
                raise ModelError(
                    f"The processor of {self.name!r} refuses the prompt ({one_line(error)})."
                ) from error
            finally:
                self._images.digests = None
        inputs = {key: value for key, value in features.items() if torch.is_tensor(value)}
        tokens: list[int] = inputs["input_ids"][0].tolist()
        self._check_images(tokens, len(images))
        if len(tokens) >= self._context:
            raise ContextLengthError(
                f"The prompt has {len(tokens)} tokens and {self.name!r} takes at most "
                f"{self._context}, answer included; shorten it, or set max_pixels to shrink the "
                "images.",
                limit=self._context,
                length=len(tokens),
            )
        capacity = self._context - len(tokens)
        split = self._split(inputs, tokens, len(digests)) if self.reuses else None
        if split is None:
            return Prompt(inputs, tokens, capacity)
        chain = _content_chain(tokens, split, digests)
        return Prompt(inputs, tokens, capacity, chain, split, self._positions(inputs))

    def decode(self, tokens: Sequence[int]) -> str:
        """Return the text of token ids, special tokens left out."""
        with self._lock:
            text: str = self.tokenizer.decode(
                tokens, skip_special_tokens=True, clean_up_tokenization_spaces=False
            )
        return text

    def token_ids(self, text: str) -> list[int]:
        """Return the token ids of a bare text."""
        with self._lock:
            return list(self.tokenizer(text, add_special_tokens=False)["input_ids"])

    def _positions(self, inputs: Inputs) -> torch.Tensor | None:
        if self._rope_index is None:
            return None
        names = ("input_ids", "mm_token_type_ids", "image_grid_thw")
        positions, _ = self._rope_index(**{name: inputs.get(name) for name in names})
        through = torch.arange(inputs["input_ids"].shape[1])[None]
        return torch.cat([through, positions[:, 0]])

    def _split(
        self, inputs: Inputs, tokens: Sequence[int], count: int
    ) -> tuple[PromptImage, ...] | None:
        """Take a prompt's images apart; None if the inputs do not tell which part is whose."""
        runs = _runs(tokens, self._config.image_token_id)
        pixels = inputs.get("pixel_values")
        if len(runs) != count or (pixels is None) != (count == 0):
            return None
        if pixels is None:
            return ()
        grid = inputs.get("image_grid_thw")
        # Qwen: patches by the grid. InternVL: tiles, which have the same number of tokens each.
        lengths = [end - start for start, end in runs]
        shares = grid.prod(dim=-1).tolist() if grid is not None else lengths
        total = sum(shares)
        if any(share * pixels.shape[0] % total for share in shares):
            return None
        ends = accumulate(share * pixels.shape[0] // total for share in shares)
        images, begin = [], 0
        for at, (end, run) in enumerate(zip(ends, runs, strict=True)):
            own = {"pixel_values": pixels[begin:end]}
            if grid is not None:
                own["image_grid_thw"] = grid[at : at + 1]
            images.append(PromptImage(*run, own))
            begin = end
        return tuple(images)

    def _check_images(self, tokens: Sequence[int], images: int) -> None:
        token = getattr(self._config, "image_token_id", None)
        if not images or token is None:
            return
        shown = self.tokenizer.convert_tokens_to_ids(self.marker) if self.marker else None
        if shown not in {None, token} and shown in tokens:
            raise ModelError(
                f"The config.json of {self.name!r} gives image_token_id as {token}, but its "
                f"tokenizer writes images as token {shown} ({self.marker}); get the files of one "
                "checkpoint."
            )
        if token not in tokens:
            raise ModelError(
                f"The chat template of {self.name!r} does not show images in messages of this "
                "role; put them into a user message."
            )


class _CuttingTokenizer:
    """A tokenizer that knows the marks which cut the text of a prompt, for its processor."""

    def __init__(self, tokenizer: Any) -> None:
        self._tokenizer = tokenizer

    def __getattr__(self, name: str) -> Any:
        return getattr(self._tokenizer, name)

    def __call__(self, text: list[str], **settings: Any) -> Any:
        if MARK not in text[0]:
            return self._tokenizer(text, **settings)
        tensors = settings.pop("return_tensors", None)
        cut = tokenize(self._tokenizer, text[0], **settings)
        encoded = {key: [values] for key, values in cut.items()}
        return BatchEncoding(encoded, tensor_type=tensors)


class _SharedPreprocessing:
    """An image processor that does no work twice; the tensors it returns must not be changed.

    The small and the large model of a pair mostly have image processors with the same settings, and
    a question goes to each of them more than once.

    Attributes:
        digests: The images of the next call, None for ones that nobody knows.
    """

    def __init__(self, processor: Any) -> None:
        self.digests: tuple[str, ...] | None = None
        self._processor = processor
        self._settings = f"{type(processor).__qualname__} {processor.to_json_string()}"

    def __getattr__(self, name: str) -> Any:
        return getattr(self._processor, name)

    def __call__(self, images: Any, *args: Any, **kwargs: Any) -> Any:
        make = partial(self._processor, images, *args, **kwargs)
        if self.digests is None:
            return make()
        options = (self._settings, repr(args), repr(sorted(kwargs.items(), key=str)))
        made = _preprocessed(make, self.digests, options)
        # Processors take keys out of what they get.
        return made.__class__(data=dict(made))


def _tensor_bytes(made: Any) -> int:
    return sum(value.nbytes for value in made.values() if torch.is_tensor(value))


@cached(
    LRUCache(PREPARED_BYTES, _tensor_bytes),
    key=lambda _, *content: content,
    condition=threading.Condition(),
)
def _preprocessed(make: Callable[[], Any], digests: Any, options: Any) -> Any:  # noqa: ARG001
    return make()


def clear_prepared_images() -> None:
    """Evict the preprocessed images, for all models."""
    _preprocessed.cache_clear()


def _content_chain(
    tokens: Sequence[int], images: Sequence[PromptImage], digests: Sequence[str]
) -> tuple[int, ...]:
    """Return one number per token that stands for it and all before it, images by content."""
    content: list[Any] = list(tokens)
    for image, digest in zip(images, digests, strict=True):
        places = range(image.end - image.start)
        content[image.start : image.end] = [f"{digest}-{at}" for at in places]
    chain, last = [], b""
    for part in content:
        last = hashlib.blake2b(f"{part}".encode(), key=last, digest_size=16).digest()
        chain.append(int.from_bytes(last))
    return tuple(chain)


def _runs(tokens: Sequence[int], image_token: int) -> list[tuple[int, int]]:
    """Return where each run of image tokens begins and ends."""
    groups = groupby(range(len(tokens)), lambda at: tokens[at] == image_token)
    runs = [list(run) for shown, run in groups if shown]
    return [(run[0], run[-1] + 1) for run in runs]
