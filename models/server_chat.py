"""`ChatServer`: a model on an OpenAI-compatible server as a LangChain chat model."""

import asyncio
import os
import queue
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, ClassVar, Self

from langchain_core.callbacks import AsyncCallbackManagerForLLMRun, CallbackManagerForLLMRun
from langchain_core.messages import BaseMessage
from langchain_core.outputs import ChatGenerationChunk, ChatResult
from pydantic import Field, PrivateAttr, SecretStr, model_validator

from .server.background_loop import BackgroundLoop
from .server.pictures import count_pictures, inline_pictures

try:
    from langchain_openai import ChatOpenAI

    from .server.client import NO_KEY, make_client
    from .server.exchange import Exchange
    from .server.failures import Asked, no_completion, unknown_model
except ImportError as error:
    raise ImportError(
        f"ChatServer needs langchain-openai ({error}); install it with: "
        'pip install "langgraph-mai[server]"'
    ) from error

__all__ = ["ChatServer"]

KEY_VARIABLE = "VLLM_API_KEY"
"""The environment variable that a key is taken from if none is given."""


class ChatServer(ChatOpenAI):
    """A model on an OpenAI-compatible server, vLLM's above all.

    It is a `ChatOpenAI` with all its settings, and besides: images in any form that
    `images.block_image` reads, temperature 0 and usage while streaming by default, one sentence for
    whatever goes wrong (`ModelError`), a `timeout` that bounds a whole call and really ends it on
    the server, and shorter answers where prompt and `max_tokens` together exceed the model's
    context. No OPENAI_* variable of the environment has a part in it: those belong to another
    service.

    Example:
        >>> model = ChatServer(model="Qwen/Qwen3-VL-8B-Instruct", base_url="http://gpu1:8000/v1")
        >>> model.invoke([HumanMessage([image_block("cat.png"), {"type": "text", "text": "Who?"}])])

    Attributes:
        model: The name that the model is served under. Per call: `model=`.
        base_url: Address of the API, which usually ends in `/v1`.
        api_key: Its key; None for the one in $VLLM_API_KEY, if there is one.
        max_retries: How often a request is sent again after a connection error, a 429 or a 5xx.
        timeout: Seconds a call may take, retries and images included; None for no limit. Per call:
            `timeout=`.
        max_pixels: Images with more pixels are shrunk to this; None leaves it to the server.
        allow_fetch: Whether images may be downloaded from http(s) URLs, by this process: a server
            gets data only.
    """

    takes_timeout: ClassVar[bool] = True

    max_pixels: int | None = Field(default=None, gt=0)
    allow_fetch: bool = False

    _background: BackgroundLoop = PrivateAttr()

    @model_validator(mode="before")
    @classmethod
    def _defaults(cls, values: dict[str, Any]) -> dict[str, Any]:
        _check_known(cls, values)
        names = {"model": "model_name", "base_url": "openai_api_base", "api_key": "openai_api_key"}
        given = {short: values.get(short) or values.get(long) for short, long in names.items()}
        for name in ("model", "base_url"):
            if not given[name]:
                raise TypeError(f"ChatServer needs `{name}`: it has no server of its own.")
        values = {key: value for key, value in values.items() if key not in names.values()}
        defaults = {
            "temperature": 0.0,
            "max_retries": 2,
            "stream_usage": True,
            "use_responses_api": False,
            "openai_proxy": None,
            "stream_chunk_timeout": None,
        }
        key = given["api_key"] or os.environ.get(KEY_VARIABLE) or NO_KEY
        return {**defaults, **values, **given, "api_key": key}

    @model_validator(mode="after")
    def _own_client(self) -> Self:
        client = make_client(
            str(self.openai_api_base),
            self._key(),
            max_retries=2 if self.max_retries is None else self.max_retries,
            headers=self.default_headers,
            query=self.default_query,
            proxy=self.openai_proxy,
        )
        self.root_async_client, self.async_client = client, client.chat.completions
        self.root_client = self.client = None  # it would carry what the environment says
        self.openai_organization = None
        self._background = BackgroundLoop(client.close)
        return self

    def load(self) -> "ChatServer":
        """Ask the server whether it is there and has the model; returns the model itself.

        Raises:
            ModelError: It cannot be reached, refuses the key, or has no such model.
        """
        exchange = self._exchange({})
        served = self._background.submit(exchange.served_models()).result()
        if self.model_name not in served:
            raise unknown_model(exchange.asked, served)
        return self

    @property
    def _llm_type(self) -> str:
        return "langgraph-mai-server"

    @classmethod
    def is_lc_serializable(cls) -> bool:
        """Not by LangChain, which would look for it in its own packages."""
        return False

    @property
    def _identifying_params(self) -> dict[str, Any]:
        own = {"base_url": self.openai_api_base, "max_pixels": self.max_pixels}
        return {**super()._identifying_params, **own}

    def _get_request_payload(
        self, input_: Any, *, stop: list[str] | None = None, **kwargs: Any
    ) -> dict[str, Any]:
        payload = super()._get_request_payload(input_, stop=stop, **kwargs)
        if "max_completion_tokens" in payload:  # the newer name; only some servers know it
            payload["max_tokens"] = payload.pop("max_completion_tokens")
        return payload

    def _create_chat_result(
        self, response: Any, generation_info: dict[str, Any] | None = None
    ) -> ChatResult:
        try:
            result = super()._create_chat_result(response, generation_info)
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise no_completion(self._exchange({}).asked, str(response)) from error
        if not result.generations:
            raise no_completion(self._exchange({}).asked, "it holds no answer")
        return result

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,  # noqa: ARG002
        **kwargs: Any,
    ) -> ChatResult:
        exchange = self._exchange(kwargs, messages)
        answer = self._answer(exchange, self._inline(messages), stop)
        answering = self._background.submit(answer)
        try:
            return answering.result()
        finally:
            answering.cancel()

    async def _agenerate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: AsyncCallbackManagerForLLMRun | None = None,  # noqa: ARG002
        **kwargs: Any,
    ) -> ChatResult:
        exchange = self._exchange(kwargs, messages)
        inlined = await asyncio.to_thread(self._inline, messages)
        answering = self._background.submit(self._answer(exchange, inlined, stop))
        return await asyncio.wrap_future(answering)

    def _stream(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> Iterator[ChatGenerationChunk]:
        exchange = self._exchange(kwargs, messages)
        chunks: queue.SimpleQueue[ChatGenerationChunk | None] = queue.SimpleQueue()
        writing = self._background.submit(
            self._write(exchange, self._inline(messages), stop, chunks.put)
        )
        writing.add_done_callback(lambda _: chunks.put(None))
        try:
            while chunk := chunks.get():
                if run_manager:
                    run_manager.on_llm_new_token(chunk.text, chunk=chunk)
                yield chunk
            writing.result()
        finally:
            writing.cancel()

    async def _astream(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: AsyncCallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> AsyncIterator[ChatGenerationChunk]:
        exchange = self._exchange(kwargs, messages)
        loop = asyncio.get_running_loop()
        chunks: asyncio.Queue[ChatGenerationChunk | None] = asyncio.Queue()

        def hand_over(chunk: ChatGenerationChunk | None) -> None:
            with suppress(RuntimeError):  # the loop is closed: nobody listens any more
                loop.call_soon_threadsafe(chunks.put_nowait, chunk)

        inlined = await asyncio.to_thread(self._inline, messages)
        writing = self._background.submit(self._write(exchange, inlined, stop, hand_over))
        writing.add_done_callback(lambda _: hand_over(None))
        try:
            while chunk := await chunks.get():
                if run_manager:
                    await run_manager.on_llm_new_token(chunk.text, chunk=chunk)
                yield chunk
            writing.result()
        finally:
            writing.cancel()

    def _exchange(self, settings: dict[str, Any], messages: Sequence[BaseMessage] = ()) -> Exchange:
        """A call that begins now."""
        settings = dict(settings)
        timeout: Any = settings.pop("timeout", None)
        timeout = self.request_timeout if timeout is None else timeout
        if not (timeout is None or (isinstance(timeout, int | float) and timeout > 0)):
            raise ValueError("The timeout must be more than 0 seconds, as one number.")
        limit = settings.pop("max_completion_tokens", None)
        if limit is not None:
            settings["max_tokens"] = limit
        asked = Asked(
            address=str(self.openai_api_base),
            model=settings.get("model") or self.model_name,
            key=self._key(),
            pictures=count_pictures(messages),
        )
        return Exchange(
            self.root_async_client,
            asked,
            settings,
            max_tokens=settings.get("max_tokens") or self.max_tokens,
            timeout=timeout,
        )

    async def _answer(
        self, exchange: Exchange, messages: list[BaseMessage], stop: list[str] | None
    ) -> ChatResult:
        return await exchange.complete(partial(super()._agenerate, messages, stop, None))

    async def _write(
        self,
        exchange: Exchange,
        messages: list[BaseMessage],
        stop: list[str] | None,
        put: Callable[[ChatGenerationChunk], object],
    ) -> None:
        await exchange.stream(partial(super()._astream, messages, stop, None), put)

    def _inline(self, messages: list[BaseMessage]) -> list[BaseMessage]:
        return inline_pictures(messages, max_pixels=self.max_pixels, allow_fetch=self.allow_fetch)

    def _key(self) -> str:
        key: Any = self.openai_api_key
        return key.get_secret_value() if isinstance(key, SecretStr) else NO_KEY


def _check_known(kind: type[ChatOpenAI], values: dict[str, Any]) -> None:
    """Refuse a misspelt setting, which ChatOpenAI would send to the server with every call."""
    aliases = {str(field.alias) for field in kind.model_fields.values() if field.alias}
    unknown = sorted(set(values) - set(kind.model_fields) - aliases)
    if unknown:
        key = " (give the key itself as api_key)" if "api_key_env" in unknown else ""
        raise TypeError(
            f"ChatServer has no setting {', '.join(map(repr, unknown))}{key}; what only a server "
            "knows goes into extra_body."
        )
