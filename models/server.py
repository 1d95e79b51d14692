"""`ChatServer`: a model on an OpenAI-compatible server as a LangChain chat model."""

import asyncio
import hashlib
import json
import os
import time
import weakref
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, ClassVar, Self
from urllib.parse import urlsplit

from langchain_core.callbacks import AsyncCallbackManagerForLLMRun, CallbackManagerForLLMRun
from langchain_core.messages import BaseMessage
from langchain_core.outputs import ChatGenerationChunk, ChatResult
from pydantic import Field, PrivateAttr, SecretStr, model_validator

from ..configs.schemas import server_address
from .context_length import read_overflow
from .errors import CallTimeoutError, ModelError
from .event_loop import shared_loop
from .images import is_image_block, standard_block
from .local_chat import check_timeout

try:
    import openai
    from langchain_openai import ChatOpenAI

    from .server_errors import NO_KEY, Request, broke_off, explain, no_completion, unknown_model
except ImportError as error:
    raise ImportError(
        f"ChatServer needs langchain-openai ({error}); install it with: "
        'pip install "langgraph-mai[server]"'
    ) from error

__all__ = ["ChatServer"]

CONNECT_SECONDS = 10.0
"""How long one attempt to connect may take."""

LIST_SECONDS = 10.0
"""How long a server may take to list its models."""

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
        api_key: Its key; None for the one that `api_key_env` names, if there is one.
        api_key_env: Environment variable with the key.
        max_retries: How often a request is sent again after a connection error, a 429 or a 5xx.
        timeout: Seconds a call may take, retries and images included; None for no limit. Per call:
            `timeout=`.
        max_pixels: Images with more pixels are shrunk to this; None leaves it to the server.
        allow_fetch: Whether images may be downloaded from http(s) URLs, by this process: a server
            gets data only.
    """

    supports_timeout: ClassVar[bool] = True

    api_key_env: str = "VLLM_API_KEY"
    max_pixels: int | None = Field(default=None, gt=0)
    allow_fetch: bool = False

    _made_of: tuple[object, ...] = PrivateAttr(default=())

    @model_validator(mode="before")
    @classmethod
    def _defaults(cls, values: dict[str, Any]) -> dict[str, Any]:
        _check_known(cls, values)
        names = {"model": "model_name", "base_url": "openai_api_base", "api_key": "openai_api_key"}
        given = {short: values.get(short) or values.get(long) for short, long in names.items()}
        for name in ("model", "base_url"):
            if not given[name]:
                raise TypeError(f"ChatServer needs `{name}`: it has no server of its own.")
        variable = values.get("api_key_env") or cls.model_fields["api_key_env"].default
        key, place = given["api_key"], "api_key"
        if not key:
            key, place = os.environ.get(variable), f"${variable}"
        given |= {"api_key": SecretStr(_key(key, place)), "base_url": _address(given["base_url"])}
        defaults = {
            "temperature": 0.0,
            "max_retries": 2,
            "stream_usage": True,
            "use_responses_api": False,
            "openai_proxy": None,
            "stream_chunk_timeout": None,
        }
        values = {key: value for key, value in values.items() if key not in names.values()}
        return {**defaults, **values, **given}

    @model_validator(mode="after")
    def _without_the_environment(self) -> Self:
        """Drop the clients that ChatOpenAI made: they would send what OPENAI_* variables hold."""
        if self.openai_proxy:
            self.http_client = self.http_async_client = None
        self.root_client = self.client = self.root_async_client = self.async_client = None
        self.openai_organization = None
        _headers(self.default_headers)
        return self

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Self:
        """Return a copy with other settings, by either of their names."""
        names = {info.alias: name for name, info in type(self).model_fields.items()}
        changed = {names.get(name, name): value for name, value in (update or {}).items()}
        return super().model_copy(update=changed, deep=deep)

    def load(self) -> "ChatServer":
        """Ask the server for its models; return the model itself.

        Raises:
            ModelError: It cannot be reached, refuses the key, or has no such model.
        """
        call = self._call({}, ())
        served = shared_loop().run(self._listed(call))
        if self.model_name not in served:
            raise unknown_model(call.request, served)
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
        # Thinking switches and other fields of a request are added here.
        payload = super()._get_request_payload(input_, stop=stop, **kwargs)
        if "max_completion_tokens" in payload:  # the newer name; only some servers know it
            payload["max_tokens"] = payload.pop("max_completion_tokens")
        return payload

    def _create_chat_result(
        self, response: Any, generation_info: dict[str, Any] | None = None
    ) -> ChatResult:
        # A reply's reasoning channel is read here, that of a chunk in
        # `_convert_chunk_to_generation_chunk`.
        request = self._request(())
        try:
            result = super()._create_chat_result(response, generation_info)
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise no_completion(request, str(response)) from error
        if not result.generations:
            raise no_completion(request, "it holds no answer")
        return result

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,  # noqa: ARG002
        **kwargs: Any,
    ) -> ChatResult:
        call = self._call(kwargs, messages)
        return shared_loop().run(self._complete(call, self._inline(messages), stop))

    async def _agenerate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: AsyncCallbackManagerForLLMRun | None = None,  # noqa: ARG002
        **kwargs: Any,
    ) -> ChatResult:
        call = self._call(kwargs, messages)
        inlined = await asyncio.to_thread(self._inline, messages)
        return await shared_loop().arun(self._complete(call, inlined, stop))

    def _stream(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> Iterator[ChatGenerationChunk]:
        call, loop = self._call(kwargs, messages), shared_loop()
        chunks = self._chunks(call, self._inline(messages), stop)
        try:
            while (chunk := loop.run(self._next(call, chunks))) is not None:
                if run_manager:
                    run_manager.on_llm_new_token(chunk.text, chunk=chunk)
                yield chunk
        finally:
            loop.run(_close(chunks))

    async def _astream(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: AsyncCallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> AsyncIterator[ChatGenerationChunk]:
        call, loop = self._call(kwargs, messages), shared_loop()
        chunks = self._chunks(call, await asyncio.to_thread(self._inline, messages), stop)
        try:
            while (chunk := await loop.arun(self._next(call, chunks))) is not None:
                if run_manager:
                    await run_manager.on_llm_new_token(chunk.text, chunk=chunk)
                yield chunk
        finally:
            loop.submit(_close(chunks))

    # What follows runs in the loop that all servers share.

    async def _complete(
        self, call: "_Call", messages: list[BaseMessage], stop: list[str] | None
    ) -> ChatResult:
        async with self._explained(call):
            self._connect()
            while True:
                try:
                    return await super()._agenerate(messages, stop, None, **call.settings)
                except openai.APIError as error:
                    if not call.shortened(error):
                        raise

    async def _chunks(
        self, call: "_Call", messages: list[BaseMessage], stop: list[str] | None
    ) -> AsyncIterator[ChatGenerationChunk]:
        self._connect()
        ended = False
        while True:
            try:
                async for chunk in super()._astream(messages, stop, None, **call.settings):
                    call.request.begun = True
                    ended = ended or bool((chunk.generation_info or {}).get("finish_reason"))
                    yield chunk
                break
            except openai.APIError as error:
                if call.request.begun or not call.shortened(error):
                    raise
        if not call.request.begun:
            raise no_completion(call.request, "it holds no answer")
        if not ended:  # a connection that is closed looks like an end
            raise broke_off(call.request)

    async def _next(
        self, call: "_Call", chunks: AsyncIterator[ChatGenerationChunk]
    ) -> ChatGenerationChunk | None:
        async with self._explained(call):
            return await anext(chunks, None)

    async def _listed(self, call: "_Call") -> list[str]:
        async with self._explained(call):
            self._connect()
            return await self._served(call.request)

    async def _served(self, request: Request) -> list[str]:
        try:
            page = await self.root_async_client.models.list(timeout=LIST_SECONDS)
            return [str(model.id) for model in page.data]
        except (AttributeError, TypeError) as error:  # all that the client says of other answers
            raise no_completion(request, "it lists no models") from error

    @asynccontextmanager
    async def _explained(self, call: "_Call") -> AsyncIterator[None]:
        """Stay within the call's time, and have one sentence for whatever goes wrong."""
        limit = asyncio.timeout(call.remaining())
        try:
            async with limit:
                try:
                    yield
                except Exception as error:  # noqa: BLE001  whatever it is, it is explained
                    names = None
                    if isinstance(error, openai.NotFoundError):
                        with suppress(Exception):  # the first error is the one that counts
                            names = await self._served(call.request)
                    explained = explain(error, call.request, names)
                    cause = error.__cause__ if explained is error else error
                    raise explained from (cause and call.request.cause(cause))
        except TimeoutError as error:
            if not limit.expired():
                raise
            raise CallTimeoutError(
                f"The server at {call.request.address} did not finish its answer within the "
                f"timeout of {call.timeout:g} seconds; raise the timeout or lower max_tokens."
            ) from error

    def _connect(self) -> None:
        """Make the client of the settings as they are now, in the process that runs now."""
        address, key = _address(self.openai_api_base), _key(self.openai_api_key)
        headers, retries = _headers(self.default_headers), self.max_retries
        made_of = (
            os.getpid(),
            address,
            key,
            retries,
            _digest(headers),
            _digest(self.default_query or {}),
            self.openai_proxy,
            id(self.http_async_client),
        )
        if made_of == self._made_of and self.root_async_client is not None:
            return
        timeout = openai.Timeout(None, connect=CONNECT_SECONDS)
        # A proxy named by the environment would see the key of an http address.
        own: dict[str, Any] = {"proxy": self.openai_proxy} if self.openai_proxy else {}
        http_client = self.http_async_client or openai.DefaultAsyncHttpxClient(
            timeout=timeout, trust_env=urlsplit(address).scheme == "https", **own
        )
        # openai adds headers that the environment names, unless each is marked to be left out.
        foreign = os.environ.get("OPENAI_CUSTOM_HEADERS", "").split("\n")
        sent: dict[str, Any] = {
            line.partition(":")[0].strip(): openai.Omit() for line in foreign if ":" in line
        }
        client = openai.AsyncOpenAI(
            api_key=key,
            base_url=address,
            max_retries=2 if retries is None else retries,
            timeout=timeout,
            default_headers=sent | {"Authorization": f"Bearer {key}"} | headers,
            default_query=self.default_query,
            http_client=http_client,
        )
        client.organization = client.project = client.admin_api_key = None
        self.root_async_client, self.async_client = client, client.chat.completions
        self._made_of = made_of
        if not self.http_async_client:
            weakref.finalize(client, _close_client, http_client, os.getpid()).atexit = False

    def _call(self, settings: Mapping[str, Any], messages: Sequence[BaseMessage]) -> "_Call":
        """Begin a call."""
        settings = dict(settings)
        timeout: Any = settings.pop("timeout", None)
        timeout = self.request_timeout if timeout is None else timeout
        check_timeout(timeout)
        if (limit := settings.pop("max_completion_tokens", None)) is not None:
            settings["max_tokens"] = limit
        max_tokens = settings.get("max_tokens") or self.max_tokens
        request = self._request(messages, settings.get("model"))
        return _Call(request, settings, max_tokens, timeout)

    def _request(self, messages: Sequence[BaseMessage], model: str | None = None) -> Request:
        contents = [message.content for message in messages if not isinstance(message.content, str)]
        return Request(
            address=str(self.openai_api_base),
            model=model or self.model_name,
            key=_key(self.openai_api_key),
            images=sum(is_image_block(block) for content in contents for block in content),
        )

    def _inline(self, messages: Sequence[BaseMessage]) -> list[BaseMessage]:
        """Return messages whose images are data URIs: the server opens no file and no address."""

        def inlined(block: Any) -> Any:
            if not is_image_block(block):
                return block
            standard = standard_block(
                block, max_pixels=self.max_pixels, allow_fetch=self.allow_fetch
            )
            url = f"data:{standard['mime_type']};base64,{standard['base64']}"
            inner = block.get("image_url")
            # OpenAI's setting of how closely an image is looked at.
            detail = inner.get("detail") if isinstance(inner, dict) else None
            more = {"detail": detail} if detail else {}
            return {"type": "image_url", "image_url": {"url": url, **more}}

        return [
            message
            if isinstance(message.content, str)
            else message.model_copy(update={"content": [inlined(one) for one in message.content]})
            for message in messages
        ]


@dataclass(slots=True)
class _Call:
    """A call in progress.

    Attributes:
        request: What is requested of whom.
        settings: Settings of the call, by the server's names.
        max_tokens: How long the answer may be; None for as long as the context takes.
        timeout: Seconds that the call may take; None for no limit.
        started: When it began, on the monotonic clock.
    """

    request: Request
    settings: dict[str, Any]
    max_tokens: int | None
    timeout: float | None
    started: float = field(default_factory=time.monotonic)

    def remaining(self) -> float | None:
        """Return the seconds left; None without a limit."""
        if self.timeout is None:
            return None
        return self.started + self.timeout - time.monotonic()

    def shortened(self, error: openai.APIError) -> bool:
        """Request a shorter answer, if the answer alone was what did not fit."""
        overflow = read_overflow(str(error))
        shorter = overflow.shorter(self.max_tokens) if overflow else None
        if shorter is None:
            return False
        self.max_tokens = self.settings["max_tokens"] = shorter
        return True


async def _close(chunks: AsyncIterator[ChatGenerationChunk]) -> None:
    with suppress(RuntimeError):  # it is being read: that was cancelled and closes it
        await chunks.aclose()  # type: ignore[attr-defined]


def _close_client(http_client: Any, process: int) -> None:
    if process == os.getpid():
        shared_loop().submit(http_client.aclose())


def _address(base_url: object) -> str:
    try:
        return server_address(str(base_url))
    except ValueError as error:
        raise ModelError(f"The base_url of a ChatServer {error}.") from error


def _key(api_key: object, place: str = "api_key") -> str:
    """Return a key without the spaces and line ends around it, which files and secrets add."""
    key = api_key.get_secret_value() if isinstance(api_key, SecretStr) else api_key
    if key is None:
        return NO_KEY
    if not isinstance(key, str):
        raise ModelError(
            f"The API key in {place} is no text: if it is a function, call it and give its result."
        )
    return _header(key, f"The API key in {place}") or NO_KEY


def _headers(headers: Mapping[str, str] | None) -> dict[str, Any]:
    return {
        # What is no text is openai's mark for a header to leave out.
        name: _header(value, f"The header {name!r} in default_headers")
        if isinstance(value, str)
        else value
        for name, value in (headers or {}).items()
    }


def _header(value: str, name: str) -> str:
    """Return what a header holds; an HTTP client shows in its error what no header can hold."""
    value = value.strip()
    if not (value.isascii() and value.isprintable()):
        raise ModelError(
            f"{name} is malformed: it holds a line break or a character that is not ASCII; copy it "
            "again."
        )
    return value


def _digest(values: Mapping[str, object]) -> str:
    text = json.dumps(dict(values), sort_keys=True, default=repr)
    return hashlib.sha256(text.encode()).hexdigest()


def _check_known(kind: type[ChatOpenAI], values: dict[str, Any]) -> None:
    """Refuse a misspelt setting, which ChatOpenAI would send to the server with every call."""
    aliases = {str(info.alias) for info in kind.model_fields.values() if info.alias}
    for name, instead in _WITHOUT_EFFECT.items():
        if values.get(name):
            raise TypeError(f"ChatServer does not use {name}; {instead}.")
    unknown = sorted(set(values) - set(kind.model_fields) - aliases)
    if unknown:
        raise TypeError(
            f"ChatServer has no setting {', '.join(map(repr, unknown))}; what only a server "
            "knows goes into extra_body."
        )
