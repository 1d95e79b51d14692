"""What `mai simulate` takes: a profile, routes and tokens, or the paper's tables."""

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

from .csv_rows import Line, ProfilingInputError, read_csv_rows
from .latency import Latencies, Role, profile_latency
from .paper import (
    LARGE,
    SMALL,
    paper_latencies,
    paper_names,
    paper_routes,
    paper_tokens,
    paper_workloads,
)
from .profile_rows import read_rows
from .workload import ROUTES_COLUMNS, RoutesRow, TokensRow, Workload, base_name, workload_of

_PAIR = 2
"""Models of a pair."""

_Row = TypeVar("_Row", RoutesRow, TokensRow)
_Names = Mapping[Role, str | None]
"""The user's names of the two models, None for what was not named."""


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
    if small and large:
        return {
            "small": profile_latency(rows, small, backend),
            "large": profile_latency(rows, large, backend),
        }
    if len(models) < _PAIR:
        raise ProfilingInputError(
            f"The profile {str(profile)!r} holds {len(models)} measured model, and a pair needs "
            "two; profile the other one into the same folder."
        )
    if len(models) > _PAIR:
        raise ProfilingInputError(
            f"The profile {str(profile)!r} holds {len(models)} models ({', '.join(models)}); name "
            "the two of a pair with --small and --large."
        )
    known = {model: profile_latency(rows, model, backend) for model in models}
    for name in filter(None, (small, large)):
        if name not in known:
            raise ProfilingInputError(
                f"The profile {str(profile)!r} has no measured model {name!r}, only "
                f"{', '.join(known)}."
            )
    faster, slower = sorted(known, key=lambda model: known[model].seconds_per_token)
    if small == slower or large == faster:
        faster, slower = slower, faster
    return {"small": known[faster], "large": known[slower]}


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
    named: _Names = {"small": small, "large": large}
    # The scores of Table 10 are those of its own pair.
    alone = [row.model_copy(update={"scores": {}}) for row in paper_routes()]
    rows = _read_routes(routes, named) if routes else alone
    if measured:
        names = {one.model: role for role, one in measured.items()} | names
    counts = _read_tokens(tokens, named, names) if tokens else paper_tokens()
    found = [workload_of(row, counts, names) for row in rows]
    for workload in found:
        _check_tokens(workload, tokens)
    return found


def _is_named(named: _Names, role: Role, model: str | None) -> bool:
    """Return whether a name may be the user's for a role; owners and folders count in both only."""
    wanted = named[role]
    if wanted is None or model is None or wanted == model:
        return True
    short = base_name(wanted) == base_name(model)
    return short and (wanted == base_name(wanted) or model == base_name(model))


def _read_routes(path: Path, named: _Names) -> list[RoutesRow]:
    lines = read_csv_rows(path, RoutesRow, columns=ROUTES_COLUMNS)
    if not lines:
        raise ProfilingInputError(
            f"{str(path)!r} has no row below its header; it needs one for each benchmark."
        )

    own = [
        line
        for line in lines
        if _is_named(named, "small", line.row.small) and _is_named(named, "large", line.row.large)
    ]
    return _one_each(path, own, lambda row: row.benchmark)


def _read_tokens(path: Path, named: _Names, names: dict[str, Role]) -> list[TokensRow]:
    lines = [
        line
        for line in read_csv_rows(path, TokensRow, columns=list(TokensRow.model_fields))
        if line.row.call(names)
    ]
    if not lines:
        raise ProfilingInputError(
            f"{str(path)!r} has no row about the small or the large model in style S, E or R; give "
            "a column 'role', or the models' names with --small and --large."
        )

    own = [
        line
        for line in lines
        if (call := line.row.call(names)) and _is_named(named, call[0], line.row.model)
    ]
    return _one_each(path, own, lambda row: (row.benchmark, row.call(names)))


def _one_each(
    path: Path, lines: Sequence[Line[_Row]], subject: Callable[[_Row], Hashable]
) -> list[_Row]:
    """Return the rows of the named pair, of which there is one for each subject."""
    if not lines:
        raise ProfilingInputError(
            f"{str(path)!r} is about other models than --small and --large name; name those of the "
            "file, or take its columns of models' names out."
        )
    by_subject: dict[Hashable, list[Line[_Row]]] = defaultdict(list)
    for line in lines:
        by_subject[subject(line.row)].append(line)
    for same in by_subject.values():
        if len(same) > 1:
            numbers = " and ".join(str(line.number) for line in same)
            raise ProfilingInputError(
                f"{str(path)!r}, lines {numbers}, are about the same of {same[0].row.benchmark}; "
                "keep one, or name the pair's models with --small and --large."
            )
    return [line.row for line in lines]


def _check_tokens(workload: Workload, path: Path | None) -> None:
    needed = [("small", "direct"), ("small", "reason"), ("large", "direct")]
    missing = ["_".join(call) for call in needed if call not in workload.tokens]
    if missing:
        where = repr(str(path)) if path else "The paper's Table 5"
        raise ProfilingInputError(
            f"{where} has no tokens of {', '.join(missing)} on {workload.name}; add rows for these "
            "calls, or evaluate these strategies, too, before mai report writes the file."
        )


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
    pairs = dict.fromkeys(workload.models for workload in workloads if workload.models)
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
        prompts = f"{workload.name}: prompts have {workload.prompt_tokens:.0f} tokens"
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
