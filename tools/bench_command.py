"""`mai bench`: how near the cascade is to the time that its model calls need."""

import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from .ask import import_local_models
from .errors import UsageError, reports_errors
from .options import Debug, Json
from .output import print_json

if TYPE_CHECKING:
    from ..benchmarks.speed_records import Record


@reports_errors
def bench(
    *,
    pair: Annotated[str, typer.Option(help="A pair's name (see `mai pairs`) or file.")] = "demo",
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
    """Measure time: overhead, tokens computed twice, strategies, concurrency, each saving."""
    from ..models.pairs import load_pair

    if out is not None and out.exists() and not out.is_dir():
        raise UsageError(f"{str(out)!r} is a file; name a folder for --out.")
    loaded = load_pair(pair)
    import_local_models()

    from ..benchmarks.speed import measure_speed
    from ..benchmarks.speed_report import write_speed
    from .rendering import Progress

    with tempfile.TemporaryDirectory() as pictures, Progress() as progress:
        records = measure_speed(loaded, Path(pictures), questions, progress.replace)
    if out is not None:
        files = write_speed(out, records, ["mai", *sys.argv[1:]])
        if not any(file.suffix == ".png" for file in files):
            typer.echo(
                'No plot was drawn; install matplotlib with: pip install "langgraph-mai[plots]"',
                err=True,
            )
    if as_json:
        print_json([record.as_dict() for record in records])
    else:
        _show(records)


def _show(records: "list[Record]") -> None:
    from ..benchmarks.speed_report import GOALS, is_met
    from .rendering import show_figures

    rows = []
    for record in records:
        words, bound = GOALS.get(record.name, ("", None))
        sign = "<=" if words == "at most" else ">="
        met = "met" if is_met(record) else "missed"
        goal = "" if bound is None else f"{sign}{bound:g} {met}"
        unit = {"ms": " ms", "questions/s": "/s"}.get(record.unit, "")
        interval = "" if record.low is None else f"{record.low:.3g} to {record.high:.3g}"
        rows.append((record.name, f"{record.value:.3g}{unit}", interval, goal))
    show_figures(rows)
