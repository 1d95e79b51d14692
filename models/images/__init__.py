"""Images in and out: references that a state can hold, content blocks that chat models take.

Whatever comes in, `load_image` and `block_image` return the image a person would see, decoded once
in a process. An image that cannot be used raises `ImageError` with one sentence.
"""

from .decoding import MAX_IMAGES, MAX_RUN_PIXELS, ImageError
from .loading import (
    DecodedImage,
    ImageAccess,
    block_image,
    cached_image,
    clear_image_cache,
    image_reference,
    is_image_block,
    load_image,
)
from .sources import describe

__all__ = [
    "MAX_IMAGES",
    "MAX_RUN_PIXELS",
    "DecodedImage",
    "ImageAccess",
    "ImageError",
    "block_image",
    "cached_image",
    "clear_image_cache",
    "describe",
    "image_reference",
    "is_image_block",
    "load_image",
]
