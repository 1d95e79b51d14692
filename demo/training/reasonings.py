"""What the small model really writes about the large model's pictures, right and wrong."""

import pickle
from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random
from typing import Any

import torch
from PIL import Image
from transformers import Qwen3VLForConditionalGeneration

from ...configs import load_prompts
from ..questions import CHART_KINDS, GRID_KINDS, Question, ask, solve
from ..scenes import Chart
from .checkpoint import build_processor
from .examples import Reasoning, styled_prompt
from .forward import DemoModel
from .pools import Pool

_BATCH = 192


def write_reasonings(
    checkpoint: Path, pool: Pool, out: Path, count: int, seed: int, log: Callable[[str], None]
) -> None:
    """Let a trained model reason about `count` random questions of a pool and keep the texts.

    Every other batch is sampled at temperature 1, for more mistakes than the greedy texts hold.
    """
    rng = Random(seed)
    torch.manual_seed(seed)
    model: DemoModel = Qwen3VLForConditionalGeneration.from_pretrained(
        checkpoint, dtype=torch.float32
    )
    model.eval()
    processor: Any = build_processor()
    prompts = load_prompts("demo")
    asked = [_random_question(pool, rng) for _ in range(count)]
    # Texts of one length together: less is computed for padding.
    asked.sort(key=lambda pair: (isinstance(pool.scenes[pair[0]], Chart), len(pair[1].text)))
    written: list[Reasoning] = []
    for number, start in enumerate(range(0, count, _BATCH)):
        batch = asked[start : start + _BATCH]
        texts = generate(
            model,
            processor,
            [Image.fromarray(pool.pictures[index]) for index, _ in batch],
            [styled_prompt(prompts, question, "reason", rng) for _, question in batch],
            prompts.reason.max_tokens,
            sampled=number % 2 == 1,
        )
        for (index, question), text in zip(batch, texts, strict=True):
            truth = solve(pool.scenes[index], question).direct
            wrong = text.rpartition("Answer:")[2].strip() != truth
            written.append(Reasoning(index, question, text, wrong))
        if number % 10 == 0:
            wrong_share = sum(reasoning.wrong for reasoning in written) / len(written)
            log(f"reasonings {len(written)}/{count} wrong {wrong_share:.1%}")
    partial = out.with_suffix(".partial")
    partial.write_bytes(pickle.dumps(written))
    partial.replace(out)


def load_reasonings(path: Path) -> list[Reasoning]:
    """Read what `write_reasonings` wrote."""
    reasonings: list[Reasoning] = pickle.loads(path.read_bytes())
    return reasonings


@torch.no_grad()
def generate(
    model: DemoModel,
    processor: Any,
    pictures: Sequence[Image.Image],
    texts: Sequence[str],
    max_tokens: int,
    sampled: bool = False,
) -> list[str]:
    """Greedy or sampled answers to one text about each picture, in one padded batch.

    Args:
        model: The model, in evaluation mode.
        processor: Its processor.
        pictures: One picture a text.
        texts: The user's texts.
        max_tokens: Limit on each answer.
        sampled: Whether to draw tokens at temperature 1 instead of taking the likeliest.
    """
    conversations = [
        [
            {
                "role": "user",
                "content": [{"type": "image", "image": picture}, {"type": "text", "text": text}],
            }
        ]
        for picture, text in zip(pictures, texts, strict=True)
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


def _random_question(pool: Pool, rng: Random) -> tuple[int, Question]:
    question = None
    while question is None:
        index = rng.randrange(len(pool.scenes))
        kinds = CHART_KINDS if isinstance(pool.scenes[index], Chart) else GRID_KINDS
        question = ask(pool.scenes[index], rng.choice(kinds), rng)
    return index, question
