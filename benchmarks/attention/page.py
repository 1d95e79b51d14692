"""One page of HTML in which reasonings are shown with their tokens shaded by attention."""

from collections.abc import Sequence
from typing import Any

from ...configs import ConfigError
from ...nodes.prompts import LETTERS
from ...nodes.sparse_transfer import smallest_set
from ..question import BenchmarkQuestion
from ..report.examples import picture_uri
from .figures import AttentionFigures
from .measure import Reading
from .tables import SOURCE_NAMES

QUESTIONS = 12
"""How many questions the page has, spread over the sample."""

_SCALE = 1000


def page(figures: AttentionFigures, title: str, layer: int) -> str:
    """The page's HTML; it needs no other file and no network.

    Args:
        figures: What was measured.
        title: What it was measured on, in a line.
        layer: The layer that is shown first.

    Raises:
        ConfigError: Jinja2 is not installed.
    """
    try:
        from jinja2 import Environment, PackageLoader
    except ImportError as error:
        raise ConfigError(
            'The page needs Jinja2: run `pip install "langgraph-mai[benchmarks]"`.'
        ) from error
    # Questions and reasonings may hold markup; it is shown, not followed.
    environment = Environment(
        loader=PackageLoader(__package__, "."), autoescape=True, trim_blocks=True
    )
    return environment.get_template("page.html").render(
        title=title,
        held=f"{100 * figures.share:g}%",
        layers=figures.layers,
        first=figures.layers.index(layer),
        scale=_SCALE,
        questions=[_question(figures, one) for one in _chosen(figures)],
    )


def _chosen(figures: AttentionFigures) -> list[BenchmarkQuestion]:
    """Some questions, those first of which both reasonings were read."""
    sources = len(figures.sources)
    by_id: dict[str, list[Reading]] = {}
    for one in figures.readings:
        by_id.setdefault(one.question.id, []).append(one)
    whole = [found[0].question for found in by_id.values() if len(found) == sources]
    count = min(QUESTIONS, len(whole))
    return [whole[len(whole) * number // count] for number in range(count)]


def _question(figures: AttentionFigures, question: BenchmarkQuestion) -> dict[str, Any]:
    lettered = zip(LETTERS, question.choices, strict=False)
    return {
        "id": question.id,
        "question": question.question,
        "choices": [f"{letter}. {text}" for letter, text in lettered],
        "answers": question.answers,
        "pictures": list(filter(None, map(picture_uri, question.images))),
        "readings": [
            _reading(figures, one) for one in figures.readings if one.question.id == question.id
        ],
    }


def _reading(figures: AttentionFigures, one: Reading) -> dict[str, Any]:
    """A reasoning as tokens, and for each layer which are how heavy, and which are kept."""
    measured = one.measured
    by_layer = [measured.pieces(layer) for layer in figures.layers]
    text = measured.reasoning
    return {
        "source": SOURCE_NAMES[one.source],
        "tokens": [text[piece.start : piece.end] for piece in by_layer[0]],
        "weights": [_shares([piece.weight for piece in pieces]) for pieces in by_layer],
        "kept": [smallest_set(pieces, figures.share) for pieces in by_layer],
        "totals": [round(_SCALE * measured.total(layer)) for layer in figures.layers],
    }


def _shares(weights: Sequence[int]) -> list[int]:
    """Weights in thousandths of their sum."""
    whole = sum(weights)
    return [round(_SCALE * weight / whole) if whole else 0 for weight in weights]
