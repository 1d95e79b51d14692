"""A loaded model at work: prompts in, batches through `generate`, tokens out to their rows.

Imports torch and transformers: only `loaded_models` imports this module, at the first load.
"""

import sys
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import torch
from jinja2 import TemplateError
from PIL import Image
from transformers import GenerationConfig, LogitsProcessorList, StoppingCriteriaList

from ..chat_format import Turn, turn_text
from ..errors import ContextLengthError, ModelError
from .checkpoint import Checkpoint
from .gate import Gate
from .load_errors import is_out_of_memory
from .padding import merge_inputs
from .rows import Row
from .sampling import Sampler, Watch

SINGLE_THREAD_PARAMETERS = 50_000_000
"""Models with fewer parameters compute on one CPU thread: more would mostly wait for each other."""


@dataclass(frozen=True, slots=True)
class Prompt:
    """A prompt as the model takes it.

    Attributes:
        inputs: Tensors with a batch of one: input_ids, attention_mask, pixel values and so on.
        length: Its tokens, those of pictures included.
        room: How many tokens the model's context has left for the answer.
    """

    inputs: dict[str, torch.Tensor]
    length: int
    room: int


class Engine:
    """One loaded model, shared by everyone who asks for it.

    All generation happens in one thread of the engine's own, one batch after the other: that thread
    is the model's lock. A second thread prepares prompts meanwhile. The processor has a lock,
    because its tokenizer fails when two threads use it.

    The two threads also keep the number of CPU threads to themselves. Models of fewer than
    `SINGLE_THREAD_PARAMETERS` parameters use one: beside another busy process, threads that wait
    for each other after every small operation took up to a thousand times as long. Larger ones use
    as many as torch would take anyway. torch's setting for the rest of the process stays as it is.
    """

    def __init__(self, checkpoint: Checkpoint, gate: Gate) -> None:
        """Take over a loaded checkpoint."""
        self._name = checkpoint.name
        self._model = checkpoint.model
        self._processor = checkpoint.processor
        self._tokenizer = checkpoint.processor.tokenizer
        self._marker: str | None = getattr(self._processor, "image_token", None)
        self._marker_id: int | None = (
            self._tokenizer.convert_tokens_to_ids(self._marker) if self._marker else None
        )
        self._processor_lock = threading.Lock()
        self._gate = gate
        text = self._model.config.get_text_config()
        self._context: int = getattr(text, "max_position_embeddings", None) or sys.maxsize
        self._ends = self._end_tokens()
        pad = self._tokenizer.pad_token_id
        self._pad = pad if pad is not None else next(iter(sorted(self._ends)), 0)
        # The checkpoint's own sampling settings would be mixed into every call.
        self._model.generation_config = _generation_config(
            eos_token_id=sorted(self._ends) or None,
            pad_token_id=self._pad,
            bos_token_id=self._tokenizer.bos_token_id,
        )
        # Qwen keeps the offset of its positions on the model from call to call.
        self._stateful = [part for part in self._model.modules() if hasattr(part, "rope_deltas")]
        threads = self._threads(checkpoint.threads)
        self._generating = _one_thread("generate", threads)
        self._preparing = _one_thread("prepare", threads)

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
        try:
            preparing = self._preparing.submit(self._encode, turns, images)
        except RuntimeError as error:
            raise self._unloaded() from error
        return preparing.result()

    def decode(self, tokens: Sequence[int]) -> str:
        """Token ids to text, special tokens left out."""
        with self._processor_lock:
            text: str = self._tokenizer.decode(
                tokens, skip_special_tokens=True, clean_up_tokenization_spaces=False
            )
        return text

    def token_ids(self, text: str) -> list[int]:
        """Token ids of a bare text."""
        with self._processor_lock:
            return list(self._tokenizer(text, add_special_tokens=False)["input_ids"])

    def submit(self, rows: Sequence[Row]) -> None:
        """Generate for all rows in one batch, in the model's thread. Returns at once."""
        try:
            self._generating.submit(self._run, list(rows))
        except RuntimeError:
            for row in rows:
                row.fail(self._unloaded())

    def _encode(self, turns: Sequence[Turn], images: Sequence[Image.Image]) -> Prompt:
        with self._gate.computing(), self._processor_lock:
            text = self._render(turns)
            self._check_text(text, turns, len(images))
            extra: dict[str, Any] = {"images": list(images)} if images else {}
            bos = self._tokenizer.bos_token
            if bos and text.startswith(bos):  # the template wrote it already
                extra["add_special_tokens"] = False
            try:
                features = self._processor(text=[text], return_tensors="pt", **extra)
            except (ValueError, IndexError, RuntimeError, TypeError) as error:
                raise ModelError(
                    f"The processor of {self._name!r} refuses the prompt ({_one_line(error)})."
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
        return Prompt(inputs=inputs, length=length, room=self._context - length)

    def _run(self, rows: list[Row]) -> None:
        waiting = [row for row in rows if not row.done]
        merged = merge_inputs([row.inputs for row in waiting], self._pad)
        batches = [(waiting, merged)] if merged else [([row], row.inputs) for row in waiting]
        for batch, inputs in batches:
            try:
                with self._gate.computing():
                    self._generate(batch, inputs)
            except Exception as error:  # noqa: BLE001  (the waiting callers get it)
                for row in batch:
                    row.fail(self._explain(error, len(batch)))

    def _generate(self, rows: list[Row], inputs: dict[str, torch.Tensor]) -> None:
        limit = max(row.limit for row in rows)
        sampler = Sampler(rows)
        watch = Watch(rows, self._ends, sampler)
        try:
            with torch.inference_mode():
                self._model.generate(
                    **{key: self._place(value) for key, value in inputs.items()},
                    generation_config=_generation_config(max_new_tokens=limit, do_sample=False),
                    logits_processor=LogitsProcessorList([sampler]),
                    stopping_criteria=StoppingCriteriaList([watch]),
                )
        finally:
            for part in self._stateful:
                part.rope_deltas = None
        for row in rows:
            row.finish("length")

    def _place(self, value: torch.Tensor) -> torch.Tensor:
        dtype = self._model.dtype if value.is_floating_point() else None
        return value.to(device=self._model.device, dtype=dtype)

    def _render(self, turns: Sequence[Turn]) -> str:
        try:
            text: str = self._processor.apply_chat_template(
                list(turns), add_generation_prompt=True, tokenize=False
            )
        except (TemplateError, TypeError, ValueError) as error:
            raise ModelError(
                f"The chat template of {self._name!r} does not take this conversation "
                f"({_one_line(error)})."
            ) from error
        return text

    def _check_text(self, text: str, turns: Sequence[Turn], images: int) -> None:
        for turn in turns:
            # Assistant and tool turns are reworded by many templates.
            known = turn["role"] in {"user", "assistant", "tool"}
            if not known and any(part.strip() not in text for part in turn_text(turn)):
                raise ModelError(
                    f"The chat template of {self._name!r} leaves out messages of the role "
                    f"{turn['role']!r}; put their text into a user message."
                )
        marker = self._marker
        shown = text.count(marker) if marker else 0
        if shown and shown != images:
            raise ModelError(
                f"The prompt for {self._name!r} shows {shown} images where {images} were given: "
                f"its text holds the image marker {marker!r}, or an image is in a message of a "
                "role that the chat template shows without images."
            )

    def _check_images(self, tokens: torch.Tensor, images: int) -> None:
        token = getattr(self._model.config, "image_token_id", None)
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

    def _end_tokens(self) -> frozenset[int]:
        """Tokens that end an answer: those of the generation config and the tokenizer's own."""
        own = self._model.generation_config.eos_token_id
        ends = own if isinstance(own, list) else [own]
        return frozenset(end for end in [*ends, self._tokenizer.eos_token_id] if end is not None)

    def _threads(self, asked: int | None) -> int | None:
        if asked is not None or self._model.device.type != "cpu":
            return asked
        small = self._model.num_parameters() < SINGLE_THREAD_PARAMETERS
        return 1 if small else None

    def _explain(self, error: Exception, rows: int) -> Exception:
        if isinstance(error, ModelError):
            return error
        if is_out_of_memory(error):
            advice = "lower batch_size or max_pixels" if rows > 1 else "lower max_pixels"
            explained = ModelError(f"The model {self._name!r} ran out of memory; {advice}.")
        else:
            reason = f"{type(error).__name__}: {_one_line(error)}"
            explained = ModelError(f"The model {self._name!r} failed ({reason}).")
        explained.__cause__ = error
        return explained

    def _unloaded(self) -> ModelError:
        return ModelError(f"The model {self._name!r} was unloaded as a call began; call again.")


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())[:300]


def _generation_config(**settings: Any) -> Any:
    config: Any = GenerationConfig  # transformers leaves it untyped
    return config(**settings)


def _one_thread(task: str, threads: int | None) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(
        max_workers=1,
        thread_name_prefix=f"langgraph-mai-{task}",
        initializer=_limit_threads,
        initargs=(threads,),
    )


def _limit_threads(count: int | None) -> None:
    """Set the CPU threads of the calling thread, and of no other.

    `torch.set_num_threads` sets the calling thread and what later threads start with; the second
    half is undone from a thread that ends at once.
    """
    if count is None:
        return
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    restore = threading.Thread(target=torch.set_num_threads, args=(before,))
    restore.start()
    restore.join()
