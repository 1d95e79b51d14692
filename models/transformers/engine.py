"""A loaded model at work: prompts in, tokens out to their rows, each half in a thread of its own.

Imports torch and transformers: only `loaded_models` imports this module, at the first load.
"""

from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from typing import Any, TypeVar

import torch
from PIL import Image

from ..attention import Attention
from ..chat_format import Turn
from ..errors import ModelError
from .attention_layers import count_layers
from .attention_pass import AttentionPass
from .attention_span import Span, Stretch
from .checkpoint import Checkpoint
from .computation import Computation
from .draft_checks import check_same_tokens, check_takes_back
from .encoder import Encoder
from .gate import Gate
from .generation import Generation, generation_config
from .load_errors import is_out_of_memory, one_line
from .prompt import Prompt
from .rows import Row
from .speculation import Draft
from .threads import ThreadShares, fixed_threads, one_thread

_Made = TypeVar("_Made")


class Engine:
    """One loaded model, shared by everyone who asks for it.

    All generation happens in one thread of the engine's own: that thread is the model's lock. A
    second thread prepares prompts meanwhile.

    The two threads also keep the number of CPU threads to themselves. Models of fewer than
    `SINGLE_THREAD_PARAMETERS` parameters use one: beside another busy process, threads that wait
    for each other after every small operation took up to a thousand times as long. Larger ones
    divide what torch would take among those that compute at the moment. torch's setting for the
    rest of the process stays as it is.
    """

    def __init__(self, checkpoint: Checkpoint, gate: Gate, shares: ThreadShares) -> None:
        """Take over a loaded checkpoint."""
        self._name = checkpoint.name
        self._gate = gate
        self._model = model = checkpoint.model
        tokenizer = checkpoint.processor.tokenizer
        ends = _end_tokens(model, tokenizer)
        pad = tokenizer.pad_token_id
        pad = pad if pad is not None else next(iter(sorted(ends)), 0)
        # The checkpoint's own sampling settings would be mixed into every call.
        model.generation_config = generation_config(
            eos_token_id=sorted(ends) or None,
            pad_token_id=pad,
            bos_token_id=tokenizer.bos_token_id,
        )
        threads = fixed_threads(model, checkpoint.threads)
        shared = torch.get_num_threads() if threads is None and model.device.type == "cpu" else None
        computation = Computation(model, gate, shares, shared)
        self._generation = Generation(computation, ends, pad, writes=checkpoint.depth is None)
        self._config = model.config
        self._encoder = Encoder(checkpoint, reuses=self._generation.reuses)
        self.decode = self._encoder.decode
        self.token_ids = self._encoder.token_ids
        self._generating = one_thread("generate", threads)
        # Beside a generation, more threads would mostly wait for each other.
        self._preparing = one_thread("prepare", 1)

    def close(self) -> None:
        """Take no more work; what runs or waits is still done."""
        self._generating.shutdown(wait=False)
        self._preparing.shutdown(wait=False)

    def encode(self, turns: Sequence[Turn], images: Sequence[Image.Image]) -> Prompt:
        """Render the chat template, tokenize, and prepare the pictures.

        Raises:
            ContextLengthError: The prompt is longer than the model's context.
            ModelError: The template does not know a role, or does not show a picture.
        """
        return self._prepare(lambda: self._encoder.encode(turns, images))

    def encode_stretch(
        self, turns: Sequence[Turn], images: Sequence[Image.Image], span: Span
    ) -> tuple[Prompt, Stretch]:
        """`encode`, and which of the prompt's tokens are a stretch of the last turn's text.

        Raises:
            ContextLengthError: The prompt is longer than the model's context.
            ModelError: As `encode`; or no such stretch, or it cannot be found among the tokens.
        """

        def encode() -> tuple[Prompt, Stretch]:
            prompt = self._encoder.encode(turns, images)
            return prompt, self._encoder.find_stretch(turns, len(images), span, prompt)

        return self._prepare(encode)

    def count_layers(self) -> int:
        """Layers that are loaded of the language model.

        Raises:
            ModelError: The model's attention cannot be read.
        """
        return count_layers(self._config, self._name)

    def draft(self, turns: Sequence[Turn], images: Sequence[Image.Image]) -> Draft:
        """This model as one that writes ahead for another one, with its reading of a prompt.

        Raises:
            ContextLengthError: As for `encode`, like the other errors.
            ModelError: Its outputs cannot be taken back.
        """
        self._check_reuse()
        return Draft(self._model, self.encode(turns, images))

    def check_draft(self, draft: "Engine") -> None:
        """Refuse a model that cannot write ahead for this one.

        Raises:
            ModelError: One of them cannot take back what it read, or they have other tokens.
        """
        self._check_reuse()
        draft._check_reuse()
        check_same_tokens(
            (self._name, self._encoder.vocabulary), (draft._name, draft._encoder.vocabulary)
        )

    def prompt_token_ids(self, turns: Sequence[Turn], images: Sequence[Image.Image]) -> list[int]:
        """Token ids of a prompt, those of pictures included."""
        return self.encode(turns, images).tokens

    def announce(self) -> Callable[[], None]:
        """Say that a call is coming; returns what is to be called once it waits, or failed."""
        return self._generation.waiting.announce()

    def submit(self, rows: Sequence[Row]) -> None:
        """Generate for rows, in the model's thread, with others that wait. Returns at once."""
        self._generation.waiting.put(rows)
        self._work(rows)

    def read_attention(
        self, prompt: Prompt, stretch: Stretch, layers: tuple[int, ...], **asked: Any
    ) -> Future[Attention]:
        """Read attention, in the model's thread, between the tokens of others. Returns at once.

        Args:
            prompt: The prompt.
            stretch: Its tokens on which attention is wanted.
            layers: Which layers, 1 for the first, all of them loaded.
            **asked: The rest of what an `AttentionPass` takes.

        Raises:
            ModelError: There is no such query.
        """
        one = AttentionPass(prompt, stretch, layers, **asked)
        self._generation.passes.put(one)
        self._work([one])
        return one.future

    def forget_prefixes(self) -> None:
        """Free the keys and values of earlier prompts, once the model is free."""
        with suppress(RuntimeError):  # unloaded: they are gone
            self._generating.submit(self._generation.forget_prefixes).result()

    def _prepare(self, make: Callable[[], _Made]) -> _Made:
        def prepare() -> _Made:
            with self._gate.computing():
                return make()

        try:
            preparing = self._preparing.submit(prepare)
        except RuntimeError as error:
            raise self._unloaded() from error
        return preparing.result()

    def _work(self, waiting: Sequence[Row | AttentionPass]) -> None:
        try:
            self._generating.submit(self._generation.run, self._explain)
        except RuntimeError:
            for one in waiting:
                one.fail(self._unloaded())

    def _check_reuse(self) -> None:
        check_takes_back(self._name, reuses=self._generation.reuses)

    def _explain(self, error: Exception) -> Exception:
        if isinstance(error, ModelError):
            return error
        if is_out_of_memory(error):
            explained = ModelError(
                f"The model {self._name!r} ran out of memory; lower max_pixels or max_tokens."
            )
        else:
            reason = f"{type(error).__name__}: {one_line(error)}"
            explained = ModelError(f"The model {self._name!r} failed ({reason}).")
        explained.__cause__ = error
        return explained

    def _unloaded(self) -> ModelError:
        return ModelError(f"The model {self._name!r} was unloaded as a call began; call again.")


def _end_tokens(model: Any, tokenizer: Any) -> frozenset[int]:
    """Tokens that end an answer: those of the generation config and the tokenizer's own."""
    # A model that was loaded for its attention has none.
    own = getattr(getattr(model, "generation_config", None), "eos_token_id", None)
    ends = own if isinstance(own, list) else [own]
    last = tokenizer.eos_token_id
    return frozenset(end for end in [*ends, last] if end is not None)
