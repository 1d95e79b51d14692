"""The tables of arXiv 2604.04929 as the simulator's input, and held against its predictions."""

import csv
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean

from .csv_rows import ProfilingInputError, read_csv_rows
from .latency import Latencies, ModelLatency, Role
from .totals import Settings, total_seconds
from .workload import STYLES, Drafting, RoutesRow, Style, TokensRow, Workload, workload_of

SMALL, LARGE = "Qwen3-VL-2B", "Qwen3-VL-8B"
"""The pair of Tables 10 to 12."""

DECODED = "ChartQA"
"""The benchmark of Table 12."""

TOLERANCE = 0.1
"""Totals further from their own token counts than this contradict them."""

SCORE_TOLERANCE = 0.3
"""Points by which two tables may differ on one score; rounding explains 0.1."""

REALWORLDQA_QUESTIONS = 765
"""Size of the public RealWorldQA set; the paper gives none."""

_FEW_TOKENS = "8"
"""The shortest output of Table 4. Direct answers in Table 11 cost as much."""

_METHODS = {"8B-R": "large_reason", "speculative decoding 8B+2B": "speculative", "MAI 8B+2B": "mai"}
"""Strategies by the names of Table 12."""

_FOLDER = Path(__file__).parent / "paper"


def table(name: str) -> list[dict[str, str]]:
    """Return the rows of a shipped table, such as "table11_total_time_s"."""
    with (_FOLDER / f"{name}.csv").open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def paper_routes() -> list[RoutesRow]:
    """Return Table 10."""
    return [line.row for line in read_csv_rows(_FOLDER / "table10_mai.csv", RoutesRow)]


def paper_tokens() -> list[TokensRow]:
    """Return Table 5 for Qwen3-VL."""
    name = "table05_qwen3vl_mean_output_tokens.csv"
    return [line.row for line in read_csv_rows(_FOLDER / name, TokensRow)]


def paper_names(small: str | None = None, large: str | None = None) -> dict[str, Role]:
    """Return the roles of a pair by the names of its models, by default the paper's."""
    return {small or SMALL: "small", large or LARGE: "large"}


def paper_latencies(small: str = SMALL, large: str = LARGE) -> Latencies:
    """Return the component latencies of a pair by Tables 2 to 4.

    Raises:
        ProfilingInputError: The tables have no such model.
    """
    return {"small": _paper_latency(small), "large": _paper_latency(large)}


def _paper_latency(model: str) -> ModelLatency:
    """Table 3's time to first token is taken to include the vision encoder."""
    rates = _decode_rates()
    if model not in rates:
        raise ProfilingInputError(
            f"The paper's tables have no model {model!r}, only {', '.join(rates)}."
        )

    def own(name: str) -> list[dict[str, str]]:
        return [row for row in table(name) if row["model"] == model]

    encoder = {
        row["image_side_px"]: float(row["latency_ms"]) / 1000
        for row in own("table02_vision_encoder_ms")
    }
    prefill: dict[int, list[float]] = defaultdict(list)
    images: dict[int, list[float]] = defaultdict(list)
    for row in own("table03_ttft_ms"):
        vision = encoder.get(row["image_side_px"], 0.0)
        prefill[int(row["total_tokens"])].append(float(row["ttft_ms"]) / 1000 - vision)
        images[int(row["total_tokens"])].append(vision)
    few = [
        float(row["decode_ms"]) / 1000
        for row in own("table04_decode_ms")
        if row["output_tokens"] == _FEW_TOKENS
    ]
    return ModelLatency(
        model=model,
        prefill=tuple((tokens, fmean(prefill[tokens])) for tokens in sorted(prefill)),
        images=tuple((tokens, fmean(images[tokens])) for tokens in sorted(images)),
        seconds_per_token=1 / rates[model],
        least_seconds=min(few),
        batch_slope=batch_slope(),
    )


def _decode_rates() -> dict[str, float]:
    rows = table("table04_decode_tokens_per_s")
    return {row["model"]: float(row["tokens_per_s"]) for row in rows}


def batch_slope() -> float:
    """Return what a further sequence adds to a decode step, as a share, by Tables 4, 5 and 12.

    Table 12's `8B-R` on vLLM generates Table 5's tokens at batch 32; its time a step, prefill
    included, is compared with Table 4's step at batch 1, measured with transformers. The paper has
    no other figure for batches.
    """
    row = next(row for row in _batched() if row["method"] == "8B-R")
    batch = int(row["batch_size"])
    step = batch * float(row["s_per_sample"]) / mean_tokens(LARGE, DECODED)["reason"]
    return (step * _decode_rates()[LARGE] - 1) / (batch - 1)


def mean_tokens(model: str, benchmark: str) -> dict[Style, float]:
    """Return the mean output tokens by prompt style (Table 5)."""
    return {
        STYLES[row.style]: row.mean_output_tokens
        for row in paper_tokens()
        if (row.model, row.benchmark) == (model, benchmark)
    }


def paper_workloads() -> list[Workload]:
    """Return the benchmarks of Table 10, with tokens of Table 5 and scores of Tables 6, 7 and 10.

    Speculative decoding is known of one of them, by the accept rate of Table 12.
    """
    tokens, names = paper_tokens(), paper_names()
    rates = filter(None, (row["accept_rate_pct"] for row in table("table12_chartqa_decoding")))
    drafting = Drafting(float(next(rates)) / 100)
    return [
        replace(
            workload_of(row, tokens, names),
            # Where two tables give one score, Table 10's.
            scores=_scores(row.benchmark) | row.scores_by_strategy(),
            drafting=drafting if row.benchmark == DECODED else None,
        )
        for row in paper_routes()
    ]


def _scores(benchmark: str) -> dict[str, float]:
    """Return a benchmark's scores by strategy, of each model alone (Tables 6 and 7)."""
    roles = paper_names()
    return {
        f"{roles[row['model']]}_{STYLES[row['style']]}": float(row.get("score") or row["f1"])
        for name in ("table06_qwen3vl_pope_f1", "table07_qwen3vl_scores")
        for row in table(name)
        if row["benchmark"] == benchmark and row["style"] in STYLES and row["model"] in roles
    }


@dataclass(frozen=True, slots=True)
class ComparedTotals:
    """One row of Table 11 and its prediction. Times are in seconds.

    Attributes:
        benchmark: Its name.
        full_transfer: Predicted.
        paper_full_transfer: Published.
        mai: Predicted, every reasoning as long as Table 5's mean.
        paper_mai: Published.
        paper_speedup: Published.
        implied_ratio: How much longer than Table 5's mean the reasonings on disagreeing questions
            must be for the published MAI total; all other parts are as predicted.
        implied_full_ratio: The same for the published full-transfer total and all questions.
        mai_at_ratio: Predicted with reasonings as long as `implied_full_ratio` says of all
            questions, which takes no figure from MAI's total.
        overlapped_speedup: Predicted where the two direct answers run concurrently and no call has
            a lower bound.
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


def compare_totals() -> list[ComparedTotals]:
    """Predict Table 11 for the benchmarks that Table 10 has routes for."""
    published = {row["benchmark"]: row for row in table("table11_total_time_s")}
    latencies = paper_latencies()
    return [
        _compare(workload, latencies, published[workload.name]) for workload in paper_workloads()
    ]


def _compare(workload: Workload, latencies: Latencies, published: dict[str, str]) -> ComparedTotals:
    full = total_seconds("full_transfer", workload, latencies)
    mai = total_seconds("mai", workload, latencies)
    paper_full, paper_mai = float(published["full_transfer_s"]), float(published["mai_s"])
    reasoning = latencies["small"].seconds_per_token * workload.reasoning(None)
    full_ratio = 1 + (paper_full - full) / (workload.questions * reasoning)
    fast = Settings(overlap=True, floor=False)
    return ComparedTotals(
        benchmark=workload.name,
        full_transfer=full,
        paper_full_transfer=paper_full,
        mai=mai,
        paper_mai=paper_mai,
        paper_speedup=float(published["speedup"]),
        implied_ratio=1 + (paper_mai - mai) / (workload.disagreeing * reasoning),
        implied_full_ratio=full_ratio,
        mai_at_ratio=mai + (full_ratio - 1) * workload.disagreeing * reasoning,
        overlapped_speedup=total_seconds("full_transfer", workload, latencies, fast)
        / total_seconds("mai", workload, latencies, fast),
    )


@dataclass(frozen=True, slots=True)
class ComparedDecoding:
    """One method of Table 12 and its prediction. Times are in seconds.

    Attributes:
        strategy: Its name.
        seconds: Predicted total.
        paper_seconds: Published total.
        speedup: Predicted, over the large model's plain reasoning.
        paper_speedup: Published.
    """

    strategy: str
    seconds: float
    paper_seconds: float
    speedup: float
    paper_speedup: float


def compare_decoding() -> list[ComparedDecoding]:
    """Predict the methods of Table 12 that were run with transformers, one by one."""
    latencies = paper_latencies()
    workload = next(workload for workload in paper_workloads() if workload.name == DECODED)
    plain = total_seconds("large_reason", workload, latencies)
    found = []
    for row in table("table12_chartqa_decoding"):
        strategy = _METHODS.get(row["method"], "mai")
        if strategy != "mai" and row["batch_size"] == "1":
            seconds = total_seconds(strategy, workload, latencies)
            published = float(row["total_s"]), plain / seconds, float(row["speedup"])
            found.append(ComparedDecoding(strategy, seconds, *published))
    return found


def batched_question_seconds() -> dict[str, float]:
    """Return Table 12's seconds a question on ChartQA, vLLM at batch 32, by strategy."""
    return {
        _METHODS[row["method"]]: float(row["s_per_sample"])
        for row in _batched()
        if row["method"] in _METHODS
    }


def _batched() -> list[dict[str, str]]:
    return [row for row in table("table12_chartqa_decoding") if row["backend"] == "vLLM"]


def contradictions() -> list[str]:
    """Return a sentence for each figure of the paper that contradicts another."""
    return [
        *_contradicted_totals(),
        *_contradicted_lengths(),
        *_contradicted_sums(),
        *_contradicted_scores(),
    ]


def _contradicted_totals() -> Iterator[str]:
    for row in compare_totals():
        off = row.paper_full_transfer / row.full_transfer - 1
        if abs(off) > TOLERANCE:
            yield (
                f"{row.benchmark}: the full-transfer total of {row.paper_full_transfer:,.0f} s "
                f"(Table 11) is {off:+.0%} from what its own token counts give "
                f"({row.full_transfer:,.0f} s)."
            )
    name = "RealWorldQA"
    published = next(row for row in table("table11_total_time_s") if row["benchmark"] == name)
    small, large = paper_latencies().values()
    tokens = mean_tokens(SMALL, name)["reason"]
    question = small.prefill_seconds(320) + tokens * small.seconds_per_token + large.least_seconds
    total, predicted = float(published["full_transfer_s"]), REALWORLDQA_QUESTIONS * question
    if abs(total / predicted - 1) > TOLERANCE:
        yield (
            f"{name}: the full-transfer total of {total:,.0f} s (Table 11) is "
            f"{total / predicted - 1:+.0%} from what the token counts of {REALWORLDQA_QUESTIONS} "
            f"questions give ({predicted:,.0f} s); Table 10 has no routes for it."
        )
    plain = compare_decoding()[0]
    off = plain.paper_seconds / plain.seconds - 1
    if abs(off) > TOLERANCE:
        yield (
            f"{DECODED}: the large model's reasoning takes {plain.paper_seconds:,.0f} s (Table "
            f"12), {off:+.0%} from what Table 5's token counts give ({plain.seconds:,.0f} s)."
        )


def _contradicted_lengths() -> Iterator[str]:
    """Where reasonings on disagreeing questions would be shorter than on all."""
    for row in compare_totals():
        if row.implied_ratio < row.implied_full_ratio - TOLERANCE:
            yield (
                f"{row.benchmark}: the MAI total (Table 11) implies reasonings "
                f"{row.implied_ratio:.2f} times as long as Table 5's mean on disputed questions, "
                f"the full-transfer total {row.implied_full_ratio:.2f} times on all."
            )


def _contradicted_sums() -> Iterator[str]:
    again = {row["benchmark"]: row for row in table("table15_verifying_with_two_stage_reasoning")}
    for row in table("table10_mai"):
        name, questions, direct = row["benchmark"], int(row["questions"]), row["verified_direct"]
        routed = sum(map(int, (direct, row["verified_by_reasoning"], row["reasoning_transfer"])))
        if routed != questions:
            yield f"{name}: the routes of Table 10 add up to {routed} of {questions}."
        other = again[name]
        left = questions - int(other["R_verified"]) - int(other["R_transfer"])
        if abs(left - int(direct)) > abs(questions - routed):
            yield f"{name}: {direct} questions agree directly by Table 10, {left} by Table 15."
        mine, theirs = row["mai_score"], other["R_score"]
        if abs(float(mine) - float(theirs)) > SCORE_TOLERANCE:
            yield f"{name}: MAI scores {mine} in Table 10, {theirs} in Table 15."


def _contradicted_scores() -> Iterator[str]:
    again = {
        row["benchmark"]: row["score"]
        for row in table("table08_reasoning_transfer_scores")
        if row["config"] == "2B-R"
    }
    for row in table("table07_qwen3vl_scores"):
        name, score = row["benchmark"], row["score"]
        if (row["model"], row["style"]) == (SMALL, "R") and (
            abs(float(score) - float(again[name])) > SCORE_TOLERANCE
        ):
            yield f"{name}: {SMALL} in style R scores {score} in Table 7, {again[name]} in Table 8."
