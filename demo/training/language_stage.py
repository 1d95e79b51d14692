"""Stage 2: the language model learns to answer, on cached features of a frozen vision tower."""

import math
import time
from collections import defaultdict, deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.data import DataLoader
from transformers import Qwen3VLForConditionalGeneration

from .batches import Batch, Batches, Mix, visible
from .examples import Reasoning, Tutor
from .forward import cache_features, language_forward
from .pools import Pool

LOG_EVERY = 100
_REMEMBERED = 400


@dataclass(frozen=True, slots=True)
class LanguagePlan:
    """How long, how fast and on what a language model learns.

    Attributes:
        steps: Number of optimizer steps.
        rows: Pictures a step.
        early: The mix until step `turn`.
        late: The mix from then on.
        turn: See above.
        wrong_share: Share of wrong reasonings among the transfers.
        chart_share: Share of charts among the pictures; None takes the pool's own.
        kind_weights: How often kinds of questions are asked, as for `Tutor`.
        direct_weight: Loss weight of the direct answers against the rest.
        peak_rate: Learning rate after the warm-up.
        warmup: Steps until then.
        last_share: Share of the peak rate that the rate falls to, by a cosine.
        save_every: Steps between two saves of the state that a later run goes on from.
        compiled: Whether the forward pass is compiled first, which pays after some 100 steps.
        workers: Processes that prepare batches beside the training; none pays for a few steps.
    """

    steps: int
    rows: int
    early: Mix
    late: Mix
    turn: int = 0
    wrong_share: float = 0.4
    chart_share: float | None = None
    kind_weights: Mapping[str, float] = field(default_factory=dict)
    direct_weight: float = 1.0
    peak_rate: float = 2e-3
    warmup: int = 100
    last_share: float = 0.02
    save_every: int = 400
    compiled: bool = True
    workers: int = 1


def train_language(
    start: Path,
    pool: Pool,
    out: Path,
    plan: LanguagePlan,
    seed: int,
    log: Callable[[str], None],
    reasonings: Sequence[Reasoning] = (),
) -> None:
    """Train the language model of the checkpoint `start` and save the whole model to `out`.

    Every `plan.save_every` steps the state goes to a file beside `out`; a run that finds it goes
    on from there.
    """
    torch.manual_seed(seed)
    model = Qwen3VLForConditionalGeneration.from_pretrained(start, dtype=torch.float32).train()
    image, deep = cache_features(model.model.visual, pool.pictures)
    learner = _Learner(model, plan)
    state_file = out.with_suffix(".state.pt")
    first = learner.restore(state_file) if state_file.exists() else 0
    tutor = Tutor(pool, plan.wrong_share, reasonings, plan.chart_share, plan.kind_weights)
    batches = Batches(tutor, plan.rows, seed, plan.early, plan.late, plan.turn)
    loader: DataLoader[Batch] = DataLoader(
        batches,
        batch_size=None,
        sampler=range(first, plan.steps),
        num_workers=plan.workers,
        prefetch_factor=8 if plan.workers else None,
    )
    started, scores = time.monotonic(), _Scores()
    for step, batch in enumerate(loader, first):
        picked = batch.pictures
        loss, right = learner.step(step, batch, image[picked].float(), deep[picked].float())
        scores.add(batch, right, loss)
        if (step + 1) % LOG_EVERY == 0 or step + 1 == plan.steps:
            passed = time.monotonic() - started
            log(f"{out.name} step {step + 1}/{plan.steps} {passed:.0f}s {scores}")
        if (step + 1) % plan.save_every == 0:
            learner.save(state_file, step + 1)
    model.eval().save_pretrained(out)
    state_file.unlink(missing_ok=True)


class _Learner:
    """The optimizer of a model's language half and one step of it."""

    def __init__(self, model: Qwen3VLForConditionalGeneration, plan: LanguagePlan) -> None:
        self._model, self._plan = model, plan
        self._parameters = [p for n, p in model.named_parameters() if ".visual." not in n]
        self._optimizer = torch.optim.AdamW(
            [
                {"params": [p for p in self._parameters if p.ndim >= 2], "weight_decay": 0.02},
                {"params": [p for p in self._parameters if p.ndim < 2], "weight_decay": 0.0},
            ],
            lr=plan.peak_rate,
            betas=(0.9, 0.98),
        )
        self._forward: Any = (
            torch.compile(language_forward, dynamic=True) if plan.compiled else language_forward
        )

    def step(self, step: int, batch: Batch, image: Tensor, deep: Tensor) -> tuple[float, Tensor]:
        """Learn from one batch; returns the loss and which labels were predicted right."""
        self._set_rate(step)
        hidden = self._forward(
            self._model, batch.ids, image, deep, batch.positions, visible(batch.segments)
        )
        logits = functional.linear(hidden[batch.labelled], self._model.lm_head.weight)
        weights = batch.weights * self._balance(batch)
        losses = functional.cross_entropy(logits, batch.labels, reduction="none")
        loss = (losses * weights).sum()
        self._optimizer.zero_grad()
        torch.autograd.backward(loss)
        nn.utils.clip_grad_norm_(self._parameters, 1.0)
        self._optimizer.step()
        return float(loss.detach()), logits.detach().argmax(-1) == batch.labels

    def save(self, path: Path, step: int) -> None:
        """Write the state after `step` steps, whole or not at all."""
        partial = path.with_suffix(".partial")
        torch.save(
            {
                "step": step,
                "model": self._model.state_dict(),
                "optimizer": self._optimizer.state_dict(),
            },
            partial,
        )
        partial.replace(path)

    def restore(self, path: Path) -> int:
        """Read what `save` wrote; returns the number of steps done."""
        state = torch.load(path, weights_only=True)
        self._model.load_state_dict(state["model"])
        self._optimizer.load_state_dict(state["optimizer"])
        return int(state["step"])

    def _balance(self, batch: Batch) -> Tensor:
        lengths = torch.tensor([span.tokens + span.skipped for span in batch.spans])
        direct = torch.tensor([span.lesson == "direct" for span in batch.spans])
        per_label = direct.repeat_interleave(lengths)
        return torch.where(per_label, self._plan.direct_weight, 1.0)

    def _set_rate(self, step: int) -> None:
        plan = self._plan
        cosine = 0.5 * (1 + math.cos(math.pi * step / plan.steps))
        share = plan.last_share + (1 - plan.last_share) * cosine
        rate = plan.peak_rate * min(1, (step + 1) / plan.warmup) * share
        for group in self._optimizer.param_groups:
            group["lr"] = rate


class _Scores:
    """Shares of the last answers predicted right, token by token, for the log."""

    def __init__(self) -> None:
        self._right: dict[tuple[str, str], deque[bool]] = defaultdict(
            lambda: deque(maxlen=_REMEMBERED)
        )
        self._losses: deque[float] = deque(maxlen=LOG_EVERY)

    def add(self, batch: Batch, right: Tensor, loss: float) -> None:
        self._losses.append(loss)
        start = 0
        for span in batch.spans:
            # A correction of the quoted reasoning comes before the answer.
            start += span.skipped
            whole = bool(right[start : start + span.tokens].all())
            self._right[span.lesson, span.kind].append(whole)
            start += span.tokens

    def __str__(self) -> str:
        lessons: dict[str, list[str]] = defaultdict(list)
        for (lesson, kind), right in sorted(self._right.items()):
            lessons[lesson].append(f"{kind} {sum(right) / len(right):.0%}")
        mean = sum(self._losses) / len(self._losses)
        shares = "; ".join(f"{lesson}: {', '.join(kinds)}" for lesson, kinds in lessons.items())
        return f"loss {mean:.3f} | {shares}"
