"""`ChatServer`: a model on an OpenAI-compatible server as a LangChain chat model."""

import asyncio
import hashlib
import json
import os
import threading
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, ClassVar, Self

from langchain_core.callbacks import AsyncCallbackManagerForLLMRun, CallbackManagerForLLMRun
from langchain_core.messages import BaseMessage
from langchain_core.outputs import ChatGenerationChunk, ChatResult
from pydantic import Field, PrivateAttr, SecretStr, model_validator

from ..configs.schemas import server_address
from .errors import ModelError
from .hand_over import AsyncPieceQueue, PieceQueue, aannounced, announced
from .server.api_key import checked_header, checked_key
from .server.pictures import count_pictures, inline_pictures

try:
    from langchain_openai import ChatOpenAI

    from .server.client import ServerSettings
    from .server.connection import Connection
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


_ORGANIZATION = "give the header OpenAI-Organization in default_headers"
_WITHOUT_EFFECT = {
    "http_client": "give http_async_client, as it sends everything from one event loop",
    "openai_organization": _ORGANIZATION,
    "organization": _ORGANIZATION,
    "http_socket_options": "give an http_async_client that has them",
}
"""Settings of ChatOpenAI that would be silently ignored, and what to give instead."""


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
        >>> image = load_image("cat.png").block
        >>> model.invoke([HumanMessage([image, {"type": "text", "text": "Who?"}])])

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

    supports_timeout: ClassVar[bool] = True

    max_pixels: int | None = Field(default=None, gt=0)
    allow_fetch: bool = False

    _connection: Connection | None = PrivateAttr(default=None)
    _locks: dict[int, threading.Lock] = PrivateAttr(default_factory=dict)

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
        if not given["api_key"]:
            given["api_key"] = _key(os.environ.get(KEY_VARIABLE), f"${KEY_VARIABLE}")
        given["api_key"] = SecretStr(_key(given["api_key"]))
        given["base_url"] = _address(given["base_url"])
        return {**defaults, **values, **given}

    @model_validator(mode="after")
    def _own_client(self) -> Self:
        if self.openai_proxy:  # those that ChatOpenAI made for it
            self.http_client = self.http_async_client = None
        self.root_client = self.client = None  # it would carry what the environment says
        self.openai_organization = None
        self._connected()
        return self

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Self:
        """A copy with other settings, by either of their names."""
        names = {field.alias: name for name, field in type(self).model_fields.items()}
        changed = {names.get(name, name): value for name, value in (update or {}).items()}
        return super().model_copy(update=changed, deep=deep)

    def load(self) -> "ChatServer":
        """Ask the server whether it is there and has the model; returns the model itself.

        Raises:
            ModelError: It cannot be reached, refuses the key, or has no such model.
        """
        exchange = self._exchange({})
        served = exchange.submit(exchange.served_models()).result()
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
        # Only told apart: their values may be secrets.
        sent = {"headers": self.default_headers, "query": self.default_query}
        digests = {name: _digest(values) for name, values in sent.items() if values}
        return {**super()._identifying_params, **own, **digests}

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
        answering = exchange.submit(answer)
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
        answering = exchange.submit(self._answer(exchange, inlined, stop))
        return await asyncio.wrap_future(answering)

    def _stream(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> Iterator[ChatGenerationChunk]:
        exchange = self._exchange(kwargs, messages)
        chunks: PieceQueue[ChatGenerationChunk] = PieceQueue()
        writing = exchange.submit(self._write(exchange, self._inline(messages), stop, chunks.put))
        try:
            for chunk in chunks.until(writing):
                yield announced(chunk, run_manager)
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
        inlined = await asyncio.to_thread(self._inline, messages)
        chunks: AsyncPieceQueue[ChatGenerationChunk] = AsyncPieceQueue()
        writing = exchange.submit(self._write(exchange, inlined, stop, chunks.put))
        try:
            async for chunk in chunks.until(writing):
                yield await aannounced(chunk, run_manager)
            writing.result()
        finally:
            writing.cancel()

    def _exchange(self, settings: dict[str, Any], messages: Sequence[BaseMessage] = ()) -> Exchange:
        """A call that begins now."""
        settings = dict(settings)
        timeout: Any = settings.pop("timeout", None)
        timeout = self.request_timeout if timeout is None else timeout
        if timeout is not None:
            _check_timeout(timeout)
        limit = settings.pop("max_completion_tokens", None)
        if limit is not None:
            settings["max_tokens"] = limit
        connection = self._connected()
        asked = Asked(
            address=connection.settings.base_url,
            model=settings.get("model") or self.model_name,
            key=connection.settings.api_key,
            pictures=count_pictures(messages),
        )
        return Exchange(
            connection,
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

    def _connected(self) -> Connection:
        """The connection of the settings as they are now, in the process that runs now."""
        settings = ServerSettings(
            base_url=_address(self.openai_api_base),
            api_key=_key(self.openai_api_key),
            max_retries=2 if self.max_retries is None else self.max_retries,
            headers=_headers(self.default_headers),
            query=self.default_query,
            proxy=self.openai_proxy,
            http_client=self.http_async_client,
        )
        # A lock for each process: a fork may have left the parent's locked.
        with self._locks.setdefault(os.getpid(), threading.Lock()):
            now = self._connection
            if now is None or now.settings != settings or not now.is_of_this_process:
                try:
                    now = self._connection = Connection(settings, now)
                except ValueError as error:
                    raise ModelError(str(error)) from error
            self.root_async_client, self.async_client = now.client, now.client.chat.completions
            return now


def _address(base_url: object) -> str:
    try:
        return server_address(str(base_url))
    except ValueError as error:
        raise ModelError(f"The base_url of a ChatServer {error}.") from error


def _key(api_key: object, name: str = "api_key") -> str:
    key = api_key.get_secret_value() if isinstance(api_key, SecretStr) else api_key
    try:
        return checked_key(key, name)
    except ValueError as error:
        raise ModelError(str(error)) from error


def _headers(headers: Mapping[str, str] | None) -> dict[str, str]:
    try:
        return {
            name: checked_header(value, f"The header {name!r} in default_headers")
            if isinstance(value, str)
            else value  # openai's mark for a header to leave out
            for name, value in (headers or {}).items()
        }
    except ValueError as error:
        raise ModelError(str(error)) from error


def _digest(values: Mapping[str, object]) -> str:
    text = json.dumps(dict(values), sort_keys=True, default=repr)
    return hashlib.sha256(text.encode()).hexdigest()


def _check_timeout(seconds: Any) -> None:
    is_number = isinstance(seconds, int | float) and not isinstance(seconds, bool)
    if not is_number or not 0 < seconds <= threading.TIMEOUT_MAX:
        raise ValueError(
            f"The timeout must be more than 0 seconds and at most {threading.TIMEOUT_MAX:.0f}, as "
            "one number; leave it out for no limit."
        )


def _check_known(kind: type[ChatOpenAI], values: dict[str, Any]) -> None:
    """Refuse a misspelt setting, which ChatOpenAI would send to the server with every call."""
    aliases = {str(field.alias) for field in kind.model_fields.values() if field.alias}
    for name, instead in _WITHOUT_EFFECT.items():
        if values.get(name):
            raise TypeError(f"ChatServer does not use {name}; {instead}.")
    unknown = sorted(set(values) - set(kind.model_fields) - aliases)
    if unknown:
        key = " (give the key itself as api_key)" if "api_key_env" in unknown else ""
        raise TypeError(
            f"ChatServer has no setting {', '.join(map(repr, unknown))}{key}; what only a server "
            "knows goes into extra_body."
        )
