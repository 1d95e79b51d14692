"""From a conversation to a prompt, and from tokens to text.

Imports torch and transformers: only modules of a loaded model import this one.
"""

import sys
import threading
from collections.abc import Sequence
from functools import cached_property
from typing import Any

import torch
from PIL import Image

from ..chat_format import Turn
from ..errors import ContextLengthError, ModelError
from ..prompt_text import prompt_text
from .attention_span import Span, Stretch, find_stretch
from .checkpoint import Checkpoint
from .draft_checks import vocabulary
from .load_errors import one_line
from .preprocessing import SharedPreprocessing, picture_digest
from .prompt import Prompt, content_chain, split_pictures


class Encoder:
    """A checkpoint's processor at work.

    It has a lock, because tokenizers fail when two threads use them.
    """

    def __init__(self, checkpoint: Checkpoint, *, reuses: bool) -> None:
        """Take over a loaded checkpoint.

        Args:
            checkpoint: Its processor is used from here alone.
            reuses: Whether prompts are prepared for the reuse of their prefixes.
        """
        self._name = checkpoint.name
        self._config = checkpoint.model.config
        self._processor = checkpoint.processor
        self._tokenizer = checkpoint.processor.tokenizer
        self._pictures = SharedPreprocessing(checkpoint.processor.image_processor)
        checkpoint.processor.image_processor = self._pictures
        self._lock = threading.Lock()
        self._marker: str | None = getattr(self._processor, "image_token", None)
        self._marker_id: int | None = (
            self._tokenizer.convert_tokens_to_ids(self._marker) if self._marker else None
        )
        text = self._config.get_text_config()
        self._context: int = getattr(text, "max_position_embeddings", None) or sys.maxsize
        self._reuses = reuses
        self._rope_index = getattr(checkpoint.model.base_model, "get_rope_index", None)

    @cached_property
    def vocabulary(self) -> int:
        """A hash of all token ids with their texts: equal for equal tokenizers, in one process."""
        with self._lock:
            return vocabulary(self._tokenizer)

    def encode(self, turns: Sequence[Turn], images: Sequence[Image.Image]) -> Prompt:
        """Render the chat template, tokenize, and prepare the pictures.

        Raises:
            ModelError: The template does not know a role, does not show a picture, or the prompt
                is longer than the model's context.
        """
        digests = [picture_digest(image) for image in images]
        with self._lock:
            text = prompt_text(self._processor, turns, len(images), self._name)
            extra: dict[str, Any] = {"images": list(images)} if images else {}
            bos = self._tokenizer.bos_token
            if bos and text.startswith(bos):  # the template wrote it already
                extra["add_special_tokens"] = False
            try:
                with self._pictures.showing(digests):
                    features = self._processor(text=[text], return_tensors="pt", **extra)
            except (ValueError, IndexError, RuntimeError, TypeError) as error:
                raise ModelError(
                    f"The processor of {self._name!r} refuses the prompt ({one_line(error)})."
                ) from error
        inputs = {key: value for key, value in features.items() if torch.is_tensor(value)}
        self._check_images(inputs["input_ids"], len(images))
        length = inputs["input_ids"].shape[1]
        if length >= self._context:
            raise ContextLengthError(
                f"The prompt has {length} tokens and {self._name!r} takes at most {self._context}, "
                "answer included; shorten it, or set max_pixels to shrink the images.",
                limit=self._context,
                length=length,
            )
        return self._prompt(inputs, digests)

    def find_stretch(
        self, turns: Sequence[Turn], images: int, span: Span, prompt: Prompt
    ) -> Stretch:
        """Which tokens of a prompt are a stretch of the last turn's text.

        Args:
            turns: The conversation that the prompt was made of.
            images: How many pictures it holds.
            span: The stretch, in characters of the last turn's text (its parts joined).
            prompt: What `encode` made of it.

        Raises:
            ModelError: No such stretch, or it cannot be found again among the tokens.
        """
        with self._lock:
            return find_stretch(self._processor, turns, images, span, prompt.tokens, self._name)

    def decode(self, tokens: Sequence[int]) -> str:
        """Token ids to text, special tokens left out."""
        with self._lock:
            text: str = self._tokenizer.decode(
                tokens, skip_special_tokens=True, clean_up_tokenization_spaces=False
            )
        return text

    def token_ids(self, text: str) -> list[int]:
        """Token ids of a bare text."""
        with self._lock:
            return list(self._tokenizer(text, add_special_tokens=False)["input_ids"])

    def _prompt(self, inputs: dict[str, torch.Tensor], digests: Sequence[str]) -> Prompt:
        tokens: list[int] = inputs["input_ids"][0].tolist()
        room = self._context - len(tokens)
        if not self._reuses:
            return Prompt(inputs, tokens, room)
        pictures = split_pictures(inputs, tokens, self._config.image_token_id, len(digests))
        if pictures is None:
            return Prompt(inputs, tokens, room)
        chain = content_chain(tokens, pictures, digests)
        return Prompt(inputs, tokens, room, chain, pictures, self._positions(inputs))

    def _positions(self, inputs: dict[str, torch.Tensor]) -> torch.Tensor | None:
        if self._rope_index is None:
            return None
        ids = inputs["input_ids"]
        positions, _ = self._rope_index(
            input_ids=ids,
            mm_token_type_ids=inputs["mm_token_type_ids"],
            image_grid_thw=inputs.get("image_grid_thw"),
        )
        through = torch.arange(ids.shape[1])[None]
        return torch.cat([through, positions[:, 0]])

    def _check_images(self, tokens: torch.Tensor, images: int) -> None:
        token = getattr(self._config, "image_token_id", None)
        if not images or token is None:
            return
        written = self._marker_id
        if written not in {None, token} and bool((tokens == written).any()):
            raise ModelError(
                f"The config.json of {self._name!r} gives image_token_id as {token}, but its "
                f"tokenizer writes images as token {written} ({self._marker}); get the files of "
                "one checkpoint."
            )
        if not bool((tokens == token).any()):
            raise ModelError(
                f"The chat template of {self._name!r} does not show images in messages of this "
                "role; put them into a user message."
            )
