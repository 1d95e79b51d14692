"""Batches of rows: a row is one picture with several prompts that do not see each other."""

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.utils.data import Dataset

from ...nodes.prompts import Style
from ..scenes import SIDE, Chart
from .checkpoint import build_tokenizer
from .examples import Example, Tutor
from .forward import IMAGE_START, IMAGE_TOKENS, PREFIX_TOKENS, prefix_positions

CHART_EXTRA = 2
_HARD_DIRECT = 0.2
"""Loss weight of direct answers that one pass cannot find; more of it keeps the rest back."""
_IGNORED = -100
_FIRST_TEXT_POSITION = IMAGE_START + SIDE + 1


@dataclass(frozen=True, slots=True)
class Mix:
    """What a row holds.

    Attributes:
        direct: Number of prompts in the direct style; charts, whose reasonings are short, get
            CHART_EXTRA more, so that all rows are about equally long.
        long: Weights of the lessons that the row's one long prompt is drawn from.
        transfer_weight: Loss weight of a transferred answer against a reasoning.
        correction_weight: Loss weight of correcting a quoted reasoning word by word.
    """

    direct: int
    long: dict[str, float]
    transfer_weight: float = 3.0
    correction_weight: float = 0.5


@dataclass(frozen=True, slots=True)
class Span:
    """Where an example's answer lies among the labelled tokens of its batch, for the log."""

    lesson: str
    kind: str
    tokens: int
    skipped: int


@dataclass(frozen=True, slots=True)
class Batch:
    """Rows for `language_forward` with labels for the tokens at `labelled`.

    Attributes:
        pictures: Index of each row's picture in the pool, [B].
        ids: Token ids [B, L].
        positions: M-RoPE positions [3, B, L].
        segments: 0 for the shared prefix, k for a row's k-th prompt, -1 for padding, [B, L].
        labelled: Where the next token is learnt, [B, L] bool.
        labels: Next tokens [number of labelled].
        weights: Their loss weights; those of direct answers and of the rest each add up to one.
        spans: The examples' answers in the order of `labels`.
    """

    pictures: Tensor
    ids: Tensor
    positions: Tensor
    segments: Tensor
    labelled: Tensor
    labels: Tensor
    weights: Tensor
    spans: list[Span]


class Batches(Dataset[Batch]):
    """The batch of every step, drawn from the seed and the step alone, so that a run can resume."""

    def __init__(
        self, tutor: Tutor, rows: int, seed: int, early: Mix, late: Mix, turn: int
    ) -> None:
        self._tutor, self._rows, self._seed = tutor, rows, seed
        self._early, self._late, self._turn = early, late, turn
        self._packer = Packer()

    def __getitem__(self, step: int) -> Batch:
        rng = Random(self._seed * 1_000_003 + step)
        mix = self._early if step < self._turn else self._late
        rows = [self._row(mix, rng) for _ in range(self._rows)]
        return self._packer.pack(rows, mix)

    def _row(self, mix: Mix, rng: Random) -> tuple[int, list[Example]]:
        index = self._tutor.picture(rng)
        lesson = rng.choices(list(mix.long), list(mix.long.values()))[0]
        if lesson == "transfer":
            index, long = self._tutor.transfer(index, rng)
        elif lesson == "list":
            long = self._tutor.listing(index, rng)
        else:
            style: Style = "reason" if lesson == "reason" else "explain"
            long = self._tutor.styled(index, style, rng)
        extra = CHART_EXTRA if isinstance(self._tutor.scene(index), Chart) else 0
        direct = [self._tutor.styled(index, "direct", rng) for _ in range(mix.direct + extra)]
        return index, [*direct, long]


class Packer:
    """Turns rows of examples into tensors."""

    def __init__(self) -> None:
        tokenizer = build_tokenizer()
        self._encode = tokenizer.backend_tokenizer.encode_batch
        self._pad = tokenizer.pad_token_id
        self._prefix = tokenizer(
            "<|im_start|>user\n<|vision_start|>" + "<|image_pad|>" * IMAGE_TOKENS + "<|vision_end|>"
        ).input_ids

    def pack(self, rows: Sequence[tuple[int, list[Example]]], mix: Mix) -> Batch:
        """One batch of rows (picture index, examples)."""
        examples = [example for _, row in rows for example in row]
        prompts = self._ids([e.prompt + "<|im_end|>\n<|im_start|>assistant\n" for e in examples])
        answers = self._ids([example.answer + "<|im_end|>" for example in examples])
        per_row = [len(row) for _, row in rows]
        lengths = [len(p) + len(a) for p, a in zip(prompts, answers, strict=True)]
        ends = np.cumsum(per_row)
        widest = max(sum(lengths[e - n : e]) for e, n in zip(ends, per_row, strict=True))
        # Few different widths, or every batch would be compiled anew.
        width = PREFIX_TOKENS + (widest + 31) // 32 * 32
        shape = (len(rows), width)
        ids = np.full(shape, self._pad, np.int64)
        targets = np.full(shape, _IGNORED, np.int64)
        weights = np.zeros(shape, np.float32)
        is_direct = np.zeros(shape, bool)
        segments = np.full(shape, -1, np.int64)
        steps = np.zeros(shape, np.int64)
        ids[:, :PREFIX_TOKENS] = self._prefix
        segments[:, :PREFIX_TOKENS] = 0
        spans: list[Span] = []
        number = 0
        for row, (_, row_examples) in enumerate(rows):
            start = PREFIX_TOKENS
            for segment, example in enumerate(row_examples, 1):
                prompt, answer = prompts[number], answers[number]
                answer_start, end = start + len(prompt), start + len(prompt) + len(answer)
                ids[row, start:end] = prompt + answer
                segments[row, start:end] = segment
                steps[row, start:end] = np.arange(end - start)
                # The token at t is learnt at t - 1.
                learnt = slice(answer_start - 1, end - 1)
                targets[row, learnt] = answer
                scale = mix.transfer_weight if example.lesson == "transfer" else 1.0
                if example.lesson == "direct" and example.kind == "walks":
                    scale = _HARD_DIRECT
                weights[row, learnt] = scale / len(answer) ** 0.5
                is_direct[row, learnt] = example.lesson == "direct"
                skipped = self._correct(example, row, start, mix, targets, weights)
                spans.append(Span(_logged(example), example.kind, len(answer), skipped))
                start = end
                number += 1
        return self._tensors(rows, ids, targets, weights, is_direct, segments, steps, spans)

    def _correct(
        self,
        example: Example,
        row: int,
        start: int,
        mix: Mix,
        targets: NDArray[np.int64],
        weights: NDArray[np.float32],
    ) -> int:
        if not example.quoted or not mix.correction_weight:
            return 0
        before, _, _ = example.prompt.partition(example.quoted)
        head, quoted, corrected = self._ids([before, example.quoted, example.corrected])
        if len(quoted) != len(corrected):
            return 0
        place = slice(start + len(head) - 1, start + len(head) + len(quoted) - 1)
        targets[row, place] = corrected
        weights[row, place] = mix.correction_weight / len(corrected) ** 0.5
        return len(corrected)

    def _ids(self, texts: Sequence[str]) -> list[list[int]]:
        return [encoding.ids for encoding in self._encode(list(texts))]

    def _tensors(
        self,
        rows: Sequence[tuple[int, list[Example]]],
        ids: NDArray[np.int64],
        targets: NDArray[np.int64],
        weights: NDArray[np.float32],
        is_direct: NDArray[np.bool_],
        segments: NDArray[np.int64],
        steps: NDArray[np.int64],
        spans: list[Span],
    ) -> Batch:
        labelled = targets != _IGNORED
        flat, direct = weights[labelled], is_direct[labelled]
        flat[direct] /= max(flat[direct].sum(), 1e-6)
        flat[~direct] /= max(flat[~direct].sum(), 1e-6)
        positions = torch.from_numpy(steps + _FIRST_TEXT_POSITION)[None].repeat(3, 1, 1)
        positions[:, :, :PREFIX_TOKENS] = prefix_positions()[:, None]
        return Batch(
            torch.tensor([index for index, _ in rows]),
            torch.from_numpy(ids),
            positions,
            torch.from_numpy(segments),
            torch.from_numpy(labelled),
            torch.from_numpy(targets[labelled]),
            torch.from_numpy(flat),
            spans,
        )


def visible(segments: Tensor) -> Tensor:
    """Which tokens see which, [B, 1, L, L]: the earlier ones of the prefix and their own prompt."""
    length = segments.shape[1]
    earlier = torch.ones(length, length, dtype=torch.bool).tril()
    own = segments[:, :, None] == segments[:, None, :]
    return (earlier & (own | (segments == 0)[:, None, :]))[:, None]


def _logged(example: Example) -> str:
    return "misled" if example.misled else example.lesson
