"""One page of HTML with everything inside: tables, plots, and questions worth looking at."""

import base64
from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Any

from ...configs import ConfigError
from ..metrics import PROTOCOLS
from .cascade import verdict
from .evaluated import Evaluated
from .examples import disagreement_examples, disagreement_records, route_examples
from .table import Table

_EACH_ROUTE = 6
_WITH_IMAGES = 30
_ROWS = 1_000
_TEXT_END = 240
_HASH = 12

LEGEND = (
    ("S, E, R", "a model answers directly; explains, then answers; reasons step by step first"),
    ("two-stage", "a model reasons, and then answers directly with its reasoning before it"),
    ("full transfer", "the large model answers directly with the small one's reasoning before it"),
    ("MAI, mai", "the cascade: a question goes only as far along the three routes as it has to"),
    ("route direct", "the direct answers of both models agree, and that is the answer"),
    ("route reasoned", "the small model's reasoned answer agrees with the large direct one"),
    ("route transferred", "neither: the large model answers again with the small one's reasoning"),
    ("agreement wrong", "of the questions on which the two agreed, how many are wrong"),
    ("helped, harmed", "transfers that turned a wrong direct answer right, or a right one wrong"),
    ("typed", "our reading: an output is a yes or no, a choice, a number, a text, or unread"),
    ("strict", "the rule of the benchmark's own script or paper"),
    ("vlmevalkit, lmms", "what these two evaluation kits do, without a judge model"),
    ("unread, cut", "no answer was found in the output; it ended at its limit of tokens"),
    ("60.0 (50.0 to 70.0)", "a figure with its 95% interval; an image's questions count together"),
    ("... 9 images)", "the interval comes from few images, and is itself uncertain"),
    ("-", "not measured"),
)
"""What the words and signs of a report stand for."""


def page(
    runs: Sequence[Evaluated],
    tables: Sequence[Table],
    plots: Sequence[Mapping[str, bytes]],
    overview: bytes | None = None,
    protocol: str = "typed",
) -> str:
    """Return the page's HTML; it needs no other file and no network.

    Args:
        runs: The evaluations.
        tables: Their tables.
        plots: PNG files by name, for each evaluation.
        overview: A PNG file about all evaluations.
        protocol: Whose reading tells right from wrong.

    Raises:
        ConfigError: Jinja2 is not installed.
    """
    names = ", ".join(dict.fromkeys(run.benchmark.name for run in runs))
    sections = [_section(run, images, protocol) for run, images in zip(runs, plots, strict=True)]
    return render(
        __package__,
        title=f"Evaluation: {names}",
        tables=tables,
        overview=overview and _uri(overview),
        sections=sections,
        legend=LEGEND,
    )


def render(package: str | None, **values: Any) -> str:
    """Fill in the `page.html` of a package.

    Args:
        package: The package.
        **values: What the template names; markup in texts is shown, not followed.

    Raises:
        ConfigError: Jinja2 is not installed.
    """
    try:
        from jinja2 import Environment, PackageLoader
    except ImportError as error:
        raise ConfigError(
            'The page needs Jinja2: run `pip install "langgraph-mai[benchmarks]"`.'
        ) from error
    loader = PackageLoader(str(package), ".")
    environment = Environment(loader=loader, autoescape=True, trim_blocks=True)
    return environment.get_template("page.html").render(**values)


def _section(run: Evaluated, images: Mapping[str, bytes], protocol: str) -> dict[str, Any]:
    differing = disagreement_records(run)
    examples = route_examples(run, _EACH_ROUTE, protocol)
    return {
        "run": run,
        "provenance": _provenance(run),
        "verdict": verdict(run, protocol),
        "plots": {name: _uri(png) for name, png in images.items()},
        "failed": run.failed,
        "routes": {name: list(own) for name, own in groupby(examples, lambda one: one["route"])},
        "protocols": [
            protocol for protocol in PROTOCOLS if run.results[f"grade.{protocol}"].notna().any()
        ],
        "disagreements": len(differing),
        "rows": [one | {"text": _shortened(one["text"])} for one in differing[:_ROWS]],
        "disagreement_examples": disagreement_examples(run, _WITH_IMAGES),
    }


def _provenance(run: Evaluated) -> dict[str, str]:
    """Return what the evaluation was made of and with, in words; what is unknown is left out."""
    record, machine = run.record, run.record.machine
    images = len({question.images or question.id for question in run.questions.values()})
    versions = {"python": record.python, **record.versions}
    parts = [machine.get("processor"), f"{machine.get('cores')} cores", *machine.get("gpus", [])]
    told = {
        **{
            f"{role} model": f"{run.models[role]}{_weights(record.models[role])}"
            for role in ("small", "large")
        },
        "questions": f"{len(run.questions)} about {images} images",
        "results of": run.written.strftime("%Y-%m-%d %H:%M UTC"),
        "command": record.command,
        "versions": ", ".join(f"{name} {said}" for name, said in versions.items() if said),
        "machine": ", ".join(map(str, [*filter(None, parts), machine.get("system")])),
    }
    known = {"command": record.command, "versions": record.versions, "machine": machine}
    return {name: text for name, text in told.items() if known.get(name, text)}


def _weights(identity: Mapping[str, Any]) -> str:
    """Return a model's revision and the start of its weights' hash, as far as they are known."""
    told = [f"revision {identity['revision']}"] if identity.get("revision") else []
    if isinstance(identity.get("weights"), str):
        told.append(f"weights {identity['weights'][:_HASH]}")
    return f" ({', '.join(told)})" if told else ""


def _shortened(text: str) -> str:
    text = text.strip()
    return text if len(text) <= _TEXT_END else f"... {text[-_TEXT_END:]}"


def _uri(png: bytes) -> str:
    return f"data:image/png;base64,{base64.b64encode(png).decode()}"
