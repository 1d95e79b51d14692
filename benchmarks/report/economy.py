"""The token economy: what a score costs in output tokens, by model and style (Figure 1 b to d)."""

import csv
import io
from collections.abc import Sequence
from dataclasses import dataclass

from ...nodes.state import Route
from ..estimates import Estimate, mean
from .decoding import accept_rate
from .evaluated import Evaluated
from .table import Cell, Table, percent

STYLES = {"direct": "S", "explain": "E", "reason": "R", "two_stage": "two-stage"}
"""Styles of one model, from the end of a strategy's name to what the paper calls them."""

_TOGETHER = {"full_transfer": "full transfer", "speculative": "speculative", "mai": "MAI"}
_ROLES = ("small", "large")
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
        tokens: Mean output tokens of a question, all calls together.
        large_tokens: Those of them that the large model writes.
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
    """A point for every strategy that the evaluations have tokens and a score for.

    Args:
        runs: The evaluations.
        protocol: Whose scores.
    """
    ways = [
        (f"{role}_{style}", role, shown) for role in _ROLES for style, shown in STYLES.items()
    ] + [(strategy, "pair", shown) for strategy, shown in _TOGETHER.items()]
    found = []
    for run in runs:
        models = {**run.models, "pair": f"{run.models['small']} + {run.models['large']}"}
        for strategy, role, style in ways:
            point = EconomyPoint(
                benchmark=run.benchmark.name,
                model=models[role],
                role=role,
                style=style,
                strategy=strategy,
                tokens=output_tokens(run, strategy),
                large_tokens=output_tokens(run, strategy, "large"),
                score=run.score(strategy, protocol),
            )
            if point.tokens.value is not None and point.score.value is not None:
                found.append(point)
    return found


def output_tokens(run: Evaluated, strategy: str, role: str | None = None) -> Estimate:
    """Mean output tokens of a question, all calls of a strategy together.

    Questions with a call whose tokens are not known, as of some servers, are left out.

    Args:
        run: The evaluation.
        strategy: Its name.
        role: Whose calls; None for both models'.
    """
    written = {
        one: float(sum(tokens for tokens in counts if tokens is not None))
        for one, result in run.results.get(strategy, {}).items()
        for counts in [
            [call["output_tokens"] for call in result["calls"] if role in {None, call["role"]}]
        ]
        if None not in counts
    }
    return mean(list(written.values()), run.clusters(list(written)))


def economy_table(runs: Sequence[Evaluated], protocol: str) -> Table:
    """The points as a table; scores are in percent."""
    rows: list[tuple[Cell, ...]] = [
        (
            point.benchmark,
            point.model,
            point.style,
            point.tokens,
            point.large_tokens,
            percent(point.score),
        )
        for point in economy(runs, protocol)
    ]
    return Table(
        "token_economy",
        f"Token economy: output tokens of a question, and score in %, {protocol} (Figure 1)",
        ("benchmark", "model", "style", "output tokens", "of the large model", "score"),
        tuple(rows),
        scale=1.0,
    )


def economy_csv(points: Sequence[EconomyPoint]) -> str:
    """The points as CSV, in a form that `mai simulate --tokens` takes."""
    header = ["model", "role", "benchmark", "style", "mean_output_tokens", "low", "high"]
    header += ["large_output_tokens", "score", "score_low", "score_high", "questions"]
    rows = [
        [
            point.model,
            point.role,
            point.benchmark,
            point.style,
            *_interval(point.tokens, 1.0),
            _number(point.large_tokens.value, 1.0),
            *_interval(point.score, 100.0),
            str(point.tokens.questions),
        ]
        for point in points
    ]
    return _csv(header, rows)


def routes_csv(runs: Sequence[Evaluated], protocol: str = "typed") -> str | None:
    """The cascade's routes as CSV, in the form that `mai simulate --routes` takes.

    Returns:
        The text, None if no evaluation has a cascade.
    """
    known = {point.strategy for point in economy(runs, protocol)}
    strategies = sorted(known)
    header = ["benchmark", *_ROLES, "questions", *_ROUTES, "reason_tokens_reasoned"]
    header += ["reason_tokens_transferred", "prompt_tokens", "accept_rate"]
    header += [f"score_{strategy}" for strategy in strategies]
    rows = [_routes(run, strategies, protocol) for run in runs if run.results.get("mai")]
    return _csv(header, rows) if rows else None


def _routes(run: Evaluated, strategies: Sequence[str], protocol: str) -> list[str]:
    results = run.results["mai"].values()
    went = [result["route"] for result in results]
    reasoned: dict[str, list[float]] = {"reasoned": [], "transferred": []}
    prompts: list[float] = []
    for result in results:
        for call in result["calls"]:
            tokens = call["output_tokens"]
            if call["style"] == "reason" and result["route"] in reasoned and tokens is not None:
                reasoned[str(result["route"])].append(float(tokens))
            if (call["role"], call["style"]) == ("small", "direct") and call["input_tokens"]:
                prompts.append(float(call["input_tokens"]))
    return [
        run.benchmark.name,
        *(run.models[role] for role in _ROLES),
        str(len(went)),
        *(str(went.count(route)) for route in _ROUTES.values()),
        *(_number(mean(written).value, 1.0) for written in reasoned.values()),
        _number(mean(prompts).value, 1.0),
        _number(accept_rate(run, "speculative").value, 1.0),
        *(_number(run.score(name, protocol).value, 100.0) for name in strategies),
    ]


def _interval(estimate: Estimate, scale: float) -> list[str]:
    return [_number(one, scale) for one in (estimate.value, estimate.low, estimate.high)]


def _number(value: float | None, scale: float) -> str:
    return "" if value is None else f"{scale * value:.4g}"


def _csv(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(header)
    writer.writerows(rows)
    return text.getvalue()
