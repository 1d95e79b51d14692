"""Compares a backend with transformers: `python -m langgraph_mai.benchmarks.backends --help`.

On held-out questions of the demo world: are the outputs the same tokens, do the cascade's routes
match, how much of a shared prompt is reused, and what do concurrent questions gain.
"""

import argparse
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, median
from typing import Any, Literal

from langchain_core.messages import AIMessage

from ..graph import create_mai
from ..models.pairs import Pair, load_pair
from ..nodes.model_call import Agent, PromptStyle, agent_request
from ..nodes.prepare import read_task
from .bench import shared_length
from .datasets import load_shapes
from .evaluation.results import Result, graph_input
from .evaluation.timed import TimedRun, time_strategies
from .question import BenchmarkQuestion
from .records import Record, write_records, write_run_record

_SEED = 33_001

Role = Literal["small", "large"]
_SECOND_CALLS: tuple[tuple[Role, PromptStyle], ...] = (("small", "reason"), ("large", "transfer"))
_CALLS: tuple[tuple[Role, PromptStyle], ...] = (
    ("small", "direct"),
    ("large", "direct"),
    *_SECOND_CALLS,
)


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, print, and write `backends.json`."""
    options = _options(arguments)
    reference, pair = load_pair(options.reference), load_pair(options.pair)
    for model in (pair.small, pair.large):
        model.load()  # type: ignore[attr-defined]  # every backend's model has it
    folder = Path(tempfile.mkdtemp(prefix="langgraph-mai-questions-"))
    figures: list[Record] = []

    def add(measured: Iterator[Record]) -> None:
        for figure in measured:
            figures.append(figure)
            value = "none" if figure.number is None else f"{figure.number:.4g}"
            _print(f"  {figure.name:<42} {value:>8} {figure.unit}  ({figure.questions})")
        if options.out:
            options.out.mkdir(parents=True, exist_ok=True)
            write_records(options.out / "backends.json", figures)
            command = ["python", "-m", "langgraph_mai.benchmarks.backends", *sys.argv[1:]]
            write_run_record(options.out, command=command, settings=vars(options))

    _print(f"Outputs of {options.questions} questions, {options.pair} against {options.reference}")
    questions = load_shapes(options.questions, folder, _SEED).questions
    before = _run(reference, questions, len(questions)).results
    add(_parity(reference, pair, before, questions))
    _print("Routes of the cascade, and what it reuses")
    after = _run(pair, questions, 1).results
    add(_routes(before, after))
    add(_reuse(pair, after, questions, options.block))
    _print(f"{options.rounds} rounds of {options.questions} questions, one by one and concurrently")
    add(_throughput(pair, folder, options.questions, options.rounds))


@dataclass(frozen=True, slots=True)
class Difference:
    """Where two outputs for one prompt part.

    Attributes:
        token: Place of the first token that differs, from 0.
        reference: The reference's token; None if its output had ended.
        other: The other backend's token.
        margin: The other backend's log probability of its likeliest token less that of the next
            one, at that place: near 0, rounding decides. None where its output had ended.
    """

    token: int
    reference: str | None
    other: str | None
    margin: float | None


def first_difference(reference: AIMessage, other: AIMessage) -> Difference | None:
    """Return where two outputs with log probabilities part; None if they are equal."""
    ours, theirs = _tokens(reference), _tokens(other)
    for place in range(max(len(ours), len(theirs))):
        one = ours[place] if place < len(ours) else None
        two = theirs[place] if place < len(theirs) else None
        if one and two and one["token"] == two["token"]:
            continue
        margin = None
        if two and len(two["top_logprobs"]) > 1:
            first, second = (float(top["logprob"]) for top in two["top_logprobs"][:2])
            margin = first - second
        ours_is, theirs_is = (entry["token"] if entry else None for entry in (one, two))
        return Difference(place, ours_is, theirs_is, margin)
    return None


@dataclass(frozen=True, slots=True)
class Reuse:
    """Two calls whose prompts begin alike.

    Attributes:
        shared: Tokens that the two prompts have in common from the start, images included.
        block: Tokens of one block of the engine's KV cache; only whole blocks are reused.
        cached: Tokens of the second prompt that the engine did not compute.
    """

    shared: int
    block: int
    cached: int

    @property
    def reusable(self) -> int:
        """Tokens in the full blocks of the shared prefix."""
        return self.shared // self.block * self.block


def reused_share(pairs: Sequence[Reuse]) -> float | None:
    """Return cached tokens over those in the full blocks of shared prefixes; None without any."""
    reusable = sum(pair.reusable for pair in pairs)
    if not reusable:
        return None
    # What lies beyond the shared prefix was reused from some other call.
    return sum(min(pair.cached, pair.reusable) for pair in pairs) / reusable


def _run(pair: Pair, questions: Sequence[BenchmarkQuestion], concurrency: int) -> TimedRun:
    graphs = {"mai": create_mai(pair.small, pair.large, prompts=pair.prompts)}
    (run,) = time_strategies(
        graphs,
        questions,
        models=(pair.small, pair.large),
        concurrency=concurrency,
        turn=len(questions),
    )
    return run


def _prompt(
    pair: Pair, role: Role, style: PromptStyle, question: BenchmarkQuestion, result: Result
) -> Any:
    """Return the messages of a call that the cascade may make.

    Where both models agreed at once, some text of the same kind stands for the reasoning.
    """
    texts = [call["text"] for call in result["calls"] if call["style"] == "reason"]
    reasoning = texts[0] if texts else f"I see it at once.\nAnswer: {result['answer']}"
    task = read_task(dict(graph_input(question)))  # type: ignore[arg-type]
    agent = Agent(role, getattr(pair, role), pair.prompts)
    return agent_request(agent, style, task, reasoning if style == "transfer" else "").messages


def _parity(
    reference: Pair, pair: Pair, results: Sequence[Result], questions: Sequence[BenchmarkQuestion]
) -> Iterator[Record]:
    """Compare the calls that the cascade may make, on every question, greedily on both backends."""
    count, identical = len(questions), 0
    figures = []
    for role, style in _CALLS:
        settings: dict[str, Any] = {
            "max_tokens": getattr(pair.prompts, style).max_tokens,
            "logprobs": True,
        }
        prompts = [
            _prompt(pair, role, style, question, result)
            for question, result in zip(questions, results, strict=True)
        ]
        ours = getattr(reference, role).batch(prompts, **settings)
        theirs = getattr(pair, role).batch(prompts, **settings, top_logprobs=2)
        equal = 0
        for number, both in enumerate(zip(ours, theirs, strict=True)):
            found = first_difference(*both)
            equal += found is None
            if found is not None:
                margin = "unknown" if found.margin is None else f"{found.margin:.2g}"
                _print(
                    f"  {role} {style}, question {number}: token {found.token} is "
                    f"{found.reference!r} and {found.other!r}, margin {margin}"
                )
        identical += equal
        name = f"identical.{role}.{style}"
        figures.append(Record(name, equal / count, "share", questions=count))
    yield Record("identical", identical / (len(_CALLS) * count), "share", questions=count)
    yield from figures


def _tokens(message: AIMessage) -> list[dict[str, Any]]:
    """Return a message's tokens as far as its text goes; some servers list the end token too."""
    entries: list[dict[str, Any]] = message.response_metadata["logprobs"]["content"]
    text = str(message.text)
    while entries and not text.endswith(entries[-1]["token"]):
        entries = entries[:-1]
    return entries


def _routes(before: Sequence[Result], after: Sequence[Result]) -> Iterator[Record]:
    both = list(zip(before, after, strict=True))
    routes = fmean(one["route"] == two["route"] for one, two in both)
    answers = fmean(one["answer"] == two["answer"] for one, two in both)
    yield Record("same_route", routes, "share", questions=len(both))
    yield Record("same_answer", answers, "share", questions=len(both))


def _reuse(
    pair: Pair, results: Sequence[Result], questions: Sequence[BenchmarkQuestion], block: int
) -> Iterator[Record]:
    for role, style in _SECOND_CALLS:
        token_ids = getattr(pair, role).prompt_token_ids
        reuses = []
        for question, result in zip(questions, results, strict=True):
            for call in result["calls"]:
                if (call["role"], call["style"]) != (role, style):
                    continue
                first = token_ids(_prompt(pair, role, "direct", question, result))
                second = token_ids(_prompt(pair, role, style, question, result))
                shared = shared_length(first, second)
                reuses.append(Reuse(shared, block, call["cached_tokens"] or 0))
        count = len(reuses)
        tokens = fmean(reuse.shared for reuse in reuses) if reuses else None
        share = reused_share(reuses)
        yield Record(f"prefix_reused.{role}.{style}", share, "share", questions=count)
        yield Record(f"prefix_tokens.{role}.{style}", tokens, "tokens", questions=count)


def _throughput(pair: Pair, folder: Path, count: int, rounds: int) -> Iterator[Record]:
    """Time fresh questions in every round: a repeated one would find its prefix cached."""
    alone: list[float] = []
    together: list[float] = []
    lost = 0
    for number in range(rounds):
        for rates, concurrency, seed in ((alone, 1, 1), (together, count, 2)):
            questions = load_shapes(count, folder, _SEED + 2 * number + seed).questions
            run = _run(pair, questions, concurrency)
            rates.append(count / run.seconds)
            lost += sum(result["error"] is not None for result in run.results)
    ratios = [fast / slow for fast, slow in zip(together, alone, strict=True)]
    for name, values, unit in (
        ("questions_a_second.one_by_one", alone, "1/s"),
        ("questions_a_second.at_once", together, "1/s"),
        ("speedup_at_once", ratios, "ratio"),
    ):
        yield Record(name, median(values), unit, questions=count * rounds)
    yield Record("lost", lost, "questions", questions=2 * count * rounds)


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


def _print(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
