"""The files of `mai report`: where they may be written, and what is in them."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from ..configs.files import existing_file, existing_folder
from .errors import UsageError

if TYPE_CHECKING:
    from ..benchmarks.report.evaluated import Evaluated
    from ..benchmarks.report.table import Table

_Made = TypeVar("_Made")


def page_to_write(name: str) -> Path:
    """The file that `--html` names.

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


def folder_to_write(name: str) -> Path:
    """The folder that `--out` names; it is made.

    Raises:
        UsageError: It is a file, or cannot be made.
    """
    if existing_file(name):
        raise UsageError(f"--out {name!r} is a file; name a folder.")
    return _trying(f"The folder {name!r} cannot be made", lambda: _made(name))


def write_page(file: Path, html: str) -> None:
    """Write the page.

    Raises:
        UsageError: It cannot be written.
    """
    said = f"The page cannot be written to {str(file)!r}"
    _trying(said, lambda: file.write_text(html, encoding="utf-8"))


def write_report(
    folder: Path,
    runs: "Sequence[Evaluated]",
    tables: "Sequence[Table]",
    plots: Sequence[Mapping[str, bytes]],
    verdicts: Mapping[str, str],
    overview: bytes | None,
    protocol: str,
) -> list[Path]:
    """Write report.md, report.json, CSV, the plots, the disagreements and report-run.json.

    Args:
        folder: Where to.
        runs: The evaluations.
        tables: What they say.
        plots: PNG files by name, for each evaluation.
        verdicts: What to say of each evaluation's folder.
        overview: The plot of all evaluations together, a PNG file, if there is one.
        protocol: Whose scores.

    Returns:
        The files.

    Raises:
        UsageError: They cannot be written.
    """
    said = f"The report cannot be written into {str(folder)!r}"
    return _trying(said, lambda: _write(folder, runs, tables, plots, verdicts, overview, protocol))


def records(tables: "Sequence[Table]") -> list[dict[str, Any]]:
    """Tables as flat records.

    Returns:
        Records with table, name (the column), value, low, high, questions, pictures, and the texts
        of the row by column.
    """
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
                            "pictures": cell.clusters,
                        }
                    )
    return found


def _write(
    folder: Path,
    runs: "Sequence[Evaluated]",
    tables: "Sequence[Table]",
    plots: Sequence[Mapping[str, bytes]],
    verdicts: Mapping[str, str],
    overview: bytes | None,
    protocol: str,
) -> list[Path]:
    from ..benchmarks.report.economy import economy, economy_csv, routes_csv
    from ..benchmarks.report.examples import disagreement_records
    from ..records.json_files import write_json, write_lines
    from ..records.run_record import write_run_record

    files, pictures = [folder / "report.md", folder / "report.json"], []
    names = [run.folder.resolve().name for run in runs]
    for number, (run, images) in enumerate(zip(runs, plots, strict=True)):
        stem = names[number] if len(set(names)) == len(names) else str(number)
        for name, png in images.items():
            files.append(folder / f"{stem}-{name}.png")
            files[-1].write_bytes(png)
            pictures.append(f"![{name}]({files[-1].name})")
        files.append(folder / f"{stem}-disagreements.jsonl")
        write_lines(files[-1], disagreement_records(run))
    # What `mai simulate` takes as --tokens and --routes.
    texts = {
        "economy.csv": economy_csv(economy(runs, protocol)),
        "routes.csv": routes_csv(runs, protocol),
    }
    for name, text in texts.items():
        if text:
            files.append(folder / name)
            files[-1].write_text(text, encoding="utf-8")
    if overview:
        files.append(folder / "economy.png")
        files[-1].write_bytes(overview)
        pictures.append("![economy](economy.png)")
    said = [
        f"**{run.benchmark.name}, pair {run.pair}** (`{run.folder}`): {verdicts[str(run.folder)]}"
        for run in runs
        if str(run.folder) in verdicts
    ]
    # Every part is a paragraph of its own.
    parts = ["# Evaluation", *said, *(table.markdown().strip() for table in tables), *pictures]
    files[0].write_text("\n\n".join(parts) + "\n", encoding="utf-8")
    write_json(files[1], records(tables))
    files.append(folder / "report-run.json")
    write_run_record(
        folder, name=files[-1].name, settings={"folders": [str(run.folder) for run in runs]}
    )
    return files


def _made(name: str) -> Path:
    folder = Path(name).expanduser()
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def _trying(sentence: str, write: Callable[[], _Made]) -> _Made:
    try:
        return write()
    except OSError as error:
        raise UsageError(f"{sentence} ({error.strerror or error}); name another place.") from error
    except (RuntimeError, ValueError) as error:  # ~ of nobody, a null byte, a surrogate
        raise UsageError(f"{sentence} ({error}); name another place.") from error
