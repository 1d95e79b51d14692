"""A suggestion in words, as a table, and as JSON."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ...configs.files import write_whole
from ...records.json_files import write_json
from ..estimates import Estimate
from ..report.table import Table, shown
from .calibration import Calibration
from .suggestion import LayerVerdict, Suggestion
from .tables import percent

Scores = Mapping[int | None, Estimate]

_WORTH_NOTE = "Worth: what the answers are worth one by one, by which layers are compared. "
_NOTE = (
    "Scores (%) are in the typed protocol; differences are paired by question, in points, with 95% "
    "intervals by picture. Picked: of bootstrap resamples of the sample. The best layer of a "
    "sample looks better than it is: measure the one you take on other questions."
)


def write_suggestion(folder: Path, made: Suggestion, found: Calibration, share: float) -> None:
    """Write suggest.md and suggest.json.

    Raises:
        ConfigError: They cannot be written.
    """
    said = suggestion_record(made, found, share)
    parts = ["# Which layer to select by", f"**{said['verdict']}**", *said["sentences"]]
    if said["pair_file"]:
        parts.append(f"```yaml\n{said['pair_file']}\n```")
    write_whole(folder / "suggest.md", "\n\n".join([*parts, said["table"]]))
    write_json(folder / "suggest.json", said)


def suggestion_record(made: Suggestion, found: Calibration, share: float) -> dict[str, Any]:
    """All of a suggestion as JSON values.

    Args:
        made: The suggestion.
        found: What it was made of.
        share: The share of the attention that was kept.

    Returns:
        layer, advice, is_sure, verdict and sentences (in words), pair_file (what to put there;
        empty if full transfer is better), table (Markdown), layers, full, runner_up, margin.
    """
    return {
        "layer": made.layer,
        "advice": made.advice,
        "is_sure": made.is_sure,
        "margin": made.margin,
        "verdict": verdict(made),
        "sentences": sentences(made),
        "pair_file": pair_file_line(made, share),
        "runner_up": made.runner_up,
        "to_runner_up": _plain(made.to_runner_up),
        "answered": len(found.outcomes.full),
        "pictures": len(set(found.outcomes.clusters)),
        "layers": [
            {
                "layer": one.layer,
                "score": _plain(found.scores[one.layer]),
                "worth": _plain(one.worth),
                "tokens": _plain(one.tokens),
                "to_best": _plain(one.to_best),
                "to_full": _plain(one.to_full),
                "as_good": one.as_good,
                "picked": one.picked,
            }
            for one in made.layers
        ],
        "full": {
            "score": _plain(found.scores[None]),
            "worth": _plain(made.full),
            "tokens": _plain(made.whole_tokens),
        },
        "table": suggestion_table(made, found.scores, found.headline).markdown(),
    }


def verdict(made: Suggestion) -> str:
    """What to do, in a sentence."""
    if made.advice == "use full transfer":
        everywhere = all(
            one.to_full.high is not None and one.to_full.high < 0 for one in made.layers
        )
        where = "at every layer" if everywhere else f"at layer {made.layer}, the one picked,"
        return f"Use full transfer: sparse transfer {where} is clearly worse on this sample."
    if made.advice == "measure more":
        return (
            f"Measure more questions: layer {made.layer} is picked, but this sample does not show "
            f"that it does as well as full transfer (no worse than {_points(made.margin)})."
        )
    return (
        f"Layer {made.layer}: it hands over {made.picked.tokens.value:.1f} of "
        f"{made.whole_tokens.value:.1f} tokens and is no worse than full transfer by more than "
        f"{_points(made.margin)}."
    )


def sentences(made: Suggestion) -> list[str]:
    """How sure it is, in sentences."""
    picked = made.picked
    among = (
        f"Among the layers it is L{made.layer} that keeps the fewest tokens of those shown to be "
        f"no worse than the best one by more than {_points(made.margin)}; it is picked in "
        f"{100 * picked.picked:.0f}% of the resamples."
    )
    said = [among]
    said.append(f"Paired difference to full transfer, in points: {_difference(picked.to_full)}.")
    if made.runner_up is not None and made.to_runner_up is not None:
        said.append(f"To the runner-up, L{made.runner_up}: {_difference(made.to_runner_up)}.")
    if not made.is_sure:
        said.append(
            f"The sample is too small to tell the layers apart; its resamples pick {_rivals(made)}."
        )
    if made.undecided:
        names = ", ".join(f"L{layer}" for layer in made.undecided)
        said.append(f"Whether these do as well as the best layer is not shown: {names}.")
    return said


def pair_file_line(made: Suggestion, share: float) -> str:
    """What to put into the pair file; empty if full transfer is better."""
    if made.advice == "use full transfer":
        return ""
    return f"sparse: {{layer: {made.layer}, share: {share:g}}}"


def suggestion_table(made: Suggestion, scores: Scores, headline: str) -> Table:
    """Each layer, and full transfer at the end."""
    # Where the benchmark's figure is a mean of what answers are worth, it is said once.
    apart = any(scores[one.layer].value != one.worth.value for one in made.layers)

    def worth(found: Estimate) -> tuple[Estimate, ...]:
        return (percent(found),) if apart else ()

    rows = [
        (
            f"L{one.layer}" + (" (picked)" if one.layer == made.layer else ""),
            one.tokens,
            percent(scores[one.layer]),
            *worth(one.worth),
            percent(one.to_best) if one.to_best else "best",
            percent(one.to_full),
            f"{100 * one.picked:.0f}%",
        )
        for one in made.layers
    ]
    full = (made.whole_tokens, percent(scores[None]), *worth(made.full))
    figure = (headline.replace("_", " "), *(("worth",) if apart else ()))
    return Table(
        "suggestion",
        "Sparse transfer by layer, against full transfer",
        ("layer", "tokens", *figure, "to the best layer", "to full transfer", "picked"),
        (*rows, ("full", *full, None, None, None)),
        scale=1.0,
        notes=(_WORTH_NOTE + _NOTE if apart else _NOTE,),
    )


def _rivals(made: Suggestion) -> str:
    ranked: list[LayerVerdict] = sorted(made.layers, key=lambda one: -one.picked)
    return ", ".join(f"L{one.layer} {100 * one.picked:.0f}%" for one in ranked if one.picked)


def _difference(found: Estimate) -> str:
    return shown(percent(found), scale=1.0)


def _points(margin: float) -> str:
    return f"{100 * margin:g} points"


def _plain(found: Estimate | None) -> dict[str, float | None] | None:
    if found is None:
        return None
    return {"value": found.value, "low": found.low, "high": found.high}
