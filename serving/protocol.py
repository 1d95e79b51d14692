"""OpenAI's chat completions protocol: what a request may hold, and the form of what is returned."""

import time
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal
from uuid import uuid4

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage
from langchain_core.messages.ai import UsageMetadata
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError
from pydantic_core import from_json

from ..answers import AnswerType

_TEXT = "the answer is text"
_TOOLS = "it calls no tools; give an agent another model, and this one as its tool"
_PENALTIES = "answers are decoded without penalties"
_LOGPROBS = "an answer comes from several calls and has no log-probabilities"

_UNSUPPORTED: dict[str, tuple[tuple[Any, ...], str]] = {
    "n": ((1,), "a question gets one answer"),
    "top_p": ((1,), "tokens are drawn by temperature and seed alone"),
    "frequency_penalty": ((0,), _PENALTIES),
    "presence_penalty": ((0,), _PENALTIES),
    "logit_bias": (({},), _PENALTIES),
    "logprobs": ((False,), _LOGPROBS),
    "top_logprobs": ((0,), _LOGPROBS),
    "modalities": ((["text"],), _TEXT),
    "audio": ((), _TEXT),
    "prediction": ((), "nothing is predicted"),
    "tools": (([],), _TOOLS),
    "tool_choice": (("none", "auto"), _TOOLS),
    "parallel_tool_calls": ((True, False), _TOOLS),
    "functions": (([],), _TOOLS),
    "function_call": (("none", "auto"), _TOOLS),
    "web_search_options": ((), "it searches nothing"),
    "reasoning_effort": ((), "how much is reasoned depends on the question"),
    "verbosity": ((), "an answer is as short as it can be"),
    "store": ((False,), "nothing is stored"),
    "service_tier": (("auto", "default"), "there is one tier"),
}
"""Fields that cannot be honoured, with the values that change nothing, and why."""

_LABELS = ("metadata", "user", "safety_identifier", "prompt_cache_key")
"""Fields that no answer depends on."""


class RequestError(Exception):
    """A request that gets no answer; the message is one sentence for the client."""

    def __init__(
        self, message: str, status: int = 400, *, param: str | None = None, code: str | None = None
    ) -> None:
        """Take the HTTP status, the field at fault, and OpenAI's code for programs."""
        super().__init__(message)
        self.status = status
        self.retry_after: int | None = None
        kinds = {429: "rate_limit_error", 500: "server_error"}
        kind = kinds.get(min(status, 500), "invalid_request_error")
        error = {"message": message, "type": kind, "param": param, "code": code}
        self.body = {"error": error}


class _Body(BaseModel):
    """What a client sends: no field is converted, and none is ignored."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class _ImageURL(_Body):
    url: str
    detail: Literal["auto", "high"] | None = None  # images are read as large as they are


class _Text(_Body):
    type: Literal["text"]
    text: str


class _Image(_Body):
    type: Literal["image_url"]
    image_url: _ImageURL


def _parts(content: Any) -> Any:
    if content is None:
        return []
    return [{"type": "text", "text": content}] if isinstance(content, str) else content


def _listed(stop: Any) -> Any:
    return [stop] if isinstance(stop, str) else stop


_Empty = Annotated[list[Any], Field(max_length=0)] | None


class Message(_Body):
    """A message; what follows its content is there where an answer is sent back."""

    role: Literal["system", "developer", "user", "assistant"]
    content: Annotated[
        list[Annotated[_Text | _Image, Field(discriminator="type")]], BeforeValidator(_parts)
    ]
    name: str | None = None
    reasoning_content: str | None = None
    refusal: None = None
    annotations: _Empty = None
    audio: None = None
    tool_calls: _Empty = None
    function_call: None = None

    @property
    def text(self) -> str:
        """Its texts, a line each."""
        return "\n".join(part.text for part in self.content if isinstance(part, _Text))

    @property
    def image_urls(self) -> list[str]:
        """Its images, in order."""
        return [part.image_url.url for part in self.content if isinstance(part, _Image)]

    def blocks(self) -> list[str | dict[Any, Any]]:
        """Return its parts as LangChain's content blocks."""
        return [part.model_dump(exclude_none=True) for part in self.content]

    def as_langchain(self) -> BaseMessage:
        """Return it as a message of LangChain."""
        if self.role == "user":
            return HumanMessage(self.blocks())
        return AIMessage(self.text) if self.role == "assistant" else SystemMessage(self.text)


class _StreamOptions(_Body):
    include_usage: bool | None = None
    include_obfuscation: Literal[False] | None = None


class _JSONSchema(_Body):
    name: str
    description: str | None = None
    schema_: dict[str, Any] = Field(alias="schema")
    strict: bool | None = None


class _TextFormat(_Body):
    type: Literal["text"]


class _SchemaFormat(_Body):
    type: Literal["json_schema"]
    json_schema: _JSONSchema


class Options(_Body):
    """Settings of the cascade: the field `mai` of a request."""

    answer_type: AnswerType | Literal["auto"] | None = None
    choices: list[str] | None = None
    transfer: Literal["full", "sparse"] | None = None
    timeout: float | None = Field(default=None, gt=0, allow_inf_nan=False)


class ChatRequest(_Body):
    """The body of a request.

    `max_tokens` limits the answer, `max_completion_tokens` each model call, reasonings included.
    Neither raises a limit of the pair's prompts.
    """

    model: str
    messages: list[Message] = Field(min_length=1)
    stream: bool | None = None
    stream_options: _StreamOptions | None = None
    max_tokens: int | None = Field(default=None, gt=0)
    max_completion_tokens: int | None = Field(default=None, gt=0)
    temperature: float | None = Field(default=None, ge=0, le=2, allow_inf_nan=False)
    seed: int | None = Field(default=None, ge=0, lt=1 << 63)
    stop: Annotated[list[str], BeforeValidator(_listed), Field(max_length=4)] | None = None
    response_format: Annotated[_TextFormat | _SchemaFormat, Field(discriminator="type")] | None = (
        None
    )
    mai: Options = Options()

    @property
    def form(self) -> dict[str, Any] | None:
        """The JSON schema of the answer; None where it is a text."""
        wanted = self.response_format
        return wanted.json_schema.schema_ if isinstance(wanted, _SchemaFormat) else None

    def split(self) -> tuple[str, list[BaseMessage]]:
        """Return what the models read before the question, and the conversation that ends with it.

        The user's last messages are the question. The cascade answers one question at a time, so
        that earlier turns are a text before it; their images stay in the conversation.

        Raises:
            RequestError: The last message is not the user's.
        """
        context = [one.text for one in self.messages if one.role in {"system", "developer"}]
        turns = [one for one in self.messages if one.role in {"user", "assistant"}]
        question: list[Message] = []
        while turns and turns[-1].role == "user":
            question.insert(0, turns.pop())
        if not question:
            raise RequestError("The last message must be the user's question.", param="messages")
        if turns:
            lines = [f"{one.role}: {one.text or '(an image)'}" for one in turns]
            context.append("\n".join(["The conversation so far:", *lines]))
        asked = HumanMessage([block for one in question for block in one.blocks()])
        return "\n\n".join(context), [*(one.as_langchain() for one in turns), asked]


def read_request(body: bytes) -> ChatRequest:
    """Read the body of a request.

    Raises:
        RequestError: It is no such request, or asks for what cannot be honoured.
    """
    try:
        values = from_json(body)
    except ValueError as error:
        raise RequestError(f"The body is not valid JSON ({error}).") from error
    if not isinstance(values, dict):
        raise RequestError("The body must be a JSON object.")
    for name, (allowed, why) in _UNSUPPORTED.items():
        value = values.pop(name, None)
        if value is not None and value not in allowed:
            words = f"`{name}` cannot be honoured: {why}. Leave it out."
            raise RequestError(words, param=name, code="unsupported_parameter")
    values = {name: value for name, value in values.items() if name not in _LABELS}
    try:
        chat = ChatRequest.model_validate(values)
    except ValidationError as error:
        raise _explained(error) from error
    if any(one.image_urls for one in chat.messages if one.role != "user"):
        raise RequestError("Only the user's messages may hold images.", param="messages")
    return chat


def _explained(error: ValidationError) -> RequestError:
    problem = error.errors(include_url=False)[0]
    place, former = "", None
    for name in problem["loc"]:
        # The type of a part stands before its fields; brackets are a type of pydantic's own.
        if name != former and "[" not in str(name):
            place += f"[{name}]" if isinstance(name, int) else f".{name}"
        former = name
    place = place.lstrip(".")[:200]
    match problem["type"]:
        case "union_tag_invalid":
            known = problem["ctx"]["expected_tags"]
            words = f"is of type {problem['ctx']['tag']!r:.80}, but only {known} are known here"
        case "extra_forbidden":
            words = "is unknown here; leave it out"
        case _:
            words = f"cannot be used: {problem['msg']}"
    return RequestError(f"`{place}` {words}.", param=place)


@dataclass(frozen=True, slots=True)
class Completion:
    """An answer; `mai` is what the cascade tells of itself, None for a model alone."""

    content: str
    reasoning: str = ""
    finish_reason: Literal["stop", "length"] = "stop"
    usage: UsageMetadata | None = None
    reasoning_tokens: int = 0
    mai: dict[str, Any] | None = None

    def usage_body(self) -> dict[str, Any] | None:
        """Return the tokens of all calls in OpenAI's form; None if the models do not say."""
        if self.usage is None:
            return None
        cached = self.usage.get("input_token_details", {}).get("cache_read", 0)
        return {
            "prompt_tokens": self.usage["input_tokens"],
            "completion_tokens": self.usage["output_tokens"],
            "total_tokens": self.usage["total_tokens"],
            "prompt_tokens_details": {"cached_tokens": cached},
            "completion_tokens_details": {"reasoning_tokens": self.reasoning_tokens},
        }


@dataclass(frozen=True, slots=True)
class Envelope:
    """The form of a response, whole or in chunks."""

    model: str
    id: str = field(default_factory=lambda: f"chatcmpl-{uuid4().hex}")
    created: int = field(default_factory=lambda: int(time.time()))

    def whole(self, done: Completion) -> dict[str, Any]:
        """Return a whole response."""
        message = {"role": "assistant", "content": done.content, "refusal": None}
        if done.reasoning:
            message["reasoning_content"] = done.reasoning
        choice = {"message": message, "finish_reason": done.finish_reason}
        told = {} if done.mai is None else {"mai": done.mai}
        return self._body("chat.completion", choice) | {"usage": done.usage_body()} | told

    def chunk(self, delta: dict[str, str]) -> dict[str, Any]:
        """Return a chunk of a stream."""
        return self._body("chat.completion.chunk", {"delta": delta, "finish_reason": None})

    def last_chunks(self, done: Completion, *, usage: bool) -> list[dict[str, Any]]:
        """Return how a stream ends: why, what the cascade tells, and the usage if wanted."""
        kind, told = "chat.completion.chunk", {} if done.mai is None else {"mai": done.mai}
        chunks = [self._body(kind, {"delta": {}, "finish_reason": done.finish_reason}) | told]
        if usage:
            chunks.append(self._body(kind) | {"usage": done.usage_body()})
        return chunks

    def _body(self, kind: str, *choices: dict[str, Any]) -> dict[str, Any]:
        filled = [{"index": 0, **choice, "logprobs": None} for choice in choices]
        head = {"id": self.id, "object": kind, "created": self.created, "model": self.model}
        return {**head, "choices": filled}
