"""A prompt as a model takes it: its tokens, its pictures one by one, and what makes it unique.

Imports torch: only modules of a loaded model import this one.
"""

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

import torch

from .padding import Inputs


@dataclass(frozen=True, slots=True)
class Picture:
    """A picture inside a prompt.

    Attributes:
        start: Position of its first token.
        end: Position after its last token.
        inputs: What the model takes of it alone (pixel_values, image_grid_thw).
    """

    start: int
    end: int
    inputs: Inputs


@dataclass(frozen=True, slots=True)
class Prompt:
    """A prompt as the model takes it.

    Attributes:
        inputs: Tensors with a batch of one: input_ids, attention_mask, pixel_values and so on.
        tokens: The token ids.
        room: How many tokens the model's context has left for the answer.
        chain: One number a token, which stands for it and everything before it, pictures'
            content included; equal prefixes have equal numbers. Empty if no prefix of this prompt
            may be reused.
        pictures: The pictures, in order; only where `chain` is not empty.
        positions: Position ids of the tokens, shape (4, length): in the text, then in time, height
            and width. None for models that count through.
    """

    inputs: Inputs
    tokens: list[int]
    room: int
    chain: tuple[int, ...] = ()
    pictures: tuple[Picture, ...] = ()
    positions: torch.Tensor | None = None

    @property
    def length(self) -> int:
        """Its tokens, those of pictures included."""
        return len(self.tokens)

    def boundary(self, position: int) -> int:
        """The last position up to `position` that does not lie inside a picture."""
        inside = (one.start for one in self.pictures if one.start < position < one.end)
        return next(inside, position)


def split_pictures(
    inputs: Inputs, tokens: Sequence[int], image_token: int, count: int
) -> tuple[Picture, ...] | None:
    """Take a prompt's pictures apart.

    Args:
        inputs: As the processor made them.
        tokens: The token ids.
        image_token: The token that stands for a part of a picture.
        count: Number of pictures.

    Returns:
        The pictures in order, or None if the inputs do not tell which part belongs to which.
    """
    runs = _runs(tokens, image_token)
    pixels = inputs.get("pixel_values")
    if len(runs) != count or (pixels is None) != (count == 0):
        return None
    if pixels is None:
        return ()
    grid = inputs.get("image_grid_thw")
    lengths = [end - start for start, end in runs]
    # Qwen: patches by the grid. InternVL: tiles, which have the same number of tokens each.
    shares = grid.prod(dim=-1).tolist() if grid is not None else lengths
    total = sum(shares)
    parts = [share * pixels.shape[0] // total for share in shares]
    if sum(parts) != pixels.shape[0] or any(
        part * total != share * pixels.shape[0] for part, share in zip(parts, shares, strict=True)
    ):
        return None
    pictures = []
    for at, (end, part, run) in enumerate(zip(accumulate(parts), parts, runs, strict=True)):
        own = {"pixel_values": pixels[end - part : end]}
        if grid is not None:
            own["image_grid_thw"] = grid[at : at + 1]
        pictures.append(Picture(*run, own))
    return tuple(pictures)


def picture_inputs(pictures: Iterable[Picture]) -> Inputs:
    """What the model takes of several pictures, one after the other; nothing for none."""
    parts = [picture.inputs for picture in pictures]
    return {key: torch.cat([part[key] for part in parts]) for key in (parts[0] if parts else ())}


def content_chain(
    tokens: Sequence[int], pictures: Sequence[Picture], digests: Sequence[str]
) -> tuple[int, ...]:
    """One number a token that stands for it and all before it.

    Args:
        tokens: The token ids.
        pictures: The pictures among them.
        digests: What tells each picture from others.
    """
    content: list[Any] = list(tokens)
    for picture, digest in zip(pictures, digests, strict=True):
        content[picture.start : picture.end] = [
            f"{digest}-{at}" for at in range(picture.end - picture.start)
        ]
    chain, last = [], b""
    for part in content:
        last = hashlib.blake2b(f"{part}".encode(), key=last, digest_size=16).digest()
        chain.append(int.from_bytes(last))
    return tuple(chain)


def _runs(tokens: Sequence[int], image_token: int) -> list[tuple[int, int]]:
    runs: list[tuple[int, int]] = []
    for at, token in enumerate(tokens):
        if token != image_token:
            continue
        if runs and runs[-1][1] == at:
            runs[-1] = (runs[-1][0], at + 1)
        else:
            runs.append((at, at + 1))
    return runs
