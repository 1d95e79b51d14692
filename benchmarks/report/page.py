"""One page of HTML with everything inside: tables, plots, and questions worth looking at.

These are some questions of each route, and those that the protocols grade differently.
"""

import base64
import io
from collections.abc import Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

from ...configs import ConfigError
from ...models.images import ImageError, load_image
from ...nodes.prompts import LETTERS
from ..metrics import PROTOCOLS
from ..question import BenchmarkQuestion
from .cascade import ROUTES, verdict
from .evaluated import Evaluated, Frame
from .table import Table
from .tables import wants_whole_output

_EACH_ROUTE = 6
_WITH_IMAGES = 30
_ROWS = 1_000
_TEXT_END = 240
_HASH = 12
_SIDE = 360

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
        "disagreement_examples": _examples(run, disagreements(run)[:_WITH_IMAGES]),
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


def _uri(image: bytes, kind: str = "png") -> str:
    return f"data:image/{kind};base64,{base64.b64encode(image).decode()}"


Example = dict[str, Any]
"""One question with a strategy's answer, as the page shows it.

Its keys are question (a `BenchmarkQuestion`), choices (with their letters), strategy, answer,
route, fallback, calls, verdicts (what the cascade decided on the way, in words), grades (by
protocol) and images (shrunk, as data URIs; those outside of the evaluation's
folder, which whoever sends a folder could name, are left out).
"""


def route_examples(run: Evaluated, each: int, protocol: str = "typed") -> list[Example]:
    """Return some questions of every route: wrong answers and right ones, from all over the set.

    Args:
        run: The evaluation.
        each: How many of a route.
        protocol: Whose reading tells right from wrong.
    """
    grades = f"grade.{protocol}"
    rows = run.results[(run.results["strategy"] == "mai") & run.results[grades].notna()]
    chosen: list[Any] = []
    for route in ROUTES:
        own = rows[rows["route"] == route]
        wrong, right = own.index[own[grades] < 1], own.index[own[grades] == 1]
        some_wrong = _spread(wrong, max(each // 2, each - len(right)))
        chosen += some_wrong + _spread(right, each - len(some_wrong))
    return _examples(run, rows.loc[chosen])


def disagreements(run: Evaluated) -> Frame:
    """Return the results that two protocols do not grade alike, the cascade's first.

    A protocol that wants nothing but the answer is left out where reasons come first.
    """
    grades = run.results[[f"grade.{protocol}" for protocol in PROTOCOLS]].copy()
    for protocol in PROTOCOLS:
        whole = [wants_whole_output(run, name, protocol) for name in run.results["strategy"]]
        grades.loc[whole, f"grade.{protocol}"] = None
    found = run.results[grades.nunique(axis=1) > 1]
    order = {name: place for place, name in enumerate(["mai", *run.strategies][::-1])}
    return found.sort_values("strategy", key=lambda names: -names.map(order), kind="stable")


def disagreement_records(run: Evaluated) -> list[dict[str, Any]]:
    """Return `disagreements` as plain data.

    Returns:
        Records with id, strategy, answers (the accepted ones), text and grades by protocol.
    """
    return [
        {
            "id": row["question"],
            "strategy": row["strategy"],
            "answers": list(run.questions[row["question"]].answers),
            "text": row["text"],
            "grades": _grades(row),
        }
        for row in disagreements(run).to_dict("records")
    ]


def image_uri(reference: str, folder: Path | None = None) -> str:
    """Return an image, shrunk, as a data URI; empty if it cannot be read.

    Args:
        reference: The image.
        folder: Only its files are read; None for any.
    """
    try:
        image = load_image(reference, image_root=folder).image.copy()
    except ImageError:
        return ""
    image.thumbnail((_SIDE, _SIDE))
    buffer = io.BytesIO()
    image.save(buffer, format="JPEG", quality=85)
    return _uri(buffer.getvalue(), "jpeg")


def lettered(question: BenchmarkQuestion) -> tuple[str, ...]:
    """Return a question's options with their letters."""
    return tuple(map("{}. {}".format, LETTERS, question.choices))


def _examples(run: Evaluated, rows: Frame) -> list[Example]:
    found = []
    for row in rows.to_dict("records"):
        question = run.questions[row["question"]]
        own = {key: row[key] for key in ("strategy", "answer", "route", "fallback", "calls")}
        found.append(
            own
            | {
                "question": question,
                "choices": lettered(question),
                "verdicts": _verdicts(row) if row["strategy"] == "mai" else (),
                "grades": _grades(row),
                "images": [uri for one in question.images if (uri := image_uri(one, run.folder))],
            }
        )
    return found


def _verdicts(row: dict[str, Any]) -> list[str]:
    answers = {f"{call['role']} {call['style']}": call["answer"] or "-" for call in row["calls"]}
    small, reasoned, large = (
        answers.get(name, "-") for name in ("small direct", "small reason", "large direct")
    )
    if row["route"] == "direct":
        return [f"direct answers agree: {small} and {large}"]
    agreed = "agree" if row["route"] == "reasoned" else "do not agree"
    return [
        f"direct answers do not agree: {small} and {large}",
        f"reasoned and direct answer {agreed}: {reasoned} and {large}",
    ]


def _grades(row: dict[str, Any]) -> dict[str, float]:
    worth = {protocol: row[f"grade.{protocol}"] for protocol in PROTOCOLS}
    return {name: grade for name, grade in worth.items() if grade == grade}  # noqa: PLR0124  NaN


def _spread(ids: Sequence[Any], count: int) -> list[Any]:
    """Return so many of them, evenly over the whole."""
    count = min(count, len(ids))
    return [ids[len(ids) * k // count] for k in range(count)]
