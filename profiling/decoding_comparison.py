"""Table 12's form for the demo pair: the large model's reasoning, speculative decoding, MAI."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from ..answers import agree, parse
from ..demo.held_out import HeldOut, held_out
from ..nodes.accept_rate import accept_rate
from ..nodes.prepare import read_task
from ..nodes.state import RunState
from ..records.record import Record
from .strategy_timer import StrategyTimer, TimedRun, graph_input
from .tables import Table

METHODS = {
    "large_reason": "large R",
    "speculative": "speculative, large R with small as draft",
    "mai": "MAI",
}
"""The strategies, and how the table names them."""

_SEED = 52_003
_WARMUP = 2


@dataclass(frozen=True, slots=True)
class Method:
    """One way to answer, one question at a time.

    Attributes:
        strategy: Its name.
        questions: How many.
        seconds: For all of them.
        accuracy: Share answered right.
        accept_rate: Share of the draft's tokens that are in the outputs, if there is a draft.
        equal: Questions whose output is that of the large model's plain greedy decoding, where
            it should be.
    """

    strategy: str
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
            METHODS[method.strategy],
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
    return Table("decoding", "Decoding, the demo pair (Table 12)", header, rows)


def decoding_records(methods: Sequence[Method]) -> list[Record]:
    """The methods as flat figures."""
    found: list[Record] = []
    for method in methods:
        for name, value, unit in (
            ("total", method.seconds, "s"),
            ("accuracy", method.accuracy, "share"),
            ("accept_rate", method.accept_rate, "share"),
            ("equal_to_plain", method.equal, "questions"),
        ):
            if value is not None:
                figure = f"decoding.{method.strategy}.{name}"
                found.append(Record(figure, round(value, 4), unit, questions=method.questions))
    return found


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
    name: str, asked: Sequence[HeldOut], runs: Sequence[TimedRun], plain: Sequence[TimedRun]
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
