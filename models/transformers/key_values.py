"""Keys and values of attention, taken out of one batch and put into another.

Imports torch and transformers: only modules of a loaded model import this one.
"""

from collections.abc import Sequence
from typing import Any

import torch
from transformers import DynamicCache
from transformers.cache_utils import DynamicLayer

KeyValues = tuple[tuple[torch.Tensor, torch.Tensor], ...]
"""Keys and values of some tokens, layer by layer, each of shape (heads, tokens, head dimension)."""


def plain_cache(config: Any) -> DynamicCache | None:
    """An empty cache for a model.

    Returns:
        None if some layer keeps anything else than the keys and values of every token (sliding
        windows, states of linear attention): those cannot be cut at any token.
    """
    cache = DynamicCache(config=config.get_text_config())
    # Exactly this class: its subclasses keep less, or more.
    if all(type(layer) is DynamicLayer for layer in cache.layers):
        return cache
    return None


def count_bytes(known: KeyValues) -> int:
    """Memory that keys and values take."""
    return sum(tensor.nbytes for layer in known for tensor in layer)


def first_tokens(known: KeyValues, count: int) -> KeyValues:
    """Those of the first `count` tokens, as views."""
    return tuple((keys[:, :count], values[:, :count]) for keys, values in known)


def take_row(cache: DynamicCache, row: int, columns: torch.Tensor) -> KeyValues:
    """Copy one row out of a batch.

    Args:
        cache: The batch.
        row: Which row.
        columns: Indices of its tokens in the batch, in order.
    """
    taken = []
    layers: Any = cache.layers  # all of the class that `plain_cache` asks for, and filled
    for layer in layers:
        keys, values = layer.keys, layer.values
        at = columns.to(keys.device)
        taken.append((keys[row].index_select(1, at), values[row].index_select(1, at)))
    return tuple(taken)


def merge_rows(rows: Sequence[KeyValues | None], width: int, cache: DynamicCache) -> DynamicCache:
    """Fill an empty cache with rows of different lengths, padded on the left.

    Args:
        rows: Keys and values of each row, None for a row without any.
        width: The longest row's tokens.
        cache: What to fill.
    """
    some = next(row for row in rows if row is not None)
    for index, layer in enumerate(some):
        keys, values = (_padded(rows, index, part, width, layer[part]) for part in (0, 1))
        cache.update(keys, values, index)
    return cache


def _padded(
    rows: Sequence[KeyValues | None], layer: int, part: int, width: int, like: torch.Tensor
) -> torch.Tensor:
    heads, _, dimension = like.shape
    if len(rows) == 1:
        return like[None]
    merged = like.new_zeros(len(rows), heads, width, dimension)
    for at, row in enumerate(rows):
        if row is not None:
            tensor = row[layer][part]
            merged[at, :, width - tensor.shape[1] :] = tensor
    return merged
