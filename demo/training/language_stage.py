"""Stage 2: the language model learns to answer, on cached features of a frozen vision tower."""

import math
import time
from collections import defaultdict, deque
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.data import DataLoader
from transformers import Qwen3VLForConditionalGeneration

from ..scenes import Scene
from .batches import Batch, Batches, Mix, visible
from .examples import Reasoning, Tutor
from .forward import cache_features, language_forward

LOG_EVERY = 100
_REMEMBERED = 400


class LanguagePlan(NamedTuple):
    """How long, how fast and on what a language model learns.

    Attributes:
        steps: Number of optimizer steps.
        mixes: What the rows hold, each mix with the step from which it holds.
        rows: Images a step.
        wrong_share: Share of wrong reasonings among the transfers.
        peak_rate: Learning rate after the warm-up of 100 steps.
        last_share: Share of the peak rate that the rate falls to, by a cosine.
        save_every: Steps between two saves of the state that a later run resumes from.
        compiled: Whether the forward pass is compiled first, which pays after some 100 steps.
        workers: Processes that prepare batches beside the training; none pays for a few steps.
    """

    steps: int
    mixes: Sequence[tuple[int, Mix]]
    rows: int = 32
    wrong_share: float = 0.4
    peak_rate: float = 1.4e-3
    last_share: float = 0.02
    save_every: int = 400
    compiled: bool = True
    workers: int = 1


def train_language(
    model: Qwen3VLForConditionalGeneration,
    scenes: Sequence[Scene],
    images: NDArray[np.uint8],
    out: Path,
    plan: LanguagePlan,
    seed: int,
    log: Callable[[str], None],
    reasonings: Sequence[Reasoning] = (),
) -> None:
    """Train the language model of `model` and save the whole model to `out`.

    Every `plan.save_every` steps the state goes to a file beside `out`; a run that finds it
    resumes there.

    Args:
        model: The model; its vision tower stays as it is.
        scenes: What the pool's images show.
        images: The images [N, SIZE, SIZE, 3].
        out: Folder of the finished model.
        plan: How long, how fast and on what.
        seed: Decides the batches.
        log: Receives a line of progress every LOG_EVERY steps.
        reasonings: Real reasonings of the small model to transfer; without them all are made up.
    """
    image, deep = cache_features(model.model.visual, images)
    learner = _Learner(model.train(), plan)
    tutor = Tutor(scenes, plan.wrong_share, reasonings)
    state_file = out.with_suffix(".state.pt")
    first = learner.restore(state_file) if state_file.exists() else 0
    loader: DataLoader[Batch] = DataLoader(
        Batches(tutor, plan.rows, seed, plan.mixes),
        batch_size=None,
        sampler=range(first, plan.steps),
        num_workers=plan.workers,
        prefetch_factor=8 if plan.workers else None,
    )
    started, scores = time.monotonic(), _Scores()
    for step, batch in enumerate(loader, first):
        features = image[batch.images].float(), deep[batch.images].float()
        scores.add(batch, *learner.step(batch, *features))
        if (step + 1) % LOG_EVERY == 0 or step + 1 == plan.steps:
            passed = time.monotonic() - started
            log(f"{out.name} step {step + 1}/{plan.steps} {passed:.0f}s {scores}")
        if (step + 1) % plan.save_every == 0:
            learner.save(state_file, step + 1)
    model.save_pretrained(out)
    state_file.unlink(missing_ok=True)


class _Learner:
    """The optimizer of a model's language half and one step of it."""

    def __init__(self, model: Qwen3VLForConditionalGeneration, plan: LanguagePlan) -> None:
        self._model, self._plan = model, plan
        self._parameters = [p for n, p in model.named_parameters() if ".visual." not in n]
        groups = [
            {"params": [p for p in self._parameters if p.ndim >= 2], "weight_decay": 0.02},
            {"params": [p for p in self._parameters if p.ndim < 2], "weight_decay": 0.0},
        ]
        self._optimizer = torch.optim.AdamW(groups, lr=plan.peak_rate, betas=(0.9, 0.98))
        self._schedule = torch.optim.lr_scheduler.LambdaLR(self._optimizer, self._share)
        self._parts: tuple[Any, ...] = (model, self._optimizer, self._schedule)
        self._forward: Any = (
            torch.compile(language_forward, dynamic=True) if plan.compiled else language_forward
        )

    def step(self, batch: Batch, image: Tensor, deep: Tensor) -> tuple[Tensor, Tensor]:
        """Learn from one batch; return the loss and which labels were predicted right."""
        mask = visible(batch.segments)
        hidden = self._forward(self._model, batch.ids, image, deep, batch.positions, mask)
        logits = functional.linear(hidden[batch.labelled], self._model.lm_head.weight)
        losses = functional.cross_entropy(logits, batch.labels, reduction="none")
        loss = (losses * batch.weights).sum()
        self._optimizer.zero_grad()
        torch.autograd.backward(loss)
        nn.utils.clip_grad_norm_(self._parameters, 1.0)
        self._optimizer.step()
        self._schedule.step()
        return loss.detach(), logits.detach().argmax(-1) == batch.labels

    def save(self, path: Path, step: int) -> None:
        """Write the state after `step` steps, whole or not at all."""
        partial = path.with_suffix(".partial")
        torch.save({"step": step, "parts": [part.state_dict() for part in self._parts]}, partial)
        partial.replace(path)

    def restore(self, path: Path) -> int:
        """Read what `save` wrote; return the number of steps done."""
        state = torch.load(path, weights_only=True)
        for part, own in zip(self._parts, state["parts"], strict=True):
            part.load_state_dict(own)
        return int(state["step"])

    def _share(self, step: int) -> float:
        cosine = 0.5 * (1 + math.cos(math.pi * step / self._plan.steps))
        last = self._plan.last_share
        return min(1, (step + 1) / 100) * (last + (1 - last) * cosine)


class _Scores:
    """Shares of the last answers predicted right, token by token, for the log."""

    def __init__(self) -> None:
        self._right: dict[str, deque[bool]] = defaultdict(lambda: deque(maxlen=_REMEMBERED))
        self._losses: deque[float] = deque(maxlen=LOG_EVERY)

    def add(self, batch: Batch, loss: Tensor, right: Tensor) -> None:
        """Count one batch."""
        self._losses.append(float(loss))
        wrong = set(batch.owners[~right].tolist())
        for number, name in enumerate(batch.names):
            self._right[name].append(number not in wrong)

    def __str__(self) -> str:
        shares = [f"{name} {sum(own) / len(own):.0%}" for name, own in sorted(self._right.items())]
        return f"loss {sum(self._losses) / len(self._losses):.3f} | {', '.join(shares)}"
