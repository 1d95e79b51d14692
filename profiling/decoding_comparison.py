"""Times the demo pair's ways to answer: the large model's reasoning, speculative decoding, MAI."""

from collections.abc import Sequence
from pathlib import Path
from typing import cast

from ..answers import agree, parse
from ..demo.held_out import HeldOut, held_out
from ..nodes.model_call import accept_rate
from ..nodes.prepare import read_task
from ..nodes.state import RunState
from .decoding_results import METHODS, Method, Strategy
from .strategy_timer import StrategyTimer, TimedRun, graph_input

_SEED = 52_003
_WARMUP = 2


def compare_decoding(questions: int, folder: Path) -> list[Method]:
    """Answer questions of the demo world in three ways, in turns, each from a cold start.

    Args:
        questions: How many.
        folder: Where pictures are written.
    """
    timer = StrategyTimer(tuple(METHODS))
    items = held_out(folder, questions + _WARMUP, _SEED)
    turns = [{name: timer.run(name, graph_input(item)) for name in METHODS} for item in items]
    asked, timed = items[_WARMUP:], turns[_WARMUP:]
    plain = [turn["large_reason"] for turn in timed]
    return [_method(name, asked, [turn[name] for turn in timed], plain) for name in METHODS]


def _method(
    name: Strategy, asked: Sequence[HeldOut], runs: Sequence[TimedRun], plain: Sequence[TimedRun]
) -> Method:
    same = sum(_written(one) == _written(other) for one, other in zip(runs, plain, strict=True))
    right = sum(_is_right(item, run.answer) for item, run in zip(asked, runs, strict=True))
    return Method(
        strategy=name,
        questions=len(runs),
        seconds=sum(run.seconds for run in runs),
        accuracy=right / len(runs),
        accept_rate=accept_rate(call for run in runs for call in run.calls),
        equal=same if name == "speculative" else None,
    )


def _written(run: TimedRun) -> tuple[str, int | None]:
    call = run.calls[-1]
    return call["text"], call["output_tokens"]


def _is_right(item: HeldOut, text: str) -> bool:
    question = item.question
    kind = read_task(cast("RunState", graph_input(item)))["answer_type"]
    given = parse(text, kind, question.choices, question.text)
    expected = parse(item.answer, kind, question.choices, question.text)
    return agree(given, expected) == "agree"
