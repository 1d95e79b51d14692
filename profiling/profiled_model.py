"""What a model has to be able to do so that its components can be measured.

Imports torch.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from PIL import Image

from .model_sizes import ModelSizes

_WORDS = 256
"""Ids that every tokenizer has: single bytes, mostly."""

Tensors = Mapping[str, torch.Tensor]


class DoesNotFit(Exception):  # noqa: N818  nothing went wrong
    """Why a measurement is not made, in a few words."""


@dataclass(frozen=True, slots=True)
class Pictures:
    """Equal square pictures, one for each prompt of a batch.

    Attributes:
        side: Width and height of each, in pixels.
        images: The pictures.
        image_tokens: Tokens of a prompt that each takes.
        prepared_bytes: What preprocessing makes of all of them.
        tensors: Where the model computes in this process: that on its device.
        added_tokens: Tokens that the engine itself puts around each picture.
    """

    side: int
    images: list[Image.Image]
    image_tokens: int
    prepared_bytes: int
    tensors: Tensors
    added_tokens: int = 0

    @property
    def batch(self) -> int:
        """How many."""
        return len(self.images)


class ProfiledModel(Protocol):
    """One model on one backend.

    Attributes:
        name: As it was asked for.
        backend: What runs it.
        device: Where it computes.
        dtype: Of its weights.
        attention: Its attention implementation; "auto" if the backend chooses.
        threads: CPU threads that the package's own engine would compute with, None for torch's.
        sizes: What its parts weigh and compute.
    """

    name: str
    backend: str
    device: torch.device
    dtype: torch.dtype
    attention: str
    threads: int | None
    sizes: ModelSizes

    def load(self) -> None:
        """Get ready to be measured.

        Raises:
            ModelError: It cannot be.
        """
        ...

    def pictures(self, side: int, batch: int) -> Pictures:
        """Pictures of noise as the model takes them."""
        ...

    def preprocess(self, pictures: Pictures) -> float:
        """Seconds to make tensors of pictures."""
        ...

    def encode(self, pictures: Pictures) -> float:
        """Seconds of the vision encoder.

        Raises:
            DoesNotFit: There is no room for them.
        """
        ...

    def write(self, pictures: Pictures, query_tokens: int, tokens: int) -> list[float]:
        """Read a batch of prompts, each with its picture, and write exactly so many tokens.

        Args:
            pictures: One for each prompt.
            query_tokens: Tokens of each prompt that are not its picture's.
            tokens: Written to each prompt, whatever they are.

        Returns:
            Seconds from the start to each token, until the last prompt of the batch has it. The
            first is the time to first token.
        """
        ...

    def check_room(self, batch: int, tokens: int) -> None:
        """See whether a batch of sequences fits.

        Args:
            batch: How many.
            tokens: Prompt and output of each.

        Raises:
            DoesNotFit: The context or the cache is too short.
        """
        ...

    def flops(self, run: Callable[[], object]) -> int | None:
        """Floating-point operations of a run as they are counted, None where they cannot be."""
        ...

    def close(self) -> None:
        """Free what the model holds."""
        ...


def noise_picture(side: int) -> Image.Image:
    """A square picture of noise, the same each time."""
    generator = torch.Generator().manual_seed(side)
    pixels = torch.randint(0, 256, (side, side, 3), dtype=torch.uint8, generator=generator)
    return Image.fromarray(pixels.numpy())


def prompt_tokens(config: Any, image_tokens: int, query_tokens: int) -> list[int]:
    """Token ids of a prompt: a picture, then words that mean nothing.

    Args:
        config: The model's configuration.
        image_tokens: How many the picture takes.
        query_tokens: The others, markers around the picture included where the model has some.
    """
    start = getattr(config, "vision_start_token_id", None)
    end = getattr(config, "vision_end_token_id", None)
    taken = {config.image_token_id, getattr(config, "video_token_id", None), start, end}
    known = config.get_text_config().vocab_size
    free = [token for token in range(min(_WORDS, known)) if token not in taken]
    picture = [config.image_token_id] * image_tokens
    if start is not None and end is not None:
        picture = [start, *picture, end]
    words = query_tokens - (len(picture) - image_tokens)
    return [*picture, *(free[(7 * index) % len(free)] for index in range(words))]
