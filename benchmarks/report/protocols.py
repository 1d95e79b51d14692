"""Scores under all protocols side by side, and where they say little."""

from collections.abc import Iterator, Sequence

from ..metrics import PROTOCOLS
from .evaluated import Evaluated
from .table import Cell, Table

MANY_UNREAD = 0.1
"""A larger share of unread outputs is said below the scores."""

_AT_LENGTH = ("_explain", "_reason")


def protocol_scores(runs: Sequence[Evaluated]) -> Table:
    """Every strategy's score under every protocol that has one."""
    rows: list[tuple[Cell, ...]] = []
    for run in runs:
        for name in run.results:
            cells = [run.score(name, protocol) for protocol in PROTOCOLS]
            rows.append((run.benchmark.name, name, run.headline, *cells))
    return Table(
        "protocols",
        "Scores by strategy under every protocol",
        ("benchmark", "strategy", "metric", *PROTOCOLS),
        tuple(rows),
        notes=tuple(whole_output_notes(runs)),
    )


def wants_whole_output(run: Evaluated, strategy: str, protocol: str) -> bool:
    """Whether a protocol compares whole outputs where the strategy answers at length.

    Without a benchmark's own script, strict is such a comparison; every explanation and every
    reasoning is wrong by it, which tells nothing of the answer.
    """
    own_rule = protocol == "strict" and run.benchmark.metric == "accuracy"
    return own_rule and strategy.endswith(_AT_LENGTH)


def whole_output_notes(runs: Sequence[Evaluated], protocol: str = "strict") -> Iterator[str]:
    """A sentence for each evaluation in which a score is 0 by rule."""
    for run in runs:
        names = [name for name in run.results if wants_whole_output(run, name, protocol)]
        if names:
            yield (
                f"{run.benchmark.name}: strict compares the whole output with the accepted "
                f"answers, so it is 0 by rule for what is explained or reasoned first "
                f"({', '.join(names)})."
            )


def unread_notes(runs: Sequence[Evaluated]) -> Iterator[str]:
    """A sentence for each evaluation with strategies whose outputs often have no answer in them."""
    for run in runs:
        shares = {name: run.unread(name).value or 0.0 for name in run.results}
        many = [
            f"{100 * part:.0f}% of {name}" for name, part in shares.items() if part > MANY_UNREAD
        ]
        if many:
            yield (
                f"{run.benchmark.name}: in many outputs no answer was found ({', '.join(many)}); "
                "they count as wrong. The table of outputs says how many were cut at their limit."
            )
