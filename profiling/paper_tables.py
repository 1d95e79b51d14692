"""The paper's own tables as the simulator's input."""

import csv
from collections import defaultdict
from dataclasses import replace
from pathlib import Path
from statistics import fmean

from .latency import Latencies, ModelLatency, Role
from .workload import (
    DEFAULT_AHEAD,
    DEFAULT_PROMPT_TOKENS,
    Drafting,
    Route,
    Style,
    Workload,
)

SMALL, LARGE = "Qwen3-VL-2B", "Qwen3-VL-8B"
"""The pair of Tables 10 to 12."""

DECODED = "ChartQA"
"""The benchmark of Table 12."""

FEW_TOKENS = 8
"""The shortest output of Table 4. Direct answers in Table 11 cost as much."""

STYLES: dict[str, Style] = {"S": "direct", "E": "explain", "R": "reason"}

_FOLDER = Path(__file__).parent / "paper"
_COUNTS: dict[str, Route] = {
    "verified_direct": "direct",
    "verified_by_reasoning": "reasoned",
    "reasoning_transfer": "transferred",
}


def table(name: str) -> list[dict[str, str]]:
    """Rows of a shipped table, such as "table10_mai"."""
    return read_csv(_FOLDER / f"{name}.csv")


def read_csv(path: Path) -> list[dict[str, str]]:
    """Rows of a CSV file with a header."""
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def paper_latencies(small: str = SMALL, large: str = LARGE) -> Latencies:
    """Component latencies of a pair by Tables 3 and 4.

    Raises:
        KeyError: The tables have no such model.
    """
    return {"small": paper_latency(small), "large": paper_latency(large)}


def paper_latency(model: str) -> ModelLatency:
    """Component latencies of one model by Tables 3 and 4.

    Table 3's time to first token is taken to include the vision encoder.

    Raises:
        KeyError: The tables have no such model.
    """
    rates = {
        row["model"]: float(row["tokens_per_s"]) for row in table("table04_decode_tokens_per_s")
    }
    if model not in rates:
        raise KeyError(f"The paper's tables have no model {model!r}, only {', '.join(rates)}.")
    times: dict[int, list[float]] = defaultdict(list)
    for row in table("table03_ttft_ms"):
        if row["model"] == model:
            times[int(row["total_tokens"])].append(float(row["ttft_ms"]) / 1000)
    few = [
        float(row["decode_ms"]) / 1000
        for row in table("table04_decode_ms")
        if row["model"] == model and int(row["output_tokens"]) == FEW_TOKENS
    ]
    return ModelLatency(
        model=model,
        prefill=tuple((tokens, fmean(times[tokens])) for tokens in sorted(times)),
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
        STYLES[row["style"]]: float(row["mean_output_tokens"])
        for row in table("table05_qwen3vl_mean_output_tokens")
        if row["model"] == model and row["benchmark"] == benchmark
    }


def paper_workloads() -> list[Workload]:
    """The benchmarks of Table 10, with tokens of Table 5 and scores of Tables 6, 7 and 10.

    Speculative decoding is known of one of them, by the accept rate of Table 12.
    """
    return [
        replace(
            workload_of(row, token_table(SMALL, LARGE)),
            scores=_scores(row),
            drafting=_drafting() if row["benchmark"] == DECODED else None,
        )
        for row in table("table10_mai")
    ]


def _drafting() -> Drafting:
    rates = (row["accept_rate_pct"] for row in table("table12_chartqa_decoding"))
    return Drafting(float(next(filter(None, rates))) / 100)


def token_table(small: str, large: str) -> list[dict[str, str]]:
    """Table 5 with a column `role` for the two models of a pair."""
    roles = {small: "small", large: "large"}
    return [
        row | {"role": roles[row["model"]]}
        for row in table("table05_qwen3vl_mean_output_tokens")
        if row["model"] in roles
    ]


def workload_of(routes: dict[str, str], tokens: list[dict[str, str]]) -> Workload:
    """A workload from a row of Table 10's form and rows of Table 5's form.

    Args:
        routes: benchmark, questions, verified_direct, verified_by_reasoning, reasoning_transfer; if
            known also reason_tokens_reasoned, reason_tokens_transferred (mean tokens of the small
            model's reasoning by route), prompt_tokens, accept_rate (share of the small model's
            tokens that the large one keeps in speculative decoding) and ahead (tokens that it
            writes at a time).
        tokens: role, benchmark, style (S, E, R), mean_output_tokens; other benchmarks and styles
            are left out.

    Raises:
        KeyError: A column is missing.
        ValueError: A figure is none, or the counts do not fit together.
    """
    name = routes["benchmark"]
    by_call: dict[tuple[Role, Style], float] = {
        (row["role"], STYLES[row["style"]]): float(row["mean_output_tokens"])  # type: ignore[misc]
        for row in tokens
        if row["benchmark"] == name and row["style"] in STYLES
    }
    by_route: dict[Route, float] = {
        route: float(routes[key])
        for route in _COUNTS.values()
        if routes.get(key := f"reason_tokens_{route}")
    }
    return Workload(
        name=name,
        questions=int(routes["questions"]),
        routes={route: int(routes[column]) for column, route in _COUNTS.items()},
        tokens=by_call,
        reason_tokens=by_route,
        prompt_tokens=float(routes.get("prompt_tokens") or DEFAULT_PROMPT_TOKENS),
        drafting=(
            Drafting(float(routes["accept_rate"]), float(routes.get("ahead") or DEFAULT_AHEAD))
            if routes.get("accept_rate")
            else None
        ),
    )


def _scores(mai: dict[str, str]) -> dict[str, float]:
    """A benchmark's scores by strategy: Table 10's, and those of Tables 6 and 7 it leaves out."""
    benchmark = mai["benchmark"]
    alone = {
        f"{role}_{STYLES[row['style']]}": float(row.get("score") or row["f1"])
        for name in ("table06_qwen3vl_pope_f1", "table07_qwen3vl_scores")
        for row in table(name)
        if row["benchmark"] == benchmark and row["style"] in STYLES
        for role, model in (("small", SMALL), ("large", LARGE))
        if row["model"] == model
    }
    return alone | {
        "small_direct": float(mai["small_S"]),
        "small_reason": float(mai["small_R"]),
        "large_direct": float(mai["large_S"]),
        "full_transfer": float(mai["full_transfer"]),
        "mai": float(mai["mai_score"]),
    }
