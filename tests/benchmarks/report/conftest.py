"""A small evaluation with known results: ten questions, two images, every route."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from PIL import Image

from langgraph_mai.benchmarks.evaluation.results import question_record, summarize
from langgraph_mai.benchmarks.question import Benchmark, BenchmarkQuestion
from langgraph_mai.benchmarks.records import write_json, write_lines

ROUTES = ["direct"] * 6 + ["reasoned"] * 2 + ["transferred"] * 2


def call(role: str, style: str, text: str, tokens: int) -> dict:
    return {
        "role": role,
        "style": style,
        "text": text,
        "answer": text.rpartition(" ")[2],
        "input_tokens": 100,
        "output_tokens": tokens,
        "cut": None,
    }


def result(number: int, strategy: str, route: str, calls: list[dict], text: str) -> dict:
    return {
        "id": f"q{number}",
        "strategy": strategy,
        "answer": text.rpartition(" ")[2],
        "text": text,
        "route": route,
        "fallback": None,
        "calls": calls,
        "error": None,
    }


def cascade_result(number: int) -> dict:
    """The right answer is always yes.

    Of six direct agreements, one is wrong (q0). q6 and q7 are verified by reasoning. Of the
    transfers, q8 turns a wrong direct answer right and q9 a right one wrong.
    """
    route = ROUTES[number]
    large = "no" if number in {0, 8} else "yes"
    small = large if route == "direct" else {"yes": "no", "no": "yes"}[large]
    calls = [call("small", "direct", small, 1), call("large", "direct", large, 1)]
    if route == "direct":
        return result(number, "mai", route, calls, large)
    reasoned = large if route == "reasoned" else small
    calls.append(call("small", "reason", f"<b>I looked</b>.\nAnswer: {reasoned}", 40))
    if route == "reasoned":
        return result(number, "mai", route, calls, large)
    calls.append(call("large", "transfer", small, 1))
    return result(number, "mai", route, calls, small)


def reason_result(number: int) -> dict:
    """The large model's reasoning is right but for q1."""
    text = f"<b>It seems</b> so.\nAnswer: {'no' if number == 1 else 'yes'}"
    return result(number, "large_reason", "reasoned", [call("large", "reason", text, 80)], text)


def write_evaluation(
    folder: Path,
    results: list[dict],
    *,
    timed: bool = True,
    metric: str = "accuracy",
    groups: Callable[[int], dict] = lambda _: {},
    record: dict | None = None,
) -> Path:
    folder.mkdir()
    for name in ("even", "odd"):
        Image.new("RGB", (64, 64), "red").save(folder / f"{name}.png")
    questions = tuple(
        BenchmarkQuestion(
            id=f"q{number}",
            question=f"Is number {number} <red>?",
            images=(str(folder / f"{'odd' if number % 2 else 'even'}.png"),),
            answers=("yes",),
            answer_type="yes_no",
            group=groups(number),
        )
        for number in range(10)
    )
    benchmark = Benchmark(name="ten", questions=questions, prompts="default", metric=metric)
    write_lines(folder / "questions.jsonl", map(question_record, questions))
    write_lines(folder / "results.jsonl", results)
    write_json(folder / "summary.json", summarize(benchmark, results))
    models = {"small": {"model": "tiny/S-2B"}, "large": {"model_name": "L-8B"}}
    made = {"command": "mai evaluate ten", "benchmark": "ten", "metric": metric}
    made |= {"pair": "p", "models": models} | (record or {})
    (folder / "run.json").write_text(json.dumps(made))
    if timed:
        seconds = {"mai": 1.0, "large_reason": 4.0}
        write_lines(
            folder / "timed.jsonl",
            (
                {"id": f"q{n}", "strategy": name, "seconds": each, "route": None, "error": None}
                for name, each in seconds.items()
                for n in range(10)
            ),
        )
        figures = {"total_seconds": 10, "seconds_per_question": 1}
        timing = [
            {"strategy": name, "name": figure, "value": times * each, "questions": 10}
            for name, each in seconds.items()
            for figure, times in figures.items()
        ]
        write_json(folder / "timing.json", timing)
    return folder


def both() -> list[dict]:
    return [one(n) for n in range(10) for one in (cascade_result, reason_result)]


@pytest.fixture
def ten(tmp_path) -> Path:
    return write_evaluation(tmp_path / "ten", both())


def staged_results() -> list[dict]:
    """The cascade beside two-stage reasoning and full transfer, which both always say yes."""
    results = [cascade_result(number) for number in range(10)]
    for number in range(10):
        reasoned = call("small", "reason", "Answer: no", 40)
        for name, role in (("small_two_stage", "small"), ("full_transfer", "large")):
            calls = [reasoned, call(role, "transfer", "yes", 1)]
            results.append(result(number, name, "transferred", calls, "yes"))
    return results
