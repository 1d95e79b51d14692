"""Compares a backend with transformers: `python -m langgraph_mai.benchmarks.backends --help`.

On held-out questions of the demo world: are the outputs the same tokens, do the cascade's routes
match, how much of a shared prompt is reused, and what do concurrent questions gain.
"""

import argparse
import statistics
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal, cast

from ..configs import load_pair_config
from ..graph import create_mai
from ..models.pairs import Pair, load_pair
from ..models.weights import model_weights
from ..nodes.model_call import Agent, PromptStyle, task_messages
from ..nodes.prepare import read_task
from ..nodes.state import MAIInput, RunState
from ..records.record import Record, write_records
from ..records.run_record import write_run_record
from .demo_questions import demo_questions
from .parity import Difference, compare_outputs
from .prefix_reuse import Reuse, reused_share, shared_tokens
from .throughput import Round, all_at_once, one_by_one

_SEED = 33_001


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, print, and write `backends.json`."""
    options = _options(arguments)
    reference, pair = load_pair(options.reference), load_pair(options.pair)
    _check_loads(pair)
    folder = Path(tempfile.mkdtemp(prefix="langgraph-mai-questions-"))
    figures: list[Record] = []

    def add(measured: Sequence[Record]) -> None:
        figures.extend(measured)
        _show(measured)
        if options.out:
            _write(figures, options)

    _say(f"Outputs of {options.questions} questions, {options.pair} against {options.reference}")
    questions = demo_questions(folder, options.questions, _SEED)
    before = all_at_once(create_mai(reference.small, reference.large, prompts="demo"), questions)
    add(_parity(reference, pair, before, questions))

    mai = create_mai(pair.small, pair.large, prompts=pair.prompts)
    _say("Routes of the cascade, and what it reuses")
    after = one_by_one(mai, questions)
    add(_routes(before, after))
    add(_reuse(options.reference, pair, after, questions, options.block))

    _say(f"{options.rounds} rounds of {options.questions} questions, one by one and at once")
    add(_throughput(mai, folder, options.questions, options.rounds))


def _show(figures: Sequence[Record]) -> None:
    for figure in figures:
        value = "none" if figure.number is None else f"{figure.number:.4g}"
        _say(f"  {figure.name:<42} {value:>8} {figure.unit}  ({figure.questions})")


def _write(figures: Sequence[Record], options: argparse.Namespace) -> None:
    folder: Path = options.out
    folder.mkdir(parents=True, exist_ok=True)
    write_records(folder / "backends.json", figures)
    command = ["python", "-m", "langgraph_mai.benchmarks.backends", *sys.argv[1:]]
    write_run_record(folder, command=command, settings=vars(options))


def _parity(
    reference: Pair, pair: Pair, made: Round, questions: Sequence[MAIInput]
) -> list[Record]:
    """The calls that the cascade may make, on every question, on both backends."""
    figures = []
    plans: list[tuple[Literal["small", "large"], PromptStyle]] = [
        ("small", "direct"),
        ("large", "direct"),
        ("small", "reason"),
        ("large", "transfer"),
    ]
    identical = 0
    for role, style in plans:
        one, two = getattr(reference, role), getattr(pair, role)
        agent = Agent(role, one, pair.prompts)
        prompts = [
            task_messages(agent, style, read_task(cast("RunState", question)), _reasoning(result))
            for question, result in zip(questions, made.results, strict=True)
        ]
        limit = getattr(pair.prompts, style).max_tokens
        found = compare_outputs(one, two, prompts, limit)
        for difference in found:
            _say(_shown(role, style, difference))
        identical += len(prompts) - len(found)
        share = 1 - len(found) / len(prompts)
        figures.append(Record(f"identical.{role}.{style}", share, "share", questions=len(prompts)))
    total = identical / (len(plans) * len(questions))
    return [Record("identical", total, "share", questions=len(questions)), *figures]


def _reasoning(result: dict[str, Any]) -> str:
    """The reasoning of a run; some text of the same kind where both models agreed at once."""
    written = [call["text"] for call in result["calls"] if call["style"] == "reason"]
    return written[0] if written else f"I see it at once.\nAnswer: {result['answer']}"


def _routes(before: Round, after: Round) -> list[Record]:
    both = list(zip(before.results, after.results, strict=True))
    same_route = [one["route"] == two["route"] for one, two in both]
    same_answer = [one["answer"] == two["answer"] for one, two in both]
    return [
        Record("same_route", statistics.mean(same_route), "share", questions=len(both)),
        Record("same_answer", statistics.mean(same_answer), "share", questions=len(both)),
    ]


def _reuse(
    name: str, pair: Pair, made: Round, questions: Sequence[MAIInput], block: int
) -> list[Record]:
    from transformers import AutoProcessor

    reference = load_pair_config(name)
    loader: Any = AutoProcessor  # transformers leaves it untyped
    figures = []
    plans: list[tuple[Literal["small", "large"], PromptStyle]] = [
        ("small", "reason"),
        ("large", "transfer"),
    ]
    for role, style in plans:
        agent = Agent(role, getattr(pair, role), pair.prompts)
        processor = loader.from_pretrained(model_weights(getattr(reference, role).model))
        reuses = []
        for question, result in zip(questions, made.results, strict=True):
            calls = {(call["role"], call["style"]): call for call in result["calls"]}
            second = calls.get((role, style))
            if second is None:
                continue
            task = read_task(cast("RunState", question))
            first_prompt = task_messages(agent, "direct", task)
            second_prompt = task_messages(agent, style, task, _reasoning(result))
            shared = shared_tokens(processor, first_prompt, second_prompt)
            reuses.append(Reuse(shared, block, second["cached_tokens"] or 0))
        share = reused_share(reuses)
        figures.append(
            Record(f"prefix_reused.{role}.{style}", share, "share", questions=len(reuses))
        )
        tokens = statistics.mean(reuse.shared for reuse in reuses) if reuses else None
        figures.append(
            Record(f"prefix_tokens.{role}.{style}", tokens, "tokens", questions=len(reuses))
        )
    return figures


def _throughput(mai: Any, folder: Path, count: int, rounds: int) -> list[Record]:
    """Fresh questions for every measurement: a repeated one would find its prefix cached."""
    alone, together, lost = [], [], 0
    for number in range(rounds):
        seed = _SEED + 1 + 2 * number
        slow = one_by_one(mai, demo_questions(folder, count, seed))
        fast = all_at_once(mai, demo_questions(folder, count, seed + 1))
        alone.append(slow.rate)
        together.append(fast.rate)
        lost += slow.lost + fast.lost
    ratios = [fast / slow for fast, slow in zip(together, alone, strict=True)]
    return [
        Record(
            "questions_a_second.one_by_one",
            statistics.median(alone),
            "1/s",
            questions=count * rounds,
        ),
        Record(
            "questions_a_second.at_once",
            statistics.median(together),
            "1/s",
            questions=count * rounds,
        ),
        Record("speedup_at_once", statistics.median(ratios), "ratio", questions=count * rounds),
        Record("lost", lost, "questions", questions=2 * count * rounds),
    ]


def _shown(role: str, style: str, difference: Difference) -> str:
    margin = "unknown" if difference.margin is None else f"{difference.margin:.2g}"
    return (
        f"  {role} {style}, question {difference.prompt}: token {difference.token} is "
        f"{difference.reference!r} and {difference.other!r}, margin {margin}"
    )


def _check_loads(pair: Pair) -> None:
    for model in (pair.small, pair.large):
        model.load()  # type: ignore[attr-defined]  # every backend's model has it


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="langgraph_mai.benchmarks.backends", description=__doc__)
    parser.add_argument("--pair", default="demo-vllm", help="what is measured")
    parser.add_argument("--reference", default="demo", help="the same weights on transformers")
    parser.add_argument("--questions", type=_count, default=200, metavar="N")
    parser.add_argument("--rounds", type=_count, default=3, metavar="N")
    parser.add_argument(
        "--block", type=_count, default=32, help="block size of the engine's KV cache"
    )
    parser.add_argument("--out", type=Path, metavar="DIR", help="write backends.json there")
    return parser.parse_args(arguments)


def _count(text: str) -> int:
    if not text.isdigit() or int(text) == 0:
        raise argparse.ArgumentTypeError(f"must be a whole number from 1, not {text!r}")
    return int(text)


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
