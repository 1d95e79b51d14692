"""Table 12's speculative decoding predicted from the paper's other tables."""

from dataclasses import dataclass

from .paper_tables import DECODED, paper_latencies, paper_workloads, table
from .totals import total_seconds
from .workload import Workload

STRATEGIES = {"8B-R": "large_reason", "speculative decoding 8B+2B": "speculative"}
"""Methods of Table 12 that were run one question after the other, and what they are here."""


@dataclass(frozen=True, slots=True)
class ComparedMethod:
    """One method of Table 12 beside its prediction. Times are in seconds.

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


def compare_decoding_with_paper() -> list[ComparedMethod]:
    """Predict the methods of Table 12 that were run with transformers, one by one."""
    workload, latencies = decoded_workload(), paper_latencies()
    plain = total_seconds("large_reason", workload, latencies)
    found = []
    for row in table("table12_chartqa_decoding"):
        strategy = STRATEGIES.get(row["method"])
        if strategy is None or row["batch_size"] != "1":
            continue
        seconds = total_seconds(strategy, workload, latencies)
        found.append(
            ComparedMethod(
                strategy=strategy,
                seconds=seconds,
                paper_seconds=float(row["total_s"]),
                speedup=plain / seconds,
                paper_speedup=float(row["speedup"]),
            )
        )
    return found


def decoded_workload() -> Workload:
    """The benchmark of Table 12, with its accept rate."""
    return next(workload for workload in paper_workloads() if workload.name == DECODED)
