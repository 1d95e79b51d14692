"""`mai report`: tables in the paper's form, whether the cascade pays, plots, a page of examples."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..configs.paths import existing_folder
from .errors import UsageError, reports_errors
from .options import Debug, Json
from .output import print_json

if TYPE_CHECKING:
    from ..benchmarks.report.evaluated import Evaluated
    from ..benchmarks.report.table import Table


@reports_errors
def report(
    folders: Annotated[
        list[str],
        typer.Argument(
            metavar="DIR...", help="Folders that `mai evaluate` wrote.", show_default=False
        ),
    ],
    *,
    html: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="Write one page with pictures.", show_default=False),
    ] = None,
    out: Annotated[
        str | None,
        typer.Option(
            metavar="DIR",
            help="Write report.md, report.json, CSV, plots and disagreements here.",
            show_default=False,
        ),
    ] = None,
    compare: Annotated[
        list[str] | None,
        typer.Option(
            metavar="CSV",
            help="Published figures in the form of the paper's tables, once for each file.",
            show_default=False,
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
    from ..benchmarks.report.cascade import cascade, verdict
    from ..benchmarks.report.economy import economy, economy_csv, routes_csv
    from ..benchmarks.report.evaluated import Evaluated
    from ..benchmarks.report.given import with_given
    from ..benchmarks.report.plots import economy_plot
    from ..benchmarks.report.tables import tables

    if protocol not in PROTOCOLS:
        raise UsageError(f"--protocol takes {', '.join(PROTOCOLS)}, not {protocol!r}.")
    page_file = _file_to_write(html)
    runs = [Evaluated.read(folder) for folder in folders]
    made = with_given(tables(runs, protocol), compare or [])
    said = {str(run.folder): verdict(found) for run in runs if (found := cascade(run, protocol))}
    points = economy(runs, protocol)
    draws = plots and bool(html or out)
    drawn = _plots(runs, protocol) if draws else [{} for _ in runs]
    overview = economy_plot(points) if draws else None
    if page_file:
        from ..benchmarks.report.page import page

        page_file.write_text(page(runs, made, drawn, overview, protocol), encoding="utf-8")
    if out:
        folder = Path(out).expanduser()
        _write(folder, runs, made, drawn, said)
        _write_economy(folder, economy_csv(points), routes_csv(runs, protocol), overview)
    if as_json:
        print_json({"verdicts": said, "tables": records(made)})
        return
    from .report_rendering import show_report

    show_report(made, said)
    if page_file:
        typer.echo(f"The page is {page_file}.", err=True)


def records(tables: "Sequence[Table]") -> list[dict[str, Any]]:
    """Tables as flat records: table, column, value, low, high, questions, and the row's texts."""
    from ..benchmarks.estimates import Estimate

    found = []
    for table in tables:
        for row in table.rows:
            named = list(zip(table.columns, row, strict=True))
            labels = {column: cell for column, cell in named if isinstance(cell, str)}
            for column, cell in named:
                if isinstance(cell, int):
                    cell = Estimate(cell, None, None, cell)  # noqa: PLW2901
                if isinstance(cell, Estimate) and cell.value is not None:
                    found.append(
                        {
                            "table": table.name,
                            **labels,
                            "name": column,
                            "value": cell.value,
                            "low": cell.low,
                            "high": cell.high,
                            "questions": cell.questions,
                        }
                    )
    return found


def _plots(runs: "Sequence[Evaluated]", protocol: str) -> list[dict[str, bytes]]:
    from ..benchmarks.report.plots import plots

    return [plots(run, protocol) for run in runs]


def _write(
    folder: Path,
    runs: "Sequence[Evaluated]",
    tables: "Sequence[Table]",
    plots: Sequence[Mapping[str, bytes]],
    verdicts: Mapping[str, str],
) -> None:
    from ..benchmarks.evaluation.evaluate import write_lines
    from ..benchmarks.report.examples import disagreement_records

    folder.mkdir(parents=True, exist_ok=True)
    parts = [*verdicts.values(), *(table.markdown() for table in tables)]
    for number, (run, images) in enumerate(zip(runs, plots, strict=True)):
        stem = run.folder.name if len({run.folder.name for run in runs}) == len(runs) else number
        for name, png in images.items():
            file = f"{stem}-{name}.png"
            (folder / file).write_bytes(png)
            parts.append(f"![{name}]({file})\n")
        write_lines(folder / f"{stem}-disagreements.jsonl", disagreement_records(run))
    (folder / "report.md").write_text("\n".join(parts), encoding="utf-8")
    text = json.dumps(records(tables), indent=1, ensure_ascii=False)
    (folder / "report.json").write_text(text + "\n", encoding="utf-8")


def _write_economy(folder: Path, points: str, routes: str | None, plot: bytes | None) -> None:
    """What the scores cost in tokens, and the routes, as `mai simulate` takes both."""
    (folder / "economy.csv").write_text(points, encoding="utf-8")
    if routes:
        (folder / "routes.csv").write_text(routes, encoding="utf-8")
    if plot:
        (folder / "economy.png").write_bytes(plot)
        with (folder / "report.md").open("a", encoding="utf-8") as file:
            file.write("\n![economy](economy.png)\n")


def _file_to_write(name: str | None) -> Path | None:
    if name is None:
        return None
    file = Path(name).expanduser()
    if file.is_dir() or not existing_folder(file.parent):
        raise UsageError(f"There is no folder {str(file.parent)!r} to write {file.name!r} into.")
    return file
