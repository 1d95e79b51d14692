"""`mai report`: tables in the paper's form, whether the cascade pays, plots, a page of examples."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from .errors import UsageError, reports_errors
from .options import Debug, Json
from .output import print_json
from .report_files import folder_to_write, page_to_write, records, write_page, write_report

if TYPE_CHECKING:
    from ..benchmarks.report.evaluated import Evaluated


@reports_errors
def report(
    folders: Annotated[
        list[str],
        typer.Argument(metavar="DIR...", help="Folders that `mai evaluate` wrote."),
    ],
    *,
    html: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="Write one page with pictures."),
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
    from ..benchmarks.report.cascade import cascade
    from ..benchmarks.report.economy import economy
    from ..benchmarks.report.evaluated import Evaluated
    from ..benchmarks.report.given import with_given
    from ..benchmarks.report.plots import economy_plot
    from ..benchmarks.report.tables import tables
    from ..benchmarks.report.verdict import verdict

    if protocol not in PROTOCOLS:
        raise UsageError(f"--protocol takes {', '.join(PROTOCOLS)}, not {protocol!r}.")
    page_file = page_to_write(html) if html else None
    runs = [Evaluated.read(folder) for folder in folders]
    out_folder = folder_to_write(out) if out else None
    compared = with_given(tables(runs, protocol), compare or [])
    made = compared.tables
    for warning in compared.warnings:
        typer.echo(warning, err=True)
    said = {
        str(run.folder): verdict(found).sentence
        for run in runs
        if (found := cascade(run, protocol))
    }
    draws = plots and bool(html or out)
    drawn = _plots(runs, protocol) if draws else [{} for _ in runs]
    overview = economy_plot(economy(runs, protocol)) if draws else None
    if page_file:
        from ..benchmarks.report.page import page

        write_page(page_file, page(runs, made, drawn, overview, protocol))
    written: list[Path] = []
    if out_folder:
        written = write_report(out_folder, runs, made, drawn, said, overview, protocol)
    if as_json:
        print_json({"verdicts": said, "tables": records(made)})
    else:
        from .report_rendering import show_report

        show_report(made, said)
    if page_file:
        typer.echo(f"The page is {page_file}.", err=True)
    if out_folder:
        names = ", ".join(file.name for file in written)
        typer.echo(f"In {out_folder}: {names}.", err=True)


def _plots(runs: "Sequence[Evaluated]", protocol: str) -> list[dict[str, bytes]]:
    from ..benchmarks.report.plots import plots

    return [plots(run, protocol) for run in runs]
