"""A vLLM engine of this process: its event loop, prompts in, outputs out.

Imports vLLM: only `running_engines` imports this module, when the first engine starts.
"""

import asyncio
import gc
import re
import threading
import uuid
from collections.abc import Callable, Coroutine, Sequence
from concurrent.futures import Future, InvalidStateError
from contextlib import aclosing, suppress
from typing import Any, TypeVar

from transformers import AutoProcessor
from vllm import SamplingParams
from vllm.engine.arg_utils import AsyncEngineArgs
from vllm.sampling_params import RequestOutputKind
from vllm.v1.engine.async_llm import AsyncLLM
from vllm.v1.engine.exceptions import EngineDeadError

from ..chat_format import Turn, prompt_text
from ..completion import Chunk, Completion, Settings
from ..errors import ContextLengthError, EngineEndedError, ModelError
from ..images import DecodedImage
from .options import EngineSpec
from .outputs import Output

_Result = TypeVar("_Result")

_MOST_TOKENS = (1 << 31) - 1


class Engine:
    """One running engine, shared by everyone who asks for it.

    vLLM's asynchronous engine lives in an event loop of its own, in a thread of its own, so that
    callers from any thread and any loop meet in its batches. The model itself runs in processes
    below this one.
    """

    def __init__(self, spec: EngineSpec) -> None:
        """Start the engine; returns when it can answer.

        Raises:
            Exception: What vLLM raises if it cannot start; the reason is often only in its log.
        """
        self.name = spec.model
        self._processor = _processor(spec)
        self._loop = asyncio.new_event_loop()
        self._lock = threading.Lock()
        self._closed = False
        self._answers: set[Future[Any]] = set()
        self._thread = threading.Thread(
            target=self._loop.run_forever, name=f"vllm-{spec.model}", daemon=True
        )
        self._thread.start()
        try:
            self._llm: AsyncLLM = asyncio.run_coroutine_threadsafe(
                _start(spec), self._loop
            ).result()
        except BaseException:
            self._end_loop()
            raise

    @property
    def dead(self) -> bool:
        """Whether the engine's processes have ended; it will not answer any more."""
        return bool(self._llm.errored)

    def close(self) -> None:
        """End the engine's processes; calls under way fail."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
        with suppress(Exception):
            ended = asyncio.run_coroutine_threadsafe(_shut_down(self._llm), self._loop)
            ended.result(timeout=60)
        self._end_loop()
        for answer in list(self._answers):
            _fail(answer, self._unloaded())
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
        """Generate. Returns at once; cancelling the future aborts the request.

        Args:
            turns: The conversation.
            images: Its pictures, in order.
            settings: How to generate.
            on_chunk: Called for every chunk of output, in the engine's thread.
        """
        return self._answer(self._generate(turns, images, settings, on_chunk))

    def run(self, work: Callable[[AsyncLLM], Coroutine[Any, Any, _Result]]) -> Future[_Result]:
        """Do something with vLLM's own engine, in its loop; for what `submit` has no setting.

        Args:
            work: Given the engine, a coroutine. What vLLM raises in it is explained.
        """
        return self._answer(self._explained(work))

    def prompt_token_ids(self, turns: Sequence[Turn], images: Sequence[DecodedImage]) -> list[int]:
        """Token ids of a prompt, those of pictures included."""
        prompt = self._answer(self._render(turns, images)).result()
        return list(prompt["prompt_token_ids"])

    def token_ids(self, text: str) -> list[int]:
        """Token ids of a bare text."""
        return list(self._processor.tokenizer(text, add_special_tokens=False)["input_ids"])

    async def _generate(
        self,
        turns: Sequence[Turn],
        images: Sequence[DecodedImage],
        settings: Settings,
        on_chunk: Callable[[Chunk], object] | None,
    ) -> Completion:
        try:
            prompt = await self._render(turns, images)
            output = Output(self._decode, settings.top_logprobs)
            outputs = self._llm.generate(prompt, _sampling(settings), uuid.uuid4().hex)
            async with aclosing(outputs):
                async for step in outputs:
                    chunk = output.add(step)
                    if on_chunk and (chunk.text or chunk.logprobs):
                        on_chunk(chunk)
            return output.completion()
        except Exception as error:
            raise self._explain(error) from error

    async def _explained(self, work: Callable[[AsyncLLM], Coroutine[Any, Any, _Result]]) -> _Result:
        try:
            return await work(self._llm)
        except Exception as error:
            raise self._explain(error) from error

    async def _render(self, turns: Sequence[Turn], images: Sequence[DecodedImage]) -> Any:
        text = prompt_text(self._processor, turns, len(images), self.name)
        tokenizer = self._processor.tokenizer
        written = bool(tokenizer.bos_token and text.startswith(tokenizer.bos_token))
        tokens = tokenizer(text, add_special_tokens=not written)["input_ids"]
        prompt: dict[str, Any] = {"prompt_token_ids": tokens}
        if images:
            prompt["multi_modal_data"] = {"image": [image.image for image in images]}
        (rendered,) = await self._llm.renderer.render_cmpl_async([prompt])
        return rendered

    def _decode(self, tokens: Sequence[int]) -> str:
        text: str = self._processor.tokenizer.decode(tokens, skip_special_tokens=True)
        return text

    def _explain(self, error: Exception) -> Exception:
        if isinstance(error, ModelError):
            return error
        if isinstance(error, EngineDeadError):
            return EngineEndedError(
                f"vLLM's engine for {self.name!r} has ended in mid-run; the next call starts it "
                "again."
            )
        text = " ".join(str(error).split())
        limit = re.search(r"maximum (?:context|model) length (?:is|of) (\d+)", text)
        if limit:
            return self._too_long(text, int(limit[1]))
        if "image" in text and re.search(r"[Aa]t most \d+ ", text):
            return ModelError(
                f"The prompt holds more images than {self.name!r} was started for ({text[:200]}); "
                "raise max_images."
            )
        return ModelError(f"vLLM refuses the prompt for {self.name!r} ({text[:300]}).")

    def _too_long(self, text: str, limit: int) -> ContextLengthError:
        found = re.search(r"contains (?:at least )?(\d+) input tokens|\(length (\d+)\)", text)
        length = int(found[1] or found[2]) if found else None
        has = f"has {length} tokens" if length else "is too long"
        return ContextLengthError(
            f"The prompt {has} and {self.name!r} takes at most {limit}, answer included; shorten "
            "it, set max_pixels to shrink the images, or raise the engine option max_model_len.",
            limit=limit,
            length=length,
        )

    def _answer(self, work: Coroutine[Any, Any, _Result]) -> Future[_Result]:
        """Start a coroutine. The future resolves in any case; cancelled, it cancels the work."""
        answer: Future[_Result] = Future()
        with self._lock:
            if self._closed:
                work.close()
                raise self._unloaded()
            self._answers.add(answer)
            working = asyncio.run_coroutine_threadsafe(self._resolve(answer, work), self._loop)

        def end(done: Future[_Result]) -> None:
            self._answers.discard(done)
            if done.cancelled():
                working.cancel()

        answer.add_done_callback(end)
        return answer

    async def _resolve(self, answer: Future[_Result], work: Coroutine[Any, Any, _Result]) -> None:
        try:
            result = await work
        except asyncio.CancelledError:  # by the caller, who has gone, or by the end of the engine
            _fail(answer, self._unloaded())
            raise
        except Exception as error:  # noqa: BLE001  the caller gets it
            _fail(answer, error)
        else:
            with suppress(InvalidStateError):  # the caller gave up at this moment
                answer.set_result(result)

    def _unloaded(self) -> ModelError:
        return ModelError(f"The model {self.name!r} was unloaded during the call; call again.")

    def _end_loop(self) -> None:
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()
            self._loop.close()


def _fail(answer: Future[Any], error: Exception) -> None:
    with suppress(InvalidStateError):
        answer.set_exception(error)


async def _start(spec: EngineSpec) -> AsyncLLM:
    # In the engine's own loop: vLLM attaches its tasks to the loop that runs.
    return AsyncLLM.from_engine_args(AsyncEngineArgs(**spec.arguments()))


async def _shut_down(llm: AsyncLLM) -> None:
    llm.shutdown()
    tasks = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


def _processor(spec: EngineSpec) -> Any:
    processor: Any = AutoProcessor  # transformers leaves it untyped
    return processor.from_pretrained(spec.model, revision=spec.revision)


def _sampling(settings: Settings) -> SamplingParams:
    return SamplingParams(
        max_tokens=min(settings.max_tokens, _MOST_TOKENS),
        temperature=settings.temperature,
        seed=settings.seed,
        stop=list(settings.stop) or None,
        logprobs=settings.top_logprobs if settings.logprobs else None,
        output_kind=RequestOutputKind.DELTA,
    )
