"""The paper's tables for evaluated pairs: 5 and 13, 6, 7 and 14, 8 to 10, 11 and 12 (timed), 15.

Figure 1's points are in `economy`.
"""

from collections.abc import Iterator, Mapping, Sequence

from ...answers import agree
from ...configs import SparseTransfer
from ...nodes.prompts import Style
from .. import statistics
from ..evaluation.results import GATED
from ..evaluation.variants import Variant
from ..metrics import PROTOCOLS
from ..metrics.grading import read
from ..statistics import Estimate
from .cascade import REFERENCE, route_rows
from .economy import EconomyPoint, accept_rate
from .evaluated import Evaluated, difference, grade, mean, proportion, score
from .table import NOTHING, Cell, Table, percent

Row = tuple[Cell, ...]

# Strategies that make a call of each kind on every question, one of which is enough.
_SOURCES: dict[tuple[str, Style], tuple[str, ...]] = {
    ("small", "direct"): ("small_direct", "mai"),
    ("large", "direct"): ("large_direct", "mai"),
    ("small", "explain"): ("small_explain",),
    ("large", "explain"): ("large_explain",),
    ("small", "reason"): ("small_reason", "small_two_stage", "full_transfer"),
    ("large", "reason"): ("large_reason", "speculative", "large_two_stage"),
}
_STYLES: tuple[Style, ...] = ("direct", "explain", "reason")
_ROLES = ("small", "large")

_PARTS = {
    "mai": "MAI",
    "small_direct": "small S",
    "small_reason": "small R",
    "large_direct": "large S",
    "large_reason": "large R",
    "full_transfer": "full transfer",
}

MANY_UNREAD = 0.1
"""A larger share of unread outputs is said below the scores."""


def tables(
    runs: Sequence[Evaluated],
    economy: Sequence[EconomyPoint],
    protocol: str = "typed",
    predicted: Mapping[tuple[str, str], float] | None = None,
) -> list[Table]:
    """Return every table that the evaluations have results for.

    Args:
        runs: The evaluations; each is a row, or several.
        economy: Their token economy.
        protocol: Whose scores are shown.
        predicted: Simulated seconds per question, by benchmark (lower case) and strategy.
    """
    made = [
        output_tokens(runs),
        scores(runs, protocol),
        token_economy(economy, protocol),
        reasoning_transfer(runs, protocol),
        sparse_transfer(runs, protocol),
        mai(runs, protocol),
        gated(runs, protocol),
        parts(runs, protocol),
        routes(runs, protocol),
        differences(runs, protocol),
        two_stage_verification(runs, protocol),
        times(runs, predicted or {}),
        decoding(runs, protocol),
        protocol_scores(runs),
        outputs(runs),
    ]
    return [table for table in made if table.has_estimates]


def output_tokens(runs: Sequence[Evaluated]) -> Table:
    """Tables 5 and 13: mean output tokens by model and style."""

    def tokens(run: Evaluated, role: str, style: Style) -> Estimate:
        calls = (run.calls_of(source, role, style) for source in _SOURCES[role, style])
        return next((mean(own, "output_tokens") for own in calls if len(own)), NOTHING)

    return Table(
        "output_tokens",
        "Mean output tokens by style (Tables 5 and 13)",
        ("model", "benchmark", "S", "E", "R"),
        [
            (run.models[role], run.benchmark.name, *(tokens(run, role, one) for one in _STYLES))
            for run in runs
            for role in _ROLES
        ],
        scale=1.0,
    )


def scores(runs: Sequence[Evaluated], protocol: str) -> Table:
    """Tables 6, 7 and 14: scores by model and style; two-stage is R, then S with it."""
    return Table(
        "scores",
        f"Scores by style, {protocol} (Tables 6, 7 and 14)",
        ("model", "benchmark", "metric", "S", "E", "R", "two-stage"),
        [
            (
                run.models[role],
                run.benchmark.name,
                run.headline,
                *(run.score(f"{role}_{one}", protocol) for one in (*_STYLES, "two_stage")),
            )
            for run in runs
            for role in _ROLES
        ],
        notes=[*_zero_notes(runs, protocol), *_unread_notes(runs)],
    )


def token_economy(points: Sequence[EconomyPoint], protocol: str) -> Table:
    """Figure 1's points; scores are in percent."""
    return Table(
        "token_economy",
        f"Token economy: output tokens of a question, and score in %, {protocol} (Figure 1)",
        ("benchmark", "model", "style", "output tokens", "of the large model", "score"),
        [
            (one.benchmark, one.model, one.style, one.tokens, one.large_tokens, percent(one.score))
            for one in points
        ],
        scale=1.0,
    )


def reasoning_transfer(runs: Sequence[Evaluated], protocol: str) -> Table:
    """Table 8: the large model with the small one's reasoning, beside both alone."""
    names = ("small_reason", "large_direct", "large_reason", "full_transfer")
    return Table(
        "reasoning_transfer",
        f"Reasoning transfer, {protocol} (Table 8)",
        ("pair", "benchmark", "small R", "large S", "large R", "large + small R"),
        [
            (run.pair_models, run.benchmark.name, *(run.score(one, protocol) for one in names))
            for run in runs
        ],
    )


def sparse_transfer(runs: Sequence[Evaluated], protocol: str) -> Table:
    """Table 9: transferred tokens and score by layer, between no transfer and a full one."""
    rows = [row for run in runs for row in _sparse_rows(run, protocol)]
    columns = ("strategy", "layer", "kept", "by", "tokens", "% of all", "attention", "score")
    note = (
        "Tokens are means over the reasonings that were transferred, counted by the model that "
        "reads them; in the row of a full transfer, those of the same reasonings as a whole."
    )
    return Table(
        "sparse_transfer",
        f"Sparse transfer, {protocol}: tokens transferred, their % of the reasoning and of the "
        "attention on it, score (Table 9)",
        ("benchmark", *columns),
        rows,
        scale=1.0,
        notes=(note,) if rows else (),
    )


def mai(runs: Sequence[Evaluated], protocol: str) -> Table:
    """Table 10: how far the cascade went, and its score beside those of its parts."""
    strategies = ("mai", "small_direct", "small_reason", "large_direct", "full_transfer")
    rows: list[Row] = []
    for run in runs:
        went = list(run.of("mai")["route"])
        counts = [went.count(route) for route in ("direct", "reasoned", "transferred")]
        cells = [run.score(name, protocol) for name in strategies]
        if went:
            rows.append((run.pair_models, run.benchmark.name, len(went), *counts, *cells))
    counted = ("verified direct", "verified by reasoning", "reasoning transfer")
    return Table(
        "mai",
        f"Multi-agent inference, {protocol} (Table 10)",
        ("pair", "benchmark", "questions", *counted, *(_PARTS[name] for name in strategies)),
        rows,
    )


def gated(runs: Sequence[Evaluated], protocol: str) -> Table:
    """The cascade behind a gate beside the one without, paired by question."""
    rows: list[Row] = []
    for run in runs:
        own, plain = run.of(GATED), run.of("mai")
        both = own.assign(plain=plain["answer"].reindex(own.index)).dropna(subset="plain")
        if not len(both):
            continue
        calls = run.calls.assign(both=run.calls["input_tokens"] + run.calls["output_tokens"])
        tokens = calls.groupby(["strategy", "question"])["both"].sum(min_count=1)
        spent, before = (tokens[name].reindex(both.index).tolist() for name in (GATED, "mai"))
        rows.append(
            (
                run.benchmark.name,
                len(both),
                proportion(both, both["route"] == "confident"),
                proportion(both, both["answer"] != both["plain"]),
                *(run.score(name, protocol) for name in (GATED, "mai")),
                difference(own, plain, protocol),
                statistics.ratio(spent, before, both["image"].tolist()),
                run.time_ratio(GATED, "mai"),
            )
        )
    figures = ("skipped", "changed answers", "score", "MAI", "accuracy", "tokens", "time")
    return Table(
        "gated",
        f"The cascade behind its gate, {protocol}: score, points, tokens and time in % of MAI's",
        ("benchmark", "questions", *figures),
        rows,
    )


def parts(runs: Sequence[Evaluated], protocol: str) -> Table:
    """POPE's splits, MMMU's subjects and others: the cascade's score beside those of its parts."""
    rows: list[Row] = []
    for run in runs:
        ids: dict[str, dict[str, set[str]]] = {}
        for question in run.benchmark.questions:
            for kind, part in question.group.items():
                ids.setdefault(kind, {}).setdefault(f"{kind}: {part}", set()).add(question.id)
        answers = [run.of(name) for name in _PARTS]
        for part, own in (one for kind in ids.values() for one in kind.items()):
            cells = [score(run.benchmark, all_[all_.index.isin(own)], protocol) for all_ in answers]
            rows.append((run.benchmark.name, part, run.headline, len(own), *cells))
    return Table(
        "parts",
        f"Scores by part of the benchmark, {protocol}",
        ("benchmark", "part", "metric", "questions", *_PARTS.values()),
        rows,
    )


def routes(runs: Sequence[Evaluated], protocol: str) -> Table:
    """The routes' shares and accuracies, wrong agreements, and what transfers changed."""
    return Table(
        "routes",
        f"Routes: share, accuracy, wrong agreements; transfers that helped or harmed, {protocol}",
        ("benchmark", "route", "share", "accuracy", "agreement wrong", "helped", "harmed"),
        [(run.benchmark.name, *row) for run in runs for row in route_rows(run, protocol)],
    )


def differences(runs: Sequence[Evaluated], protocol: str) -> Table:
    """The cascade minus every other strategy, paired by question, and its time over theirs."""
    rows: list[Row] = []
    for run in runs:
        others = dict.fromkeys([*run.strategies, *run.seconds.columns])
        for name in [one for one in others if one != "mai" and len(run.of("mai"))]:
            gap = difference(run.of("mai"), run.of(name), protocol)
            time = run.time_ratio("mai", name)
            rows.append(
                (run.benchmark.name, name, gap.questions, gap, time.questions or None, time)
            )
    return Table(
        "differences",
        f"The cascade minus other strategies in points, {protocol}, and its time in % of theirs",
        ("benchmark", "strategy", "questions", "accuracy", "timed", "time"),
        rows,
    )


def two_stage_verification(runs: Sequence[Evaluated], protocol: str) -> Table:
    """Table 15: verification by the small model's reasoned answer, or by its two-stage answer."""
    ways = [f"{way} {figure}" for way in ("R", "two-stage") for figure in _VERIFIED]
    return Table(
        "two_stage_verification",
        f"Verifying with R, or with two-stage reasoning, {protocol} (Table 15)",
        ("benchmark", "questions", *ways),
        [
            (run.benchmark.name, *cells)
            for run in runs
            if (cells := _two_stage_cells(run, protocol))
        ],
    )


def times(runs: Sequence[Evaluated], predicted: Mapping[tuple[str, str], float]) -> Table:
    """Table 11: seconds of timed runs, and the simulator's prediction over them."""
    figures = ("total_seconds", *(f"seconds_per_question{end}" for end in ("", ".median", ".p95")))
    rows: list[Row] = []
    for run in runs:
        for name in run.seconds.columns:
            cells = [run.time(name, figure) for figure in figures]
            row = run.benchmark.name, name, int(run.seconds[name].count()), *cells
            said, timed = predicted.get((run.benchmark.name.lower(), name)), cells[1]
            over = None
            if said is not None and timed.value:
                low, high = (said / end if end else None for end in (timed.high, timed.low))
                over = Estimate(said / timed.value, low, high, timed.questions)
            rows.append((*row, over) if predicted else row)
    return Table(
        "times",
        "Seconds, timed in one process (Table 11)",
        (
            *("benchmark", "strategy", "questions", "total", "a question", "median", "p95"),
            *(("predicted / timed",) if predicted else ()),
        ),
        rows,
        scale=1.0,
        places=3,
        notes=[note for run in runs for note in _timing_notes(run)],
    )


def decoding(runs: Sequence[Evaluated], protocol: str) -> Table:
    """Table 12's form; evaluations without speculative decoding have no rows."""
    return Table(
        "decoding",
        f"Decoding: accept rate in %, timed seconds, speedup, score in %, {protocol} (Table 12)",
        ("benchmark", "method", "accept rate", "total", "a question", "speedup", "score"),
        [
            (
                run.benchmark.name,
                name,
                percent(accept_rate(run, name)),
                run.time(name, "total_seconds"),
                run.time(name, "seconds_per_question"),
                run.time_ratio(REFERENCE, name),
                percent(run.score(name, protocol)),
            )
            for run in runs
            if len(run.of("speculative"))
            for name in (REFERENCE, "speculative", "mai")
        ],
        scale=1.0,
        places=2,
    )


def protocol_scores(runs: Sequence[Evaluated]) -> Table:
    """Every strategy's score under every protocol that has one."""
    return Table(
        "protocols",
        "Scores by strategy under every protocol",
        ("benchmark", "strategy", "metric", *PROTOCOLS),
        [
            (run.benchmark.name, name, run.headline, *(run.score(name, one) for one in PROTOCOLS))
            for run in runs
            for name in run.strategies
        ],
        notes=list(_zero_notes(runs, "strict")),
    )


def outputs(runs: Sequence[Evaluated]) -> Table:
    """What to look at before any score is believed: failures, unread and cut outputs, cost."""
    rows: list[Row] = []
    for run in runs:
        # A strategy that failed on every question has no results.
        for name in dict.fromkeys([*run.strategies, *run.failed]):
            own = run.of(name)
            unread, cut = (percent(proportion(own, own[column])) for column in ("unread", "cut"))
            failed, tokens = run.failed.get(name, 0), mean(own, "tokens")
            rows.append((run.benchmark.name, name, len(own), failed, unread, cut, tokens))
    return Table(
        "outputs",
        "Outputs: failed; unread and cut ones in %; mean output tokens of all calls",
        ("benchmark", "strategy", "questions", "failed", "unread", "cut", "output tokens"),
        rows,
        scale=1.0,
    )


def wants_whole_output(run: Evaluated, strategy: str, protocol: str) -> bool:
    """Whether a protocol compares whole outputs where the strategy answers at length.

    Without a benchmark's own script, strict is such a comparison; every explanation and every
    reasoning is wrong by it, which tells nothing of the answer.
    """
    own_rule = protocol == "strict" and run.benchmark.metric == "accuracy"
    return own_rule and strategy.endswith(("_explain", "_reason"))


def _zero_notes(runs: Sequence[Evaluated], protocol: str) -> Iterator[str]:
    """Yield a sentence for each evaluation in which a score is 0 by rule."""
    for run in runs:
        names = [name for name in run.strategies if wants_whole_output(run, name, protocol)]
        if names:
            yield (
                f"{run.benchmark.name}: strict compares the whole output with the accepted "
                f"answers, so it is 0 by rule for what is explained or reasoned first "
                f"({', '.join(names)})."
            )


def _unread_notes(runs: Sequence[Evaluated]) -> Iterator[str]:
    """Yield a sentence for each evaluation with strategies whose outputs often have no answer."""
    for run in runs:
        unread = run.results.groupby("strategy", sort=False)["unread"].mean()
        many = [f"{100 * part:.0f}% of {name}" for name, part in unread.items()]
        many = [text for text, part in zip(many, unread, strict=True) if part > MANY_UNREAD]
        if many:
            yield (
                f"{run.benchmark.name}: in many outputs no answer was found ({', '.join(many)}); "
                "they count as wrong. The table of outputs says how many were cut at their limit."
            )


def _timing_notes(run: Evaluated) -> Iterator[str]:
    """Yield what was timed and is no part of the evaluation."""
    unknown = sum(one not in run.questions for one in run.seconds.index)
    if unknown:
        yield (
            f"{run.benchmark.name}: {unknown} of the timed questions are not among the "
            f"{len(run.questions)} evaluated ones. They count in seconds, not in the cascade's "
            "time over that of others."
        )
    absent = [name for name in run.seconds.columns if name not in run.strategies]
    if absent:
        yield f"{run.benchmark.name}: timed, but without results: {', '.join(absent)}."


def _sparse_rows(run: Evaluated, protocol: str) -> Iterator[Row]:
    variants = sorted(
        (one for one in map(Variant.read, run.strategies) if one.sparse), key=_sparse_order
    )
    head = run.benchmark.name
    if variants and len(run.of("large_direct")):
        nothing = percent(run.score("large_direct", protocol))
        yield head, "large_direct", None, "nothing", None, None, None, None, nothing
    chosen = run.calls.dropna(subset="kept_tokens")
    for one in variants:
        sparse, calls = one.sparse or SparseTransfer(), chosen[chosen["strategy"] == one.name]
        layers = sorted({sparse.layer, *calls["layer"].dropna().astype(int)} - {None})
        part = calls["kept_tokens"] / calls["reasoning_tokens"].clip(lower=1)
        yield (
            head,
            one.strategy,
            ", ".join(f"L{layer}" for layer in layers) or None,
            f"{100 * sparse.share:g}%",
            sparse.keep,
            mean(calls, "kept_tokens"),
            percent(mean(calls.assign(part=part), "part")),
            percent(mean(calls, "reached")),
            percent(run.score(one.name, protocol)),
        )
    for strategy, one in {one.strategy: one for one in variants}.items():
        if len(run.of(strategy)):
            tokens = mean(chosen[chosen["strategy"] == one.name], "reasoning_tokens")
            full = percent(run.score(strategy, protocol))
            yield head, strategy, None, "full", None, tokens, None, None, full


def _sparse_order(variant: Variant) -> tuple[str, int, float, str]:
    sparse = variant.sparse or SparseTransfer()
    return variant.strategy, sparse.layer or 0, sparse.share, sparse.keep


_VERIFIED = ("verified", "transfer", "score")


def _two_stage_cells(run: Evaluated, protocol: str) -> Row | None:
    """Return Table 15's row: the disagreeing questions, verified by the two-stage answer."""
    rows = run.of("mai")
    staged, transferred = run.of("small_two_stage")["text"], run.of("full_transfer")["text"]
    rows = rows[rows.index.isin(staged.index) & rows.index.isin(transferred.index)]
    if not len(rows):
        return None
    direct = run.calls_of("mai", "large", "direct")["text"]
    again = rows.index[(rows["route"] != "direct") & rows.index.isin(direct.index)]
    asked = {one: run.questions[one] for one in again}
    verified = [
        one
        for one in again
        if agree(read(asked[one], staged[one]), read(asked[one], direct[one])) == "agree"
    ]
    texts = rows["text"].copy()
    texts[again] = transferred[again]
    texts[verified] = direct[verified]
    changed = grade(run.benchmark, texts).assign(image=rows["image"])
    count = rows["route"].value_counts()
    return (
        len(rows),
        int(count.get("reasoned", 0)),
        int(count.get("transferred", 0)),
        score(run.benchmark, rows, protocol),
        len(verified),
        len(rows) - int(count.get("direct", 0)) - len(verified),
        score(run.benchmark, changed, protocol),
    )
