"""What is learnt in which order: image pools, vision towers, language models, real reasonings."""

import pickle
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image
from transformers import Qwen3VLForConditionalGeneration

from ...configs import load_prompts
from ..questions import CHART_KINDS, Kind
from ..scenes import SIZE, Scene, draw, sample_scene
from ..solutions import solve
from .batches import Mix
from .checkpoint import Role, build_model, build_processor, save_release, warm_start
from .examples import Reasoning, Tutor, final, styled_prompt
from .forward import DemoModel
from .language_stage import LanguagePlan, train_language
from .vision_stage import VisionPlan, train_vision

_BATCH = 192


class Plan(NamedTuple):
    """How one model of the pair is trained.

    Attributes:
        images: Images that it learns from. The two models learn from different ones, so that they
            do not make the same mistakes.
        vision: Its vision tower, if it does not start from another pair's.
        language: Its language model.
        checking: Its language model once more, on real reasonings of the small model.
        reasonings: How many of them.
    """

    images: int
    vision: VisionPlan
    language: LanguagePlan
    checking: LanguagePlan | None = None
    reasonings: int = 0


_SEEDS: dict[Role, int] = {"small": 101, "large": 202}
_CHARTS: dict[Kind, float] = dict.fromkeys(CHART_KINDS, 0.4)
_KINDS: dict[Kind, float] = {
    "walks": 6.0,
    "choice": 1.5,
    "count": 1.0,
    "compare": 0.8,
    "exist": 0.5,
    "attribute": 0.7,
    "form": 0.9,
    **_CHARTS,
}
_SEEING = Mix(0, {"list": 0.5, "reason": 0.5}, _KINDS)
# Beside other kinds, walks are not learnt at all; once they are, the others come quickly.
_WALKING = Mix(0, {"reason": 0.85, "transfer": 0.15}, {**_KINDS, "walks": 100.0})
_SMALL = {"reason": 0.82, "transfer": 0.13, "explain": 0.05}
_CHECKING = Mix(1, {"reason": 0.5, "transfer": 0.45, "explain": 0.05}, _KINDS, 0.5)
PLANS: dict[Role, Plan] = {
    "small": Plan(
        images=32_000,
        vision=VisionPlan(1400),
        language=LanguagePlan(
            steps=5000,
            mixes=((0, _SEEING), (600, _WALKING), (1800, Mix(1, _SMALL, _KINDS, 0.4, 1.0, 0.0))),
            wrong_share=0.3,
        ),
    ),
    "large": Plan(
        images=36_000,
        vision=VisionPlan(1600),
        language=LanguagePlan(
            steps=4200,
            mixes=((0, _SEEING), (500, _WALKING), (1700, _CHECKING)),
            peak_rate=1.2e-3,
            last_share=0.5,
        ),
        checking=LanguagePlan(steps=3000, mixes=((0, _CHECKING),), peak_rate=1.2e-3),
        reasonings=24_000,
    ),
}
"""A pair from nothing."""
# What the pair from before was weak in: letters of choices, forms, explaining.
_WEAK: dict[Kind, float] = {**_KINDS, "choice": 5.0, "form": 1.5}
_FURTHER = Mix(2, {"reason": 0.45, "transfer": 0.45, "explain": 0.1}, _WEAK, 0.7)
FURTHER: dict[Role, Plan] = {
    "small": PLANS["small"]._replace(
        language=LanguagePlan(
            steps=900,
            mixes=((0, Mix(1, _SMALL, {**_WEAK, "walks": 3.0}, 0.4, 1.0, 0.0)),),
            wrong_share=0.3,
            peak_rate=8e-4,
            save_every=200,
        ),
    ),
    "large": PLANS["large"]._replace(
        language=LanguagePlan(
            steps=500, mixes=((0, _FURTHER),), peak_rate=8e-4, last_share=0.8, save_every=200
        ),
        checking=LanguagePlan(steps=800, mixes=((0, _FURTHER),), peak_rate=8e-4, save_every=200),
        reasonings=9_600,
    ),
}
"""A trained pair further, on what it is weak in and on real reasonings."""


def log(line: str) -> None:
    """Print a line of progress with the time of day."""
    print(time.strftime("%H:%M:%S"), line, flush=True)  # noqa: T201


def train(folder: Path, plans: Mapping[Role, Plan], start: Path | None = None) -> None:
    """Train both models, side by side, a core each; what `folder` holds is not made again.

    Args:
        folder: Receives everything; the finished pair lies in `folder`/release/small and /large.
        plans: How to train each model.
        start: Folder of a pair whose vision towers are kept and whose language models are
            trained further; None trains from nothing.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as pool:
        missing = [role for role in plans if not (folder / role).exists()]
        list(pool.map(partial(_learn, folder, plans, start), missing))
    _check(folder, plans["large"])
    finished: dict[Role, str] = {"small": "small", "large": "large_checking"}
    for role, name in finished.items():
        save_release(_load(folder / name), folder / "release" / role)


def _learn(folder: Path, plans: Mapping[Role, Plan], start: Path | None, role: Role) -> None:
    """See and answer, all but checking real reasonings."""
    torch.set_num_threads(1)
    plan, seed = plans[role], _SEEDS[role]
    scenes, images = image_pool(folder / f"pool_{role}.npy", plan.images, seed)
    vision = folder / f"vision_{role}"
    if start is not None and not vision.exists():
        warm_start(role, start / role, seed).save_pretrained(vision)
    if not vision.exists():
        train_vision(build_model(role, seed), scenes, images, vision, plan.vision, seed, log)
    model = _load(vision)
    train_language(model, scenes, images, folder / role, plan.language, seed + 1, log)


def _check(folder: Path, plan: Plan) -> None:
    """Train the large model on what the small one really writes about the large one's images."""
    seed, out = _SEEDS["large"], folder / "large_checking"
    if out.exists() or plan.checking is None:
        return
    scenes, images = image_pool(folder / "pool_large.npy", plan.images, seed)
    written = folder / "reasonings.pkl"
    if not written.exists():
        small: DemoModel = _load(folder / "small")
        texts = write_reasonings(small.eval(), Tutor(scenes), images, plan.reasonings, seed)
        written.write_bytes(pickle.dumps(texts))
    real = pickle.loads(written.read_bytes())
    model = _load(folder / "large")
    train_language(model, scenes, images, out, plan.checking, seed + 2, log, real)


def _load(folder: Path) -> Qwen3VLForConditionalGeneration:
    model: Qwen3VLForConditionalGeneration = Qwen3VLForConditionalGeneration.from_pretrained(
        folder, dtype=torch.float32
    )
    return model


def image_pool(path: Path, count: int, seed: int) -> tuple[list[Scene], NDArray[np.uint8]]:
    """Return scenes and their images [N, SIZE, SIZE, 3], drawn unless `path` holds them.

    The images stay on disk until they are used.
    """
    scenes_path = path.with_suffix(".pkl")
    if not path.exists():
        rng = Random(seed)
        scenes = [sample_scene(rng) for _ in range(count)]
        drawn = np.zeros((count, SIZE, SIZE, 3), np.uint8)
        for number, scene in enumerate(scenes):
            drawn[number] = np.asarray(draw(scene, rng))
        scenes_path.write_bytes(pickle.dumps(scenes))
        partly = path.with_suffix(".partial.npy")
        np.save(partly, drawn)
        partly.replace(path)
    return pickle.loads(scenes_path.read_bytes()), np.load(path, mmap_mode="r")


def write_reasonings(
    small: DemoModel, tutor: Tutor, images: NDArray[np.uint8], count: int, seed: int
) -> list[Reasoning]:
    """Return what a trained small model writes about `count` random questions of a pool.

    Every other batch is sampled at temperature 1, for more mistakes than the greedy texts hold.

    Args:
        small: The model, in evaluation mode.
        tutor: Asks the questions.
        images: The pool's images [N, SIZE, SIZE, 3].
        count: How many.
        seed: Decides questions and samples.
    """
    rng = Random(seed)
    torch.manual_seed(seed)
    processor, prompts = build_processor(), load_prompts("demo")
    asked = [tutor.pick(_KINDS, rng) for _ in range(count)]
    # Texts of one length together: less is computed for padding.
    asked.sort(key=lambda pair: (pair[1].kind, len(pair[1].text)))
    written: list[Reasoning] = []
    for number, start in enumerate(range(0, count, _BATCH)):
        batch = asked[start : start + _BATCH]
        texts = generate(
            small,
            processor,
            [Image.fromarray(images[index]) for index, _ in batch],
            [styled_prompt(prompts, question, "reason", rng) for _, question in batch],
            prompts.reason.max_tokens,
            sampled=number % 2 == 1,
        )
        for (index, question), text in zip(batch, texts, strict=True):
            wrong = final(text) != solve(tutor.scene(index), question).direct
            written.append(Reasoning(index, question, text, wrong))
        if number % 10 == 0:
            wrong_share = sum(one.wrong for one in written) / len(written)
            log(f"reasonings {len(written)}/{count} wrong {wrong_share:.1%}")
    return written


@torch.no_grad()
def generate(
    model: DemoModel,
    processor: Any,
    images: Sequence[Image.Image],
    texts: Sequence[str],
    max_tokens: int,
    sampled: bool = False,
) -> list[str]:
    """Return greedy or sampled answers to one text about each image, in one padded batch.

    Args:
        model: The model, in evaluation mode.
        processor: Its processor.
        images: One image per text.
        texts: The user's texts.
        max_tokens: Limit on each answer.
        sampled: Whether to draw tokens at temperature 1 instead of taking the likeliest.
    """
    conversations = [
        [
            {
                "role": "user",
                "content": [{"type": "image", "image": image}, {"type": "text", "text": text}],
            }
        ]
        for image, text in zip(images, texts, strict=True)
    ]
    inputs: Any = processor.apply_chat_template(
        conversations,
        tokenize=True,
        add_generation_prompt=True,
        return_dict=True,
        return_tensors="pt",
        processor_kwargs={"padding": True},
    )
    output = model.generate(**inputs, max_new_tokens=max_tokens, do_sample=sampled)
    fresh = output[:, inputs["input_ids"].shape[1] :]
    return [text.strip() for text in processor.batch_decode(fresh, skip_special_tokens=True)]
