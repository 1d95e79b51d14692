"""The results of an evaluation: a record for each question and strategy, counted and scored."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from typing_extensions import TypedDict

from ...nodes.model_call import accept_rate
from ...nodes.state import Fallback, MAIInput, ModelCall, Route
from ..metrics import score
from ..question import Benchmark, BenchmarkQuestion

GATED = "mai_gated"
"""The strategy that is the cascade behind the pair's gate."""

QUESTIONS_FILE = "questions.jsonl"
RESULTS_FILE = "results.jsonl"
SUMMARY_FILE = "summary.json"

# Two calls of one style on one question may differ only in what was transferred, which is not kept:
# but a stored call keeps its seconds, and no other one took exactly as long.
_DISTINCT = ("input_tokens", "text", "drafted_tokens", "seconds")


class Result(TypedDict):
    """One strategy's run on one question, a line of `results.jsonl`.

    Attributes:
        id: The question's id.
        strategy: The strategy's name; with sparse transfer, a `Variant`'s.
        answer: What the run returned; None if it failed.
        text: The model output that the answer stands on; metrics read it. None if it failed.
        route: How far the run went; None if it failed.
        fallback: Whose answer it is where the last step abstained, as in the graph's output.
        calls: Every model call, without `cached`. Their seconds are those that they took when they
            were made, with other calls beside them; only timed runs measure.
        error: Why the run or one of its calls failed, in one sentence. Such a result is not
            scored, and the next evaluation tries again.
    """

    id: str
    strategy: str
    answer: str | None
    text: str | None
    route: Route | None
    fallback: Fallback | None
    calls: list[ModelCall]
    error: str | None


def graph_input(question: BenchmarkQuestion) -> MAIInput:
    """Return a question as every strategy's graph takes it."""
    return {
        "question": question.question,
        "images": list(question.images),
        "choices": list(question.choices),
        "answer_type": question.answer_type,
    }


async def answered(graph: Any, question_id: str, strategy: str, given: MAIInput) -> Result:
    """Run a strategy's graph on a question; a failure is a result too.

    Args:
        graph: The strategy's graph.
        question_id: Names the question.
        strategy: Names the strategy.
        given: The question, as `graph_input` returns it.
    """
    try:
        output: Mapping[str, Any] = await graph.ainvoke(given)
    except Exception as error:  # noqa: BLE001  it is reported, and the others continue
        return {
            "id": question_id,
            "strategy": strategy,
            "answer": None,
            "text": None,
            "route": None,
            "fallback": None,
            "calls": [],
            "error": " ".join(str(error).split()) or type(error).__name__,
        }
    errors = [f"{call['error']}".rstrip(".") + "." for call in output["calls"] if call["error"]]
    return {
        "id": question_id,
        "strategy": strategy,
        "answer": output["answer"],
        "text": _answering_text(strategy, output),
        "route": output["route"],
        "fallback": output["fallback"],
        "calls": [_without_cached(call) for call in output["calls"]],
        "error": " ".join(errors) or None,
    }


def failures(results: Iterable[Result]) -> list[Result]:
    """Return the results that say what failed."""
    return [result for result in results if result["error"] is not None]


def count_calls(results: Iterable[Result]) -> dict[str, int]:
    """Count the distinct model calls that succeeded, by role and style ("small direct")."""
    distinct = {
        (call["role"], call["style"], result["id"], *map(call.get, _DISTINCT))
        for result in results
        for call in result["calls"]
        if call["error"] is None
    }
    kinds = sorted(f"{role} {style}" for role, style, *_ in distinct)
    return {kind: kinds.count(kind) for kind in dict.fromkeys(kinds)}


def accept_rates(results: Sequence[Result]) -> dict[str, float]:
    """Return which share of the draft tokens is in the outputs, by strategies that have drafts."""
    rates = {
        name: accept_rate(
            call for one in results if one["strategy"] == name for call in one["calls"]
        )
        for name in dict.fromkeys(result["strategy"] for result in results)
    }
    return {name: rate for name, rate in rates.items() if rate is not None}


def texts(results: Iterable[Result], strategy: str) -> dict[str, str]:
    """Return a strategy's outputs by question id; failed results have none."""
    return {
        result["id"]: result["text"]
        for result in results
        if result["strategy"] == strategy and result["error"] is None and result["text"] is not None
    }


def summarize(benchmark: Benchmark, results: Sequence[Result]) -> list[dict[str, Any]]:
    """Score every strategy, as `summary.json` holds it; failed results are not among them."""
    return [
        {"strategy": strategy, **asdict(figure), "group": dict(figure.group)}
        for strategy in dict.fromkeys(result["strategy"] for result in results)
        for figure in score(benchmark, texts(results, strategy))
    ]


def question_record(question: BenchmarkQuestion) -> dict[str, Any]:
    """Return a question as `questions.jsonl` holds it."""
    return asdict(question) | {"group": dict(question.group)}


def _without_cached(call: ModelCall) -> ModelCall:
    """Return a call as it was when it was made: equal evaluations have equal files."""
    own: Any = {key: value for key, value in call.items() if key != "cached"}
    kept: ModelCall = own
    return kept


def _answering_text(strategy: str, output: Mapping[str, Any]) -> str:
    """Return the whole output that the answer was read from."""
    outputs = {f"{call['role']}_{call['style']}": call["text"] for call in output["calls"]}
    fallback = output["fallback"]
    if fallback in outputs:
        return str(outputs[fallback])
    if fallback is not None:  # the raw text of some call
        return str(output["answer"])
    own = strategy.partition(":")[0]
    if own in ("mai", GATED) and output["route"] in ("direct", "reasoned"):
        return str(outputs["large_direct"])
    return str(output["calls"][-1]["text"])
