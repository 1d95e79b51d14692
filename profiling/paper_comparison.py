"""Table 11 predicted from the paper's other tables, and where its figures contradict each other."""

from dataclasses import dataclass

from .latency import Latencies
from .paper_decoding import compare_decoding_with_paper
from .paper_tables import (
    DECODED,
    LARGE,
    SMALL,
    mean_tokens,
    paper_latencies,
    paper_workloads,
    table,
)
from .totals import Settings, total_seconds
from .workload import Workload

TOLERANCE = 0.1
"""Totals further from their own token counts than this contradict them."""

SCORE_TOLERANCE = 0.3
"""Points by which two tables may differ on one score; rounding explains 0.1."""

REALWORLDQA_QUESTIONS = 765
"""Size of the public RealWorldQA set; the paper gives none."""


@dataclass(frozen=True, slots=True)
class Compared:
    """One row of Table 11 beside its prediction. Times are in seconds.

    Attributes:
        benchmark: Its name.
        full_transfer: Predicted.
        paper_full_transfer: Published.
        mai: Predicted, every reasoning as long as Table 5's mean.
        paper_mai: Published.
        paper_speedup: Published.
        implied_ratio: How much longer than Table 5's mean the reasonings on disputed questions must
            be for the published MAI total; all other parts are as predicted.
        implied_full_ratio: The same for the published full-transfer total and all questions.
        mai_at_ratio: Predicted with reasonings as long as `implied_full_ratio` says of all
            questions, which takes no figure from MAI's total.
        overlapped_speedup: Predicted where the two direct answers run at once and no call has a
            shortest time.
    """

    benchmark: str
    full_transfer: float
    paper_full_transfer: float
    mai: float
    paper_mai: float
    paper_speedup: float
    implied_ratio: float
    implied_full_ratio: float
    mai_at_ratio: float
    overlapped_speedup: float

    @property
    def speedup(self) -> float:
        """Predicted speedup of MAI over full transfer."""
        return self.full_transfer / self.mai


def compare_with_paper() -> list[Compared]:
    """Predict Table 11 for the benchmarks that Table 10 has routes for."""
    published = {row["benchmark"]: row for row in table("table11_total_time_s")}
    latencies = paper_latencies()
    return [
        _compare(workload, latencies, published[workload.name]) for workload in paper_workloads()
    ]


def contradictions() -> list[str]:
    """Figures of the paper that do not fit together, a sentence each."""
    return [
        *_wrong_totals(),
        *_unfitting_lengths(),
        *_wrong_sums(),
        *_differing_scores(),
    ]


def _compare(workload: Workload, latencies: Latencies, published: dict[str, str]) -> Compared:
    full = total_seconds("full_transfer", workload, latencies)
    mai = total_seconds("mai", workload, latencies)
    paper_full, paper_mai = float(published["full_transfer_s"]), float(published["mai_s"])
    writing = latencies["small"].seconds_per_token * workload.reasoning(None)
    full_ratio = 1 + (paper_full - full) / (workload.questions * writing)
    fast = Settings(overlap=True, floor=False)
    return Compared(
        benchmark=workload.name,
        full_transfer=full,
        paper_full_transfer=paper_full,
        mai=mai,
        paper_mai=paper_mai,
        paper_speedup=float(published["speedup"]),
        implied_ratio=1 + (paper_mai - mai) / (workload.disputed * writing),
        implied_full_ratio=full_ratio,
        mai_at_ratio=mai + (full_ratio - 1) * workload.disputed * writing,
        overlapped_speedup=total_seconds("full_transfer", workload, latencies, fast)
        / total_seconds("mai", workload, latencies, fast),
    )


def _wrong_totals() -> list[str]:
    said = [
        f"{row.benchmark}: the full-transfer total of {row.paper_full_transfer:,.0f} s (Table 11) "
        f"is {row.paper_full_transfer / row.full_transfer - 1:+.0%} from what its own token counts "
        f"give ({row.full_transfer:,.0f} s)."
        for row in compare_with_paper()
        if abs(row.paper_full_transfer / row.full_transfer - 1) > TOLERANCE
    ]
    name = "RealWorldQA"
    published = next(r for r in table("table11_total_time_s") if r["benchmark"] == name)
    small, large = paper_latencies().values()
    tokens = mean_tokens(SMALL, name)["reason"]
    question = small.prefill_seconds(320) + tokens * small.seconds_per_token + large.least_seconds
    total = float(published["full_transfer_s"])
    predicted = REALWORLDQA_QUESTIONS * question
    if abs(total / predicted - 1) > TOLERANCE:
        said.append(
            f"{name}: the full-transfer total of {total:,.0f} s (Table 11) is "
            f"{total / predicted - 1:+.0%} from what the token counts of {REALWORLDQA_QUESTIONS} "
            f"questions give ({predicted:,.0f} s); Table 10 has no routes for it."
        )
    plain = compare_decoding_with_paper()[0]
    if abs(plain.paper_seconds / plain.seconds - 1) > TOLERANCE:
        said.append(
            f"{DECODED}: the large model's reasoning takes {plain.paper_seconds:,.0f} s (Table "
            f"12), {plain.paper_seconds / plain.seconds - 1:+.0%} from what Table 5's token counts "
            f"give ({plain.seconds:,.0f} s)."
        )
    return said


def _unfitting_lengths() -> list[str]:
    """Where disputed questions were reasoned about at less than the mean length."""
    return [
        f"{row.benchmark}: the MAI total (Table 11) implies reasonings {row.implied_ratio:.2f} "
        f"times as long as Table 5's mean on disputed questions, the full-transfer total "
        f"{row.implied_full_ratio:.2f} times on all."
        for row in compare_with_paper()
        if row.implied_ratio < row.implied_full_ratio - TOLERANCE
    ]


def _wrong_sums() -> list[str]:
    said = []
    again = {row["benchmark"]: row for row in table("table15_verifying_with_two_stage_reasoning")}
    for row in table("table10_mai"):
        name, questions = row["benchmark"], int(row["questions"])
        parts = ("verified_direct", "verified_by_reasoning", "reasoning_transfer")
        routed = sum(int(row[part]) for part in parts)
        if routed != questions:
            said.append(f"{name}: the routes of Table 10 add up to {routed} of {questions}.")
        other = again[name]
        left = questions - int(other["R_verified"]) - int(other["R_transfer"])
        if abs(left - int(row["verified_direct"])) > abs(questions - routed):
            said.append(
                f"{name}: {row['verified_direct']} questions agree directly by Table 10, {left} by "
                "Table 15."
            )
        if abs(float(row["mai_score"]) - float(other["R_score"])) > SCORE_TOLERANCE:
            said.append(
                f"{name}: MAI scores {row['mai_score']} in Table 10, {other['R_score']} in "
                "Table 15."
            )
    return said


def _differing_scores() -> list[str]:
    transfer = {
        row["benchmark"]: row["score"]
        for row in table("table08_reasoning_transfer_scores")
        if row["config"] == "2B-R"
    }
    return [
        f"{row['benchmark']}: {SMALL} in style R scores {row['score']} in Table 7, "
        f"{transfer[row['benchmark']]} in Table 8."
        for row in table("table07_qwen3vl_scores")
        if (row["model"], row["style"]) == (SMALL, "R")
        and abs(float(row["score"]) - float(transfer[row["benchmark"]])) > SCORE_TOLERANCE
    ]


def batched_question_seconds() -> dict[str, float]:
    """Table 12's published seconds a question on ChartQA, vLLM at batch 32, by strategy."""
    names = {"8B-R": "large_reason", "MAI 8B+2B": "mai"}
    return {
        names[row["method"]]: float(row["s_per_sample"])
        for row in table("table12_chartqa_decoding")
        if row["backend"] == "vLLM" and row["method"] in names
    }


__all__ = [
    "LARGE",
    "SMALL",
    "Compared",
    "batched_question_seconds",
    "compare_with_paper",
    "contradictions",
]
