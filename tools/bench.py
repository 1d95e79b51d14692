"""`mai bench`: how near the cascade is to the time that its model calls need."""

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..configs import ConfigError
from ..configs.files import check_folder
from .ask import import_local_models
from .entry import RUN_FAILED
from .errors import reports_errors
from .options import Debug, Json, PairName, print_json

if TYPE_CHECKING:
    from ..benchmarks.records import Record


@reports_errors
def bench(
    *,
    pair: PairName = "demo",
    out: Annotated[
        Path | None,
        typer.Option(help="Folder for bench.json, run.json, a table and a plot."),
    ] = None,
    questions: Annotated[
        int, typer.Option(min=1, help="Questions that each figure is measured on.")
    ] = 60,
    as_json: Json = False,
    debug: Debug = False,  # noqa: ARG001  read by reports_errors
) -> None:
    """Measure time: overhead, tokens computed twice, strategies, concurrency."""
    from ..models.pairs import load_pair

    loaded = load_pair(pair)
    import_local_models()

    from ..benchmarks.bench import bench as measure
    from .progress import Progress

    if out is not None:
        check_folder(out)  # the measurement takes minutes and would be lost

    with tempfile.TemporaryDirectory() as images, Progress() as progress:
        records = measure(loaded, Path(images), questions, progress.replace)
    if as_json:
        print_json([record.as_dict() for record in records])
    else:
        _show(records)
    if out is not None:
        _write(out, records, pair=pair, questions=questions)


def _write(out: Path, records: "list[Record]", **settings: Any) -> None:
    from ..benchmarks.bench import write_bench

    try:
        files = write_bench(out, records, **settings)
    except ConfigError as error:
        typer.echo(
            f"The figures above could not be written; copy them from here. {error}", err=True
        )
        raise typer.Exit(RUN_FAILED) from error
    if not any(file.suffix == ".png" for file in files):
        typer.echo(
            'No plot was drawn; install matplotlib with: pip install "langgraph-mai[plots]"',
            err=True,
        )


def _show(records: "list[Record]") -> None:
    from ..benchmarks.bench import GOALS, interval, is_met
    from .rendering import show_figures

    rows = []
    for record in records:
        words, bound = GOALS.get(record.name, ("", None))
        sign = "<=" if words == "at most" else ">="
        met = {True: "met", False: "missed", None: "not measured"}[is_met(record)]
        goal = "" if bound is None else f"{sign}{bound:g} {met}"
        unit = {"ms": " ms", "questions/s": "/s"}.get(record.unit, "")
        value = "none" if record.number is None else f"{record.number:.3g}{unit}"
        rows.append((record.name, value, interval(record), goal))
    show_figures(rows)
    for record in records:
        if record.note:
            typer.echo(f"{record.name}: {record.note}.")
