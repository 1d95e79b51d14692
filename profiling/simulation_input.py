"""Reads what `mai simulate` is given: a profile, routes, tokens."""

from dataclasses import replace
from pathlib import Path

from .errors import ProfilingInputError
from .latency import Latencies
from .paper_tables import (
    LARGE,
    SMALL,
    paper_latencies,
    paper_workloads,
    read_csv,
    table,
    token_table,
    workload_of,
)
from .profile_latency import profile_latency
from .workload import Workload


def read_latencies(
    profile: Path | None, small: str | None, large: str | None, backend: str | None = None
) -> Latencies:
    """A pair's component latencies, from a profile or from the paper.

    Args:
        profile: Folder that `mai profile` wrote, None for the paper's tables.
        small: Which of its models is the small one, None for the first.
        large: Which one is the large one, None for the last.
        backend: Whose rows of the profile are meant, None if each model was measured on one.

    Raises:
        ProfilingInputError: No such folder or model, or a profile without what is needed.
    """
    try:
        if profile is None:
            return paper_latencies(small or SMALL, large or LARGE)
        rows = read_csv(profile / "profile.csv")
        models = list(
            dict.fromkeys(row["model"] for row in rows if backend in {None, row["backend"]})
        )
        if len(models) < 2 and not (small and large):
            raise ProfilingInputError(
                f"The profile {str(profile)!r} holds {len(models)} model, and a pair needs two; "
                "profile the other one into the same folder."
            )
        return {
            "small": profile_latency(rows, small or models[0], backend),
            "large": profile_latency(rows, large or models[-1], backend),
        }
    except OSError as error:
        raise ProfilingInputError(
            f"There is no profile.csv in {str(profile)!r}; write one with mai profile --out."
        ) from error
    except (KeyError, ValueError) as error:
        raise ProfilingInputError(str(error.args[0])) from error


def read_workloads(
    routes: Path | None, tokens: Path | None, small: str | None, large: str | None
) -> list[Workload]:
    """Benchmarks with their routes and tokens, from files or from the paper.

    Args:
        routes: CSV of Table 10's form, None for the paper's.
        tokens: CSV of Table 5's form, None for the paper's; a column `role` may stand for `model`.
        small: The small model's name in the tokens, None for the paper's.
        large: The large model's name in the tokens, None for the paper's.

    Raises:
        ProfilingInputError: A file that is missing or not of that form.
    """
    named = (small or SMALL, large or LARGE)
    if routes is None and tokens is None and named == (SMALL, LARGE):
        return paper_workloads()
    try:
        rows = read_csv(routes) if routes else table("table10_mai")
        counts = _with_roles(read_csv(tokens), *named) if tokens else token_table(*named)
        return [_read_workload(row, counts) for row in rows]
    except OSError as error:
        raise ProfilingInputError(
            f"{error.filename!r} cannot be read ({error.strerror})."
        ) from error
    except KeyError as error:
        raise ProfilingInputError(
            f"The column {error.args[0]!r} is missing; the files need the columns of Tables 10 "
            "and 5, which docs/profiling.md lists."
        ) from error
    except ValueError as error:
        raise ProfilingInputError(f"The routes or tokens cannot be used: {error}") from error


def _read_workload(row: dict[str, str], tokens: list[dict[str, str]]) -> Workload:
    workload = workload_of(row, tokens)
    needed = [("small", "direct"), ("small", "reason"), ("large", "direct")]
    missing = [" ".join(call) for call in needed if call not in workload.tokens]
    if missing:
        raise ValueError(f"{workload.name} has no tokens for {', '.join(missing)}.")
    scores = {
        key.removeprefix("score_"): float(value)
        for key, value in row.items()
        if key.startswith("score_") and value
    }
    return replace(workload, scores=scores)


def _with_roles(rows: list[dict[str, str]], small: str, large: str) -> list[dict[str, str]]:
    roles = {small: "small", large: "large"}
    return [
        row | {"role": row.get("role") or roles[row["model"]]}
        for row in rows
        if row.get("role") or row["model"] in roles
    ]
