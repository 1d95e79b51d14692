"""The text that the kept pieces of a reasoning make.

Pieces that adjoin stay joined as they were written. Where something was left out between two, they
stand apart: by white space that one of them has there, or else by one space. So no two words become
one, a line break that was left out becomes a space, and everything kept is the whole text again.
"""

from collections.abc import Iterable, Sequence

from .token_selection import Piece

Span = tuple[int, int]


def kept_spans(pieces: Sequence[Piece], kept: Iterable[int]) -> list[Span]:
    """The stretches that some pieces cover, in characters, in order, none touching another.

    Args:
        pieces: What `read_pieces` returned.
        kept: Numbers of those that are kept, in order.
    """
    spans: list[Span] = []
    for number in kept:
        start, end = pieces[number].start, pieces[number].end
        if spans and spans[-1][1] == start:
            start = spans.pop()[0]
        if start < end:
            spans.append((start, end))
    return spans


def kept_text(text: str, spans: Iterable[Span]) -> str:
    """The stretches of a text as one text.

    Args:
        text: The whole reasoning.
        spans: What `kept_spans` returned.
    """
    made = ""
    for start, end in spans:
        stretch = text[start:end]
        apart = not made or made[-1].isspace() or stretch[0].isspace()
        made += stretch if apart else f" {stretch}"
    return made
