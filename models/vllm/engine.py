"""Engines of vLLM in this process: started once, shared, released; prompts in, outputs out.

vLLM is imported when the first engine starts.
"""

import asyncio
import atexit
import gc
import multiprocessing
import os
import sys
import threading
import uuid
from collections.abc import Callable, Coroutine, Sequence
from concurrent.futures import Future
from contextlib import aclosing, suppress
from pathlib import Path
from typing import Any, TypeVar

from ..chat_format import Turn, prompt_text, tokenize
from ..completion import Chunk, Completion, Settings, token_entry
from ..errors import EngineEndedError, ModelError, read_overflow
from ..event_loop import EventLoopThread
from ..images import DecodedImage
from .engine_args import EngineSpec, check_engine, log_file, vllm_environment, with_log

_Result = TypeVar("_Result")

_ATTEMPTS = 3
"""How often a prompt is sent of which vLLM's processes lack an image."""

_MOST_TOKENS = (1 << 31) - 1

_lock = threading.Lock()
# With the process that started them: a fork has its parent's here, and must not end them.
_engines: dict[tuple[int, EngineSpec], "Engine"] = {}


def get_engine(spec: EngineSpec) -> "Engine":
    """Return the running engine of a spec; start it at the first call, and again if it has died.

    Engines start one after the other: each measures the free memory before it takes its share.

    Raises:
        ModelError: vLLM is not installed, or the engine cannot be started. A note of the error
            shows the last lines of vLLM's log.
    """
    engine = running_engine(spec)
    if engine is not None and not engine.dead:
        return engine
    with _lock:
        engine = running_engine(spec)
        if engine is not None and engine.dead:
            _engines.pop((os.getpid(), spec)).close()
            engine = None
        if engine is None:
            engine = _engines[os.getpid(), spec] = _start(spec)
        return engine


def running_engine(spec: EngineSpec) -> "Engine | None":
    """Return the engine of a spec if it runs."""
    return _engines.get((os.getpid(), spec))


def release_engine(spec: EngineSpec) -> None:
    """End an engine, with its processes; calls in progress fail."""
    with _lock:
        engine = _engines.pop((os.getpid(), spec), None)
        if engine is not None:
            engine.close()


@atexit.register
def release_all() -> None:
    """End every engine of this process."""
    for process, spec in list(_engines):
        if process == os.getpid():
            release_engine(spec)


def _start(spec: EngineSpec) -> "Engine":
    check_engine(spec, spec.model)
    _check_main_script()
    try:
        with vllm_environment():
            return Engine(spec)
    except ModelError:
        raise
    except Exception as error:
        reason = " ".join(f"{type(error).__name__}: {error}".split()).rstrip(".")
        sentence = f"vLLM cannot run the model {spec.model!r} ({reason[:300]}); see its log."
        raise with_log(ModelError(sentence), log_file()) from error


def _check_main_script() -> None:
    """Refuse to start where vLLM's processes, which import the main script again, could not."""
    again = "vLLM starts processes that read the main script again: "
    if getattr(multiprocessing.current_process(), "_inheriting", False):  # as Python itself asks
        raise ModelError(f'{again}put its work under `if __name__ == "__main__":`.')
    script = getattr(sys.modules.get("__main__"), "__file__", None)
    if script and not Path(script).exists():
        raise ModelError(f"{again}save what {script} is into a file, and run that.")


class Engine:
    """One running engine, shared by everyone who asks for it.

    vLLM's asynchronous engine lives in an event loop of its own, so that callers from any thread
    and any loop meet in its batches. The model itself runs in processes below this one.
    """

    def __init__(self, spec: EngineSpec) -> None:
        """Start the engine; returns when it can answer.

        Raises:
            Exception: What vLLM raises if it cannot start; the reason is often only in its log.
        """
        from transformers import AutoProcessor

        self.name = spec.model
        self._max_images = spec.max_images
        processor: Any = AutoProcessor  # transformers leaves it untyped
        self._processor = processor.from_pretrained(spec.model, revision=spec.revision)
        self._lock = threading.Lock()
        self._closed = False
        self._loop = EventLoopThread(f"vllm-{spec.model}")
        try:
            self._llm = self._loop.run(_start_llm(spec))
        except BaseException:
            self._loop.close()
            raise

    @property
    def dead(self) -> bool:
        """Whether the engine's processes have ended; it will not answer any more."""
        return bool(self._llm.errored)

    def close(self) -> None:
        """End the engine's processes; calls in progress fail."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
        with suppress(Exception):
            self._loop.submit(_shut_down(self._llm)).result(timeout=60)
        self._loop.close()
        # vLLM shuts down once more when its object is freed, which fails as the interpreter ends.
        del self._llm
        gc.collect()

    def submit(
        self,
        turns: Sequence[Turn],
        images: Sequence[DecodedImage],
        settings: Settings,
        on_chunk: Callable[[Chunk], object] | None = None,
    ) -> Future[Completion]:
        """Generate. Returns immediately; cancelling the future aborts the request.

        `on_chunk` is called for every chunk of output, in the engine's thread.
        """
        return self.run(lambda llm: self._generate(llm, turns, images, settings, on_chunk))

    def run(self, work: Callable[[Any], Coroutine[Any, Any, _Result]]) -> Future[_Result]:
        """Run what `work` makes of the `AsyncLLM`, in its loop; what vLLM raises is explained."""
        with self._lock:
            if self._closed:
                raise self._unloaded()
            return self._loop.submit(self._explained(work(self._llm)))

    def prompt_token_ids(self, turns: Sequence[Turn], images: Sequence[DecodedImage]) -> list[int]:
        """Return the token ids of a prompt, those of images included."""
        prompt = self.run(lambda llm: self._render(llm, turns, images)).result()
        return list(prompt["prompt_token_ids"])

    def token_ids(self, text: str) -> list[int]:
        """Return the token ids of a bare text."""
        return list(self._processor.tokenizer(text, add_special_tokens=False)["input_ids"])

    async def _generate(
        self,
        llm: Any,
        turns: Sequence[Turn],
        images: Sequence[DecodedImage],
        settings: Settings,
        on_chunk: Callable[[Chunk], object] | None,
    ) -> Completion:
        from vllm import SamplingParams
        from vllm.sampling_params import RequestOutputKind, StructuredOutputsParams

        held = settings.schema and StructuredOutputsParams(json=settings.schema)
        sampling = SamplingParams(
            max_tokens=min(settings.max_tokens, _MOST_TOKENS),
            temperature=settings.temperature,
            seed=settings.seed,
            stop=list(settings.stop) or None,
            logprobs=settings.top_logprobs if settings.logprobs else None,
            structured_outputs=held or None,
            output_kind=RequestOutputKind.DELTA,
        )
        for _ in range(_ATTEMPTS):
            prompt = await self._render(llm, turns, images)
            chunks: list[Chunk] = []
            cached = count = 0
            async with aclosing(llm.generate(prompt, sampling, uuid.uuid4().hex)) as steps:
                async for step in steps:
                    (new,) = step.outputs
                    chunk = Chunk(new.text, tuple(self._logprobs(new, settings.top_logprobs)))
                    chunks.append(chunk)
                    count += len(new.token_ids)
                    cached = max(cached, step.num_cached_tokens or 0)  # some steps do not name it
                    if on_chunk and (chunk.text or chunk.logprobs):
                        on_chunk(chunk)
            # The engine's processes no longer have an image that this one took for known: vLLM
            # has noted that by now, and sends it again.
            if new.finish_reason != "error" or count:
                break
        if new.finish_reason in ("error", "abort"):
            raise ModelError(f"vLLM gave the call of {self.name!r} up in mid-run; call again.")
        return Completion(
            text="".join(chunk.text for chunk in chunks),
            input_tokens=len(step.prompt_token_ids or ()),
            output_tokens=count,
            finish_reason="length" if new.finish_reason == "length" else "stop",
            logprobs=tuple(entry for chunk in chunks for entry in chunk.logprobs),
            cached_tokens=cached,
        )

    async def _render(self, llm: Any, turns: Sequence[Turn], images: Sequence[DecodedImage]) -> Any:
        if len(images) > self._max_images:
            raise ModelError(
                f"The prompt holds {len(images)} images and {self.name!r} was started for "
                f"{self._max_images}; raise max_images."
            )
        text = prompt_text(self._processor, turns, len(images), self.name)
        tokenizer = self._processor.tokenizer
        begun = bool(tokenizer.bos_token and text.startswith(tokenizer.bos_token))
        prompt: dict[str, Any] = {
            "prompt_token_ids": tokenize(tokenizer, text, add_special_tokens=not begun)["input_ids"]
        }
        if images:
            prompt["multi_modal_data"] = {"image": [image.image for image in images]}
            # Names by which vLLM keeps what it computed of an image; it would hash the pixels.
            prompt["multi_modal_uuids"] = {"image": [image.digest for image in images]}
        (rendered,) = await llm.renderer.render_cmpl_async([prompt])
        return rendered

    def _logprobs(self, new: Any, top: int) -> list[dict[str, Any]]:
        """Return an entry for each token of a step, where they were asked for."""
        # A token that ended the output has no text; a stop string ends it as text.
        ended = new.finish_reason == "stop" and not isinstance(new.stop_reason, str)
        tokens = list(new.token_ids)[:-1] if ended else list(new.token_ids)
        entries = []
        for token, at in zip(tokens, new.logprobs or (), strict=False):
            # The token itself is among them even if it is not one of the likeliest.
            likeliest = sorted(at, key=lambda other: at[other].rank)[:top]
            others = [(other, at[other].logprob) for other in likeliest]
            entries.append(token_entry(self._decode, token, at[token].logprob, others))
        return entries

    def _decode(self, tokens: Sequence[int]) -> str:
        return str(self._processor.tokenizer.decode(tokens, skip_special_tokens=True))

    async def _explained(self, work: Coroutine[Any, Any, _Result]) -> _Result:
        try:
            return await work
        except asyncio.CancelledError:  # by the caller, who has gone, or by the end of the engine
            if self._closed:
                raise self._unloaded() from None
            raise
        except ModelError:
            raise
        except Exception as error:
            from vllm.v1.engine.exceptions import EngineDeadError

            if isinstance(error, EngineDeadError):
                raise EngineEndedError(
                    f"vLLM's engine for {self.name!r} has ended in mid-run; the next call starts "
                    "it again."
                ) from error
            text = " ".join(str(error).split())
            if overflow := read_overflow(text):
                advice = "shorten it, set max_pixels to shrink the images, or raise max_model_len"
                raise overflow.error(repr(self.name), advice) from error
            sentence = f"vLLM refuses the prompt for {self.name!r} ({text[:300]})."
            raise ModelError(sentence) from error

    def _unloaded(self) -> ModelError:
        return ModelError(f"The model {self.name!r} was unloaded during the call; call again.")


async def _start_llm(spec: EngineSpec) -> Any:
    # In the engine's own loop: vLLM attaches its tasks to the loop that runs.
    from vllm.engine.arg_utils import AsyncEngineArgs
    from vllm.v1.engine.async_llm import AsyncLLM

    return AsyncLLM.from_engine_args(AsyncEngineArgs(**spec.arguments()))


async def _shut_down(llm: Any) -> None:
    llm.shutdown()
    tasks = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
