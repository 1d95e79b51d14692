"""What `mai simulate` takes: a profile, routes and tokens, or the paper's tables."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

from .csv_rows import ProfilingInputError, read_csv_rows
from .latency import ROLES, Latencies, Role, profile_latency
from .paper import (
    LARGE,
    SMALL,
    paper_latencies,
    paper_names,
    paper_routes,
    paper_tokens,
    paper_workloads,
    with_tokens,
)
from .profile_rows import read_rows
from .workload import SCORES, MeanTokens, Workload, base_name

_Row = TypeVar("_Row", Workload, MeanTokens)


def read_latencies(
    profile: Path | None, small: str | None, large: str | None, backend: str | None = None
) -> Latencies:
    """Read a pair's component latencies, from a profile or from the paper.

    Args:
        profile: Folder that `mai profile` wrote, None for the paper's tables.
        small: Which of its models is the small one; may be None where it holds two, of which the
            one that decodes faster is the small one.
        large: Which one is the large one, likewise.
        backend: Whose rows of the profile count, None if each model was measured on one.

    Raises:
        ProfilingInputError: No such folder or model, or a profile without needed rows.
    """
    if profile is None:
        return paper_latencies(small or SMALL, large or LARGE)
    path = profile / "profile.csv"
    if not path.exists():
        raise ProfilingInputError(
            f"There is no profile.csv in {str(profile)!r}; write one with mai profile --out."
        )
    rows = read_rows(path)
    measured = (row for row in rows if row.median_ms and backend in {None, row.backend})
    models = list(dict.fromkeys(row.model for row in measured))
    small, large = _as_measured(small, models), _as_measured(large, models)
    if not (small and large):
        if len(models) != len(ROLES):
            raise ProfilingInputError(
                f"The profile {str(profile)!r} holds {len(models)} models ({', '.join(models)}); "
                "name the two of a pair with --small and --large, or profile a missing one into "
                "the same folder."
            )
        pace = {one: profile_latency(rows, one, backend).seconds_per_token for one in models}
        faster, slower = sorted(models, key=lambda model: pace[model])
        if small == slower or large == faster:
            faster, slower = slower, faster
        small, large = small or faster, large or slower
    return {
        "small": profile_latency(rows, small, backend),
        "large": profile_latency(rows, large, backend),
    }


def _as_measured(name: str | None, models: Sequence[str]) -> str | None:
    """Return the measured model that a name without owner or folder means, if it is one."""
    if name is None or name in models:
        return name
    alike = [model for model in models if base_name(model) == base_name(name)]
    return alike[0] if len(alike) == 1 else name


def read_workloads(
    routes: Path | None,
    tokens: Path | None,
    small: str | None,
    large: str | None,
    measured: Latencies | None = None,
) -> list[Workload]:
    """Read benchmarks with their routes and tokens, from files or from the paper.

    Args:
        routes: CSV of Table 10's form, None for the paper's.
        tokens: CSV of Table 5's form, None for the paper's; a column `role` may replace `model`.
        small: The small model's name in the files, None for the paper's.
        large: The large model's name in the files, None for the paper's.
        measured: Latencies of a profile, whose models the files may name, too.

    Raises:
        ProfilingInputError: A file that is missing or not of that form.
    """
    names = paper_names(small, large)
    if tokens is None:  # the names may be those of a profile alone
        known = {row.model for row in paper_tokens()}
        names = paper_names(*(name if name in known else None for name in (small, large)))
    if routes is None and tokens is None and names == paper_names():
        return paper_workloads()
    if measured:
        names = {one.model: role for role, one in measured.items()} | names
    named: dict[Role, str | None] = {"small": small, "large": large}

    def is_routes(row: Workload) -> bool:
        return _is_named(small, row.small) and _is_named(large, row.large)

    def is_call(row: MeanTokens) -> bool:
        call = row.call(names)
        return call is not None and _is_named(named[call[0]], row.model)

    if routes:
        lines = read_csv_rows(routes, Workload, columns=list(SCORES))
        rows = _one_each(routes, [line for line in lines if is_routes(line[1])], lambda _: None)
    else:  # the scores of Table 10 are those of its own pair
        rows = [replace(row, scores={}) for row in paper_routes()]
    counts = paper_tokens()
    if tokens:
        means = [line for line in read_csv_rows(tokens, MeanTokens) if is_call(line[1])]
        counts = _one_each(tokens, means, lambda row: row.call(names))
    found = [with_tokens(row, counts, names) for row in rows]
    for workload in found:
        needed = (("small", "direct"), ("small", "reason"), ("large", "direct"))
        if missing := ["_".join(call) for call in needed if call not in workload.tokens]:
            where = repr(str(tokens)) if tokens else "The paper's Table 5"
            raise ProfilingInputError(
                f"{where} has no tokens of {', '.join(missing)} on {workload.benchmark}; add rows "
                "for these calls, or evaluate these strategies, too, before mai report writes the "
                "file."
            )
    return found


def _is_named(wanted: str | None, model: str | None) -> bool:
    """Return whether a name may be the user's; owners and folders count only if in both."""
    if wanted is None or model is None or wanted == model:
        return True
    base = base_name(wanted)
    return base == base_name(model) and base in {wanted, model}


def _one_each(
    path: Path, lines: Sequence[tuple[int, _Row]], subject: Callable[[_Row], object]
) -> list[_Row]:
    """Return the rows of the pair, of which there is one for each benchmark and subject."""
    if not lines:
        raise ProfilingInputError(
            f"{str(path)!r} has no row of this pair below its header; name the models of the file "
            "with --small and --large, or give the tokens a column 'role' instead."
        )
    known: dict[object, int] = {}
    for number, row in lines:
        before = known.setdefault((row.benchmark, subject(row)), number)
        if before != number:
            raise ProfilingInputError(
                f"{str(path)!r}, lines {before} and {number}, are about the same of "
                f"{row.benchmark}; keep one, or name the pair's models with --small and --large."
            )
    return [row for _, row in lines]


def describe_inputs(
    profile: Path | None,
    routes: Path | None,
    tokens: Path | None,
    latencies: Latencies,
    workloads: Sequence[Workload],
) -> list[str]:
    """Return sentences that say where the figures come from, and which were not measured.

    Args:
        profile: Folder of the latencies, None for the paper's tables.
        routes: File of the routes, None for the paper's.
        tokens: File of the tokens, None for the paper's.
        latencies: What was read.
        workloads: What was read.
    """
    source = f"the profile {str(profile)!r}" if profile else "the paper's Tables 3 and 4"
    small, large = (latency.model for latency in latencies.values())
    named = "Routes and scores" if any(workload.scores for workload in workloads) else "Routes"
    pairs = dict.fromkeys((one.small, one.large) for one in workloads if one.small and one.large)
    whose = "".join(f", of {one} and {other}" for one, other in pairs)
    paper = f"the paper's, of {SMALL} and {LARGE}"
    # Without a profile, the models are the paper's own, and so are their tokens.
    counted = paper if profile else f"the paper's, of {small} and {large}"
    return [
        f"Latencies: {source}, small {small}, large {large}.",
        f"{named}: {f'{str(routes)!r}{whose}' if routes else paper}.",
        f"Tokens: {repr(str(tokens)) if tokens else counted}.",
        *_unmeasured(latencies, workloads),
    ]


def _unmeasured(latencies: Latencies, workloads: Sequence[Workload]) -> Iterator[str]:
    """Yield a sentence for prompts that are shorter or longer than any that was measured."""
    for workload in workloads:
        prompts = f"{workload.benchmark}: prompts have {workload.prompt_tokens:.0f} tokens"
        for role, latency in latencies.items():
            shortest, longest = latency.prefill[0][0], latency.prefill[-1][0]
            if workload.prompt_tokens < shortest:
                yield (
                    f"{prompts} and cost the {role} model as much as the shortest ones that were "
                    f"measured ({shortest})."
                )
            elif workload.prompt_tokens > longest:
                yield (
                    f"{prompts}, more than were measured of the {role} model ({longest}): the time "
                    "continues from there in a straight line."
                )
