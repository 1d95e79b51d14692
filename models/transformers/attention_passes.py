"""Passes through a model that read its attention and write nothing.

Imports torch and transformers: only modules of a loaded model import this one.
"""

import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import torch

from ..errors import ModelError
from .attention_pass import AttentionPass
from .attention_recording import PassEnded, PassGivenUp, Recorder, recording
from .computation import Computation
from .key_values import merge_rows, plain_cache, take_row
from .load_errors import is_out_of_memory
from .prefix_cache import PrefixCache
from .prompt import picture_inputs


class AttentionPasses:
    """The passes that wait for one model, and the way each of them takes.

    All but `put` happens in the model's thread.
    """

    def __init__(
        self, computation: Computation, prefixes: PrefixCache, *, default_bytes: int, stores: bool
    ) -> None:
        """Nobody waits.

        Args:
            computation: The model.
            prefixes: Keys and values of earlier prompts.
            default_bytes: Memory for them, where a pass does not say.
            stores: Whether passes add to them. A model that writes answers gets the keys and values
                of its own calls only: those are the same to the last bit with and without passes.
        """
        self._computation = computation
        self._prefixes = prefixes
        self._default_bytes = default_bytes
        self._stores = stores
        self._lock = threading.Lock()
        self._waiting: list[AttentionPass] = []

    def put(self, one: AttentionPass) -> None:
        """Let a pass wait."""
        with self._lock:
            self._waiting.append(one)

    @property
    def waits(self) -> bool:
        """Whether there is one to run."""
        return any(not one.done for one in self._waiting)

    def run(self, explain: Callable[[Exception], Exception]) -> None:
        """Run those that wait at this moment; each of them fails alone.

        Args:
            explain: What a caller is told of an error.
        """
        with self._lock:
            waiting, self._waiting = self._waiting, []
        for one in waiting:
            if one.done:
                continue
            try:
                self._run(one)
            except PassGivenUp:
                continue
            except Exception as error:  # noqa: BLE001  (the waiting caller gets it)
                if is_out_of_memory(error):
                    self._prefixes.clear()
                one.fail(explain(error))

    def _run(self, one: AttentionPass) -> None:
        limit = one.prefix_cache_bytes
        limit = self._default_bytes if limit is None else limit
        found = self._prefixes.find_before(one.prompt, one.query) if limit else None
        known, computed = found or (None, 0)
        cache: Any = plain_cache(self._computation.model.config)
        with self._computation.running():
            if known:
                cache = merge_rows([known[: max(one.layers)]], computed, cache)
            weights = self._compute(one, cache, computed)
        if not all(bool(layer.isfinite().all()) for layer in weights.values()):
            raise ModelError(
                "The model's attention is not a number; its dtype is too small for it, so use "
                "bfloat16 or float32."
            )
        one.finish(weights, computed)
        self._store(one, cache, computed, limit)

    def _compute(self, one: AttentionPass, cache: Any, computed: int) -> dict[int, torch.Tensor]:
        """Run the tokens up to the query, as far as the highest layer."""
        place = self._computation.place
        prompt, end = one.prompt, one.query + 1
        inputs = {"input_ids": torch.tensor([prompt.tokens[computed:end]])}
        inputs |= picture_inputs(
            picture for picture in prompt.pictures if picture.start >= computed
        )
        if prompt.positions is not None:
            inputs["position_ids"] = prompt.positions[:, None, computed:end]
        columns = place(torch.tensor(one.stretch.positions))
        recorder = Recorder(frozenset(one.layers), columns, lambda: one.done)
        placed = {key: place(value) for key, value in inputs.items()}
        model = self._computation.model
        with recording(model.get_decoder(), recorder), suppress(PassEnded):
            model(**placed, **{self._computation.cache_name: cache})
        return recorder.weights

    def _store(self, one: AttentionPass, cache: Any, computed: int, limit: int) -> None:
        """Keep the keys and values for later passes, if all layers have them."""
        end = one.query + 1
        layers = self._computation.model.config.get_text_config().num_hidden_layers
        if self._stores and limit and max(one.layers) == layers and computed < end - 1:
            with torch.inference_mode():
                known = take_row(cache, 0, torch.arange(end))
            self._prefixes.store(one.prompt.chain[:end], known, limit)
