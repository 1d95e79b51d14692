"""What the chat models of local checkpoints have in common: settings, and how they answer."""

import asyncio
import math
import queue
import threading
import time
from abc import abstractmethod
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, wait
from contextlib import suppress
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any, ClassVar, Generic, TypeVar

from langchain_core.callbacks import AsyncCallbackManagerForLLMRun, CallbackManagerForLLMRun
from langchain_core.language_models import BaseChatModel
from langchain_core.language_models.base import LangSmithParams, LanguageModelInput
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.outputs import ChatGenerationChunk, ChatResult
from langchain_core.runnables.config import RunnableConfig, get_config_list
from pydantic import Field, model_validator

from ..configs import ConfigError
from .chat_format import chat_turns
from .completion import Chunk, Completion, chat_chunk, chat_result, last_chat_chunk
from .errors import CallTimeoutError
from .images import DecodedImage, block_image

_Result = TypeVar("_Result")
_Call = TypeVar("_Call", bound="LocalCall[Any]")

IN_PACKAGE = "demo:"
"""How names of weights that the package carries begin."""

# Every chat model of LangChain is given these; a local one has no use for them.
_REMOTE = {"api_key", "max_retries", "streaming"}


def model_weights(model: str) -> str:
    """Return a model's hub name or folder; `demo:NAME` is a folder of the package.

    Raises:
        ConfigError: No such weights in the package.
    """
    if not model.startswith(IN_PACKAGE):
        return model
    name = model.removeprefix(IN_PACKAGE)
    folder = Path(str(files(__package__.rpartition(".")[0]) / "demo" / "weights" / name))
    if not (folder / "config.json").is_file():
        raise ConfigError(
            f"{model!r} names no weights of this package: use demo:small or demo:large, "
            "and reinstall the package if they are missing."
        )
    return str(folder)


@dataclass(frozen=True, slots=True)
class LocalCall(Generic[_Result]):
    """A call under way, which may take so long and no longer.

    Attributes:
        future: Resolves to the output; cancelling it ends the work.
        model_name: As the user named it.
        started: When the model was loaded and the call began, on the monotonic clock.
        timeout: Seconds it may take from then, None for no limit.
        logprobs: Whether log-probabilities were asked for.
    """

    future: Future[_Result]
    model_name: str
    started: float
    timeout: float | None
    logprobs: bool = False

    def remaining(self) -> float | None:
        """Return the seconds left, None without a limit."""
        if self.timeout is None:
            return None
        left = self.started + self.timeout - time.monotonic()
        return min(max(0.0, left), threading.TIMEOUT_MAX)

    def too_slow(self) -> CallTimeoutError:
        """Return the error for a call that used up its time."""
        return CallTimeoutError(
            f"The model {self.model_name!r} did not finish within its timeout of "
            f"{self.timeout:g} seconds; raise the timeout or lower max_tokens."
        )

    def result(self) -> _Result:
        """Wait for the output; a call that fails or is given up is cancelled.

        Raises:
            CallTimeoutError: It used up its time.
        """
        try:
            if not wait([self.future], timeout=self.remaining()).done:
                raise self.too_slow()
            return self.future.result()
        finally:
            self.future.cancel()

    async def aresult(self) -> _Result:
        """`result` for the event loop."""
        try:
            async with asyncio.timeout(self.remaining()):
                return await asyncio.wrap_future(self.future)
        except TimeoutError as error:
            raise self.too_slow() from error
        finally:
            self.future.cancel()

    @property
    def about(self) -> tuple[str, float]:
        """The model's name and the seconds since the call began."""
        return self.model_name, time.monotonic() - self.started

    def chunk(self: "LocalCall[Completion]", chunk: Chunk | None) -> ChatGenerationChunk:
        """Return a chunk of its output for LangChain; after the last, one with its usage."""
        if chunk is not None:
            return chat_chunk(chunk)
        return last_chat_chunk(self.future.result(), *self.about)


def check_timeout(timeout: object) -> None:
    """Refuse what is no number of seconds that a call can take.

    Raises:
        ValueError: Not a number, or not above 0 and finite.
    """
    number = isinstance(timeout, int | float) and not isinstance(timeout, bool)
    if timeout is None or (number and 0 < timeout < math.inf):  # type: ignore[operator]
        return
    raise ValueError(f"The timeout must be a number of seconds above 0, not {timeout!r}.")


async def start_in_thread(start: Callable[..., _Call], *arguments: Any) -> _Call:
    """Start a call in a thread. If the caller is cancelled meanwhile, so is the call it starts."""
    starting = asyncio.ensure_future(asyncio.to_thread(start, *arguments))

    def cancel_started(done: "asyncio.Future[_Call]") -> None:
        if not done.cancelled() and done.exception() is None:
            done.result().future.cancel()

    try:
        return await asyncio.shield(starting)
    except asyncio.CancelledError:
        starting.add_done_callback(cancel_started)
        raise


class LocalChat(BaseChatModel):
    """A vision-language checkpoint on this machine.

    Attributes:
        model: Local folder or hub name of a checkpoint.
        revision: Branch, tag or commit of a hub model.
        dtype: "auto" (the checkpoint's own), "float32", "bfloat16" or "float16".
        device: "auto" (a CUDA GPU if there is one, else the CPU), "cpu", "cuda" and so on.
        max_pixels: Images with more pixels are shrunk to this; None leaves it to the processor.
        max_tokens: Limit on the output, in tokens. Per call: `max_tokens=`.
        temperature: 0 takes the likeliest token; above, tokens are drawn. The sampling settings
            that a checkpoint brings are not used. Per call: `temperature=`.
        seed: Makes drawing repeatable: same input, same output. Per call: `seed=`.
        stop: The output ends before the first of these strings. Per call: `stop=`.
        timeout: Seconds a call may take once the model is loaded, waiting for other calls included.
            Per call: `timeout=`.
        logprobs: Whether `response_metadata["logprobs"]` gets `{"content": [...]}` with an entry
            `{"token", "bytes", "logprob", "top_logprobs"}` a token of the output (without its end
            token), in the form ChatOpenAI uses. Per call: `logprobs=`.
        top_logprobs: How many of the likeliest tokens each entry of `logprobs` lists. Per call:
            `top_logprobs=`.
        allow_fetch: Whether images may be downloaded from http(s) URLs.
    """

    supports_timeout: ClassVar[bool] = True
    supports_logprobs: ClassVar[bool] = True
    provider: ClassVar[str]
    """What runs the checkpoint, as traces name it."""

    model: str
    revision: str | None = None
    dtype: str = "auto"
    device: str = "auto"
    max_pixels: int | None = Field(default=None, gt=0)
    max_tokens: int = Field(default=512, gt=0)
    temperature: float = Field(default=0.0, ge=0, allow_inf_nan=False)
    seed: int | None = Field(default=None, ge=0)
    stop: list[str] | None = None
    timeout: float | None = Field(default=None, gt=0)
    logprobs: bool = False
    top_logprobs: int = Field(default=0, ge=0, le=20)
    allow_fetch: bool = False

    @model_validator(mode="before")
    @classmethod
    def _known_settings(cls, values: Any) -> Any:
        unknown = sorted(set(values) - set(cls.model_fields) - _REMOTE)
        if unknown:
            # As for any function; pydantic would wrap a ValueError into several lines.
            raise TypeError(
                f"{cls.__name__} has no setting {', '.join(map(repr, unknown))}; it has "
                f"{', '.join(sorted(own_settings(cls)))}."
            )
        return values

    @property
    def _identifying_params(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in sorted(own_settings(type(self)))}

    @property
    def _llm_type(self) -> str:
        return f"langgraph-mai-{self.provider}"

    def _get_ls_params(self, stop: list[str] | None = None, **kwargs: Any) -> LangSmithParams:
        params = super()._get_ls_params(stop=stop, **kwargs)
        params["ls_provider"] = self.provider
        return params

    def get_token_ids(self, text: str) -> list[int]:
        """Return the token ids of a bare text, by the model's own tokenizer (loads the model)."""
        return list(self._engine().token_ids(text))

    def get_num_tokens_from_messages(
        self,
        messages: Sequence[BaseMessage],
        tools: Sequence[Any] | None = None,  # noqa: ARG002
    ) -> int:
        """Count the tokens of the whole prompt, images included (loads the model)."""
        return len(self.prompt_token_ids(messages))

    def prompt_token_ids(self, messages: Sequence[BaseMessage]) -> list[int]:
        """Return the token ids of the whole prompt, images included (loads the model)."""
        return list(self._engine().prompt_token_ids(*chat_turns(messages, self._load_image)))

    def _call_settings(
        self, names: Sequence[str], stop: Sequence[str] | None, given: Mapping[str, Any]
    ) -> dict[str, Any]:
        """Return the settings of one call: the instance's, and over them those of the call.

        Raises:
            ValueError: A setting that a call does not take, or a bad timeout.
        """
        # LangChain itself passes `stream`.
        given = dict(given)
        form = given.pop("response_format", None)
        unknown = sorted(set(given) - {*names, "stream"})
        if unknown:
            raise ValueError(
                f"{type(self).__name__} does not know {', '.join(map(repr, unknown))}; a call "
                f"takes {', '.join(names)} and stop."
            )
        own = {name: given[name] for name in names if given.get(name) is not None}
        settings = {name: getattr(self, name) for name in names} | own
        check_timeout(settings["timeout"])
        stop = self.stop if stop is None else stop
        settings["stop"] = (stop,) if isinstance(stop, str) else tuple(stop or ())
        settings["schema"] = None if form is None else form["json_schema"]["schema"]
        return settings

    def _load_image(self, block: Mapping[str, Any]) -> DecodedImage:
        return block_image(block, allow_fetch=self.allow_fetch).shrink(self.max_pixels)

    def batch(
        self,
        inputs: list[LanguageModelInput],
        config: RunnableConfig | list[RunnableConfig] | None = None,
        *,
        return_exceptions: bool = False,
        **kwargs: Any,
    ) -> list[AIMessage]:
        """Answer several inputs concurrently, unless `max_concurrency` in the config says less."""
        configs = get_config_list(config, len(inputs)) if inputs else []
        for one in configs:
            # LangChain's default is a few threads; the engine batches what waits.
            one.setdefault("max_concurrency", len(inputs))
        return super().batch(inputs, configs, return_exceptions=return_exceptions, **kwargs)

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,  # noqa: ARG002
        **kwargs: Any,
    ) -> ChatResult:
        call = self._start(messages, stop, None, kwargs)
        return chat_result(call.result(), *call.about, logprobs=call.logprobs)

    async def _agenerate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: AsyncCallbackManagerForLLMRun | None = None,  # noqa: ARG002
        **kwargs: Any,
    ) -> ChatResult:
        call = await start_in_thread(self._start, messages, stop, None, kwargs)
        return chat_result(await call.aresult(), *call.about, logprobs=call.logprobs)

    def _stream(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> Iterator[ChatGenerationChunk]:
        chunks: queue.SimpleQueue[Chunk | None] = queue.SimpleQueue()
        call = self._start(messages, stop, chunks.put, kwargs)
        call.future.add_done_callback(lambda _: chunks.put(None))
        chunk: Chunk | None = Chunk("")
        try:
            while chunk is not None:
                chunk = chunks.get(timeout=call.remaining())
                one = call.chunk(chunk)
                if run_manager:
                    run_manager.on_llm_new_token(one.text, chunk=one)
                yield one
        except queue.Empty as error:
            raise call.too_slow() from error
        finally:
            call.future.cancel()

    async def _astream(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: AsyncCallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> AsyncIterator[ChatGenerationChunk]:
        loop = asyncio.get_running_loop()
        chunks: asyncio.Queue[Chunk | None] = asyncio.Queue()

        def put(chunk: Chunk | None) -> None:
            with suppress(RuntimeError):  # the loop is closed: nobody listens any more
                loop.call_soon_threadsafe(chunks.put_nowait, chunk)

        call = await start_in_thread(self._start, messages, stop, put, kwargs)
        call.future.add_done_callback(lambda _: put(None))
        chunk: Chunk | None = Chunk("")
        try:
            while chunk is not None:
                async with asyncio.timeout(call.remaining()):
                    chunk = await chunks.get()
                one = call.chunk(chunk)
                if run_manager:
                    await run_manager.on_llm_new_token(one.text, chunk=one)
                yield one
        except TimeoutError as error:
            raise call.too_slow() from error
        finally:
            call.future.cancel()

    @abstractmethod
    def _engine(self) -> Any:
        """Return what runs the model, loaded now if need be."""

    @abstractmethod
    def _start(
        self,
        messages: Sequence[BaseMessage],
        stop: Sequence[str] | None,
        on_chunk: Callable[[Chunk], object] | None,
        kwargs: Mapping[str, Any],
    ) -> LocalCall[Completion]:
        """Load the model if need be, prepare the prompt, and set the model to work.

        `on_chunk` is called for every chunk of output, in the model's thread.
        """


def own_settings(kind: type[BaseChatModel]) -> set[str]:
    """Return the settings of a chat model that LangChain's base class does not have."""
    return set(kind.model_fields) - set(BaseChatModel.model_fields)
