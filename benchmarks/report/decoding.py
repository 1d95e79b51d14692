"""Table 12's form: the large model's reasoning, speculative decoding, and the cascade."""

from collections.abc import Sequence

from ..estimates import Estimate, ratio
from .cascade import time_ratio
from .evaluated import Evaluated
from .table import Cell, Table, percent
from .verdict import REFERENCE

METHODS = (REFERENCE, "speculative", "mai")
"""The strategies of the table; speedups are those over the first one."""


def decoding(runs: Sequence[Evaluated], protocol: str) -> Table:
    """Accept rate, seconds, speedup and score; evaluations without speculation have no rows.

    Args:
        runs: The evaluations.
        protocol: Whose scores are shown.
    """
    rows = [
        _row(run, name, protocol)
        for run in runs
        if run.results.get("speculative")
        for name in METHODS
    ]
    return Table(
        "decoding",
        f"Decoding: accept rate in %, timed seconds, speedup, score in %, {protocol} (Table 12)",
        ("benchmark", "method", "accept rate", "total", "a question", "speedup", "score"),
        tuple(rows),
        scale=1.0,
        places=2,
    )


def _row(run: Evaluated, name: str, protocol: str) -> tuple[Cell, ...]:
    return (
        run.benchmark.name,
        name,
        percent(accept_rate(run, name)),
        run.time(name, "total_seconds"),
        run.time(name, "seconds_per_question"),
        time_ratio(run, REFERENCE, name),
        percent(run.score(name, protocol)),
    )


def accept_rate(run: Evaluated, strategy: str) -> Estimate:
    """Of the tokens that drafts wrote on all questions, the share that is in the outputs.

    Args:
        run: The evaluation.
        strategy: Its name; without a draft, there is no value.
    """
    results = run.results.get(strategy, {})
    calls = [one["calls"] for one in results.values()]
    drafted = [float(sum(call.get("drafted_tokens", 0) for call in own)) for own in calls]
    accepted = [float(sum(call.get("accepted_tokens", 0) for call in own)) for own in calls]
    return ratio(accepted, drafted, run.clusters(list(results)))
