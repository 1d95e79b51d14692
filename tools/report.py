"""`mai report`: tables in the paper's form, whether the cascade pays, plots, a page of examples."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from ..configs.files import existing_file, existing_folder
from .errors import UsageError, reports_errors
from .options import Debug, Json, print_json

if TYPE_CHECKING:
    from ..benchmarks.report.evaluated import Evaluated
    from ..benchmarks.report.table import Table

_Made = TypeVar("_Made")


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

    if protocol not in PROTOCOLS:
        raise UsageError(f"--protocol takes {', '.join(PROTOCOLS)}, not {protocol!r}.")
    page_file = _page_to_write(html) if html else None
    runs = [Evaluated.read(folder) for folder in folders]
    out_folder = _folder_to_write(out) if out else None
    points = economy(runs, protocol)
    predictions = read_predictions(predicted) if predicted else None
    made = tables(runs, points, protocol, predictions)
    made, warnings = with_published(made, compare or [])
    for warning in warnings:
        typer.echo(warning, err=True)
    verdicts = {
        str(run.folder): found.sentence for run in runs if (found := verdict(run, protocol))
    }
    draws = plots and bool(html or out)
    drawn = [drawing.plots(run, protocol) if draws else {} for run in runs]
    overview = drawing.economy_plot(points) if draws else None
    if page_file:
        text = page(runs, made, drawn, overview, protocol)
        said = f"The page cannot be written to {str(page_file)!r}"
        _trying(said, lambda: page_file.write_text(text, encoding="utf-8"))
    written: list[str] = []
    if out_folder:
        files: dict[str, bytes | str | None] = {
            "economy.csv": economy_csv(points),
            "routes.csv": routes_csv(runs, points, protocol),
            "economy.png": overview,
        }
        said = f"The report cannot be written into {str(out_folder)!r}"
        written = _trying(said, lambda: _write(out_folder, runs, made, drawn, verdicts, files))
    if as_json:
        records = [record for table in made for record in table.records()]
        print_json({"verdicts": verdicts, "tables": records})
    else:
        _show(made, verdicts)
    if page_file:
        typer.echo(f"The page is {page_file}.", err=True)
    if out_folder:
        typer.echo(f"In {out_folder}: {', '.join(written)}.", err=True)


def _page_to_write(name: str) -> Path:
    """Return the file that `--html` names.

    Raises:
        UsageError: It is a folder, or there is none to write it into.
    """
    if existing_folder(name):
        example = str(Path(name) / "page.html")
        raise UsageError(f"--html {name!r} is a folder; name a file, such as {example!r}.")
    parent = Path(name).parent
    folder = existing_folder(parent)
    if folder is None:
        raise UsageError(f"There is no folder {str(parent)!r} to write {Path(name).name!r} into.")
    return folder / Path(name).name


def _folder_to_write(name: str) -> Path:
    """Make the folder that `--out` names.

    Raises:
        UsageError: It is a file, or cannot be made.
    """
    if existing_file(name):
        raise UsageError(f"--out {name!r} is a file; name a folder.")

    def made() -> Path:
        folder = Path(name).expanduser()
        folder.mkdir(parents=True, exist_ok=True)
        return folder

    return _trying(f"The folder {name!r} cannot be made", made)


def _trying(sentence: str, write: Callable[[], _Made]) -> _Made:
    try:
        return write()
    except OSError as error:
        raise UsageError(f"{sentence} ({error.strerror or error}); name another place.") from error
    except (RuntimeError, ValueError) as error:  # ~ of nobody, a null byte, a surrogate
        raise UsageError(f"{sentence} ({error}); name another place.") from error


def _write(
    folder: Path,
    runs: "Sequence[Evaluated]",
    tables: "Sequence[Table]",
    plots: Sequence[Mapping[str, bytes]],
    verdicts: Mapping[str, str],
    files: Mapping[str, bytes | str | None],
) -> list[str]:
    """Write the report's files and return their names."""
    from ..benchmarks.records import write_json, write_lines, write_run_record
    from ..benchmarks.report.examples import disagreement_records

    names = [run.folder.resolve().name for run in runs]
    stems = names if len(set(names)) == len(names) else [str(one) for one in range(len(runs))]
    found: dict[str, bytes | str] = {
        f"{stem}-{name}.png": image
        for stem, images in zip(stems, plots, strict=True)
        for name, image in images.items()
    }
    found |= {name: content for name, content in files.items() if content}
    images = [Path(name) for name in found if name.endswith(".png")]
    shown = [f"![{image.stem.rpartition('-')[2]}]({image})" for image in images]
    said = [
        f"**{run.benchmark.name}, pair {run.pair}** (`{run.folder}`): {verdicts[str(run.folder)]}"
        for run in runs
        if str(run.folder) in verdicts
    ]
    # Every part is a paragraph of its own.
    parts = ["# Evaluation", *said, *(table.markdown().strip() for table in tables), *shown]
    found = {"report.md": "\n\n".join(parts) + "\n", **found}
    for name, content in found.items():
        (folder / name).write_bytes(content.encode() if isinstance(content, str) else content)
    for stem, run in zip(stems, runs, strict=True):
        write_lines(folder / f"{stem}-disagreements.jsonl", disagreement_records(run))
    write_json(folder / "report.json", [one for table in tables for one in table.records()])
    settings = {"folders": [str(run.folder) for run in runs]}
    write_run_record(folder, name="report-run.json", settings=settings)
    lines = [f"{stem}-disagreements.jsonl" for stem in stems]
    return [*found, "report.json", *lines, "report-run.json"]


def _show(tables: "Sequence[Table]", verdicts: Mapping[str, str]) -> None:
    """Print every table, and at last whether the cascade pays."""
    from rich.text import Text

    from .rendering import show_tables

    console = show_tables(tables)
    for folder, sentence in verdicts.items():
        console.print(Text.assemble((f"{folder}  ", "dim"), sentence))
