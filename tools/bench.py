"""`mai bench`: how near the cascade is to the time that its model calls need."""

import tempfile
from pathlib import Path
from typing import Annotated

import typer

from ..configs import ConfigError
from ..configs.files import check_folder
from .ask import import_local_models
from .entry import RUN_FAILED
from .errors import reports_errors
from .options import Debug, Json, PairName, print_json


@reports_errors
def bench(
    *,
    pair: PairName = "demo",
    out: Annotated[
        Path | None, typer.Option(help="Folder for bench.json, run.json and a table.")
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
    from ..benchmarks.bench import table, write_bench
    from .progress import Progress
    from .rendering import show_tables

    if out is not None:
        check_folder(out)  # the measurement takes minutes and would be lost
    with tempfile.TemporaryDirectory() as images, Progress() as progress:
        records = measure(loaded, Path(images), questions, progress.replace)
    if as_json:
        print_json([record.as_dict() for record in records])
    else:
        show_tables([table(records)])
    if out is None:
        return
    try:
        write_bench(out, records, pair=pair, questions=questions)
    except ConfigError as error:
        typer.echo(
            f"The figures above could not be written; copy them from here. {error}", err=True
        )
        raise typer.Exit(RUN_FAILED) from error
