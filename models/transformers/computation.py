"""A loaded model while it computes: what it waits for, and what it must not leave behind.

Imports torch: only modules of a loaded model import this one.
"""

import inspect
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch

from .gate import Gate
from .threads import ThreadShares


class Computation:
    """Lets a model's own thread compute with it.

    Attributes:
        model: The transformers model.
        cache_name: What the model calls the keys and values that it is given.
    """

    def __init__(self, model: Any, gate: Gate, shares: ThreadShares, threads: int | None) -> None:
        """Take over a loaded model.

        Args:
            model: The transformers model.
            gate: Held while the model computes.
            shares: Divides the CPU threads among models.
            threads: What this one uses alone; None if its number is fixed.
        """
        self.model = model
        self._gate = gate
        self._shares = shares
        self._threads = threads
        # Qwen keeps the offset of its positions on the model from call to call.
        self._stateful = [part for part in model.modules() if hasattr(part, "rope_deltas")]
        # Older versions of transformers call it otherwise.
        named = inspect.signature(model.forward).parameters
        self.cache_name = "cache" if "cache" in named else "past_key_values"

    @contextmanager
    def running(self) -> Iterator[None]:
        """Held while the model computes; no call knows anything of the one before."""
        try:
            with (
                self._gate.computing(),
                self._shares.computing(self._threads),
                torch.inference_mode(),
            ):
                yield
        finally:
            for part in self._stateful:
                part.rope_deltas = None

    def adjust_threads(self) -> None:
        """Take this model's share of the CPU threads, between two steps."""
        self._shares.adjust(self._threads)

    def place(self, value: Any) -> Any:
        """A tensor on the model's device, in its dtype if it holds no integers; others as is."""
        if not torch.is_tensor(value):
            return value
        dtype = self.model.dtype if value.is_floating_point() else None
        return value.to(device=self.model.device, dtype=dtype)
