"""Pictures made ready for models once, for all models that want them made ready the same way.

Imports torch: only modules of a loaded model import this one.
"""

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from PIL import Image

from ..shared_cache import SharedCache

KEPT_BYTES = 256 * 1024 * 1024
"""Memory that prepared pictures may take, for all models of the process together."""


def picture_digest(image: Image.Image) -> str:
    """What tells a picture from all others: a hash of its size and pixels."""
    digest = hashlib.blake2b(f"{image.mode} {image.size}".encode(), digest_size=16)
    digest.update(image.tobytes())
    return digest.hexdigest()


class SharedPreprocessing:
    """Stands in for an image processor, and does no work twice.

    The small and the large model of a pair mostly have image processors with the same settings;
    and a question goes to each of them more than once.
    """

    def __init__(self, processor: Any) -> None:
        """Stand in for `processor`, an image processor of transformers."""
        self._processor = processor
        self._settings = f"{type(processor).__qualname__} {processor.to_json_string()}"
        self._digests: tuple[str, ...] | None = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._processor, name)

    @contextmanager
    def showing(self, digests: Sequence[str]) -> Iterator[None]:
        """While this is held, calls are about these pictures; one thread at a time."""
        self._digests = tuple(digests)
        try:
            yield
        finally:
            self._digests = None

    def __call__(self, images: Any, *args: Any, **kwargs: Any) -> Any:
        """As the image processor itself; the tensors of the result must not be changed."""
        if self._digests is None:
            return self._processor(images, *args, **kwargs)
        settings = (self._settings, repr(args), repr(sorted(kwargs.items(), key=str)))
        made = prepared_pictures.get(
            (self._digests, settings), lambda: self._processor(images, *args, **kwargs)
        )
        # Processors take keys out of what they get.
        return made.__class__(data=dict(made))


def _tensor_bytes(made: Mapping[str, Any]) -> int:
    return sum(value.nbytes for value in made.values() if torch.is_tensor(value))


prepared_pictures: SharedCache[Any] = SharedCache(KEPT_BYTES, _tensor_bytes)
