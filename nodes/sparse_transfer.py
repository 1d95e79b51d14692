"""Sparse transfer: the tokens of a reasoning that its reader attends to most.

The attention is taken from the very prompt that full transfer would send. By the prefix rule it
begins like the reader's direct answer, so that pictures and question are not computed again.
"""

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

from langchain_core.messages import BaseMessage
from langgraph.errors import GraphBubbleUp

from ..configs import ConfigError, SparseTransfer
from ..models.attention import Attention
from ..models.capabilities import SupportsAttention
from .chat_models import chat_models
from .kept_text import kept_spans, kept_text
from .model_call import Agent, agent_request, answer_limit, with_settings
from .own_function import failure
from .prompts import question_text, reasoning_span
from .request import Reply, too_long
from .retry import tried_again
from .selection_baselines import (
    keep_at_random,
    keep_heaviest,
    keep_last,
    keep_sentences,
    reweighted,
)
from .state import Selection, Task
from .token_selection import Piece, count_tokens, read_pieces, share_held, smallest_set


@dataclass(frozen=True, slots=True)
class TransferPrompt:
    """The prompt of a full transfer, as a pass reads it.

    Attributes:
        messages: The messages.
        span: Where the reasoning stands in the last message's text, as (start, end).
        timeout: Seconds that a pass may take; None for no limit.
    """

    messages: list[BaseMessage]
    span: tuple[int, int]
    timeout: float | None


def transfer_prompt(reader: Agent, task: Task, reasoning: str) -> TransferPrompt:
    """The prompt that hands a whole reasoning over.

    Args:
        reader: Who will read it.
        task: What is asked.
        reasoning: A finished reasoning; white space around it is left out.
    """
    request = agent_request(reader, "transfer", task, reasoning)
    prompts = with_settings(reader, task).prompts
    question = question_text(prompts, task["question"], task["choices"])
    span = reasoning_span(prompts, question, reasoning, task["answer_type"])
    return TransferPrompt(request.messages, span, request.timeout)


@dataclass(frozen=True, slots=True)
class TokenSelector:
    """Selects what is handed over of a reasoning.

    Attributes:
        reader: Who will read it.
        attends: Who gives the attention by which tokens are selected; None if nobody does.
        small: Who gives it for `keep="small"`; None if the small model gives none.
    """

    reader: Agent
    attends: SupportsAttention | None
    small: SupportsAttention | None

    def check(self, sparse: SparseTransfer) -> None:
        """Refuse a selection for which attention is missing.

        Raises:
            ConfigError: Nobody gives it.
        """
        if self.attends is None:
            raise ConfigError(
                f"Sparse transfer needs attention, which the {self.reader.role} model "
                f"({_kind(self.reader)}) does not give: name a model that does as `selector` "
                "(a ChatTransformers of the same weights, or the small model), or transfer the "
                "whole reasoning."
            )
        if sparse.keep == "small" and self.small is None:
            raise ConfigError(
                'keep="small" needs the attention of the small model, which does not give it: '
                "use another `keep`."
            )

    def asked(self, sparse: SparseTransfer) -> list[SupportsAttention]:
        """Whose attention is read, in order."""
        asked = [self.attends, self.small if sparse.keep == "small" else None]
        return [one for one in asked if one is not None]

    def select(self, sparse: SparseTransfer, task: Task, reasoning: str) -> Selection | Reply:
        """Select the tokens of a reasoning.

        Args:
            sparse: How.
            task: What is asked.
            reasoning: A finished reasoning.

        Returns:
            The selection; if it failed, a reply that says why, and whether the prompt was too long.
            Failures after which the node is run again come through.
        """
        start = time.perf_counter()
        try:
            self.check(sparse)
            prompt = transfer_prompt(self.reader, task, reasoning)
            passes = [
                one.attention(
                    prompt.messages,
                    prompt.span,
                    layers=_layers(sparse, number),
                    query=sparse.query,
                    timeout=prompt.timeout,
                )
                for number, one in enumerate(self.asked(sparse))
            ]
            return _selection(sparse, reasoning.strip(), passes, start)
        except GraphBubbleUp:
            raise
        except Exception as error:  # noqa: BLE001  what a model may raise is unknown
            return self._failed(task, error, start)

    async def aselect(
        self, sparse: SparseTransfer, task: Task, reasoning: str
    ) -> Selection | Reply:
        """`select` for the event loop; cancelled, it gives up its place in the model."""
        start = time.perf_counter()
        try:
            self.check(sparse)
            prompt = await asyncio.to_thread(transfer_prompt, self.reader, task, reasoning)
            passes = [
                await one.aattention(
                    prompt.messages,
                    prompt.span,
                    layers=_layers(sparse, number),
                    query=sparse.query,
                    timeout=prompt.timeout,
                )
                for number, one in enumerate(self.asked(sparse))
            ]
            return await asyncio.to_thread(_selection, sparse, reasoning.strip(), passes, start)
        except GraphBubbleUp:
            raise
        except Exception as error:  # noqa: BLE001  what a model may raise is unknown
            return self._failed(task, error, start)

    def _failed(self, task: Task, error: Exception, start: float) -> Reply:
        if tried_again(error):
            raise error
        sentence = failure("selection of tokens", error)
        reply = Reply(time.perf_counter() - start, error=sentence)
        answer = answer_limit(self.reader, "transfer", task)
        return replace(reply, too_long=too_long(error, answer))


def _kind(agent: Agent) -> str:
    return type(chat_models(agent.model)[0]).__name__


def _layers(sparse: SparseTransfer, number: int) -> list[int] | None:
    """The wanted layer; the small model, asked second, has other ones, so it takes its default."""
    return None if sparse.layer is None or number else [sparse.layer]


def _selection(
    sparse: SparseTransfer, reasoning: str, passes: Sequence[Attention], start: float
) -> Selection:
    """What is kept of a reasoning, by the attention of one or two passes.

    Raises:
        ValueError: Attention that tells nothing, or tokens without any text.
    """
    pieces = [_pieces(reasoning, attention) for attention in passes]
    kept = _kept(sparse, reasoning, pieces)
    spans = kept_spans(pieces[0], kept)
    text = kept_text(reasoning, spans).strip()
    if not text:  # white space alone says nothing: as many tokens that can be read
        kept = _heaviest_visible(pieces[0], reasoning, count_tokens(pieces[0], kept))
        spans = kept_spans(pieces[0], kept)
        text = kept_text(reasoning, spans).strip()
    if not text:
        raise ValueError("the tokens that hold the share have no text; take a larger share")
    return {
        "keep": sparse.keep,
        "layer": passes[0].layers[0],
        "share": sparse.share,
        "reached": share_held(pieces[0], kept),
        "kept_tokens": count_tokens(pieces[0], kept),
        "reasoning_tokens": count_tokens(pieces[0], range(len(pieces[0]))),
        "reasoning": reasoning,
        "spans": [[first, last] for first, last in spans],
        "text": text,
        "input_tokens": sum(attention.input_tokens for attention in passes),
        "cached_tokens": sum(attention.cached_tokens for attention in passes),
        "seconds": time.perf_counter() - start,
    }


def _heaviest_visible(pieces: list[Piece], reasoning: str, budget: int) -> list[int]:
    visible = [
        number for number, piece in enumerate(pieces) if reasoning[piece.start : piece.end].strip()
    ]
    kept = keep_heaviest([pieces[number] for number in visible], budget)
    return [visible[number] for number in kept]


def _pieces(reasoning: str, attention: Attention) -> list[Piece]:
    return read_pieces(len(reasoning), attention.spans, attention.special, attention.weights[0])


def _kept(sparse: SparseTransfer, reasoning: str, pieces: Sequence[list[Piece]]) -> list[int]:
    """Numbers of the pieces that are kept; the other ways keep as many tokens as attention does."""
    own = pieces[0]
    kept = smallest_set(own, sparse.share)
    budget = count_tokens(own, kept)
    match sparse.keep:
        case "attention":
            return kept
        case "sentences":
            return keep_sentences(own, budget, reasoning)
        case "last":
            return keep_last(own, budget)
        case "random":
            return keep_at_random(own, budget, seed=reasoning)
        case "small":
            return keep_heaviest(reweighted(own, pieces[1]), budget)
