"""Which tokens of a prompt are a stretch of its last message's text."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ..chat_format import Turn, turn_text
from ..errors import ModelError
from ..prompt_text import prompt_text

Span = tuple[int, int]
"""Characters, from the first to behind the last."""


@dataclass(frozen=True, slots=True)
class Stretch:
    """A stretch of the last message's text, in tokens.

    Attributes:
        positions: Where its tokens are in the prompt, in order.
        token_ids: Their ids.
        spans: For each token, which characters of the stretch it stands for.
        special: For each token, whether it is a special one.
    """

    positions: tuple[int, ...]
    token_ids: tuple[int, ...]
    spans: tuple[Span, ...]
    special: tuple[bool, ...]


def find_stretch(
    processor: Any, turns: Sequence[Turn], images: int, span: Span, tokens: Sequence[int], name: str
) -> Stretch:
    """Find a stretch among the tokens of a prompt.

    What stands behind the last picture is tokenized once more, with the place of each token in the
    text; it has to be the end of the prompt, token for token.

    Args:
        processor: The checkpoint's processor.
        turns: The conversation.
        images: How many pictures it holds.
        span: The stretch, in characters of the last turn's text (its parts joined).
        tokens: The prompt's tokens, those of pictures included.
        name: What the model is called in error messages.

    Raises:
        ModelError: No such stretch, or it cannot be found again among the tokens.
    """
    tokenizer = processor.tokenizer
    if not tokenizer.is_fast:
        raise ModelError(
            f"The tokenizer of {name!r} does not say which text its tokens stand for; take a "
            "checkpoint with a tokenizer.json."
        )
    text = prompt_text(processor, turns, images, name)
    first, last = _place_in_prompt(processor, turns, images, span, text, name)
    marker: str | None = getattr(processor, "image_token", None)
    tail = text.rfind(marker) + len(marker) if marker and marker in text else 0
    if first < tail:
        raise ModelError(
            "Attention can be read on text behind the last picture only; put the pictures first."
        )
    encoded = tokenizer(text[tail:], add_special_tokens=False, return_offsets_mapping=True)
    ids, offset = encoded["input_ids"], len(tokens) - len(encoded["input_ids"])
    if offset < 0 or list(tokens[offset:]) != ids:
        raise ModelError(
            f"The processor of {name!r} writes the prompt's text with other tokens than its "
            "tokenizer does, so that its attention cannot be told apart; transfer the whole "
            "reasoning."
        )
    found = token_spans(encoded["offset_mapping"], (first - tail, last - tail))
    special = _special_ids(tokenizer)
    return Stretch(
        positions=tuple(offset + at for at, _ in found),
        token_ids=tuple(ids[at] for at, _ in found),
        spans=tuple(own for _, own in found),
        special=tuple(ids[at] in special for at, _ in found),
    )


def token_spans(offsets: Sequence[Span], span: Span) -> list[tuple[int, Span]]:
    """The tokens of a stretch, and which of its characters each stands for.

    White space that a tokenizer counts to no token belongs to the one behind it. Tokens that share
    a character (parts of an emoji, say) get the same characters.

    Args:
        offsets: For every token of a text, its characters.
        span: The stretch, in characters of the same text.

    Returns:
        For every token that holds a character of the stretch, its index and its characters,
        counted from the beginning of the stretch.
    """
    start, end = span
    groups: list[tuple[list[int], int, int]] = []
    reached = 0
    for at, (first, last) in enumerate(offsets):
        begin, stop = max(min(first, reached), start) - start, min(last, end) - start
        reached = max(reached, last)
        if begin >= stop:
            continue
        if groups and begin < groups[-1][2]:
            members, low, high = groups.pop()
            groups.append(([*members, at], min(low, begin), max(high, stop)))
        else:
            groups.append(([at], begin, stop))
    return [(at, (low, high)) for members, low, high in groups for at in members]


def _place_in_prompt(
    processor: Any, turns: Sequence[Turn], images: int, span: Span, text: str, name: str
) -> Span:
    """Where the stretch is in the prompt's text: the template is shown it between two marks."""
    start, end = span
    message = "".join(turn_text(turns[-1]))
    if not 0 <= start < end <= len(message):
        raise ModelError(
            f"There is no stretch from {start} to {end}: the last message's text has "
            f"{len(message)} characters."
        )
    mark = next(letter for code in range(0xE000, 0xF900) if (letter := chr(code)) not in text)
    marked = prompt_text(processor, [*turns[:-1], _marked(turns[-1], span, mark)], images, name)
    before, *middle, after = marked.split(mark)
    if middle != [message[start:end]] or "".join([before, *middle, after]) != text:
        raise ModelError(
            f"The chat template of {name!r} changes the last message's text, so that its tokens "
            "cannot be told apart; transfer the whole reasoning."
        )
    return len(before), len(before) + end - start


def _marked(turn: Turn, span: Span, mark: str) -> Turn:
    start, end = span
    parts, done = [], 0
    for part in turn["content"]:
        if part["type"] != "text":
            parts.append(part)
            continue
        text = part["text"]
        low, high = start - done, end - done
        done += len(text)
        if 0 < high <= len(text):
            text = text[:high] + mark + text[high:]
        if 0 <= low < len(part["text"]):
            text = text[:low] + mark + text[low:]
        parts.append({**part, "text": text})
    return {**turn, "content": parts}


def _special_ids(tokenizer: Any) -> set[int]:
    added = tokenizer.added_tokens_decoder.items()
    return {*tokenizer.all_special_ids, *(token for token, one in added if one.special)}
