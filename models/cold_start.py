"""Empties what models keep from call to call, so that timed runs start cold."""

from collections.abc import Iterable
from typing import Any

from .capabilities import SupportsPrefixCache
from .images import decoded_pictures, encoded_pictures
from .shared_cache import SharedCache


def forget(models: Iterable[object]) -> None:
    """Empty the caches: decoded and prepared pictures, keys and values of earlier prompts.

    Args:
        models: Chat models; those that keep prompts where nobody can reach them keep them.
    """
    for cache in picture_caches():
        cache.clear()
    for model in models:
        if isinstance(model, SupportsPrefixCache):
            model.clear_prefix_cache()


def picture_caches() -> list[SharedCache[Any]]:
    """Where decoded, encoded and prepared pictures are kept."""
    try:
        from .transformers.prompt import prepared_images
    except ImportError:  # without torch, nothing is prepared here
        return [decoded_pictures, encoded_pictures]
    return [decoded_pictures, encoded_pictures, prepared_images]
