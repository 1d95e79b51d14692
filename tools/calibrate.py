"""`mai calibrate`: the gate's threshold within a stated risk, and what confidence is worth."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..configs.files import check_folder, write_whole
from .errors import reports_errors
from .options import (
    BenchmarkName,
    DataFile,
    Debug,
    Json,
    Limit,
    PairName,
    Split,
    Wording,
    pair_stem,
    print_json,
    read_benchmark,
    require,
    results_folder,
    wording_of,
)
from .progress import EvaluationProgress

if TYPE_CHECKING:
    from ..benchmarks.evaluation.results import Result
    from ..benchmarks.evaluation.runner import Pace
    from ..nodes.confidence import Calibration

_NAMES = {
    "skipped": "questions that skip the large model",
    "loss": "changed answers among all questions",
    "loss_among_skipped": "changed answers among the skipped",
    "seconds_saved": "seconds of model calls saved",
    "tokens_saved": "tokens saved, prompts included",
    "auroc": "AUROC of the confidence",
    "expected_calibration_error": "expected calibration error",
    "agreed_error": "wrong answers where both models agree",
}


@reports_errors
def calibrate(
    benchmark: BenchmarkName,
    *,
    pair: PairName = "demo",
    data: DataFile = None,
    split: Split = None,
    prompts: Wording = None,
    limit: Limit = None,
    risk: Annotated[
        float,
        typer.Option(
            min=0,
            max=0.99,
            help="Share of all questions on which the gate may change the answer; 0 for no gate.",
        ),
    ] = 0.02,
    delta: Annotated[
        float,
        typer.Option(min=0.0001, max=0.5, help="Chance that the gate changes more of them."),
    ] = 0.05,
    out: Annotated[
        Path, typer.Option(metavar="FILE", help="The calibration; a plot goes beside it.")
    ] = Path("calibration.json"),
    results: Annotated[
        str | None,
        typer.Option(
            metavar="DIR",
            help="Folder of an evaluation, whose calls are not made again.",
            show_default="evaluations/BENCHMARK-PAIR-SPLIT",
        ),
    ] = None,
    as_json: Json = False,
    debug: Debug = False,  # noqa: ARG001  read by reports_errors
) -> None:
    """Find from which probability on the small model's answer can stand alone."""
    name = "-".join(filter(None, (benchmark, pair_stem(pair), split)))
    folder = results_folder(results or f"evaluations/{name}")
    require("rapidfuzz", "scipy", "pandas", "matplotlib", extra="benchmarks")
    check_folder(out.parent)

    from ..answers import agree
    from ..benchmarks import calibration
    from ..benchmarks.evaluation.runner import evaluate
    from ..models.pairs import load_pair
    from ..nodes.gate import describe_cascade

    models = load_pair(pair)
    questions = read_benchmark(benchmark, data, split, limit, folder)
    if risk:
        calibration.losses_allowed(len({one.images for one in questions.questions}), risk, delta)
    wording = wording_of(prompts, pair, models, questions)
    with EvaluationProgress("The same command continues from there.") as progress:

        def show(pace: "Pace", result: "Result") -> None:
            progress.update("evaluating", pace)
            if result["error"]:
                progress.note(f"{result['id']}: {result['error']}")

        run = evaluate(
            questions,
            models,
            ["mai"],
            folder,
            prompts=wording,
            on_stored=progress.resume,
            on_result=show,
        )
    cases = calibration.read_cases(questions, run.results)
    cascade = describe_cascade(models.small, models.large, wording, "full", agree)
    found = calibration.calibrate(questions.name, cascade, cases, risk, delta)
    write_whole(out, found.model_dump_json(indent=1))
    write_whole(out.with_suffix(".png"), calibration.plot(cases, found))
    if as_json:
        print_json({"file": str(out)} | found.model_dump(mode="json", exclude={"cascade"}))
    else:
        _show(found, out)


def _show(found: "Calibration", out: Path) -> None:
    from ..benchmarks.report.table import Table
    from ..benchmarks.statistics import Estimate
    from .rendering import show_tables

    rows: list[Any] = [
        (_NAMES[name], Estimate(*figure, found.questions)) for name, figure in found.figures.items()
    ]
    if not found.risk:
        verdict = "No gate was asked for: the file gives confidence alone."
    elif found.threshold is None:
        verdict = (
            f"Nothing to gain: even the surest answers change too often for a risk of "
            f"{found.risk:.3g}. The file gives confidence alone."
        )
    else:
        verdict = (
            f"From a probability of {found.threshold:.6g} on the small model's answer stands: "
            f"{found.losses} losses of {found.losses_allowed} allowed in {found.questions} "
            f"questions certify a risk of {found.risk:.3g} with confidence {1 - found.delta:.3g}."
        )
    title = f"Calibration on {found.questions} questions of {found.benchmark} (%)"
    notes = (verdict, f"It is in {out}; use it with `mai ask --gate {out}`.")
    show_tables([Table("calibration", title, ("figure", "value"), rows, notes=notes)])
