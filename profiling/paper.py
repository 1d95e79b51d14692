"""The tables of arXiv 2604.04929 as the simulator's input, and held against its predictions."""

import csv
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from statistics import fmean

from .csv_rows import ProfilingInputError, read_csv_rows
from .latency import Curve, Latencies, ModelLatency, Role
from .totals import Settings, total_seconds
from .workload import SCORES, STYLES, MeanTokens, Style, Workload

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


def paper_routes() -> list[Workload]:
    """Return Table 10, without tokens."""
    path = _FOLDER / "table10_mai.csv"
    return [row for _, row in read_csv_rows(path, Workload, columns=list(SCORES))]


@cache
def paper_tokens() -> Sequence[MeanTokens]:
    """Return Table 5 for Qwen3-VL."""
    path = _FOLDER / "table05_qwen3vl_mean_output_tokens.csv"
    return [row for _, row in read_csv_rows(path, MeanTokens)]


def with_tokens(
    workload: Workload, rows: Sequence[MeanTokens], names: Mapping[str, Role]
) -> Workload:
    """Return a workload with its tokens.

    Args:
        workload: The benchmark.
        rows: Of any benchmarks; of several for one call, the last counts.
        names: The pair's roles by the names of its models.
    """
    own = [row for row in rows if row.benchmark == workload.benchmark]
    tokens = {call: row.mean_output_tokens for row in own if (call := row.call(names))}
    return replace(workload, tokens=tokens)


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

    encoder = {row["image_side_px"]: _seconds(row) for row in own("table02_vision_encoder_ms")}
    prefill: dict[int, list[float]] = defaultdict(list)
    images: dict[int, list[float]] = defaultdict(list)
    for row in own("table03_ttft_ms"):
        vision = encoder.get(row["image_side_px"], 0.0)
        prefill[int(row["total_tokens"])].append(_seconds(row, "ttft_ms") - vision)
        images[int(row["total_tokens"])].append(vision)
    decoded = own("table04_decode_ms")
    few = [_seconds(row, "decode_ms") for row in decoded if row["output_tokens"] == _FEW_TOKENS]
    return ModelLatency(
        model=model,
        prefill=_means(prefill),
        images=_means(images),
        seconds_per_token=1 / rates[model],
        least_seconds=min(few),
        batch_slope=batch_slope(),
    )


def _seconds(row: dict[str, str], column: str = "latency_ms") -> float:
    return float(row[column]) / 1000


def _means(seconds: Mapping[int, Sequence[float]]) -> Curve:
    return tuple((tokens, fmean(seconds[tokens])) for tokens in sorted(seconds))


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
    rates = filter(None, (row["accept_rate_pct"] for row in table("table12_chartqa_decoding")))
    accept_rate = float(next(rates)) / 100
    return [
        replace(
            with_tokens(workload, paper_tokens(), paper_names()),
            # Where two tables give one score, Table 10's.
            scores={**_scores(workload.benchmark), **workload.scores},
            accept_rate=accept_rate if workload.benchmark == DECODED else None,
        )
        for workload in paper_routes()
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


def compare_totals() -> dict[str, dict[str, float]]:
    """Predict Table 11 for the benchmarks that Table 10 has routes for.

    Returns:
        By benchmark, `full_transfer`, `mai` (in seconds; every reasoning as long as Table 5's mean)
        and `speedup`, each `.predicted` and `.published`, and

        - `speedup.overlapped`: predicted where the two direct answers run concurrently and no call
          has a lower bound;
        - `reasoning_ratio.disputed`: how much longer than Table 5's mean the reasonings on
          disagreeing questions must be for the published MAI total, all else as predicted;
        - `reasoning_ratio.all`: the same for the published full-transfer total and all questions;
        - `mai.at_ratio_of_all`: seconds predicted with reasonings that much longer, which takes no
          figure from MAI's total.
    """
    published = {row["benchmark"]: row for row in table("table11_total_time_s")}
    latencies, fast = paper_latencies(), Settings(overlap=True, floor=False)
    found = {}
    for workload in paper_workloads():
        full, mai, full_fast, mai_fast = (
            total_seconds(strategy, workload, latencies, settings)
            for settings in (None, fast)
            for strategy in ("full_transfer", "mai")
        )
        row = published[workload.benchmark]
        paper_full, paper_mai = float(row["full_transfer_s"]), float(row["mai_s"])
        reasoning = latencies["small"].seconds_per_token * workload.reasoning(None)
        full_ratio = 1 + (paper_full - full) / (workload.questions * reasoning)
        found[workload.benchmark] = {
            "full_transfer.predicted": full,
            "full_transfer.published": paper_full,
            "mai.predicted": mai,
            "mai.published": paper_mai,
            "speedup.predicted": full / mai,
            "speedup.published": float(row["speedup"]),
            "speedup.overlapped": full_fast / mai_fast,
            "reasoning_ratio.disputed": 1 + (paper_mai - mai) / (workload.disagreeing * reasoning),
            "reasoning_ratio.all": full_ratio,
            "mai.at_ratio_of_all": mai + (full_ratio - 1) * workload.disagreeing * reasoning,
        }
    return found


def compare_decoding() -> dict[str, dict[str, float]]:
    """Predict the methods of Table 12 that were run with transformers, one by one.

    Returns:
        By strategy, `total` (in seconds) and `speedup` over the large model's plain reasoning, each
        `.predicted` and `.published`.
    """
    latencies = paper_latencies()
    workload = next(one for one in paper_workloads() if one.benchmark == DECODED)
    plain = total_seconds("large_reason", workload, latencies)
    found = {}
    for row in table("table12_chartqa_decoding"):
        strategy = _METHODS.get(row["method"], "mai")
        if strategy != "mai" and row["batch_size"] == "1":
            seconds = total_seconds(strategy, workload, latencies)
            found[strategy] = {
                "total.predicted": seconds,
                "total.published": float(row["total_s"]),
                "speedup.predicted": plain / seconds,
                "speedup.published": float(row["speedup"]),
            }
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
    for name, row in compare_totals().items():
        total, predicted = row["full_transfer.published"], row["full_transfer.predicted"]
        if abs(off := total / predicted - 1) > TOLERANCE:
            yield (
                f"{name}: the full-transfer total of {total:,.0f} s (Table 11) is {off:+.0%} from "
                f"what its own token counts give ({predicted:,.0f} s)."
            )
    name = "RealWorldQA"
    published = next(row for row in table("table11_total_time_s") if row["benchmark"] == name)
    small, large = paper_latencies().values()
    tokens = mean_tokens(SMALL, name)["reason"]
    question = small.prefill_seconds(320) + tokens * small.seconds_per_token + large.least_seconds
    total, predicted = float(published["full_transfer_s"]), REALWORLDQA_QUESTIONS * question
    if abs(off := total / predicted - 1) > TOLERANCE:
        yield (
            f"{name}: the full-transfer total of {total:,.0f} s (Table 11) is {off:+.0%} from what "
            f"the token counts of {REALWORLDQA_QUESTIONS} questions give ({predicted:,.0f} s); "
            "Table 10 has no routes for it."
        )
    plain = compare_decoding()["large_reason"]
    total, predicted = plain["total.published"], plain["total.predicted"]
    if abs(off := total / predicted - 1) > TOLERANCE:
        yield (
            f"{DECODED}: the large model's reasoning takes {total:,.0f} s (Table 12), {off:+.0%} "
            f"from what Table 5's token counts give ({predicted:,.0f} s)."
        )


def _contradicted_lengths() -> Iterator[str]:
    """Where reasonings on disagreeing questions would be shorter than on all."""
    for name, row in compare_totals().items():
        disputed, every = row["reasoning_ratio.disputed"], row["reasoning_ratio.all"]
        if disputed < every - TOLERANCE:
            yield (
                f"{name}: the MAI total (Table 11) implies reasonings {disputed:.2f} times as long "
                f"as Table 5's mean on disputed questions, the full-transfer total {every:.2f} "
                "times on all."
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
