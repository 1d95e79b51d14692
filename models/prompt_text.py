"""From turns to the text of a prompt, by a checkpoint's own chat template."""

from collections.abc import Sequence
from typing import Any

from jinja2 import TemplateError

from .chat_format import Turn, turn_text
from .errors import ModelError


def prompt_text(processor: Any, turns: Sequence[Turn], images: int, model: str) -> str:
    """Render the chat template, and check that it shows everything.

    Args:
        processor: The checkpoint's processor.
        turns: The conversation.
        images: How many pictures it holds.
        model: The model's name, for messages.

    Raises:
        ModelError: The template refuses the conversation, leaves a message out, or the text itself
            holds the marker of a picture.
    """
    try:
        text: str = processor.apply_chat_template(
            list(turns), add_generation_prompt=True, tokenize=False
        )
    except (TemplateError, TypeError, ValueError) as error:
        reason = " ".join(str(error).split())[:300]
        raise ModelError(
            f"The chat template of {model!r} does not take this conversation ({reason})."
        ) from error
    _check(text, turns, model)
    marker: str | None = getattr(processor, "image_token", None)
    shown = text.count(marker) if marker else 0
    if shown and shown != images:
        raise ModelError(
            f"The prompt for {model!r} shows {shown} images where {images} were given: its text "
            f"holds the image marker {marker!r}, or an image is in a message of a role that the "
            "chat template shows without images."
        )
    return text


def _check(text: str, turns: Sequence[Turn], model: str) -> None:
    for turn in turns:
        # Assistant and tool turns are reworded by many templates.
        known = turn["role"] in {"user", "assistant", "tool"}
        if not known and any(part.strip() not in text for part in turn_text(turn)):
            raise ModelError(
                f"The chat template of {model!r} leaves out messages of the role "
                f"{turn['role']!r}; put their text into a user message."
            )
