"""The attention that one position of a prompt pays to a span of its last message's text.

An attention function registered with transformers records the wanted layers, and the pass stops
behind the highest of them. Imports torch and transformers: only modules of a loaded model import
this one.
"""

import time
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, InvalidStateError
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

from ..attention import Attention
from ..chat_format import Turn, prompt_text, turn_text
from ..errors import ModelError
from .prefix_cache import merge_caches, new_cache, take_sequence
from .prompt import Encoder, Prompt, image_inputs

if TYPE_CHECKING:
    from ..images import DecodedImage
    from .engine import Engine

Span = tuple[int, int]
"""Characters, from the first to behind the last."""

NAME = "langgraph_mai_recording"

_BLOCK = 512
"""Positions whose mask is held at a time, so that no mask is as large as the prompt squared."""


class AttentionPass:
    """One prompt whose attention is wanted. The engine's thread works on it, the caller waits.

    Attributes:
        future: Resolves to the `Attention`. Cancelling it ends the pass at the next layer.
    """

    def __init__(
        self,
        turns: Sequence[Turn],
        images: "Sequence[DecodedImage]",
        span: Span,
        *,
        layers: tuple[int, ...],
        query: int,
        heads: bool,
        prefix_cache_bytes: int | None,
    ) -> None:
        """Prepare a pass.

        Args:
            turns: The conversation.
            images: Its images.
            span: Characters of the last turn's text (its parts joined).
            layers: Which layers, 1 for the first, all of them loaded.
            query: Whose attention, counted from the prompt's end.
            heads: Whether the weights of single heads are wanted.
            prefix_cache_bytes: Memory that prefix KV caches may take; None for the engine's
                default, 0 for no reuse.
        """
        self.future: Future[Attention] = Future()
        self._turns = turns
        self._images = images
        self._span = span
        self._layers = layers
        self._query = query
        self._heads = heads
        self._prefix_cache_bytes = prefix_cache_bytes
        self._started = time.monotonic()

    def run(self, engine: "Engine") -> None:
        """Read the attention.

        Raises:
            ModelError: No such span or query, or attention that cannot be told.
        """
        prompt = engine.encoder.encode(self._turns, self._images)
        if not prompt.chain:
            raise ModelError(
                "The prompt's images cannot be told apart, and so its attention cannot be read; "
                "put text between them."
            )
        span = _find_span(
            engine.encoder, self._turns, len(self._images), self._span, prompt, engine.name
        )
        behind = len(prompt.tokens) - 1 - span.positions[-1]
        if not -behind <= self._query < 0:
            last = f"-1 to -{behind}" if behind > 1 else "-1 alone"
            raise ModelError(
                f"The query {self._query} is not a position behind the span, counted from the "
                f"prompt's end; that is {last} here."
            )
        query = len(prompt.tokens) + self._query
        limit = self._prefix_cache_bytes
        found = engine.prefixes.find(prompt, query) if limit != 0 else None
        known, computed = found or (None, 0)
        cache = new_cache(engine.model.config)
        if known:
            cache = merge_caches([known[: max(self._layers)]], computed, cache)
        try:
            weights = self._compute(engine, prompt, span, query, cache, computed)
        except _PassCancelledError:
            return
        heads = torch.stack([weights[layer] for layer in self._layers]).cpu()
        if not bool(heads.isfinite().all()):
            raise ModelError(
                "The model's attention is not a number; its dtype is too small for it, so use "
                "bfloat16 or float32."
            )
        attention = Attention(
            token_ids=span.token_ids,
            spans=span.spans,
            special=span.special,
            layers=self._layers,
            weights=heads.mean(dim=1).numpy(),
            heads=heads.numpy() if self._heads else None,
            query=query,
            input_tokens=len(prompt.tokens),
            cached_tokens=computed,
            seconds=time.monotonic() - self._started,
        )
        with suppress(InvalidStateError):  # the caller cancelled at this moment
            self.future.set_result(attention)
        # A model that also answers keeps the caches of its own calls only: those are the same to
        # the last bit with and without passes.
        deep = max(self._layers) == engine.model.config.get_text_config().num_hidden_layers
        if not engine.writes and limit != 0 and deep and computed < query:
            with torch.inference_mode():
                own = take_sequence(cache, 0, torch.arange(query + 1))
            engine.prefixes.store(prompt.chain[: query + 1], own, limit)

    def _compute(
        self,
        engine: "Engine",
        prompt: Prompt,
        span: "_TokenSpan",
        query: int,
        cache: Any,
        computed: int,
    ) -> dict[int, torch.Tensor]:
        """Run the tokens up to the query, as far as the highest layer."""
        inputs = {"input_ids": torch.tensor([prompt.tokens[computed : query + 1]])}
        inputs |= image_inputs(image for image in prompt.images if image.start >= computed)
        if prompt.positions is not None:
            inputs["position_ids"] = prompt.positions[:, None, computed : query + 1]
        columns = engine.place(torch.tensor(span.positions))
        recorder = _Recorder(frozenset(self._layers), columns, self.future)
        placed = {key: engine.place(value) for key, value in inputs.items()}
        with (
            engine.computing(),
            _recording(engine.model.get_decoder(), recorder),
            suppress(_PassEndedError),
        ):
            engine.model(**placed, **{engine.cache_name: cache})
        return recorder.weights


class _PassEndedError(Exception):
    """The highest wanted layer is recorded; nothing behind it is computed."""


class _PassCancelledError(Exception):
    """Nobody waits for the result any more."""


class _Recorder:
    """What is wanted of one pass, and what it has recorded.

    Attributes:
        weights: By layer, 1 for the first: the attention of the last computed position, after the
            softmax over all positions up to it, on the columns; shape (heads, columns), float32.
    """

    def __init__(
        self, layers: frozenset[int], columns: torch.Tensor, future: Future[Attention]
    ) -> None:
        self.weights: dict[int, torch.Tensor] = {}
        self._layers = layers
        self._columns = columns
        self._future = future

    def reach(self, layer: int, query: torch.Tensor, key: torch.Tensor, scaling: float) -> None:
        """Record a layer.

        Args:
            layer: 1 for the first.
            query: The last position's, shape (heads, head dimension).
            key: Those of all positions, shape (key heads, positions, head dimension); each serves
                as many heads that follow each other.
            scaling: What products of the two are multiplied with.

        Raises:
            _PassEndedError: It was the last layer that is needed.
            _PassCancelledError: Nobody waits any more.
        """
        if self._future.done():
            raise _PassCancelledError
        if layer in self._layers:
            grouped = query.float().reshape(key.shape[0], -1, query.shape[1])
            scores = torch.matmul(grouped, key.float().transpose(1, 2)) * scaling
            weights = scores.softmax(dim=-1).reshape(query.shape[0], -1)
            self.weights[layer] = weights.index_select(1, self._columns)
        if layer == max(self._layers):
            raise _PassEndedError


_current: ContextVar[_Recorder] = ContextVar("recorder")


@contextmanager
def _recording(decoder: Any, recorder: _Recorder) -> Iterator[None]:
    """Have a language model's layers report to a recorder, in the calling thread."""
    before = decoder.config._attn_implementation
    token = _current.set(recorder)
    try:
        decoder.config._attn_implementation = NAME
        yield
    finally:
        decoder.config._attn_implementation = before
        _current.reset(token)


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


@dataclass(frozen=True, slots=True)
class _TokenSpan:
    """A span of the last message's text, in tokens: positions, ids, characters, special or not."""

    positions: tuple[int, ...]
    token_ids: tuple[int, ...]
    spans: tuple[Span, ...]
    special: tuple[bool, ...]


def _find_span(
    encoder: Encoder, turns: Sequence[Turn], images: int, span: Span, prompt: Prompt, name: str
) -> _TokenSpan:
    """Find a span among the tokens of a prompt.

    What stands behind the last image is tokenized once more, with the place of each token in the
    text; it has to be the end of the prompt, token for token.

    Raises:
        ModelError: No such span, or it cannot be found again among the tokens.
    """
    tokenizer = encoder.tokenizer
    if not tokenizer.is_fast:
        raise ModelError(
            f"The tokenizer of {name!r} does not say which text its tokens stand for; take a "
            "checkpoint with a tokenizer.json."
        )
    text = prompt_text(encoder.processor, turns, images, name)
    first, last = _place_in_prompt(encoder.processor, turns, images, span, text, name)
    marker: str | None = getattr(encoder.processor, "image_token", None)
    tail = text.rfind(marker) + len(marker) if marker and marker in text else 0
    if first < tail:
        raise ModelError(
            "Attention can be read on text behind the last image only; put the images first."
        )
    encoded = tokenizer(text[tail:], add_special_tokens=False, return_offsets_mapping=True)
    ids, offset = encoded["input_ids"], len(prompt.tokens) - len(encoded["input_ids"])
    if offset < 0 or prompt.tokens[offset:] != ids:
        raise ModelError(
            f"The processor of {name!r} writes the prompt's text with other tokens than its "
            "tokenizer does, so that its attention cannot be told apart; transfer the whole "
            "reasoning."
        )
    found = _token_spans(encoded["offset_mapping"], (first - tail, last - tail))
    added = tokenizer.added_tokens_decoder.items()
    special = {*tokenizer.all_special_ids, *(token for token, one in added if one.special)}
    return _TokenSpan(
        positions=tuple(offset + at for at, _ in found),
        token_ids=tuple(ids[at] for at, _ in found),
        spans=tuple(own for _, own in found),
        special=tuple(ids[at] in special for at, _ in found),
    )


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
    processor: Any, turns: Sequence[Turn], images: int, span: Span, text: str, name: str
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
