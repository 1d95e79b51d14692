"""The token economy: what a score costs in output tokens, by model and style (Figure 1 b to d)."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ...nodes.state import Route
from .. import statistics
from ..statistics import Estimate
from .evaluated import Evaluated, mean

_STYLES = {"direct": "S", "explain": "E", "reason": "R", "two_stage": "two-stage"}
_WAYS = [
    *((f"{role}_{style}", role, name) for role in ("small", "large") for style, name in
      _STYLES.items()),
    ("full_transfer", "pair", "full transfer"),
    ("speculative", "pair", "speculative"),
    ("mai", "pair", "MAI"),
]  # fmt: skip
"""Each strategy, who answers, and what the paper calls the style."""

_ROUTES: dict[str, Route] = {
    "verified_direct": "direct",
    "verified_by_reasoning": "reasoned",
    "reasoning_transfer": "transferred",
}
"""The routes by the names of Table 10's columns."""


@dataclass(frozen=True, slots=True)
class EconomyPoint:
    """One way to answer a benchmark's questions.

    Attributes:
        benchmark: Its name.
        model: The model, or the pair if both take part.
        role: "small", "large", or "pair".
        style: S, E, R, two-stage, full transfer, speculative or MAI.
        strategy: By its name here.
        tokens: Mean output tokens per question, all calls together; questions with a call whose
            tokens are unknown, as of some servers, are left out.
        large_tokens: Those of them that the large model generates.
        score: The benchmark's headline figure, from 0 to 1.
    """

    benchmark: str
    model: str
    role: str
    style: str
    strategy: str
    tokens: Estimate
    large_tokens: Estimate
    score: Estimate


def economy(runs: Sequence[Evaluated], protocol: str = "typed") -> list[EconomyPoint]:
    """Return a point for every strategy that the evaluations have tokens and a score for.

    Args:
        runs: The evaluations.
        protocol: Whose scores.
    """
    found = []
    for run in runs:
        models = {**run.models, "pair": run.pair_models}
        for strategy, role, style in _WAYS:
            rows, score = run.of(strategy), run.score(strategy, protocol)
            tokens, large = mean(rows, "tokens"), mean(rows, "large_tokens")
            if tokens.value is not None and score.value is not None:
                made = (run.benchmark.name, models[role], role, style, strategy)
                found.append(EconomyPoint(*made, tokens, large, score))
    return found


def economy_csv(points: Sequence[EconomyPoint]) -> str:
    """Return the points as CSV, in a form that `mai simulate --tokens` takes."""
    rows = [
        {
            "model": point.model,
            "role": point.role,
            "benchmark": point.benchmark,
            "style": point.style,
            "mean_output_tokens": _number(point.tokens.value),
            "low": _number(point.tokens.low),
            "high": _number(point.tokens.high),
            "large_output_tokens": _number(point.large_tokens.value),
            "score": _number(point.score.value, 100),
            "score_low": _number(point.score.low, 100),
            "score_high": _number(point.score.high, 100),
            "questions": str(point.tokens.questions),
        }
        for point in points
    ]
    return _csv(rows)


def routes_csv(
    runs: Sequence[Evaluated], points: Sequence[EconomyPoint], protocol: str = "typed"
) -> str | None:
    """Return the cascade's routes as CSV, in the form that `mai simulate --routes` takes.

    Args:
        runs: The evaluations.
        points: What `economy` found of them.
        protocol: Whose scores.

    Returns:
        The text, None if no evaluation has a cascade.
    """
    strategies = sorted({point.strategy for point in points})
    rows = [
        _route_counts(run)
        | {f"score_{name}": _number(run.score(name, protocol).value, 100) for name in strategies}
        for run in runs
        if len(run.of("mai"))
    ]
    return _csv(rows) if rows else None


def accept_rate(run: Evaluated, strategy: str) -> Estimate:
    """Return the share of drafted tokens that are in a strategy's outputs."""
    rows = run.of(strategy)
    accepted, drafted = (rows[name].astype(float).tolist() for name in ("accepted", "drafted"))
    return statistics.ratio(accepted, drafted, rows["image"].tolist())


def _route_counts(run: Evaluated) -> dict[str, str]:
    routes = run.of("mai")["route"].value_counts()
    reasoned = run.calls_of("mai", "small", "reason")
    direct = run.calls_of("mai", "small", "direct")
    prompts = direct["input_tokens"].dropna()
    tokens = reasoned.groupby("route")["output_tokens"].mean()
    return {
        "benchmark": run.benchmark.name,
        **{role: run.models[role] for role in ("small", "large")},
        "questions": str(len(run.of("mai"))),
        **{name: str(routes.get(route, 0)) for name, route in _ROUTES.items()},
        "reason_tokens_reasoned": _number(tokens.get("reasoned")),
        "reason_tokens_transferred": _number(tokens.get("transferred")),
        "prompt_tokens": _number(prompts[prompts > 0].mean()),
        "accept_rate": _number(accept_rate(run, "speculative").value),
    }


def _number(value: float | None, scale: float = 1.0) -> str:
    return "" if value is None or math.isnan(value) else f"{scale * value:.4g}"


def _csv(rows: Sequence[Mapping[str, str]]) -> str:
    import pandas as pd

    return str(pd.DataFrame(rows).to_csv(index=False, lineterminator="\n"))
