"""`mai report`: tables in the paper's form, whether the cascade pays, plots, a page of examples."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..configs.files import write_whole, writing
from .errors import UsageError, reports_errors
from .options import Debug, Json, print_json, results_folder

if TYPE_CHECKING:
    from ..benchmarks.report.evaluated import Evaluated
    from ..benchmarks.report.table import Table


@reports_errors
def report(
    folders: Annotated[
        list[str],
        typer.Argument(metavar="DIR...", help="Folders that `mai evaluate` wrote."),
    ],
    *,
    html: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="Write one page with images."),
    ] = None,
    out: Annotated[
        str | None,
        typer.Option(
            metavar="DIR",
            help="Write report.md, report.json, CSV, plots and disagreements here.",
        ),
    ] = None,
    compare: Annotated[
        list[str] | None,
        typer.Option(
            metavar="CSV",
            help="Published figures in the form of the paper's tables, once for each file.",
        ),
    ] = None,
    predicted: Annotated[
        str | None,
        typer.Option(
            metavar="FILE",
            help="A simulate.json of `mai simulate`: its seconds stand beside the timed ones.",
        ),
    ] = None,
    protocol: Annotated[
        str, typer.Option(help="Whose scores: typed, strict, vlmevalkit or lmms.")
    ] = "typed",
    plots: Annotated[
        bool, typer.Option("--plots/--no-plots", help="Draw the plots of --html and --out.")
    ] = True,
    as_json: Json = False,
    debug: Debug = False,  # noqa: ARG001  read by reports_errors
) -> None:
    """Show what evaluations say, as tables in the paper's form."""
    from ..benchmarks.metrics import PROTOCOLS
    from ..benchmarks.report import plots as drawing
    from ..benchmarks.report.cascade import verdict
    from ..benchmarks.report.compared import read_predictions, with_published
    from ..benchmarks.report.economy import economy, economy_csv, routes_csv
    from ..benchmarks.report.evaluated import Evaluated
    from ..benchmarks.report.page import page
    from ..benchmarks.report.tables import tables
    from .rendering import show_lines, show_tables

    if protocol not in PROTOCOLS:
        raise UsageError(f"--protocol takes {', '.join(PROTOCOLS)}, not {protocol!r}.")
    folder = results_folder(out) if out else None
    runs = [Evaluated.read(folder) for folder in folders]
    points = economy(runs, protocol)
    predictions = read_predictions(predicted) if predicted else None
    made, warnings = with_published(tables(runs, points, protocol, predictions), compare or [])
    for warning in warnings:
        typer.echo(warning, err=True)
    verdicts = {
        str(run.folder): found.sentence for run in runs if (found := verdict(run, protocol))
    }
    draws = plots and bool(html or out)
    drawn = [drawing.plots(run, protocol) if draws else {} for run in runs]
    overview = drawing.economy_plot(points) if draws else None
    if html:
        text = page(runs, made, drawn, overview, protocol)
        with writing(Path(html)):
            Path(html).expanduser().write_text(text, encoding="utf-8")
        typer.echo(f"The page is {html}.", err=True)
    if folder:
        files = {
            "economy.csv": economy_csv(points),
            "routes.csv": routes_csv(runs, points, protocol),
            "economy.png": overview,
        }
        written = _write(folder, runs, made, drawn, verdicts, files)
        typer.echo(f"In {folder}: {', '.join(written)}.", err=True)
    if as_json:
        records = [record for table in made for record in table.records()]
        print_json({"verdicts": verdicts, "tables": records})
    else:
        show_tables(made)
        show_lines([f"{name}  {sentence}" for name, sentence in verdicts.items()], "Verdict")


def _write(
    folder: Path,
    runs: "Sequence[Evaluated]",
    tables: "Sequence[Table]",
    plots: Sequence[Mapping[str, bytes]],
    verdicts: Mapping[str, str],
    files: Mapping[str, Any],
) -> list[str]:
    """Write the report's files and return their names."""
    from ..benchmarks.records import write_json, write_lines, write_run_record
    from ..benchmarks.report.page import disagreement_records
    from ..benchmarks.report.table import markdown_text

    names = [run.folder.resolve().name for run in runs]
    stems = names if len(set(names)) == len(names) else [str(one) for one in range(len(runs))]
    images = {
        f"{stem}-{name}.png": image
        for stem, own in zip(stems, plots, strict=True)
        for name, image in own.items()
    }
    found = images | {name: content for name, content in files.items() if content}
    shown = [
        f"![{Path(name).stem.rpartition('-')[2]}]({name})"
        for name in found
        if name.endswith(".png")
    ]
    said = [
        markdown_text(
            f"**{run.benchmark.name}, pair {run.pair}** (`{run.folder}`): "
            f"{verdicts[str(run.folder)]}"
        )
        for run in runs
        if str(run.folder) in verdicts
    ]
    # Every part is a paragraph of its own.
    parts = ["# Evaluation", *said, *(table.markdown().strip() for table in tables), *shown]
    found = {"report.md": "\n\n".join(parts) + "\n", **found}
    for name, content in found.items():
        write_whole(folder / name, content)
    for stem, run in zip(stems, runs, strict=True):
        write_lines(folder / f"{stem}-disagreements.jsonl", disagreement_records(run))
    write_json(folder / "report.json", [one for table in tables for one in table.records()])
    settings = {"folders": [str(run.folder) for run in runs]}
    write_run_record(folder, name="report-run.json", settings=settings)
    lines = [f"{stem}-disagreements.jsonl" for stem in stems]
    return [*found, "report.json", *lines, "report-run.json"]
