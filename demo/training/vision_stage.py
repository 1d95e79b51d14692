"""Stage 1: the vision tower alone learns what each cell or column of a picture shows."""

import math
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from .checkpoint import Role, build_model
from .forward import IMAGE_TOKENS, VisionTower, to_patches, vision_forward
from .pools import LABELS, Pool, cell_labels

# Word embeddings start near this scale; features far from it slow the language stage down.
_MERGED_SCALE, _DEEP_SCALE = 0.4, 0.2


class VisionPlan(NamedTuple):
    """How long and how fast the vision tower learns.

    Attributes:
        steps: Number of optimizer steps.
        batch: Pictures a step.
        peak_rate: Learning rate after the warm-up; it falls to 2% by a cosine.
        warmup: Steps until then.
        held_out: Pictures at the pool's end that are only measured on.
        compiled: Whether the forward pass is compiled first.
    """

    steps: int
    batch: int = 64
    peak_rate: float = 2e-3
    warmup: int = 60
    held_out: int = 1000
    compiled: bool = True


class _Heads(nn.Module):
    """What is read off the features while they are trained; thrown away afterwards."""

    def __init__(self, hidden: int) -> None:
        super().__init__()
        self.label = nn.ModuleList([nn.Linear(hidden, LABELS) for _ in range(2)])
        self.place = nn.ModuleList([nn.Linear(hidden, IMAGE_TOKENS) for _ in range(2)])


def train_vision(
    role: Role, pool: Pool, out: Path, plan: VisionPlan, seed: int, log: Callable[[str], None]
) -> None:
    """Train the vision tower of a fresh model and save the whole model to `out`."""
    model = build_model(role, seed).train()
    vision: VisionTower = model.model.visual
    heads = _Heads(model.config.text_config.hidden_size)
    parameters = [*vision.parameters(), *heads.parameters()]
    optimizer = torch.optim.AdamW(
        parameters, lr=plan.peak_rate, weight_decay=0.02, betas=(0.9, 0.98)
    )
    labels = np.array([cell_labels(scene) for scene in pool.scenes])
    generator = np.random.default_rng(seed)
    forward = torch.compile(vision_forward) if plan.compiled else vision_forward
    started = time.monotonic()
    for step in range(plan.steps):
        _set_rate(optimizer, plan, step)
        chosen = np.sort(generator.choice(len(labels) - plan.held_out, plan.batch, replace=False))
        merged, deep = forward(vision, to_patches(pool.pictures[chosen]))
        loss = _loss(heads, merged, deep, torch.from_numpy(labels[chosen]))
        optimizer.zero_grad()
        torch.autograd.backward(loss)
        nn.utils.clip_grad_norm_(parameters, 1.0)
        optimizer.step()
        if step % 200 == 199 or step + 1 == plan.steps:
            share = held_out_accuracy(vision, heads, pool.pictures[-plan.held_out :], labels)
            passed = time.monotonic() - started
            log(
                f"vision {role} step {step + 1}/{plan.steps} loss {loss.item():.3f} "
                f"held-out tokens right {share:.2%} {passed:.0f}s"
            )
    _rescale(vision, pool.pictures[:200])
    model.save_pretrained(out)


@torch.no_grad()
def held_out_accuracy(
    vision: VisionTower,
    heads: _Heads,
    pictures: NDArray[np.uint8],
    labels: NDArray[np.int64],
) -> float:
    """Share of the image tokens whose label is read right.

    Args:
        vision: The vision tower.
        heads: What reads the labels off its features.
        pictures: Pictures [N, SIZE, SIZE, 3].
        labels: Labels of their tokens [M, 25]; the last N rows count.
    """
    merged, _ = vision_forward(vision, to_patches(pictures))
    right = heads.label[0](merged).argmax(-1) == torch.from_numpy(labels[-len(pictures) :])
    return float(right.float().mean())


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


def _set_rate(optimizer: torch.optim.Optimizer, plan: VisionPlan, step: int) -> None:
    cosine = 0.5 * (1 + math.cos(math.pi * step / plan.steps))
    for group in optimizer.param_groups:
        group["lr"] = plan.peak_rate * min(1, (step + 1) / plan.warmup) * (0.02 + 0.98 * cosine)


@torch.no_grad()
def _rescale(vision: VisionTower, pictures: NDArray[np.uint8]) -> None:
    merged, deep = vision_forward(vision, to_patches(pictures))
    for merger, features, scale in (
        (vision.merger, merged, _MERGED_SCALE),
        (vision.deepstack_merger_list[0], deep, _DEEP_SCALE),
    ):
        factor = scale / features.pow(2).mean().sqrt()
        merger.linear_fc2.weight.mul_(factor)
        merger.linear_fc2.bias.mul_(factor)
