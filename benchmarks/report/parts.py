"""Scores by the parts of a benchmark: POPE's splits, MMMU's subjects, ChartQA's two kinds."""

from collections.abc import Sequence

from .evaluated import Evaluated
from .table import Cell, Table

_STRATEGIES = {
    "mai": "MAI",
    "small_direct": "small S",
    "small_reason": "small R",
    "large_direct": "large S",
    "large_reason": "large R",
    "full_transfer": "full transfer",
}


def part_scores(runs: Sequence[Evaluated], protocol: str) -> Table:
    """A row for each part of each benchmark: the cascade's score beside those of its parts.

    Args:
        runs: The evaluations.
        protocol: Whose scores are shown.
    """
    rows: list[tuple[Cell, ...]] = []
    for run in runs:
        for (kind, part), ids in _parts(run).items():
            cells = [run.score(name, protocol, ids) for name in _STRATEGIES]
            rows.append((run.benchmark.name, f"{kind}: {part}", run.headline, len(ids), *cells))
    return Table(
        "parts",
        f"Scores by part of the benchmark, {protocol}",
        ("benchmark", "part", "metric", "questions", *_STRATEGIES.values()),
        tuple(rows),
    )


def _parts(run: Evaluated) -> dict[tuple[str, str], set[str]]:
    """The ids of each part's questions, kind by kind, in the order in which they appear."""
    parts: dict[tuple[str, str], set[str]] = {}
    kinds = dict.fromkeys(kind for one in run.benchmark.questions for kind in one.group)
    for kind in kinds:
        for question in run.benchmark.questions:
            if kind in question.group:
                parts.setdefault((kind, question.group[kind]), set()).add(question.id)
    return parts
