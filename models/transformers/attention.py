"""The attention that one position of a prompt pays to a span of its last message's text.

An attention function registered with transformers records the wanted layers, and the pass stops
behind the highest of them. Imports torch and transformers: only modules of a loaded model import
this one.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import CancelledError
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

from ..attention import Attention
from ..chat_format import MARK, Turn, prompt_text, tokenize, turn_text
from ..errors import ModelError
from ..images import DecodedImage
from .prefix_cache import merge_caches, new_cache, take_sequence
from .prompt import Encoder, Prompt, image_inputs

if TYPE_CHECKING:
    from .engine import Engine

Span = tuple[int, int]
"""Characters, from the first to behind the last."""

NAME = "langgraph_mai_recording"

_BLOCK = 512
"""Positions whose mask is held at a time, so that no mask is as large as the prompt squared."""


@dataclass(frozen=True, slots=True)
class Reading:
    """What is read of one prompt.

    Attributes:
        turns: The conversation.
        images: Its images.
        span: Characters of the last turn's text (its parts joined).
        layers: Which layers, 1 for the first, all of them loaded.
        query: Whose attention, counted from the prompt's end.
        heads: Whether the weights of single heads are wanted.
        prefix_cache_bytes: Memory that prefix KV caches may take; None for the engine's default,
            0 for no reuse.
        started: When the call began, on the monotonic clock.
    """

    turns: Sequence[Turn]
    images: Sequence[DecodedImage]
    span: Span
    layers: tuple[int, ...]
    query: int
    heads: bool
    prefix_cache_bytes: int | None
    started: float


def read_attention(engine: "Engine", wanted: Reading, cancelled: Callable[[], bool]) -> Attention:
    """Return the attention on a span, in the engine's thread.

    Args:
        engine: Whose attention.
        wanted: What to read.
        cancelled: Ends the pass at the next layer once it says so.

    Raises:
        ModelError: No such span or query, or attention that cannot be told.
        CancelledError: Nobody waits any more.
    """
    prompt = engine.encoder.encode(wanted.turns, wanted.images)
    if not prompt.chain:
        raise ModelError(
            "The prompt's images cannot be told apart, and so its attention cannot be read; "
            "put text between them."
        )
    positions, spans = _find_span(engine.encoder, wanted, prompt)
    token_ids = tuple(prompt.tokens[at] for at in positions)
    behind = len(prompt.tokens) - 1 - positions[-1]
    if not -behind <= wanted.query < 0:
        last = f"-1 to -{behind}" if behind > 1 else "-1 alone"
        raise ModelError(
            f"The query {wanted.query} is not a position behind the span, counted from the "
            f"prompt's end; that is {last} here."
        )
    query = len(prompt.tokens) + wanted.query
    limit, highest = wanted.prefix_cache_bytes, max(wanted.layers)
    known, computed = (engine.prefixes.find(prompt, query) if limit != 0 else None) or (None, 0)
    cache = new_cache(engine.model.config)
    if known:
        merge_caches([known[:highest]], computed, cache)
    inputs = {"input_ids": torch.tensor([prompt.tokens[computed : query + 1]])}
    inputs |= image_inputs(image for image in prompt.images if image.start >= computed)
    if prompt.positions is not None:
        inputs["position_ids"] = prompt.positions[:, None, computed : query + 1]
    placed = {key: engine.place(value) for key, value in inputs.items()}
    columns = engine.place(torch.tensor(positions))
    recorder = _Recorder(frozenset(wanted.layers), columns, cancelled)
    with engine.computing(), recorder.on(engine.model.get_decoder()), suppress(_PassEndedError):
        engine.model(**placed, **{engine.cache_name: cache})
    heads = torch.stack([recorder.weights[layer] for layer in wanted.layers]).cpu()
    if not bool(heads.isfinite().all()):
        raise ModelError(
            "The model's attention is not a number; its dtype is too small for it, so use "
            "bfloat16 or float32."
        )
    # A model that also answers keeps the caches of its own calls only: those are the same to the
    # last bit with and without passes.
    whole = highest == engine.model.config.get_text_config().num_hidden_layers
    if not engine.answers and limit != 0 and whole and computed < query:
        with torch.inference_mode():
            own = take_sequence(cache, 0, torch.arange(query + 1))
        engine.prefixes.store(prompt.chain[: query + 1], own, limit)
    return Attention(
        token_ids=token_ids,
        spans=spans,
        special=_special(engine.encoder.tokenizer, token_ids),
        layers=wanted.layers,
        weights=heads.mean(dim=1).numpy(),
        heads=heads.numpy() if wanted.heads else None,
        query=query,
        input_tokens=len(prompt.tokens),
        cached_tokens=computed,
        seconds=time.monotonic() - wanted.started,
    )


class _PassEndedError(Exception):
    """The highest wanted layer is recorded; nothing behind it is computed."""


@dataclass(slots=True)
class _Recorder:
    """What is wanted of one pass, and what it has recorded.

    Attributes:
        layers: The wanted layers, 1 for the first.
        columns: The positions whose weights are wanted.
        cancelled: Whether nobody waits for the result any more.
        weights: By layer: the attention of the last computed position, after the softmax over all
            positions up to it, on the columns; shape (heads, columns), float32.
    """

    layers: frozenset[int]
    columns: torch.Tensor
    cancelled: Callable[[], bool]
    weights: dict[int, torch.Tensor] = field(default_factory=dict)

    @contextmanager
    def on(self, decoder: Any) -> Iterator[None]:
        """Have a language model's layers report to this, in the calling thread."""
        before = decoder.config._attn_implementation
        token = _current.set(self)
        try:
            decoder.config._attn_implementation = NAME
            yield
        finally:
            decoder.config._attn_implementation = before
            _current.reset(token)

    def reach(self, layer: int, query: torch.Tensor, key: torch.Tensor, scaling: float) -> None:
        """Record a layer (1 for the first), or end the pass.

        Args:
            layer: Which.
            query: The last position's, shape (heads, head dimension).
            key: Those of all positions, shape (key heads, positions, head dimension); each serves
                as many heads that follow each other.
            scaling: What products of the two are multiplied with.
        """
        if self.cancelled():
            raise CancelledError
        if layer in self.layers:
            grouped = query.float().reshape(key.shape[0], -1, query.shape[1])
            scores = torch.matmul(grouped, key.float().transpose(1, 2)) * scaling
            weights = scores.softmax(dim=-1).reshape(query.shape[0], -1)
            self.weights[layer] = weights.index_select(1, self.columns)
        if layer == max(self.layers):
            raise _PassEndedError


_current: ContextVar[_Recorder] = ContextVar("recorder")


def _attend(
    module: Any,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: None,
    scaling: float,
    **_: Any,
) -> tuple[torch.Tensor, None]:
    """Compute one layer of a batch of one, whose last positions are the queries'."""
    _current.get().reach(module.layer_idx + 1, query[0, :, -1], key[0], scaling)
    attend = ALL_ATTENTION_FUNCTIONS["sdpa"]
    new, known = query.shape[2], key.shape[2] - query.shape[2]
    if not known or new == 1:
        output, _unused = attend(module, query, key, value, attention_mask, scaling=scaling)
        return output, None
    outputs = []
    for start in range(0, new, _BLOCK):
        end = min(start + _BLOCK, new)
        seen = known + end
        mask = torch.ones(end - start, seen, dtype=torch.bool, device=query.device)
        mask = mask.tril(known + start)[None, None]
        block = (query[:, :, start:end], key[:, :, :seen], value[:, :, :seen], mask)
        outputs.append(attend(module, *block, scaling=scaling)[0])
    return torch.cat(outputs, dim=1), None


AttentionInterface.register(NAME, _attend)
# One prompt without padding needs no mask: each position sees all before it.
AttentionMaskInterface.register(NAME, lambda *_, **__: None)


def _special(tokenizer: Any, tokens: Sequence[int]) -> tuple[bool, ...]:
    added = tokenizer.added_tokens_decoder.items()
    special = {*tokenizer.all_special_ids, *(token for token, one in added if one.special)}
    return tuple(token in special for token in tokens)


def _find_span(
    encoder: Encoder, wanted: Reading, prompt: Prompt
) -> tuple[tuple[int, ...], tuple[Span, ...]]:
    """Return the positions of a span's tokens in a prompt, and each one's characters of the span.

    What stands behind the last image is tokenized once more, with the place of each token in the
    text; it has to be the end of the prompt, token for token.

    Raises:
        ModelError: No such span, or it cannot be found again among the tokens.
    """
    tokenizer, marker, name = encoder.tokenizer, encoder.marker, encoder.name
    if not tokenizer.is_fast:
        raise ModelError(
            f"The tokenizer of {name!r} does not say which text its tokens stand for; take a "
            "checkpoint with a tokenizer.json."
        )

    def render(turns: Sequence[Turn]) -> str:
        return prompt_text(encoder.processor, turns, len(wanted.images), name)

    text = render(wanted.turns)
    first, last = _place_in_prompt(render, wanted.turns, wanted.span, text.replace(MARK, ""), name)
    cut = text.rfind(marker) + len(marker) if marker and marker in text else 0
    tail = len(text[:cut].replace(MARK, ""))
    if first < tail:
        raise ModelError(
            "Attention can be read on text behind the last image only; put the images first."
        )
    encoded = tokenize(tokenizer, text[cut:], add_special_tokens=False, return_offsets_mapping=True)
    ids, offset = encoded["input_ids"], len(prompt.tokens) - len(encoded["input_ids"])
    if offset < 0 or prompt.tokens[offset:] != ids:
        raise ModelError(
            f"The processor of {name!r} writes the prompt's text with other tokens than its "
            "tokenizer does, so that its attention cannot be told apart; transfer the whole "
            "reasoning."
        )
    found = _token_spans(encoded["offset_mapping"], (first - tail, last - tail))
    return tuple(offset + at for at, _ in found), tuple(own for _, own in found)


def _token_spans(offsets: Sequence[Span], span: Span) -> list[tuple[int, Span]]:
    """Return the tokens of a span, and which of its characters each stands for.

    White space that a tokenizer counts to no token belongs to the one behind it. Tokens that share
    a character (parts of an emoji, say) get the same characters.
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
    render: Callable[[Sequence[Turn]], str], turns: Sequence[Turn], span: Span, text: str, name: str
) -> Span:
    """Return where the span is in the prompt's text: the template shows it between two marks."""
    start, end = span
    message = "".join(turn_text(turns[-1]))
    if not 0 <= start < end <= len(message):
        raise ModelError(
            f"There is no span from {start} to {end}: the last message's text has "
            f"{len(message)} characters."
        )
    mark = next(letter for code in range(0xE000, 0xF900) if (letter := chr(code)) not in text)
    marked = render([*turns[:-1], _marked(turns[-1], span, mark)]).replace(MARK, "")
    before, *middle, after = marked.split(mark)
    if middle != [message[start:end]] or "".join([before, *middle, after]) != text:
        raise ModelError(
            f"The chat template of {name!r} changes the last message's text, so that its tokens "
            "cannot be told apart; transfer the whole reasoning."
        )
    return len(before), len(before) + end - start


def _marked(turn: Turn, span: Span, mark: str) -> Turn:
    """Return a turn with a mark before and behind a span of its text."""
    parts, done = [], 0
    for part in turn["content"]:
        if part["type"] == "text":
            text = part["text"]
            low, high = (at - done for at in span)
            done += len(text)
            if 0 < high <= len(text):
                text = text[:high] + mark + text[high:]
            if 0 <= low < len(part["text"]):
                text = text[:low] + mark + text[low:]
            part = {**part, "text": text}  # noqa: PLW2901
        parts.append(part)
    return {**turn, "content": parts}
