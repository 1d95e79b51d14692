"""Batches of rows: a row is one image with several prompts that do not see each other."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from random import Random

import torch
from torch import Tensor
from torch.utils.data import Dataset

from ..questions import Kind
from ..scenes import SIDE, Chart
from .checkpoint import build_tokenizer
from .examples import Example, Tutor
from .forward import IMAGE_START, IMAGE_TOKENS, PREFIX_TOKENS, prefix_positions

CHART_EXTRA = 2
HARD_DIRECT = 0.2
"""Loss weight of direct answers that one pass cannot find; more of it keeps the rest back."""
_IGNORED = -100
_FIRST_TEXT_POSITION = IMAGE_START + SIDE + 1


@dataclass(frozen=True, slots=True)
class Mix:
    """What a row holds, and how much its parts weigh in the loss.

    Attributes:
        direct: Number of prompts in the direct style; charts, whose reasonings are short, get
            CHART_EXTRA more, so that all rows are about equally long.
        long: Weights of the lessons that the row's one long prompt is drawn from.
        kinds: Weights of the kinds of questions. Forms, whose texts are the widest, come in batches
            of their own.
        direct_weight: Loss weight of all direct answers against the rest.
        transfer_weight: Loss weight of a transferred answer against a reasoning.
        correction_weight: Loss weight of correcting a quoted reasoning word by word.
    """

    direct: int
    long: Mapping[str, float]
    kinds: Mapping[Kind, float]
    direct_weight: float = 1.0
    transfer_weight: float = 3.0
    correction_weight: float = 0.5


@dataclass(frozen=True, slots=True)
class Batch:
    """Rows for `language_forward` with labels for the tokens at `labelled`.

    Attributes:
        images: Index of each row's image in the pool, [B].
        ids: Token ids [B, L].
        positions: M-RoPE positions [3, B, L].
        segments: 0 for the shared prefix, k for a row's k-th prompt, -1 for padding, [B, L].
        labelled: Where the next token is learnt, [B, L] bool.
        labels: Next tokens [number of labelled].
        weights: Their loss weights [number of labelled].
        owners: Number of the example that each belongs to, -1 for corrections.
        names: Lesson and kind of each example, for the log.
    """

    images: Tensor
    ids: Tensor
    positions: Tensor
    segments: Tensor
    labelled: Tensor
    labels: Tensor
    weights: Tensor
    owners: Tensor
    names: list[str]


class Batches(Dataset[Batch]):
    """The batch of every step, drawn from the seed and the step alone, so that a run can resume."""

    def __init__(
        self, tutor: Tutor, rows: int, seed: int, mixes: Sequence[tuple[int, Mix]]
    ) -> None:
        """Remember what to draw from.

        Args:
            tutor: Makes the examples.
            rows: Images in a batch.
            seed: Decides the batches, with the step.
            mixes: Mixes, each with the step from which it holds.
        """
        self._tutor, self._rows, self._seed, self._mixes = tutor, rows, seed, mixes
        self._packer = Packer()

    def __getitem__(self, step: int) -> Batch:
        """Return the batch of a step."""
        rng = Random(self._seed * 1_000_003 + step)
        mix = next(mix for first, mix in reversed(self._mixes) if step >= first)
        drawn = rng.choices(list(mix.kinds), list(mix.kinds.values()))[0]
        kinds = {
            kind: weight
            for kind, weight in mix.kinds.items()
            if (kind == "form") == (drawn == "form")
        }
        return self._packer.pack([self._row(mix, kinds, rng) for _ in range(self._rows)], mix)

    def _row(self, mix: Mix, kinds: Mapping[Kind, float], rng: Random) -> tuple[int, list[Example]]:
        lesson = rng.choices(list(mix.long), list(mix.long.values()))[0]
        index, long = self._tutor.long(lesson, kinds, rng)
        extra = CHART_EXTRA if mix.direct and isinstance(self._tutor.scene(index), Chart) else 0
        direct = [self._tutor.direct(index, kinds, rng) for _ in range(mix.direct + extra)]
        return index, [*direct, long]


class Packer:
    """Turns rows of examples into tensors."""

    def __init__(self) -> None:
        tokenizer = build_tokenizer()
        self._encode = tokenizer.backend_tokenizer.encode
        self._pad = tokenizer.pad_token_id
        self._prefix = self._ids(
            "<|im_start|>user\n<|vision_start|>" + "<|image_pad|>" * IMAGE_TOKENS + "<|vision_end|>"
        )

    def pack(self, rows: Sequence[tuple[int, list[Example]]], mix: Mix) -> Batch:
        """Return one batch of rows (image index, examples)."""
        lines: list[list[tuple[float, ...]]] = []
        examples: list[Example] = []
        for _, row in rows:
            line: list[tuple[float, ...]] = [
                (token, 0, 0, _IGNORED, 0.0, -1) for token in self._prefix
            ]
            for segment, example in enumerate(row, 1):
                line += [
                    (token, segment, step, *label)
                    for step, (token, *label) in enumerate(
                        self._labelled(example, len(examples), mix)
                    )
                ]
                examples.append(example)
            lines.append(line)
        # Few different widths, or every batch would be compiled anew.
        width = PREFIX_TOKENS + (max(map(len, lines)) - PREFIX_TOKENS + 31) // 32 * 32
        padding = (self._pad, -1, 0, _IGNORED, 0.0, -1)
        table = torch.tensor(
            [line + [padding] * (width - len(line)) for line in lines], dtype=torch.float64
        )
        ids, segments, steps, targets = table[..., :4].long().unbind(-1)
        labelled = targets != _IGNORED
        weights, owners = table[..., 4][labelled].float(), table[..., 5][labelled].long()
        is_direct = torch.tensor([example.lesson == "direct" for example in examples] + [False])
        direct = is_direct[owners]
        weights[direct] *= mix.direct_weight / weights[direct].sum().clamp(min=1e-6)
        weights[~direct] /= weights[~direct].sum().clamp(min=1e-6)
        positions = (steps + _FIRST_TEXT_POSITION)[None].repeat(3, 1, 1)
        positions[:, :, :PREFIX_TOKENS] = prefix_positions()[:, None]
        return Batch(
            torch.tensor([index for index, _ in rows]),
            ids,
            positions,
            segments,
            labelled,
            targets[labelled],
            weights,
            owners,
            [f"{'misled' if one.misled else one.lesson} {one.kind}" for one in examples],
        )

    def _labelled(
        self, example: Example, number: int, mix: Mix
    ) -> list[tuple[int, int, float, int]]:
        """Return tokens, each with the next one to be learnt, its weight and its example."""
        prompt = self._ids(example.prompt + "<|im_end|>\n<|im_start|>assistant\n")
        answer = self._ids(example.answer + "<|im_end|>")
        scale = mix.transfer_weight if example.lesson == "transfer" else 1.0
        if example.lesson == "direct" and example.kind == "walks":
            scale = HARD_DIRECT
        nothing = (_IGNORED, 0.0, -1)
        labels = [nothing] * (len(prompt) - 1)
        if example.quoted and mix.correction_weight:
            before, _, _ = example.prompt.partition(example.quoted)
            head, quoted, corrected = map(self._ids, (before, example.quoted, example.corrected))
            if len(quoted) == len(corrected):
                weight = mix.correction_weight / len(corrected) ** 0.5
                start = len(head) - 1
                labels[start : start + len(corrected)] = [(one, weight, -1) for one in corrected]
        labels += [(token, scale / len(answer) ** 0.5, number) for token in answer] + [nothing]
        return [(token, *label) for token, label in zip(prompt + answer, labels, strict=True)]

    def _ids(self, text: str) -> list[int]:
        ids: list[int] = self._encode(text).ids
        return ids


def visible(segments: Tensor) -> Tensor:
    """Return which tokens see which, [B, 1, L, L]: the prefix's and their own prompt's before."""
    length = segments.shape[1]
    earlier = torch.ones(length, length, dtype=torch.bool).tril()
    own = segments[:, :, None] == segments[:, None, :]
    return (earlier & (own | (segments == 0)[:, None, :]))[:, None]
