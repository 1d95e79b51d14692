"""Stage 1: the vision tower alone learns what each cell or column of an image shows."""

import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional
from transformers import Qwen3VLForConditionalGeneration

from ..scenes import COLORS, MAX_VALUE, SHAPES, SIDE, Chart, Scene
from .forward import IMAGE_TOKENS, VisionTower, to_patches, vision_forward

CHART_LABEL = 1 + len(COLORS) * len(SHAPES)
LABELS = CHART_LABEL + 1 + len(COLORS) * MAX_VALUE
# Word embeddings start near this scale; features far from it slow the language stage down.
_MERGED_SCALE, _DEEP_SCALE = 0.4, 0.2


class VisionPlan(NamedTuple):
    """How long and how fast the vision tower learns.

    Attributes:
        steps: Number of optimizer steps.
        batch: Images a step.
        peak_rate: Learning rate after the warm-up of 60 steps; it falls to 2% by a cosine.
        held_out: Images at the pool's end that are only measured on.
        compiled: Whether the forward pass is compiled first.
    """

    steps: int
    batch: int = 64
    peak_rate: float = 2e-3
    held_out: int = 1000
    compiled: bool = True


class _Heads(nn.Module):
    """What is read off the features while they are trained; dropped afterwards."""

    def __init__(self, hidden: int) -> None:
        super().__init__()
        self.label = nn.ModuleList([nn.Linear(hidden, LABELS) for _ in range(2)])
        self.place = nn.ModuleList([nn.Linear(hidden, IMAGE_TOKENS) for _ in range(2)])


def train_vision(
    model: Qwen3VLForConditionalGeneration,
    scenes: Sequence[Scene],
    images: NDArray[np.uint8],
    out: Path,
    plan: VisionPlan,
    seed: int,
    log: Callable[[str], None],
) -> None:
    """Train the vision tower of a fresh model and save the whole model to `out`.

    Args:
        model: The model.
        scenes: What the images show.
        images: Images [N, SIZE, SIZE, 3].
        out: Folder of the model.
        plan: How long and how fast.
        seed: Decides the batches.
        log: Receives a line of progress every 200 steps.
    """
    vision: VisionTower = model.train().model.visual
    heads = _Heads(model.config.text_config.hidden_size)
    parameters = [*vision.parameters(), *heads.parameters()]
    optimizer = torch.optim.AdamW(
        parameters, lr=plan.peak_rate, weight_decay=0.02, betas=(0.9, 0.98)
    )
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer,
        lambda step: (
            min(1, (step + 1) / 60) * (0.51 + 0.49 * math.cos(math.pi * step / plan.steps))
        ),
    )
    labels = torch.tensor([cell_labels(scene) for scene in scenes])
    generator = np.random.default_rng(seed)
    forward = torch.compile(vision_forward) if plan.compiled else vision_forward
    for step in range(plan.steps):
        chosen = np.sort(generator.choice(len(labels) - plan.held_out, plan.batch, replace=False))
        merged, deep = forward(vision, to_patches(images[chosen]))
        loss = _loss(heads, merged, deep, labels[torch.from_numpy(chosen)])
        optimizer.zero_grad()
        torch.autograd.backward(loss)
        nn.utils.clip_grad_norm_(parameters, 1.0)
        optimizer.step()
        schedule.step()
        if step % 200 == 199 or step + 1 == plan.steps:
            with torch.no_grad():
                merged, _ = vision_forward(vision, to_patches(images[-plan.held_out :]))
                right = heads.label[0](merged).argmax(-1) == labels[-plan.held_out :]
            share = right.float().mean()
            log(f"{out.name} step {step + 1}/{plan.steps} held-out tokens right {share:.2%}")
    _rescale(vision, images[:200])
    model.save_pretrained(out)


def cell_labels(scene: Scene) -> list[int]:
    """Return what each of the 25 image tokens should know: its item, or its column's bar."""
    if isinstance(scene, Chart):
        columns = [
            CHART_LABEL if bar is None else CHART_LABEL + 1 + bar.color * MAX_VALUE + bar.value - 1
            for bar in scene.columns
        ]
        return columns * SIDE
    return [
        0 if item is None else 1 + item.color * len(SHAPES) + item.shape for item in scene.cells
    ]


def _loss(heads: _Heads, merged: Tensor, deep: Tensor, labels: Tensor) -> Tensor:
    places = torch.arange(IMAGE_TOKENS).expand(labels.shape)

    def entropy(logits: Tensor, wanted: Tensor) -> Tensor:
        return functional.cross_entropy(logits.flatten(0, 1), wanted.reshape(-1))

    side = (
        entropy(heads.label[1](deep), labels)
        + entropy(heads.place[0](merged), places)
        + entropy(heads.place[1](deep), places)
    )
    return entropy(heads.label[0](merged), labels) + 0.3 * side


@torch.no_grad()
def _rescale(vision: VisionTower, images: NDArray[np.uint8]) -> None:
    merged, deep = vision_forward(vision, to_patches(images))
    for merger, features, scale in (
        (vision.merger, merged, _MERGED_SCALE),
        (vision.deepstack_merger_list[0], deep, _DEEP_SCALE),
    ):
        factor = scale / features.pow(2).mean().sqrt()
        merger.linear_fc2.weight.mul_(factor)
        merger.linear_fc2.bias.mul_(factor)
