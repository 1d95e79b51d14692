"""One page of HTML with everything inside: tables, plots, and questions worth looking at."""

import base64
from collections.abc import Mapping, Sequence
from typing import Any

from ...configs import ConfigError
from .cascade import cascade, verdict
from .evaluated import Evaluated
from .examples import disagreement_examples, disagreement_records, route_examples
from .table import Table

_EACH_ROUTE = 6
_WITH_PICTURES = 30
_ROWS = 1_000
_TEXT_END = 240


def page(
    runs: Sequence[Evaluated],
    tables: Sequence[Table],
    plots: Sequence[Mapping[str, bytes]],
    overview: bytes | None = None,
    protocol: str = "typed",
) -> str:
    """The page's HTML; it needs no other file and no network.

    Args:
        runs: The evaluations.
        tables: What `tables` made of them.
        plots: PNG files by name, for each evaluation.
        overview: A PNG file about all evaluations.
        protocol: Whose reading tells right from wrong.

    Raises:
        ConfigError: Jinja2 is not installed.
    """
    try:
        from jinja2 import Environment, PackageLoader
    except ImportError as error:
        raise ConfigError(
            'The page needs Jinja2: run `pip install "langgraph-mai[benchmarks]"`.'
        ) from error
    # Model outputs may hold markup; it is shown, not followed.
    environment = Environment(
        loader=PackageLoader(__package__, "."), autoescape=True, trim_blocks=True
    )
    names = ", ".join(dict.fromkeys(run.benchmark.name for run in runs))
    sections = [_section(run, images, protocol) for run, images in zip(runs, plots, strict=True)]
    return environment.get_template("page.html").render(
        title=f"Evaluation: {names}",
        tables=tables,
        overview=overview and _uri(overview),
        sections=sections,
    )


def _section(run: Evaluated, images: Mapping[str, bytes], protocol: str) -> dict[str, Any]:
    found = cascade(run, protocol)
    differing = disagreement_records(run)
    routes: dict[str, list[Any]] = {}
    for example in route_examples(run, _EACH_ROUTE, protocol):
        routes.setdefault(str(example.result["route"]), []).append(example)
    protocols = dict.fromkeys(name for one in run.results for name in run.protocols(one))
    return {
        "run": run,
        "verdict": found and verdict(found),
        "plots": {name: _uri(png) for name, png in images.items()},
        "failed": run.failed,
        "routes": routes,
        "protocols": list(protocols),
        "disagreements": len(differing),
        "rows": [one | {"text": _shortened(one["text"])} for one in differing[:_ROWS]],
        "disagreement_examples": disagreement_examples(run, _WITH_PICTURES),
    }


def _shortened(text: str) -> str:
    text = text.strip()
    return text if len(text) <= _TEXT_END else f"... {text[-_TEXT_END:]}"


def _uri(png: bytes) -> str:
    return f"data:image/png;base64,{base64.b64encode(png).decode()}"
