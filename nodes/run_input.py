"""The channel of a run's input: what comes in as data is kept as a file, and goes on by name.

LangGraph stores a run's input twice before the first step: as it is, and as the first writes. A
picture given as bytes would be in both.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from langgraph.channels import EphemeralValue
from langgraph.graph import START
from langgraph.pregel import Pregel
from typing_extensions import override

from ..models.images import ImageError, unchecked_reference
from ..models.images.sources import reference_scheme
from .conversation import put_pictures_away
from .off_loop import off_loop


class RunInput(EphemeralValue[Any]):
    """The input of one question or of many, with references in the place of pictures."""

    @classmethod
    def of(cls, graph: Pregel[Any, Any, Any, Any], schema: type) -> None:
        """Make it the input channel of a compiled graph."""
        channel = cls(schema)
        channel.key = START
        graph.channels[START] = channel

    @override
    def update(self, values: Sequence[Any]) -> bool:
        return super().update([_without_pictures(value) for value in values])


def _without_pictures(value: Any) -> Any:
    if not isinstance(value, Mapping):
        return value
    given = dict(value)
    if (images := given.get("images")) is not None:
        given["images"] = (
            [_referred(image) for image in images]
            if isinstance(images, list | tuple)
            else _referred(images)
        )
    if "messages" in given:
        given["messages"] = put_pictures_away(given["messages"])
    if isinstance(questions := given.get("questions"), list | tuple):
        given["questions"] = [_without_pictures(asked) for asked in questions]
    return given


def _referred(image: Any) -> Any:
    """A reference for a picture given as data; what cannot be used is for `prepare` to refuse.

    Decoding is for `prepare` too: here, an event loop may be waiting.
    """
    try:
        if isinstance(image, str) and reference_scheme(image) != "data":
            return image
        return off_loop(unchecked_reference, image)
    except (ImageError, OSError):
        return image
