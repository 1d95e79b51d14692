"""What the chat models of local checkpoints have in common: their settings, and how they answer."""

from abc import abstractmethod
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from typing import Any, ClassVar, Protocol

from langchain_core.callbacks import AsyncCallbackManagerForLLMRun, CallbackManagerForLLMRun
from langchain_core.language_models import BaseChatModel
from langchain_core.language_models.base import LangSmithParams
from langchain_core.messages import BaseMessage
from langchain_core.outputs import ChatGenerationChunk, ChatResult
from PIL import Image
from pydantic import Field, model_validator

from .chat_format import Turn, chat_turns
from .completion import Piece, chat_chunk
from .hand_over import AsyncPieceQueue, LatePieceError, PieceQueue, aannounced, announced
from .images import block_image, shrink_image
from .local_call import LocalCall
from .timed_call import check_timeout, start_in_thread

# Every chat model of LangChain is given these; a local one has no use for them.
_REMOTE = {"api_key", "max_retries", "streaming"}


class LocalEngine(Protocol):
    """What runs a loaded checkpoint: what it is asked about its tokens."""

    def token_ids(self, text: str) -> list[int]:
        """Token ids of a bare text."""
        ...

    def prompt_token_ids(self, turns: Sequence[Turn], images: Sequence[Image.Image]) -> list[int]:
        """Token ids of a whole prompt, chat template and images included."""
        ...


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

    takes_timeout: ClassVar[bool] = True
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
        """Token ids of a bare text, by the model's own tokenizer (loads the model)."""
        return self._engine().token_ids(text)

    def get_num_tokens_from_messages(
        self,
        messages: Sequence[BaseMessage],
        tools: Sequence[Any] | None = None,  # noqa: ARG002
    ) -> int:
        """Tokens of the whole prompt, chat template and images included (loads the model)."""
        return len(self.prompt_token_ids(messages))

    def prompt_token_ids(self, messages: Sequence[BaseMessage]) -> list[int]:
        """Token ids of the whole prompt, chat template and images included (loads the model)."""
        return self._engine().prompt_token_ids(*chat_turns(messages, self._load_image))

    def _call_settings(
        self,
        names: Sequence[str],
        stop: Sequence[str] | None,
        given: Mapping[str, Any],
    ) -> dict[str, Any]:
        """The settings of one call: the instance's, and over them those of the call.

        Args:
            names: Settings that a call may have of its own.
            stop: Stop strings of the call.
            given: Further settings of the call, by name.

        Raises:
            ValueError: A setting that a call does not take, or a bad timeout.
        """
        # LangChain itself passes `stream`.
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
        return settings

    def _load_image(self, block: Mapping[str, Any]) -> Image.Image:
        image = block_image(block, allow_fetch=self.allow_fetch)
        return shrink_image(image, self.max_pixels)

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,  # noqa: ARG002
        **kwargs: Any,
    ) -> ChatResult:
        return self._start(messages, stop, None, kwargs).result()

    async def _agenerate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: AsyncCallbackManagerForLLMRun | None = None,  # noqa: ARG002
        **kwargs: Any,
    ) -> ChatResult:
        call = await self._astart(messages, stop, None, kwargs)
        return await call.aresult()

    def _stream(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> Iterator[ChatGenerationChunk]:
        pieces: PieceQueue[Piece] = PieceQueue()
        call = self._start(messages, stop, pieces.put, kwargs)
        try:
            for piece in pieces.until(call.future, call.remaining):
                yield announced(chat_chunk(piece), run_manager)
            yield announced(call.last_chunk(), run_manager)
        except LatePieceError as error:
            raise call.too_slow() from error
        finally:
            call.cancel()

    async def _astream(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: AsyncCallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> AsyncIterator[ChatGenerationChunk]:
        pieces: AsyncPieceQueue[Piece] = AsyncPieceQueue()
        call = await self._astart(messages, stop, pieces.put, kwargs)
        try:
            async for piece in pieces.until(call.future, call.remaining):
                yield await aannounced(chat_chunk(piece), run_manager)
            yield await aannounced(call.last_chunk(), run_manager)
        except LatePieceError as error:
            raise call.too_slow() from error
        finally:
            call.cancel()

    @abstractmethod
    def _engine(self) -> LocalEngine:
        """What runs the model, loaded now if need be."""

    @abstractmethod
    def _start(
        self,
        messages: Sequence[BaseMessage],
        stop: Sequence[str] | None,
        on_piece: Callable[[Piece], object] | None,
        kwargs: Mapping[str, Any],
    ) -> LocalCall:
        """Load the model if need be, prepare the prompt, and set the model to work.

        Args:
            messages: The conversation.
            stop: Stop strings of the call.
            on_piece: Called for every piece of output, in the model's thread.
            kwargs: Further settings of the call, by name.
        """

    async def _astart(self, *arguments: Any) -> LocalCall:
        """`_start` in a thread; a caller that is cancelled meanwhile cancels the call too."""
        return await start_in_thread(self._start, *arguments)


def own_settings(kind: type[BaseChatModel]) -> set[str]:
    """The settings of a chat model that LangChain's base class does not have."""
    return set(kind.model_fields) - set(BaseChatModel.model_fields)
