"""The paper's own tables as the simulator's input."""

import csv
from collections import defaultdict
from dataclasses import replace
from pathlib import Path
from statistics import fmean

from .csv_rows import read_csv_rows
from .errors import ProfilingInputError
from .latency import Latencies, ModelLatency, Role
from .workload import Drafting, Style, Workload
from .workload_rows import STYLES, RoutesRow, TokensRow, workload_of

SMALL, LARGE = "Qwen3-VL-2B", "Qwen3-VL-8B"
"""The pair of Tables 10 to 12."""

DECODED = "ChartQA"
"""The benchmark of Table 12."""

FEW_TOKENS = 8
"""The shortest output of Table 4. Direct answers in Table 11 cost as much."""

_FOLDER = Path(__file__).parent / "paper"


def table(name: str) -> list[dict[str, str]]:
    """Rows of a shipped table, such as "table11_total_time_s"."""
    with (_FOLDER / f"{name}.csv").open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def paper_routes() -> list[RoutesRow]:
    """Table 10."""
    return [line.row for line in read_csv_rows(_FOLDER / "table10_mai.csv", RoutesRow)]


def paper_tokens() -> list[TokensRow]:
    """Table 5 for Qwen3-VL."""
    name = "table05_qwen3vl_mean_output_tokens.csv"
    return [line.row for line in read_csv_rows(_FOLDER / name, TokensRow)]


def paper_latencies(small: str = SMALL, large: str = LARGE) -> Latencies:
    """Component latencies of a pair by Tables 3 and 4.

    Raises:
        ProfilingInputError: The tables have no such model.
    """
    return {"small": paper_latency(small), "large": paper_latency(large)}


def paper_latency(model: str) -> ModelLatency:
    """Component latencies of one model by Tables 2, 3 and 4.

    Table 3's time to first token is taken to include the vision encoder.

    Raises:
        ProfilingInputError: The tables have no such model.
    """
    rates = {
        row["model"]: float(row["tokens_per_s"]) for row in table("table04_decode_tokens_per_s")
    }
    if model not in rates:
        raise ProfilingInputError(
            f"The paper's tables have no model {model!r}, only {', '.join(rates)}."
        )
    encoder = {
        row["image_side_px"]: float(row["latency_ms"]) / 1000
        for row in table("table02_vision_encoder_ms")
        if row["model"] == model
    }
    times: dict[int, list[float]] = defaultdict(list)
    pictures: dict[int, list[float]] = defaultdict(list)
    for row in table("table03_ttft_ms"):
        if row["model"] == model:
            vision = encoder.get(row["image_side_px"], 0.0)
            times[int(row["total_tokens"])].append(float(row["ttft_ms"]) / 1000 - vision)
            pictures[int(row["total_tokens"])].append(vision)
    few = [
        float(row["decode_ms"]) / 1000
        for row in table("table04_decode_ms")
        if row["model"] == model and int(row["output_tokens"]) == FEW_TOKENS
    ]
    return ModelLatency(
        model=model,
        prefill=tuple((tokens, fmean(times[tokens])) for tokens in sorted(times)),
        pictures=tuple((tokens, fmean(pictures[tokens])) for tokens in sorted(pictures)),
        seconds_per_token=1 / rates[model],
        least_seconds=min(few),
        batch_slope=batch_slope(),
    )


def batch_slope() -> float:
    """What a further sequence adds to a decode step, as a share of it, by Tables 4, 5 and 12.

    Table 12's `8B-R` on vLLM writes Table 5's tokens at batch 32; its time a step, prefill
    included, is held against Table 4's step at batch 1, which was measured with transformers. The
    paper has no other figure for batches.
    """
    row = next(
        row
        for row in table("table12_chartqa_decoding")
        if row["method"] == "8B-R" and row["backend"] == "vLLM"
    )
    batch = int(row["batch_size"])
    tokens = mean_tokens(LARGE, "ChartQA")["reason"]
    step = batch * float(row["s_per_sample"]) / tokens
    rates = {
        row["model"]: float(row["tokens_per_s"]) for row in table("table04_decode_tokens_per_s")
    }
    return (step * rates[LARGE] - 1) / (batch - 1)


def mean_tokens(model: str, benchmark: str) -> dict[Style, float]:
    """Mean output tokens by prompt style (Table 5)."""
    return {
        STYLES[row.style]: row.mean_output_tokens
        for row in paper_tokens()
        if (row.model, row.benchmark) == (model, benchmark)
    }


def paper_workloads() -> list[Workload]:
    """The benchmarks of Table 10, with tokens of Table 5 and scores of Tables 6, 7 and 10.

    Speculative decoding is known of one of them, by the accept rate of Table 12.
    """
    tokens, names = paper_tokens(), paper_names()
    return [
        replace(
            workload_of(row, tokens, names),
            # Where two tables give one score, Table 10's.
            scores=_scores(row.benchmark) | row.scores_by_strategy(),
            drafting=_drafting() if row.benchmark == DECODED else None,
        )
        for row in paper_routes()
    ]


def paper_names(small: str | None = SMALL, large: str | None = LARGE) -> dict[str, Role]:
    """The roles of a pair by the names of its models."""
    return {small or SMALL: "small", large or LARGE: "large"}


def _drafting() -> Drafting:
    rates = (row["accept_rate_pct"] for row in table("table12_chartqa_decoding"))
    return Drafting(float(next(filter(None, rates))) / 100)


def _scores(benchmark: str) -> dict[str, float]:
    """A benchmark's scores by strategy, of each model alone (Tables 6 and 7)."""
    return {
        f"{role}_{STYLES[row['style']]}": float(row.get("score") or row["f1"])
        for name in ("table06_qwen3vl_pope_f1", "table07_qwen3vl_scores")
        for row in table(name)
        if row["benchmark"] == benchmark and row["style"] in STYLES
        for role, model in (("small", SMALL), ("large", LARGE))
        if row["model"] == model
    }
