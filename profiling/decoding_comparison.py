"""Table 12's form for the demo pair: the large model's reasoning, speculative decoding, MAI."""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import torch

from ..answers import agree, parse
from ..demo.held_out import HeldOut, held_out
from ..graph import create_strategy
from ..models.chat_format import chat_turns
from ..models.images import block_image
from ..models.pairs import Pair, load_pair
from ..models.transformers.checkpoint import load_checkpoint
from ..models.transformers.loaded_models import gate
from ..models.transformers.model_spec import ModelSpec
from ..models.weights import model_weights
from ..nodes.model_call import Agent, task_messages
from ..nodes.prepare import read_task
from ..nodes.state import MAIInput, RunState
from ..records.record import Record
from .speculative import AHEAD, SpeculativeDecoder
from .tables import Table

_SEED = 52_003
_WARMUP = 2


@dataclass(frozen=True, slots=True)
class Method:
    """One way to answer, one question at a time.

    Attributes:
        name: As the paper's Table 12 names it.
        questions: How many.
        seconds: For all of them.
        accuracy: Share answered right.
        accept_rate: Share of the draft's tokens that the large model kept, if there is a draft.
        equal: Questions whose output is that of the large model's plain greedy decoding, where
            it should be.
    """

    name: str
    questions: int
    seconds: float
    accuracy: float
    accept_rate: float | None = None
    equal: int | None = None


def decoding_table(methods: Sequence[Method]) -> Table:
    """The methods in the form of Table 12."""
    header = ["method", "backend", "batch", "accept rate", "total (s)", "s a question", "speedup"]
    header += ["accuracy", "equal to plain greedy"]
    rows = [
        [
            method.name,
            "transformers",
            "1",
            "" if method.accept_rate is None else f"{method.accept_rate:.1%}",
            f"{method.seconds:.2f}",
            f"{method.seconds / method.questions:.3f}",
            f"{methods[0].seconds / method.seconds:.2f}",
            f"{method.accuracy:.1%}",
            "" if method.equal is None else f"{method.equal} of {method.questions}",
        ]
        for method in methods
    ]
    return "Decoding, the demo pair (Table 12)", header, rows


def decoding_records(methods: Sequence[Method]) -> list[Record]:
    """The methods as flat figures."""
    found = []
    for key, method in zip(("large_reason", "speculative", "mai"), methods, strict=True):
        for name, value, unit in (
            ("total", method.seconds, "s"),
            ("accuracy", method.accuracy, "share"),
            ("accept_rate", method.accept_rate, "share"),
            ("equal_to_plain", method.equal, "questions"),
        ):
            if value is not None:
                figure = f"decoding.{key}.{name}"
                found.append(Record(figure, round(value, 4), unit, questions=method.questions))
    return found


@dataclass(slots=True)
class _Tally:
    seconds: float = 0.0
    right: int = 0
    equal: int = 0
    drafted: int = 0
    accepted: int = 0


def compare_decoding(questions: int, folder: Path, ahead: int = AHEAD) -> list[Method]:
    """Answer questions of the demo world in three ways, in turns.

    The first two run the same loop, with and without a draft, so that only the draft differs; MAI
    is the graph. Every prompt is the graph's own.

    Args:
        questions: How many.
        folder: Where pictures are written.
        ahead: Tokens that the draft writes before the large model reads them.
    """
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # as the package's own engine computes with models this small
    try:
        return _timed(questions, folder, ahead)
    finally:
        torch.set_num_threads(threads)


def _timed(questions: int, folder: Path, ahead: int) -> list[Method]:
    pair = load_pair("demo")
    small, large = (_checkpoint(name) for name in ("demo:small", "demo:large"))
    alone, drafted = SpeculativeDecoder(large), SpeculativeDecoder(large, small, ahead)
    mai = create_strategy("mai", pair.small, pair.large, prompts=pair.prompts)
    plain, speculative, cascade = _Tally(), _Tally(), _Tally()
    for turn, item in enumerate(held_out(folder, questions + _WARMUP, _SEED)):
        if turn == _WARMUP:
            plain, speculative, cascade = _Tally(), _Tally(), _Tally()
        prompt = _prompt(pair, item)
        written = alone.write(*prompt)
        _count(plain, item, written.text, written.seconds)
        guessed = drafted.write(*prompt)
        _count(speculative, item, guessed.text, guessed.seconds)
        speculative.equal += guessed.tokens == written.tokens
        speculative.drafted += guessed.drafted
        speculative.accepted += guessed.accepted
        begun = time.perf_counter()
        answer = mai.invoke(_question(item))["answer"]
        _count(cascade, item, answer, time.perf_counter() - begun)
    rate = speculative.accepted / speculative.drafted if speculative.drafted else None
    return [
        Method("large R", questions, plain.seconds, plain.right / questions),
        Method(
            "speculative, large R with small as draft",
            questions,
            speculative.seconds,
            speculative.right / questions,
            rate,
            speculative.equal,
        ),
        Method("MAI", questions, cascade.seconds, cascade.right / questions),
    ]


def _checkpoint(name: str) -> Any:
    return load_checkpoint(ModelSpec(model_weights(name), dtype="float32", device="cpu"), gate)


def _question(item: HeldOut) -> MAIInput:
    return {
        "question": item.question.text,
        "images": [item.image],
        "choices": list(item.question.choices),
        "answer_type": item.question.answer_type,
    }


def _prompt(pair: Pair, item: HeldOut) -> tuple[Any, Any, int]:
    """The graph's own prompt for a reasoning, and its limit."""
    agent = Agent("large", pair.large, pair.prompts)
    messages = task_messages(agent, "reason", read_task(cast("RunState", _question(item))))
    turns, pictures = chat_turns(messages, block_image)
    return turns, pictures, pair.prompts.reason.max_tokens


def _count(tally: _Tally, item: HeldOut, text: str, seconds: float) -> None:
    question = item.question
    kind = read_task(cast("RunState", _question(item)))["answer_type"]
    given = parse(text, kind, question.choices, question.text)
    expected = parse(item.answer, kind, question.choices, question.text)
    tally.seconds += seconds
    tally.right += agree(given, expected) == "agree"
