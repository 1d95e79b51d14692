"""What timed runs say, as flat records: totals, seconds a question, calls and tokens, ratios."""

from collections.abc import Iterator, Sequence
from typing import Any

from ...nodes.state import ModelCall
from ...records.record import Record
from ..estimates import Estimate, mean, quantile, ratio
from .timed import TimedRun

TIMING_FILE = "timing.json"
TIMED_FILE = "timed.jsonl"

_TOKENS = ("input_tokens", "cached_tokens", "output_tokens")


def timing_records(runs: Sequence[TimedRun]) -> list[dict[str, Any]]:
    """All figures of strategies that were timed in one process.

    Returns:
        A strategy and the keys of a `Record`. The names:
        `total_seconds`; `seconds_per_question` (its mean), `.median` and `.p95`; `failed`;
        `calls`, `call_seconds` and the three kinds of tokens, each also as `NAME.ROLE.STYLE`; where
        a draft wrote ahead, `accept_rate`; and `ratio.OTHER`, the strategy's seconds over those of
        another one on the same questions.
    """
    records = []
    for run in runs:
        for name, estimate, unit in _figures(run):
            records.append(_record(run, name, estimate, unit))
        for other in runs:
            if other is not run:
                times = ratio(run.question_seconds, other.question_seconds)
                records.append(_record(run, f"ratio.{other.strategy}", times, "ratio"))
    return records


def timed_lines(runs: Sequence[TimedRun]) -> Iterator[dict[str, Any]]:
    """Each question's time, as `timed.jsonl` holds it."""
    for run in runs:
        for result, seconds in zip(run.results, run.question_seconds, strict=True):
            yield {
                "id": result["id"],
                "strategy": run.strategy,
                "seconds": seconds,
                "route": result["route"],
                "error": result["error"],
            }


def _figures(run: TimedRun) -> Iterator[tuple[str, Estimate, str]]:
    seconds, questions = run.question_seconds, len(run.results)

    def exact(value: float | None) -> Estimate:
        return Estimate(value, None, None, questions)

    yield "total_seconds", exact(run.seconds), "s"
    yield "seconds_per_question", mean(seconds), "s"
    yield "seconds_per_question.median", exact(quantile(seconds, 0.5)), "s"
    yield "seconds_per_question.p95", exact(quantile(seconds, 0.95)), "s"
    yield "failed", exact(sum(result["error"] is not None for result in run.results)), "questions"
    drafted, accepted = _drafts(run)
    if any(drafted):
        yield "accept_rate", ratio(accepted, drafted), "share"
    yield from _calls("", run.calls, exact)
    kinds = dict.fromkeys((call["role"], call["style"]) for call in run.calls)
    for role, style in sorted(kinds):
        own = [call for call in run.calls if (call["role"], call["style"]) == (role, style)]
        yield from _calls(f".{role}.{style}", own, exact)


def _drafts(run: TimedRun) -> tuple[list[float], list[float]]:
    """Tokens that drafts wrote for each question, and those of them that are in the outputs."""
    drafted = [sum(call.get("drafted_tokens", 0) for call in one["calls"]) for one in run.results]
    accepted = [sum(call.get("accepted_tokens", 0) for call in one["calls"]) for one in run.results]
    return list(map(float, drafted)), list(map(float, accepted))


def _calls(suffix: str, calls: Sequence[ModelCall], exact: Any) -> Iterator[Any]:
    yield f"calls{suffix}", exact(len(calls)), "calls"
    yield f"call_seconds{suffix}", exact(sum(call["seconds"] for call in calls)), "s"
    for kind in _TOKENS:
        counts = [call[kind] for call in calls]  # type: ignore[literal-required]
        known = [count for count in counts if count is not None]
        # A total of some calls only would look like that of all.
        total = sum(known) if len(known) == len(counts) else None
        yield f"{kind}{suffix}", exact(total), "tokens"


def _record(run: TimedRun, name: str, estimate: Estimate, unit: str) -> dict[str, Any]:
    figure = Record(name, estimate.value, unit, estimate.low, estimate.high, estimate.questions)
    return {"strategy": run.strategy, **figure.as_dict()}
