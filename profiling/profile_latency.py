"""From the rows of a profile to the component latencies that the simulator takes."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from statistics import fmean

from .errors import ProfilingInputError
from .latency import DEFAULT_BATCH_SLOPE, SHORTEST_STEP, ModelLatency
from .profile_rows import ProfileRow

_PICTURE = ("preprocess", "vision")


def profile_latency(
    rows: Sequence[ProfileRow], model: str, backend: str | None = None
) -> ModelLatency:
    """Component latencies of a model.

    The time to first token includes the vision encoder and the first token. A decode step is taken
    off, because the simulator counts every output token as one; the vision encoder, where it was
    measured, and preparing the picture are told apart, because prompts that are read together each
    pay them. Where noise made a longer prompt the faster one, both get the time between (isotonic
    regression).

    Args:
        rows: Rows of `profile.csv`.
        model: Its name there.
        backend: What ran it, None if it ran in one way only.

    Raises:
        ProfilingInputError: No such model, nothing was measured of it that is needed, or it was
            measured in several ways.
    """
    own = measured_one_way(rows, model, backend)
    alone = [row for row in own if row.batch == 1]
    decoded = [row for row in alone if row.component == "decode" and row.output_tokens]
    first = [row for row in alone if row.component == "ttft"]
    if not decoded or not first:
        raise ProfilingInputError(
            f"The profile of {model!r} lacks the rows of ttft or decode at batch 1."
        )
    step = _step(decoded)
    if step < SHORTEST_STEP:
        raise ProfilingInputError(f"The decoding of {model!r} takes no time in the profile.")
    own_time: dict[int, list[float]] = defaultdict(list)
    pictures: dict[int, list[float]] = defaultdict(list)
    for row in first:
        ready, vision = (_milliseconds(alone, part, row.image_side) for part in _PICTURE)
        own_time[row.input_tokens].append((row.median_ms or 0.0) - vision - 1000 * step)
        pictures[row.input_tokens].append(ready + vision)
    return ModelLatency(
        model,
        _rising(own_time),
        step,
        batch_slope=_batch_slope(own, step),
        pictures=_rising(pictures) if any(map(any, pictures.values())) else (),
    )


def measured_one_way(
    rows: Sequence[ProfileRow], model: str, backend: str | None = None
) -> list[ProfileRow]:
    """What was measured of a model, if all of it was measured in one way.

    Rows that say less of how they were measured count if there are no others.

    Args:
        rows: Rows of `profile.csv`.
        model: Its name there.
        backend: What ran it, None for any.

    Raises:
        ProfilingInputError: Nothing was measured of it, or with several backends, dtypes, devices,
            attentions or kinds of weights.
    """
    measured = [row for row in rows if row.median_ms]
    own = [row for row in measured if row.model == model and backend in {None, row.backend}]
    if not own:
        known = ", ".join(dict.fromkeys(f"{row.model} ({row.backend})" for row in measured))
        raise ProfilingInputError(
            f"The profile has no measured model {model!r}, only {known or 'none'}."
        )
    ways = list(dict.fromkeys(tuple(row.settings.values()) for row in own))
    told = [way for way in ways if not any(_is_part(way, other) for other in ways)]
    own = [row for row in own if tuple(row.settings.values()) in told]
    if len(told) > 1:
        shown = "; ".join(" ".join(filter(None, way)) for way in told)
        raise ProfilingInputError(
            f"The profile holds {model!r} measured in several ways ({shown}): choose one with "
            "--backend, or profile them into folders of their own."
        )
    return own


def _is_part(way: Sequence[str], other: Sequence[str]) -> bool:
    """Whether an older version of the package may have told another way like this."""
    pairs = list(zip(way, other, strict=True))
    return way != other and all(one in {"", two} for one, two in pairs)


def _milliseconds(rows: Sequence[ProfileRow], component: str, side: int) -> float:
    """What was measured of a picture; nothing if it was not."""
    return next(
        (
            row.median_ms or 0.0
            for row in rows
            if (row.component, row.image_side) == (component, side)
        ),
        0.0,
    )


def _rising(times: Mapping[int, Sequence[float]]) -> tuple[tuple[int, float], ...]:
    """Seconds by prompt tokens, from milliseconds; more tokens never take less."""
    from scipy.optimize import isotonic_regression

    sizes = sorted(times)
    means = [max(0.0, fmean(times[tokens]) / 1000) for tokens in sizes]
    fitted = isotonic_regression(means, weights=[float(len(times[tokens])) for tokens in sizes])
    return tuple(zip(sizes, map(float, fitted.x), strict=True))


def _step(decoded: Sequence[ProfileRow]) -> float:
    milliseconds = sum((row.median_ms or 0.0) for row in decoded)
    return milliseconds / sum(row.output_tokens for row in decoded) / 1000


def _batch_slope(rows: Sequence[ProfileRow], step: float) -> float:
    slopes = [
        (_step([row]) / step - 1) / (row.batch - 1)
        for row in rows
        if row.component == "decode" and row.batch > 1
    ]
    return max(0.0, fmean(slopes)) if slopes else DEFAULT_BATCH_SLOPE
