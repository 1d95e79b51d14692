"""Reads what `mai simulate` is given: a profile, routes, tokens."""

from collections import defaultdict
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from .csv_rows import Line, read_csv_rows
from .errors import ProfilingInputError
from .latency import Latencies, Role
from .paper_tables import (
    LARGE,
    SMALL,
    paper_latencies,
    paper_names,
    paper_routes,
    paper_tokens,
    paper_workloads,
)
from .profile_latency import profile_latency
from .profile_rows import ProfileRow, read_rows
from .workload import Workload
from .workload_rows import ROUTES_COLUMNS, RoutesRow, TokensRow, own_name, workload_of

PAIR = 2
"""Models of a pair."""

Row = TypeVar("Row", RoutesRow, TokensRow)


@dataclass(frozen=True, slots=True)
class PairNames:
    """What the user calls the two models; None for what was not said."""

    small: str | None = None
    large: str | None = None

    def fits(self, role: Role, model: str | None) -> int:
        """How well a model's name is the one for a role.

        Returns:
            2 if it is, 1 if it may be (without its owner or folder, or nothing was said), else 0.
        """
        named = self.small if role == "small" else self.large
        if named is not None and named == model:
            return 2
        return int(named is None or model is None or own_name(named) == own_name(model))


def read_latencies(
    profile: Path | None, small: str | None, large: str | None, backend: str | None = None
) -> Latencies:
    """A pair's component latencies, from a profile or from the paper.

    Args:
        profile: Folder that `mai profile` wrote, None for the paper's tables.
        small: Which of its models is the small one; may be None where it holds two, of which the
            one that writes faster is the small one.
        large: Which one is the large one, likewise.
        backend: Whose rows of the profile are meant, None if each model was measured on one.

    Raises:
        ProfilingInputError: No such folder or model, or a profile without what is needed.
    """
    if profile is None:
        return paper_latencies(small or SMALL, large or LARGE)
    path = profile / "profile.csv"
    if not path.exists():
        raise ProfilingInputError(
            f"There is no profile.csv in {str(profile)!r}; write one with mai profile --out."
        )
    rows = read_rows(path)
    models = _measured_models(rows, backend)
    small, large = _as_measured(small, models), _as_measured(large, models)
    if len(models) < PAIR and not (small and large):
        raise ProfilingInputError(
            f"The profile {str(profile)!r} holds {len(models)} measured model, and a pair needs "
            "two; profile the other one into the same folder."
        )
    if len(models) > PAIR and not (small and large):
        raise ProfilingInputError(
            f"The profile {str(profile)!r} holds {len(models)} models ({', '.join(models)}); name "
            "the two of a pair with --small and --large."
        )
    if small and large:
        return {
            "small": profile_latency(rows, small, backend),
            "large": profile_latency(rows, large, backend),
        }
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
    """The measured model that a name without owner or folder means, if it is one."""
    if name is None or name in models:
        return name
    alike = [model for model in models if own_name(model) == own_name(name)]
    return alike[0] if len(alike) == 1 else name


def _measured_models(rows: Sequence[ProfileRow], backend: str | None) -> list[str]:
    return list(
        dict.fromkeys(row.model for row in rows if row.median_ms and backend in {None, row.backend})
    )


def read_workloads(
    routes: Path | None,
    tokens: Path | None,
    small: str | None,
    large: str | None,
    measured: Latencies | None = None,
) -> list[Workload]:
    """Benchmarks with their routes and tokens, from files or from the paper.

    Args:
        routes: CSV of Table 10's form, None for the paper's.
        tokens: CSV of Table 5's form, None for the paper's; a column `role` may stand for `model`.
        small: The small model's name in the files, None for the paper's.
        large: The large model's name in the files, None for the paper's.
        measured: Latencies of a profile, whose models the files may name, too.

    Raises:
        ProfilingInputError: A file that is missing or not of that form.
    """
    names = paper_names(small or SMALL, large or LARGE)
    if tokens is None:  # the names may be those of a profile alone
        known = {row.model for row in paper_tokens()}
        names = paper_names(small if small in known else SMALL, large if large in known else LARGE)
    if routes is None and tokens is None and names == paper_names():
        return paper_workloads()
    named = PairNames(small, large)
    # The scores of Table 10 are those of its own pair.
    alone = [row.model_copy(update={"scores": {}}) for row in paper_routes()]
    rows = _routes(routes, named) if routes else alone
    if measured:
        names = {one.model: role for role, one in measured.items()} | names
    counts = _tokens(tokens, named, names) if tokens else paper_tokens()
    found = [workload_of(row, counts, names) for row in rows]
    for workload in found:
        _check_tokens(workload, tokens)
    return found


def _routes(path: Path, named: PairNames) -> list[RoutesRow]:
    lines = read_csv_rows(path, RoutesRow, columns=ROUTES_COLUMNS)
    if not lines:
        raise ProfilingInputError(
            f"{str(path)!r} has no row below its header; it needs one for each benchmark."
        )

    def fit(row: RoutesRow) -> int:
        return min(named.fits("small", row.small), named.fits("large", row.large))

    return _one_each(path, lines, lambda row: row.benchmark, fit)


def _tokens(path: Path, named: PairNames, names: dict[str, Role]) -> list[TokensRow]:
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

    def fit(row: TokensRow) -> int:
        call = row.call(names)
        return named.fits(call[0], row.model) if call else 0

    return _one_each(path, lines, lambda row: (row.benchmark, row.call(names)), fit)


def _one_each(
    path: Path,
    lines: Sequence[Line[Row]],
    subject: Callable[[Row], Hashable],
    fit: Callable[[Row], int],
) -> list[Row]:
    """A row for each subject, of the pair that was named; of several, the one that fits best."""
    own = [line for line in lines if fit(line.row)]
    if not own:
        raise ProfilingInputError(
            f"{str(path)!r} is about other models than --small and --large name; name those of the "
            "file, or take its columns of models' names out."
        )
    by_subject: dict[Hashable, list[Line[Row]]] = defaultdict(list)
    for line in own:
        by_subject[subject(line.row)].append(line)
    found = []
    for candidates in by_subject.values():
        best = max(fit(line.row) for line in candidates)
        same = [line for line in candidates if fit(line.row) == best]
        found.append(same[0].row)
        if len(same) > 1:
            numbers = " and ".join(str(line.number) for line in same)
            raise ProfilingInputError(
                f"{str(path)!r}, lines {numbers}, are about the same of {same[0].row.benchmark}; "
                "keep one, or name the pair's models with --small and --large."
            )
    return found


def _check_tokens(workload: Workload, path: Path | None) -> None:
    needed = [("small", "direct"), ("small", "reason"), ("large", "direct")]
    missing = ["_".join(call) for call in needed if call not in workload.tokens]
    if missing:
        where = repr(str(path)) if path else "The paper's Table 5"
        raise ProfilingInputError(
            f"{where} has no tokens of {', '.join(missing)} on {workload.name}; add rows for these "
            "calls, or evaluate these strategies, too, before mai report writes the file."
        )
