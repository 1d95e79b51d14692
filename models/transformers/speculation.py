"""Speculative decoding: a draft proposes a few tokens, the target verifies them in one pass.

The target keeps those that it would have generated itself, so the output is its own greedy one. The
draft sees the images; transformers' assisted generation shows it none. Imports torch and
transformers: only modules of a loaded model import this one.
"""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import torch

from ..completion import Drafted
from ..errors import ModelError
from .checkpoint import read_config, read_processor
from .loading import ModelSpec
from .prefix_cache import new_cache
from .prompt import REUSING, Prompt, can_reuse

if TYPE_CHECKING:
    from .engine import Engine

AHEAD = 5
"""Tokens that the draft proposes before the target verifies them."""


class Reader:
    """One model with the KV cache of one conversation.

    Positions are given from outside and nothing is kept on the model, so that a model may read here
    while its own thread generates.
    """

    def __init__(self, engine: "Engine", prompt: Prompt) -> None:
        """Take a prompt; nothing is computed yet."""
        self._engine = engine
        self._prompt = prompt
        self._cache: Any = new_cache(engine.model.config)
        self._length = 0

    def read_prompt(self) -> torch.Tensor:
        """Return the scores (1, vocabulary) of what follows the prompt."""
        # Alone, no token is padding; without a mask, none is kept on the model either.
        left_out = {"attention_mask", "mm_token_type_ids"}
        wanted = {key: one for key, one in self._prompt.inputs.items() if key not in left_out}
        return self._forward(wanted, len(self._prompt.tokens), 1)

    def read(self, tokens: Sequence[int]) -> torch.Tensor:
        """Return the scores (tokens, vocabulary) of what follows each of these."""
        return self._forward({"input_ids": torch.tensor([list(tokens)])}, len(tokens), len(tokens))

    def crop(self, tokens: int) -> None:
        """Take the last tokens out of the KV cache again."""
        if tokens:
            self._cache.crop(-tokens)
            self._length -= tokens

    def _forward(self, inputs: dict[str, Any], count: int, wanted: int) -> torch.Tensor:
        end = self._length + count
        if self._prompt.positions is not None:
            positions = self._prompt.positions_to(end)[:, self._length :]
            inputs = inputs | {"position_ids": positions[:, None]}
        self._length = end
        engine = self._engine
        output = engine.model(
            **{key: engine.place(value) for key, value in inputs.items()},
            **{engine.cache_name: self._cache, "use_cache": True, "logits_to_keep": wanted},
        )
        scores: torch.Tensor = output.logits[0, -wanted:]
        return scores


def speculate(
    target: Reader,
    draft: Reader,
    ends: frozenset[int],
    limit: int,
    accept: Callable[[int, torch.Tensor], bool],
    drafted: Drafted,
) -> None:
    """Generate the target's greedy output.

    Args:
        target: Whose output is wanted.
        draft: A faster model with the same token ids.
        ends: Tokens that end an output; the draft proposes nothing behind one.
        limit: Limit on the output, in tokens.
        accept: Takes each next token and its scores (vocabulary); returns whether more are wanted.
        drafted: Where proposed and accepted tokens are counted.
    """
    from .engine import check_scores

    scores = target.read_prompt()
    check_scores(scores)
    draft.read_prompt()
    token = int(scores[0].argmax())
    generated = 1
    unread = [token]
    if not accept(token, scores[0]):
        return
    while generated < limit:
        # The target generates a token of its own behind those that it keeps.
        guesses: list[int] = []
        most = min(AHEAD, limit - generated - 1)
        while len(guesses) < most and not (guesses and guesses[-1] in ends):
            guesses.append(int(draft.read(guesses[-1:] or unread)[-1].argmax()))
        scores = target.read([token, *guesses])
        own = scores.argmax(-1).tolist()
        kept = 0
        while kept < len(guesses) and guesses[kept] == own[kept]:
            kept += 1
        drafted.proposed += len(guesses)
        for at in range(kept + 1):
            generated += 1
            drafted.accepted += at < kept  # before the output may be complete
            if not accept(own[at], scores[at]):
                return
        token = own[kept]
        target.crop(len(guesses) - kept)
        if not guesses:
            unread = [*unread, token]
            continue
        # The draft has not read the last token that it proposed.
        draft.crop(max(0, len(guesses) - 1 - kept))
        unread = [*guesses[kept - 1 :], token] if kept == len(guesses) else [token]


def check_draft_files(target: ModelSpec, draft: ModelSpec) -> None:
    """Raise `ModelError` for a draft by what is known without weights: types and tokenizers."""
    _check(
        *(
            (spec.model, can_reuse(read_config(spec)), read_processor(spec).tokenizer)
            for spec in (target, draft)
        )
    )


def check_engines(target: "Engine", draft: "Engine") -> None:
    """Raise `ModelError` for a loaded model that cannot draft for another one."""
    _check(*((one.name, one.encoder.reuses, one.encoder.tokenizer) for one in (target, draft)))


def _check(*sides: tuple[str, bool, Any]) -> None:
    for name, crops, _ in sides:
        if not crops:
            raise ModelError(
                f"{name!r} cannot take part in speculative decoding, because it cannot take back "
                f"what it read; use models of the types {', '.join(sorted(REUSING))}."
            )
    (target, _, own), (draft, _, other) = sides
    if own.get_vocab() != other.get_vocab():
        raise ModelError(
            f"{draft!r} cannot draft for {target!r}: their tokenizers differ; use two models of "
            "one family."
        )
