"""`ChatServer`: a model on an OpenAI-compatible server as a LangChain chat model."""

import asyncio
import hashlib
import json
import os
import weakref
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, ClassVar, Self
from urllib.parse import urlsplit

from langchain_core.callbacks import AsyncCallbackManagerForLLMRun, CallbackManagerForLLMRun
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.outputs import ChatGenerationChunk, ChatResult
from pydantic import Field, PrivateAttr, SecretStr, model_validator

from ..configs.schemas import server_address
from .chat_format import plain_texts
from .errors import ModelError
from .event_loop import shared_loop
from .images import block_image, is_image_block
from .local_chat import check_timeout

try:
    import openai
    from langchain_openai import ChatOpenAI

    from .server_errors import NO_KEY, ServerCall
except ImportError as error:
    raise ImportError(
        f"ChatServer needs langchain-openai ({error}); install it with: "
        'pip install "langgraph-mai[server]"'
    ) from error

CONNECT_SECONDS = 10.0
"""How long one attempt to connect may take."""

_NAMES = {"model": "model_name", "base_url": "openai_api_base", "api_key": "openai_api_key"}


class ChatServer(ChatOpenAI):
    """A model on an OpenAI-compatible server, vLLM's above all.

    It is a `ChatOpenAI` with all its settings, and besides: images in any form that
    `images.block_image` reads, temperature 0 and usage while streaming by default, one sentence for
    whatever goes wrong (`ModelError`), a `timeout` that bounds a whole call and really ends it on
    the server, and shorter answers where prompt and `max_tokens` together exceed the model's
    context. What a server's reasoning parser takes out of an answer (`reasoning_content` or
    `reasoning`) is in `additional_kwargs["reasoning_content"]`, and so in `content_blocks`. No
    OPENAI_* variable of the environment has a part in it: those belong to another service.

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
    supports_schema: ClassVar[bool] = True
    supports_logprobs: ClassVar[bool] = True

    api_key_env: str = "VLLM_API_KEY"
    max_pixels: int | None = Field(default=None, gt=0)
    allow_fetch: bool = False

    _process: int | None = PrivateAttr(default=None)
    """The process that made the client."""

    @model_validator(mode="before")
    @classmethod
    def _defaults(cls, values: dict[str, Any]) -> dict[str, Any]:
        _check_known(cls, values)
        given = {short: values.get(short) or values.get(long) for short, long in _NAMES.items()}
        for name in ("model", "base_url"):
            if not given[name]:
                raise TypeError(f"ChatServer needs `{name}`: it has no server of its own.")
        variable = values.get("api_key_env") or cls.model_fields["api_key_env"].default
        key = given["api_key"] or os.environ.get(variable)
        place = "api_key" if given["api_key"] else f"${variable}"
        given |= {"api_key": SecretStr(_key(key, place)), "base_url": _address(given["base_url"])}
        defaults = {
            "temperature": 0.0,
            "max_retries": 2,
            "stream_usage": True,
            "use_responses_api": False,
            "openai_proxy": None,
            "stream_chunk_timeout": None,
        }
        others = {name: value for name, value in values.items() if name not in _NAMES.values()}
        return {**defaults, **others, **given}

    @model_validator(mode="after")
    def validate_environment(self) -> Self:
        """Take the place of ChatOpenAI's, whose clients send what OPENAI_* variables hold."""
        for name, value in (self.default_headers or {}).items():
            _header(value, f"The header {name!r} in default_headers")
        return self

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Self:
        """Return a copy with other settings, by either of their names."""
        names = {info.alias: name for name, info in type(self).model_fields.items()}
        changed = {names.get(name, name): value for name, value in (update or {}).items()}
        copy = super().model_copy(update=changed, deep=deep)
        copy.openai_api_base = _address(copy.openai_api_base)
        copy.openai_api_key = SecretStr(_key(copy.openai_api_key, "api_key"))
        copy._process = None
        return copy

    def load(self) -> "ChatServer":
        """Ask the server for its models; return the model itself.

        Raises:
            ModelError: It cannot be reached, refuses the key, or has no such model.
        """
        call = self._call({}, ())
        served = shared_loop().run(self._served(call))
        if self.model_name not in served:
            raise call.unknown_model(served)
        return self

    @property
    def _llm_type(self) -> str:
        return "langgraph-mai-server"

    @classmethod
    def is_lc_serializable(cls) -> bool:
        """Return False: LangChain would look for the class in its own packages."""
        return False

    @property
    def _identifying_params(self) -> dict[str, Any]:
        own = {"base_url": self.openai_api_base, "max_pixels": self.max_pixels}
        # Only told apart: their values may be secrets.
        for name, values in (("headers", self.default_headers), ("query", self.default_query)):
            if values:
                text = json.dumps(dict(values), sort_keys=True, default=repr)
                own[name] = hashlib.sha256(text.encode()).hexdigest()
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
        result = super()._create_chat_result(response, generation_info)
        (result.llm_output or {}).pop("model_provider", None)
        for generation, choice in zip(result.generations, response.choices, strict=True):
            _keep_reasoning(generation.message, choice.message.model_extra or {})
        return result

    def _convert_chunk_to_generation_chunk(
        self, chunk: dict[str, Any], *arguments: Any
    ) -> ChatGenerationChunk | None:
        converted = super()._convert_chunk_to_generation_chunk(chunk, *arguments)
        if converted and chunk.get("choices"):
            _keep_reasoning(converted.message, chunk["choices"][0]["delta"])
        return converted

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,  # noqa: ARG002
        **kwargs: Any,
    ) -> ChatResult:
        return shared_loop().run(self._complete(self._call(kwargs, messages), stop))

    async def _agenerate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: AsyncCallbackManagerForLLMRun | None = None,  # noqa: ARG002
        **kwargs: Any,
    ) -> ChatResult:
        return await shared_loop().arun(self._complete(self._call(kwargs, messages), stop))

    def _stream(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> Iterator[ChatGenerationChunk]:
        call, loop = self._call(kwargs, messages), shared_loop()
        chunks = self._chunks(call, stop)
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
        chunks = self._chunks(call, stop)
        try:
            while (chunk := await loop.arun(self._next(call, chunks))) is not None:
                if run_manager:
                    await run_manager.on_llm_new_token(chunk.text, chunk=chunk)
                yield chunk
        finally:
            loop.submit(_close(chunks))

    def _call(self, settings: Mapping[str, Any], messages: Sequence[BaseMessage]) -> ServerCall:
        settings = dict(settings)
        timeout: Any = settings.pop("timeout", None)
        timeout = self.request_timeout if timeout is None else timeout
        check_timeout(timeout)
        if (limit := settings.pop("max_completion_tokens", None)) is not None:
            settings["max_tokens"] = limit
        return ServerCall(
            address=str(self.openai_api_base),
            model=settings.get("model") or self.model_name,
            key=_key(self.openai_api_key, "api_key"),
            messages=messages,
            settings=settings,
            max_tokens=settings.get("max_tokens") or self.max_tokens,
            timeout=timeout,
        )

    # What follows runs in the loop that all servers share.

    async def _complete(self, call: ServerCall, stop: list[str] | None) -> ChatResult:
        async with call.explained(self._served):
            messages = await self._prepared(call)
            while True:
                try:
                    result = await super()._agenerate(messages, stop, None, **call.settings)
                except openai.LengthFinishReasonError as error:
                    call.check_may_be_cut(error)
                    result = self._create_chat_result(error.completion)
                except openai.APIError as error:
                    call.adapt(error)
                    continue
                for generation in result.generations:
                    call.add(generation)
                call.check_answered()
                return result

    async def _chunks(
        self, call: ServerCall, stop: list[str] | None
    ) -> AsyncIterator[ChatGenerationChunk]:
        messages = await self._prepared(call)
        while not call.begun:
            try:
                async for chunk in super()._astream(messages, stop, None, **call.settings):
                    call.add(chunk)
                    yield chunk
                call.check_answered()
            except openai.LengthFinishReasonError as error:
                call.check_may_be_cut(error)
            except openai.APIError as error:
                call.adapt(error)
        if not call.finish_reason:  # a connection that is closed looks like an end
            raise call.broke_off()

    async def _next(
        self, call: ServerCall, chunks: AsyncIterator[ChatGenerationChunk]
    ) -> ChatGenerationChunk | None:
        async with call.explained(self._served):
            return await anext(chunks, None)

    async def _served(self, call: ServerCall) -> list[str]:
        async with call.explained():
            self._connect()
            page = await self.root_async_client.models.list(timeout=CONNECT_SECONDS)
            return [str(model.id) for model in page.data]

    async def _prepared(self, call: ServerCall) -> list[BaseMessage]:
        """Connect, and return messages as the server may have them.

        Images are data: the server opens no file or URL. Texts hold no control tokens: it would
        read those of a question as its template's own.
        """
        self._connect()

        def inlined(block: Any) -> Any:
            if not is_image_block(block):
                return block
            image = block_image(block, allow_fetch=self.allow_fetch).shrink(self.max_pixels)
            url = {"url": f"data:{image.mime_type};base64,{image.base64}"}
            # OpenAI's setting of how closely an image is looked at.
            inner = block.get("image_url")
            if isinstance(inner, dict) and inner.get("detail"):
                url["detail"] = inner["detail"]
            return {"type": "image_url", "image_url": url}

        def with_data(message: BaseMessage) -> BaseMessage:
            if isinstance(message.content, str):
                return message.model_copy(update={"content": plain_texts([message.content])[0]})
            blocks = [{"text": one} if isinstance(one, str) else one for one in message.content]
            content = [*map(inlined, blocks)]
            texts = [at for at, one in enumerate(content) if isinstance(one.get("text"), str)]
            plain = plain_texts([content[at]["text"] for at in texts])
            for at, text in zip(texts, plain, strict=True):
                content[at] = {"type": "text", **content[at], "text": text}
            return message.model_copy(update={"content": content})

        if not call.images:
            return [*map(with_data, call.messages)]
        return await asyncio.to_thread(lambda: [*map(with_data, call.messages)])

    def _connect(self) -> None:
        """Make the client, in the process that runs now: a fork cannot use that of its parent."""
        if self._process == os.getpid():
            return
        address, key = str(self.openai_api_base), _key(self.openai_api_key, "api_key")
        timeout = openai.Timeout(None, connect=CONNECT_SECONDS)
        http_client = self.http_async_client or openai.DefaultAsyncHttpxClient(
            timeout=timeout,
            proxy=self.openai_proxy,
            # A proxy named by the environment would see the key of an http address.
            trust_env=urlsplit(address).scheme == "https",
        )
        # openai adds headers that the environment names, unless each is marked to be left out.
        foreign = os.environ.get("OPENAI_CUSTOM_HEADERS", "").split("\n")
        headers: dict[str, Any] = {
            line.partition(":")[0].strip(): openai.Omit() for line in foreign if ":" in line
        }
        headers["Authorization"] = f"Bearer {key}"
        for name, value in (self.default_headers or {}).items():
            headers[name] = _header(value, name)
        client = openai.AsyncOpenAI(
            api_key=key,
            base_url=address,
            timeout=timeout,
            max_retries=2 if self.max_retries is None else self.max_retries,
            default_headers=headers,
            default_query=self.default_query,
            http_client=http_client,
        )
        client.organization, client.project = self.openai_organization, None
        client.admin_api_key = None
        self.root_async_client, self.async_client = client, client.chat.completions
        self._process = os.getpid()
        if not self.http_async_client:
            weakref.finalize(client, _close_client, http_client, self._process).atexit = False


def _keep_reasoning(message: BaseMessage, source: Mapping[str, Any]) -> None:
    """Add what ChatOpenAI leaves out of a message: the reasoning and the refusal of a server."""
    reasoning = source.get("reasoning_content") or source.get("reasoning")
    for name, text in (("reasoning_content", reasoning), ("refusal", source.get("refusal"))):
        if isinstance(text, str) and text:
            message.additional_kwargs[name] = text
    # By this, LangChain reads the blocks of OpenAI's models, which have no such reasoning.
    if isinstance(message, AIMessage):
        message.response_metadata.pop("model_provider", None)


async def _close(chunks: Any) -> None:
    with suppress(RuntimeError):  # it is being read: that was cancelled and closes it
        await chunks.aclose()


def _close_client(http_client: Any, process: int) -> None:
    if process == os.getpid():
        shared_loop().submit(http_client.aclose())


def _address(base_url: object) -> str:
    try:
        return server_address(str(base_url))
    except ValueError as error:
        raise ModelError(f"The base_url of a ChatServer {error}.") from error


def _key(api_key: object, place: str) -> str:
    key = api_key.get_secret_value() if isinstance(api_key, SecretStr) else api_key or NO_KEY
    if not isinstance(key, str):
        raise ModelError(
            f"The API key in {place} is no text: if it is a function, call it and give its result."
        )
    return str(_header(key, f"The API key in {place}")) or NO_KEY


def _header(value: object, name: str) -> object:
    """Return a header's value without the spaces and line ends that files and secrets add.

    An HTTP client would show in its error what no header can hold.
    """
    if not isinstance(value, str):  # openai's mark for a header to leave out
        return value
    value = value.strip()
    if not (value.isascii() and value.isprintable()):
        raise ModelError(
            f"{name} is malformed: it holds a line break or a character that is not ASCII; copy it "
            "again."
        )
    return value


def _check_known(kind: type[ChatOpenAI], values: dict[str, Any]) -> None:
    """Refuse a misspelt setting, which ChatOpenAI would send to the server with every call."""
    if values.get("http_client"):
        raise TypeError(
            "ChatServer does not use http_client; give http_async_client, as it sends everything "
            "from one event loop."
        )
    aliases = {info.alias for info in kind.model_fields.values()}
    if unknown := sorted(set(values) - set(kind.model_fields) - aliases):
        raise TypeError(
            f"ChatServer has no setting {', '.join(map(repr, unknown))}; what only a server "
            "knows goes into extra_body."
        )
