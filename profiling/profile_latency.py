"""From the rows of a profile to the component latencies that the simulator takes."""

from collections import defaultdict
from collections.abc import Sequence
from statistics import fmean

from .latency import DEFAULT_BATCH_SLOPE, ModelLatency

Row = dict[str, str]


def profile_latency(rows: Sequence[Row], model: str) -> ModelLatency:
    """Component latencies of a model.

    The time to first token of a profile includes the vision encoder and the first token; a decode
    step is taken off, because the simulator counts every output token as one.

    Args:
        rows: Rows of `profile.csv`.
        model: Its name there.

    Raises:
        KeyError: No such model, or nothing was measured of it that is needed.
    """
    own = [row for row in rows if row["model"] == model and row["median_ms"]]
    if not own:
        known = ", ".join(dict.fromkeys(row["model"] for row in rows))
        raise KeyError(f"The profile has no measured model {model!r}, only {known}.")
    alone = [row for row in own if row["batch"] == "1"]
    decoded = [row for row in alone if row["component"] == "decode"]
    first = [row for row in alone if row["component"] == "ttft"]
    if not decoded or not first:
        raise KeyError(f"The profile of {model!r} lacks the rows of ttft or decode at batch 1.")
    step = _step(decoded)
    times: dict[int, list[float]] = defaultdict(list)
    for row in first:
        times[int(row["input_tokens"])].append(float(row["median_ms"]) / 1000 - step)
    prefill = tuple((tokens, max(0.0, fmean(times[tokens]))) for tokens in sorted(times))
    return ModelLatency(model, prefill, step, batch_slope=_batch_slope(own, step))


def _step(decoded: Sequence[Row]) -> float:
    milliseconds = sum(float(row["median_ms"]) for row in decoded)
    return milliseconds / sum(int(row["output_tokens"]) for row in decoded) / 1000


def _batch_slope(rows: Sequence[Row], step: float) -> float:
    slopes = [
        (_step([row]) / step - 1) / (int(row["batch"]) - 1)
        for row in rows
        if row["component"] == "decode" and int(row["batch"]) > 1
    ]
    return max(0.0, fmean(slopes)) if slopes else DEFAULT_BATCH_SLOPE
