"""One page of HTML in which reasonings are shown with their tokens shaded by attention."""

from collections.abc import Sequence
from typing import Any

from ...nodes.sparse_transfer import smallest_set
from ..question import BenchmarkQuestion
from ..report.page import image_uri, lettered, render
from .figures import AttentionFigures
from .measure import Reading
from .tables import SOURCE_NAMES

QUESTIONS = 12
"""How many questions the page has, spread over the sample."""

_SCALE = 1000


def page(figures: AttentionFigures, title: str, layer: int) -> str:
    """Return the page's HTML; it needs no other file and no network.

    Args:
        figures: What was measured.
        title: What it was measured on, in a line.
        layer: The layer that is shown first.

    Raises:
        ConfigError: Jinja2 is not installed.
    """
    by_id: dict[str, list[Reading]] = {}
    for one in figures.readings:
        by_id.setdefault(one.question.id, []).append(one)
    whole = [found for found in by_id.values() if len(found) == len(figures.sources)]
    count = min(QUESTIONS, len(whole))
    chosen = [whole[len(whole) * number // count] for number in range(count)]
    return render(
        __package__,
        title=title,
        held=f"{100 * figures.share:g}%",
        layers=figures.layers,
        first=figures.layers.index(layer),
        scale=_SCALE,
        questions=[_question(figures, found[0].question, found) for found in chosen],
    )


def _question(
    figures: AttentionFigures, question: BenchmarkQuestion, readings: Sequence[Reading]
) -> dict[str, Any]:
    return {
        "id": question.id,
        "question": question.question,
        "choices": lettered(question),
        "answers": question.answers,
        "images": list(filter(None, map(image_uri, question.images))),
        "readings": [_reading(figures, one) for one in readings],
    }


def _reading(figures: AttentionFigures, one: Reading) -> dict[str, Any]:
    """Return a reasoning as tokens, and for each layer their weights and which are kept."""
    measured, text = one.measured, one.measured.reasoning
    by_layer = [measured.groups(layer) for layer in figures.layers]
    return {
        "source": SOURCE_NAMES[one.source],
        "tokens": [text[group.start : group.end] for group in by_layer[0]],
        "weights": [_shares([group.weight for group in groups]) for groups in by_layer],
        "kept": [smallest_set(groups, figures.share) for groups in by_layer],
        "totals": [round(_SCALE * measured.total(layer)) for layer in figures.layers],
    }


def _shares(weights: Sequence[int]) -> list[int]:
    """Return weights in thousandths of their sum."""
    whole = sum(weights)
    return [round(_SCALE * weight / whole) if whole else 0 for weight in weights]
