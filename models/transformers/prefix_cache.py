"""KV caches of prompts: taken out of a batch, put into another, and kept for equal prefixes.

Imports torch and transformers: only modules of a loaded model import this one.
"""

from collections import OrderedDict
from collections.abc import Sequence
from typing import Any

import torch
from transformers import DynamicCache
from transformers.cache_utils import DynamicLayer

from .checkpoint import free_memory

KVCache = tuple[tuple[torch.Tensor, torch.Tensor], ...]
"""Keys and values of some tokens by layer, each of shape (key heads, tokens, head dimension)."""

SHORTEST = 16
"""Shorter common prefixes (what a chat template begins with) are not worth copying."""

TOKEN_BYTES = 160
"""Memory that finding a prompt takes per token: its number in a tuple and in a dict."""

_SHARE_OF_MEMORY = 8
_BYTES_IF_UNKNOWN = 1 << 30


class PrefixCache:
    """Find the longest common prefix with earlier prompts; evict the least recently used.

    Used by an engine's own thread alone, so it has no lock.

    Attributes:
        nbytes: Memory that the KV caches take, and the index that finds them.
    """

    def __init__(self, device: torch.device) -> None:
        """Start empty, with an eighth of the memory that is free on a device as the limit."""
        free = free_memory(device)
        self.default_bytes = _BYTES_IF_UNKNOWN if free is None else free // _SHARE_OF_MEMORY
        self._entries: OrderedDict[tuple[int, ...], KVCache] = OrderedDict()
        self._by_prefix: dict[int, tuple[int, ...]] = {}
        self.nbytes = 0

    def find(self, prompt: Any, end: int) -> tuple[KVCache, int] | None:
        """Return the KV cache of a prompt's longest known beginning.

        Args:
            prompt: A `Prompt` with a `chain`.
            end: Its first token that has to be computed in any case.

        Returns:
            The KV cache and its tokens: not past `end`, and never up to the middle of an image.
            None if less than `SHORTEST` tokens are known.
        """
        lengths = range(end, SHORTEST - 1, -1)
        length = next((at for at in lengths if prompt.chain[at - 1] in self._by_prefix), 0)
        if not (computed := prompt.boundary(length)):
            return None
        chain = self._by_prefix[prompt.chain[length - 1]]
        self._entries.move_to_end(chain)
        layers = self._entries[chain]
        cut = slice(None), slice(computed)
        return tuple((keys[cut], values[cut]) for keys, values in layers), computed

    def store(self, chain: tuple[int, ...], known: KVCache, limit: int | None) -> None:
        """Keep the KV cache of all of a prompt's tokens, and evict old ones until all fit.

        `limit` are the bytes that all may take, the index included; None for the default.
        """
        limit = self.default_bytes if limit is None else limit
        size = _size(chain, known)
        if size <= limit and len(chain) >= SHORTEST and chain[-1] not in self._by_prefix:
            self._entries[chain] = known
            self._by_prefix |= dict.fromkeys(chain, chain)
            self.nbytes += size
        while self.nbytes > limit:
            oldest, evicted = self._entries.popitem(last=False)
            self.nbytes -= _size(oldest, evicted)
            for number in oldest:
                if self._by_prefix.get(number) is oldest:
                    del self._by_prefix[number]

    def clear(self) -> None:
        """Evict everything."""
        self._entries.clear()
        self._by_prefix.clear()
        self.nbytes = 0


def _size(chain: Sequence[int], known: KVCache) -> int:
    return sum(part.nbytes for layer in known for part in layer) + len(chain) * TOKEN_BYTES


def has_plain_cache(config: Any) -> bool:
    """Tell whether each layer keeps the keys and values of every token.

    Sliding windows and states of linear attention cannot be cut at any token.
    """
    # Exactly this class: its subclasses keep less, or more.
    return all(type(layer) is DynamicLayer for layer in new_cache(config).layers)


def new_cache(config: Any) -> DynamicCache:
    """Return an empty cache for a model."""
    return DynamicCache(config=config.get_text_config())


def take_sequence(cache: DynamicCache, at: int, columns: torch.Tensor) -> KVCache:
    """Copy the tokens in some columns of a batch's sequence `at`, in this order."""
    layers: Any = cache.layers
    columns = columns.to(layers[0].keys.device)
    return tuple(
        (layer.keys[at].index_select(1, columns), layer.values[at].index_select(1, columns))
        for layer in layers
    )


def merge_caches(sequences: Sequence[KVCache | None], width: int, cache: DynamicCache) -> None:
    """Fill an empty cache with sequences, padded on the left to the longest one's `width`."""
    some = next(one for one in sequences if one is not None)
    for index, layer in enumerate(some):
        merged: list[torch.Tensor] = []
        for part, like in enumerate(layer):
            if len(sequences) == 1:
                merged.append(like[None])
                continue
            heads, _, dimension = like.shape
            whole = like.new_zeros(len(sequences), heads, width, dimension)
            for at, one in enumerate(sequences):
                if one is not None:
                    whole[at, :, width - one[index][part].shape[1] :] = one[index][part]
            merged.append(whole)
        cache.update(merged[0], merged[1], index)
