"""The paper's tables for evaluated pairs: 5 and 13, 6, 7 and 14, 8 to 10, 11 and 12 (timed), 15.

Figure 1's points are in `economy`.
"""

from collections.abc import Iterator, Sequence
from typing import Any

from ...answers import agree, parse
from ..estimates import Estimate, mean, share
from .cascade import cascade
from .decoding import decoding
from .economy import economy_table
from .evaluated import Evaluated
from .parts import part_scores
from .protocols import protocol_scores, unread_notes, whole_output_notes
from .sparse_transfer import sparse_transfer
from .table import Cell, Table, percent

_NOTHING = Estimate(None, None, None, 0)

# Strategies that make a call of each kind on every question, one of which is enough.
_SOURCES = {
    ("small", "direct"): ("small_direct", "mai"),
    ("large", "direct"): ("large_direct", "mai"),
    ("small", "explain"): ("small_explain",),
    ("large", "explain"): ("large_explain",),
    ("small", "reason"): ("small_reason", "small_two_stage", "full_transfer"),
    ("large", "reason"): ("large_reason", "speculative", "large_two_stage"),
}
_STYLES = (("S", "direct"), ("E", "explain"), ("R", "reason"))
_ROLES = ("small", "large")


def tables(runs: Sequence[Evaluated], protocol: str = "typed") -> list[Table]:
    """Every table that the evaluations have results for.

    Args:
        runs: The evaluations; each is a row, or several.
        protocol: Whose scores are shown.
    """
    made = [
        mean_output_tokens(runs),
        scores(runs, protocol),
        economy_table(runs, protocol),
        reasoning_transfer(runs, protocol),
        sparse_transfer(runs, protocol),
        mai(runs, protocol),
        part_scores(runs, protocol),
        routes(runs, protocol),
        differences(runs, protocol),
        two_stage_verification(runs, protocol),
        times(runs),
        decoding(runs, protocol),
        protocol_scores(runs),
        outputs(runs),
    ]
    return [table for table in made if _says_something(table)]


def mean_output_tokens(runs: Sequence[Evaluated]) -> Table:
    """Tables 5 and 13: mean output tokens by model and style."""
    rows: list[tuple[Cell, ...]] = []
    for run in runs:
        for role in _ROLES:
            cells = [_tokens(run, role, style) for _, style in _STYLES]
            rows.append((run.models[role], run.benchmark.name, *cells))
    return Table(
        "output_tokens",
        "Mean output tokens by style (Tables 5 and 13)",
        ("model", "benchmark", "S", "E", "R"),
        tuple(rows),
        scale=1.0,
    )


def scores(runs: Sequence[Evaluated], protocol: str) -> Table:
    """Tables 6, 7 and 14: scores by model and style; two-stage is R, then S with it."""
    rows: list[tuple[Cell, ...]] = []
    for run in runs:
        for role in _ROLES:
            names = [f"{role}_{style}" for _, style in _STYLES] + [f"{role}_two_stage"]
            cells = [run.score(name, protocol) for name in names]
            rows.append((run.models[role], run.benchmark.name, run.headline, *cells))
    return Table(
        "scores",
        f"Scores by style, {protocol} (Tables 6, 7 and 14)",
        ("model", "benchmark", "metric", "S", "E", "R", "two-stage"),
        tuple(rows),
        notes=(*whole_output_notes(runs, protocol), *unread_notes(runs)),
    )


def reasoning_transfer(runs: Sequence[Evaluated], protocol: str) -> Table:
    """Table 8: the large model with the small one's reasoning, beside both alone."""
    rows: list[tuple[Cell, ...]] = []
    for run in runs:
        names = ("small_reason", "large_direct", "large_reason", "full_transfer")
        cells = [run.score(name, protocol) for name in names]
        rows.append((_pair(run), run.benchmark.name, *cells))
    return Table(
        "reasoning_transfer",
        f"Reasoning transfer, {protocol} (Table 8)",
        ("pair", "benchmark", "small R", "large S", "large R", "large + small R"),
        tuple(rows),
    )


def mai(runs: Sequence[Evaluated], protocol: str) -> Table:
    """Table 10: how far the cascade went, and its score beside those of its parts."""
    rows: list[tuple[Cell, ...]] = []
    for run in runs:
        results = run.results.get("mai", {})
        went = [result["route"] for result in results.values()]
        counts = [went.count(route) for route in ("direct", "reasoned", "transferred")]
        names = ("mai", "small_direct", "small_reason", "large_direct", "full_transfer")
        cells = [run.score(name, protocol) for name in names]
        if results:
            rows.append((_pair(run), run.benchmark.name, len(results), *counts, *cells))
    return Table(
        "mai",
        f"Multi-agent inference, {protocol} (Table 10)",
        (
            "pair",
            "benchmark",
            "questions",
            "verified direct",
            "verified by reasoning",
            "reasoning transfer",
            "MAI",
            "small S",
            "small R",
            "large S",
            "full transfer",
        ),
        tuple(rows),
    )


def routes(runs: Sequence[Evaluated], protocol: str) -> Table:
    """The routes' shares and accuracies, wrong agreements, and what transfers changed."""
    rows: list[tuple[Cell, ...]] = []
    for run in runs:
        found = cascade(run, protocol)
        if found is None:
            continue
        wrong = {"direct": found.agreement_wrong, "reasoned": found.reasoned_wrong}
        for one in found.routes:
            moved = (found.help, found.harm) if one.route == "transferred" else (None, None)
            rows.append(
                (
                    run.benchmark.name,
                    one.route,
                    one.share,
                    one.accuracy,
                    wrong.get(one.route),
                    *moved,
                )
            )
    return Table(
        "routes",
        f"Routes: share, accuracy, wrong agreements; transfers that helped or harmed, {protocol}",
        ("benchmark", "route", "share", "accuracy", "agreement wrong", "helped", "harmed"),
        tuple(rows),
    )


def differences(runs: Sequence[Evaluated], protocol: str) -> Table:
    """The cascade minus every other strategy, paired by question, and its time over theirs."""
    rows: list[tuple[Cell, ...]] = []
    for run in runs:
        found = cascade(run, protocol)
        if found is None:
            continue
        for name in dict.fromkeys([*found.differences, *found.times]):
            gap, time = found.differences.get(name, _NOTHING), found.times.get(name, _NOTHING)
            rows.append(
                (run.benchmark.name, name, gap.questions, gap, time.questions or None, time)
            )
    return Table(
        "differences",
        f"The cascade minus other strategies in points, {protocol}, and its time in % of theirs",
        ("benchmark", "strategy", "questions", "accuracy", "timed", "time"),
        tuple(rows),
    )


def two_stage_verification(runs: Sequence[Evaluated], protocol: str) -> Table:
    """Table 15: verification by the small model's reasoned answer, or by its two-stage answer."""
    rows: list[tuple[Cell, ...]] = []
    for run in runs:
        cells = _two_stage(run, protocol)
        if cells:
            rows.append((run.benchmark.name, *cells))
    return Table(
        "two_stage_verification",
        f"Verifying with R, or with two-stage reasoning, {protocol} (Table 15)",
        (
            "benchmark",
            "questions",
            "R verified",
            "R transfer",
            "R score",
            "two-stage verified",
            "two-stage transfer",
            "two-stage score",
        ),
        tuple(rows),
    )


def times(runs: Sequence[Evaluated]) -> Table:
    """Table 11: seconds of timed runs."""
    rows: list[tuple[Cell, ...]] = []
    for run in runs:
        for name in run.timed:
            figures: dict[str, Any] = {
                key: run.time(name, key)
                for key in (
                    "total_seconds",
                    "seconds_per_question",
                    "seconds_per_question.median",
                    "seconds_per_question.p95",
                )
            }
            rows.append((run.benchmark.name, name, len(run.timed[name]), *figures.values()))
    return Table(
        "times",
        "Seconds, timed in one process (Table 11)",
        ("benchmark", "strategy", "questions", "total", "a question", "median", "p95"),
        tuple(rows),
        scale=1.0,
        places=3,
        notes=tuple(note for run in runs for note in _strangers(run)),
    )


def outputs(runs: Sequence[Evaluated]) -> Table:
    """What to look at before any score is believed: failures, unread and cut outputs, cost."""
    rows: list[tuple[Cell, ...]] = []
    for run in runs:
        for name, results in run.results.items():
            ids = list(results)
            cut = [any(call["cut"] for call in results[one]["calls"]) for one in ids]
            written = [
                float(sum(call["output_tokens"] or 0 for call in results[one]["calls"]))
                for one in ids
            ]
            rows.append(
                (
                    run.benchmark.name,
                    name,
                    len(ids),
                    run.failed.get(name, 0),
                    percent(run.unread(name)),
                    percent(share(cut, run.clusters(ids))),
                    mean(written, run.clusters(ids)),
                )
            )
    return Table(
        "outputs",
        "Outputs: failed; unread and cut ones in %; mean output tokens of all calls",
        ("benchmark", "strategy", "questions", "failed", "unread", "cut", "output tokens"),
        tuple(rows),
        scale=1.0,
    )


def _strangers(run: Evaluated) -> Iterator[str]:
    """What was timed and is no part of the evaluation."""
    unknown = {one for times in run.timed.values() for one in times if one not in run.questions}
    if unknown:
        yield (
            f"{run.benchmark.name}: {len(unknown)} of the timed questions are not among the "
            f"{len(run.questions)} evaluated ones. They count in seconds, not in the cascade's "
            "time over that of others."
        )
    absent = [name for name in run.timed if name not in run.results]
    if absent:
        yield f"{run.benchmark.name}: timed, but without results: {', '.join(absent)}."


def _two_stage(run: Evaluated, protocol: str) -> tuple[Cell, ...] | None:
    """The cascade's disputed questions, verified by the small model's two-stage answer."""
    cascaded, staged = run.results.get("mai", {}), run.results.get("small_two_stage", {})
    transferred = run.results.get("full_transfer", {})
    ids = [one for one in cascaded if one in staged and one in transferred]
    if not ids:
        return None
    direct = run.calls("mai", "large", "direct")
    routes = {one: cascaded[one]["route"] for one in ids}
    verified = 0
    texts: dict[str, str] = {}
    for one in ids:
        texts[one] = str(cascaded[one]["text"])
        if routes[one] == "direct" or one not in direct:
            continue
        if _agree(run, one, str(staged[one]["text"]), direct[one]["text"]):
            verified += 1
            texts[one] = direct[one]["text"]
        else:
            texts[one] = str(transferred[one]["text"])
    went = list(routes.values())
    return (
        len(ids),
        went.count("reasoned"),
        went.count("transferred"),
        run.score("mai", protocol, set(ids)),
        verified,
        len(ids) - went.count("direct") - verified,
        run.score_texts(texts, protocol),
    )


def _agree(run: Evaluated, one: str, first: str, second: str) -> bool:
    question = run.questions[one]
    read = [
        parse(text, question.answer_type, question.choices, question.question)
        for text in (first, second)
    ]
    return agree(*read) == "agree"


def _tokens(run: Evaluated, role: str, style: str) -> Estimate:
    for source in _SOURCES[role, style]:
        if run.results.get(source):
            return run.output_tokens(source, role, style)
    return _NOTHING


def _pair(run: Evaluated) -> str:
    return f"{run.models['small']} + {run.models['large']}"


def _says_something(table: Table) -> bool:
    estimates = [cell for row in table.rows for cell in row if isinstance(cell, Estimate)]
    return any(estimate.value is not None for estimate in estimates)
