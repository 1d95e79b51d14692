"""Measures a demo pair: `python -m langgraph_mai.demo.evaluation --out DIR`.

Every call goes through the graph's own prompts, models and parsing; calls already in DIR are not
made again. The first questions also run through `create_mai` itself, to prove that the figures are
those of the graph.
"""

import argparse
import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, Literal

from langchain_core.messages import AIMessage

from ..configs import load_prompts
from ..configs.files import write_whole
from ..graph import create_mai
from ..models.transformers.chat import ChatTransformers
from ..nodes.caller import Reply
from ..nodes.model_call import Agent, PromptStyle, agent_request, record
from ..nodes.state import ModelCall, Task
from .figures import CALLS, Answered, Figure, accuracies, by_kind, targets
from .held_out import COUNT, REPORT_SEED, HeldOut, held_out

_BATCH = 64
_PROVEN = 150


def evaluate(
    small: Path, large: Path, items: Sequence[HeldOut], out: Path, calls: Sequence[str] = CALLS
) -> list[Answered]:
    """Make the calls on every question, or read those that `out` already holds.

    Args:
        small: Checkpoint of the small model.
        large: Checkpoint of the large model.
        items: The questions.
        out: Folder for one file a call, NAME.json.
        calls: Which calls to make, in an order that makes a reasoning before its transfer.
    """
    out.mkdir(parents=True, exist_ok=True)
    agents = {"small": _agent("small", small), "large": _agent("large", large)}
    tasks = [_task(item) for item in items]
    made: dict[str, list[ModelCall]] = {}
    for name in calls:
        role, style, source = _PLAN[name]
        path = out / f"{name}.json"
        if path.exists():
            made[name] = json.loads(path.read_text())
            continue
        reasonings = [call["text"] for call in made[source]] if source else [""] * len(tasks)
        made[name] = _answers(agents[role], style, tasks, reasonings)
        write_whole(path, json.dumps(made[name], indent=0))
        print(f"{name}: {len(tasks)} calls", flush=True)  # noqa: T201
    return [
        Answered(item, {name: made[name][index] for name in made})
        for index, item in enumerate(items)
    ]


def claim(out: Path, small: Path, large: Path, count: int, seed: int) -> None:
    """Note in `out` what is measured there, so that no calls of another pair or set are mixed in.

    Raises:
        SystemExit: The folder holds the calls of something else.
    """
    weights = [
        hashlib.sha256((checkpoint / "model.safetensors").read_bytes()).hexdigest()
        for checkpoint in (small, large)
    ]
    wanted = {"weights": weights, "count": count, "seed": seed}
    path = out / "measured.json"
    if path.exists() and json.loads(path.read_text()) != wanted:
        raise SystemExit(
            f"{out} holds the calls of another pair, count or seed; name a new folder."
        )
    write_whole(path, json.dumps(wanted, indent=1))


def prove(small: Path, large: Path, answered: Sequence[Answered]) -> None:
    """Run questions through the graph and hold its answers and routes against the figures'.

    Raises:
        RuntimeError: The graph answered another way.
    """
    mai = create_mai(_model(small), _model(large), prompts="demo")
    for one in answered:
        result = mai.invoke(_graph_input(one.item))
        expected = one.calls[one.cascade()]["answer"]
        if (result["route"], result["answer"]) != (one.route(), expected):
            raise RuntimeError(
                f"question {one.item.number}: the graph gives {result['answer']!r} by route "
                f"{result['route']}, the recorded calls {expected!r} by {one.route()}"
            )


def markdown(answered: Sequence[Answered], aims: Sequence[Figure], rates: Sequence[Figure]) -> str:
    """The figures as Markdown tables.

    Args:
        answered: The questions with their calls.
        aims: What `targets` says of them.
        rates: What `accuracies` says of them.
    """
    lines = ["| what | value | 95% interval | target | met |", "|---|---|---|---|---|"]
    for figure in aims:
        met = {True: "yes", False: "**no**", None: ""}[figure.met]
        lines.append(
            f"| {figure.name} | {_value(figure)} | {_interval(figure)} | {figure.target} | {met} |"
        )
    lines += ["", "| call | right | 95% interval | output tokens |", "|---|---|---|---|"]
    for figure in rates:
        lines.append(
            f"| {figure.name} | {_value(figure)} | {_interval(figure)} | "
            f"{_tokens(answered, figure.name)} |"
        )
    kinds = by_kind(answered)
    names = [
        "small_direct",
        "small_reason",
        "large_direct",
        "large_reason",
        "large_transfer",
        "mai",
    ]
    lines += ["", f"| kind | {' | '.join(names)} |", "|---|" + "---|" * len(names)]
    for kind, figures in kinds.items():
        shown = {figure.name: f"{figure.value:.1f}" for figure in figures}
        lines.append(f"| {kind} | {' | '.join(shown[name] for name in names)} |")
    return "\n".join(lines) + "\n"


_PLAN: dict[str, tuple[str, PromptStyle, str | None]] = {
    "small_direct": ("small", "direct", None),
    "small_explain": ("small", "explain", None),
    "small_reason": ("small", "reason", None),
    "large_direct": ("large", "direct", None),
    "large_explain": ("large", "explain", None),
    "large_reason": ("large", "reason", None),
    "small_transfer": ("small", "transfer", "small_reason"),
    "large_two_stage": ("large", "transfer", "large_reason"),
    "large_transfer": ("large", "transfer", "small_reason"),
}


def _agent(role: Literal["small", "large"], checkpoint: Path) -> Agent:
    return Agent(role, _model(checkpoint), load_prompts("demo"))


def _model(checkpoint: Path) -> ChatTransformers:
    return ChatTransformers(model=str(checkpoint), dtype="float32", device="cpu", batch_size=_BATCH)


def _task(item: HeldOut) -> Task:
    question = item.question
    return {
        "question": question.text,
        "images": [item.image],
        "choices": list(question.choices),
        "answer_type": question.answer_type,  # type: ignore[typeddict-item]
        "digests": [],
    }


def _graph_input(item: HeldOut) -> Any:
    task = _task(item)
    return {key: task[key] for key in ("question", "images", "choices", "answer_type")}


def _answers(
    agent: Agent, style: PromptStyle, tasks: Sequence[Task], reasonings: Sequence[str]
) -> list[ModelCall]:
    # Prompts of one length together: less is computed for padding.
    order = sorted(range(len(tasks)), key=lambda k: (len(reasonings[k]), len(tasks[k]["question"])))
    calls: dict[int, ModelCall] = {}
    for start in range(0, len(order), _BATCH):
        batch = order[start : start + _BATCH]
        requests = [agent_request(agent, style, tasks[k], reasonings[k]) for k in batch]
        replies: list[AIMessage] = agent.model.batch(
            [request.messages for request in requests], max_tokens=requests[0].max_tokens
        )
        for k, message in zip(batch, replies, strict=True):
            seconds = float(message.response_metadata["seconds"])
            calls[k] = record(agent.role, style, Reply(seconds, message), tasks[k])
    return [calls[k] for k in range(len(tasks))]


def _value(figure: Figure) -> str:
    return f"{figure.value:.1f} {figure.unit}" + (
        f" of {figure.questions}" if figure.unit == "%" else ""
    )


def _interval(figure: Figure) -> str:
    return "" if figure.low == figure.high else f"{figure.low:.1f} to {figure.high:.1f}"


def _tokens(answered: Sequence[Answered], name: str) -> str:
    if name not in CALLS:
        return ""
    lengths = [one.calls[name]["output_tokens"] or 0 for one in answered]
    return f"{sum(lengths) / len(lengths):.1f}"


def main() -> None:
    """The command line."""
    here = Path(__file__).parent / "weights"
    parser = argparse.ArgumentParser(prog="python -m langgraph_mai.demo.evaluation")
    parser.add_argument("--small", type=Path, default=here / "small")
    parser.add_argument("--large", type=Path, default=here / "large")
    parser.add_argument("--count", type=int, default=COUNT)
    parser.add_argument("--seed", type=int, default=REPORT_SEED)
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    claim(options.out, options.small, options.large, options.count, options.seed)
    items = held_out(options.out / "pictures", options.count, options.seed)
    answered = evaluate(options.small, options.large, items, options.out / "calls")
    prove(options.small, options.large, answered[:_PROVEN])
    aims, rates = targets(answered), accuracies(answered)
    table = markdown(answered, aims, rates)
    write_whole(options.out / "figures.md", table)
    figures = [asdict(figure) for figure in [*aims, *rates]]
    write_whole(options.out / "figures.json", json.dumps(figures, indent=1))
    print(table)  # noqa: T201


if __name__ == "__main__":
    main()
