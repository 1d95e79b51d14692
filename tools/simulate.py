"""`mai simulate`: predicts total time, speedup and serving from component latencies."""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from .errors import UsageError, reports_errors
from .options import Debug, Json, print_json, require, results_folder

if TYPE_CHECKING:
    from ..profiling.simulation import Simulation

MOST_MILLISECONDS = 3_600_000


@reports_errors
def simulate(
    *,
    profile: Annotated[
        Path | None,
        typer.Option(help="Folder of mai profile; without, the paper's Tables 3 and 4."),
    ] = None,
    routes: Annotated[
        Path | None, typer.Option(help="CSV of Table 10's form; without, the paper's.")
    ] = None,
    tokens: Annotated[
        Path | None, typer.Option(help="CSV of Table 5's form; without, the paper's.")
    ] = None,
    backend: Annotated[
        str | None, typer.Option(help="Of the profile, if it holds several.")
    ] = None,
    small: Annotated[
        str | None,
        typer.Option(help="The small model's name there; of two, the one that writes faster."),
    ] = None,
    large: Annotated[str | None, typer.Option(help="The large model's name there.")] = None,
    overhead: Annotated[
        float,
        typer.Option(help="Milliseconds that every call costs beside the model's own work."),
    ] = 0.0,
    questions: Annotated[int, typer.Option(help="Questions to simulate the serving of.")] = 2000,
    rate: Annotated[
        float | None, typer.Option(help="Questions a second that arrive at random moments.")
    ] = None,
    concurrency: Annotated[
        int, typer.Option(help="Questions in work at any time, where there is no rate.")
    ] = 32,
    batch: Annotated[int, typer.Option(help="Sequences an engine works on at once.")] = 32,
    small_engines: Annotated[int, typer.Option(help="Copies of the small model.")] = 1,
    large_engines: Annotated[int, typer.Option(help="Copies of the large model.")] = 1,
    devices: Annotated[int, typer.Option(help="1 if a small and a large engine share one.")] = 2,
    overlap: Annotated[bool, typer.Option(help="Both direct answers run at once.")] = True,
    prefix_reuse: Annotated[bool, typer.Option(help="No prompt prefix is read twice.")] = True,
    skip: Annotated[
        float, typer.Option(help="Share of questions on which a gate skips the large model.")
    ] = 0.0,
    spread: Annotated[
        float, typer.Option(help="Standard deviation of output lengths over their mean.")
    ] = 0.5,
    seed: Annotated[int, typer.Option(help="Decides what is random.")] = 0,
    plan: Annotated[
        float | None, typer.Option(help="Questions a second to plan engines for.")
    ] = None,
    advice: Annotated[
        bool, typer.Option("--advice", help="Only say what is best, a line a benchmark.")
    ] = False,
    floor: Annotated[
        float | None,
        typer.Option(help="Score the advice must reach; without, the large model reasoning's."),
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Folder for tables and figures.")] = None,
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Predict what every strategy takes, alone and under load, without the machines."""
    settings = {key: value for key, value in locals().items() if key not in {"as_json", "debug"}}
    needed = [*(["matplotlib"] if out else []), *(["scipy"] if profile else [])]
    require("simpy", *needed, extra="profiling")
    from pydantic import TypeAdapter, ValidationError

    from ..benchmarks.records import write_run_record
    from ..profiling.csv_rows import first_problem
    from ..profiling.latency import Latencies
    from ..profiling.profile_rows import impossible_rows, read_rows
    from ..profiling.serving import Serving
    from ..profiling.simulation import advice_records, records, write_simulation
    from ..profiling.simulation import simulate as run
    from ..profiling.simulation_input import describe_inputs, read_latencies, read_workloads
    from ..profiling.totals import advise

    for wrong, sentence in (
        (
            profile is None and small is not None and small == large,
            "--small and --large name one model of the paper's tables; name two.",
        ),
        (
            profile is None and backend is not None,
            "--backend says which rows of a profile count; name one with --profile.",
        ),
        (
            plan is not None and devices == 1,
            "--plan gives every engine a device of its own; leave --devices out.",
        ),
        (
            not 0 <= overhead <= MOST_MILLISECONDS,
            "The overhead of a call must be milliseconds from 0 on, and no hours.",
        ),
        (
            floor is not None and not 0 <= floor <= 100,
            "Scores are in percent, so the floor must be from 0 to 100.",
        ),
    ):
        if wrong:
            raise UsageError(sentence)
    measured = read_latencies(profile, small, large, backend)
    latencies: Latencies = {
        role: replace(one, overhead_seconds=overhead / 1000) for role, one in measured.items()
    }
    read = read_workloads(routes, tokens, small, large, measured if profile else None)
    try:
        workloads = [replace(workload, skipped=skip) for workload in read]
        serving = TypeAdapter(Serving).validate_python(settings)
    except ValidationError as error:
        raise UsageError(first_problem(error)) from error
    folder = results_folder(out) if out else None
    if advice and not folder:
        lines = [advise(workload, latencies, floor) for workload in workloads]
        if as_json:
            print_json([figure.as_dict() for figure in advice_records(lines)])
        else:
            typer.echo("\n".join(map(str, lines)))
        return
    inputs = describe_inputs(profile, routes, tokens, latencies, workloads)
    if profile:
        inputs += impossible_rows(read_rows(profile / "profile.csv"))
    paper = not any((profile, routes, tokens, small, large, overhead, skip))
    found = run(workloads, latencies, serving, inputs=inputs, floor=floor, paper=paper)
    if folder:
        write_simulation(found, folder)
        # In a profile's folder, run.json is the profile's.
        own = "simulate-run.json" if (folder / "profile.csv").exists() else "run.json"
        write_run_record(folder, name=own, settings=settings)
    if as_json:
        print_json([figure.as_dict() for figure in records(found)])
    elif advice:
        typer.echo("\n".join(map(str, found.advice)))
    else:
        _show(found)


def _show(found: "Simulation") -> None:
    """Print tables, then the advice and what contradicts itself."""
    from ..profiling.paper import contradictions
    from ..profiling.simulation import tables
    from .rendering import show_lines, show_tables

    show_lines(found.inputs, "What it computes with")
    show_tables(tables(found))
    show_lines([str(one) for one in found.advice], "Advice")
    if found.paper:
        show_lines(contradictions(), "Figures of the paper that contradict each other")
