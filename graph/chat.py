"""The cascade as a chat model, for places that take nothing else."""

from collections.abc import AsyncIterator, Iterator
from operator import itemgetter
from typing import Any, cast
from uuid import uuid4

from langchain_core.callbacks import (
    AsyncCallbackManager,
    AsyncCallbackManagerForLLMRun,
    BaseRunManager,
    CallbackManager,
    CallbackManagerForLLMRun,
)
from langchain_core.language_models import BaseChatModel, LanguageModelInput
from langchain_core.language_models.base import LangSmithParams
from langchain_core.language_models.model_profile import ModelProfile
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage
from langchain_core.output_parsers import JsonOutputParser, PydanticOutputParser
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from langchain_core.prompt_values import ChatPromptValue, PromptValue
from langchain_core.runnables import Runnable, RunnableConfig, RunnableMap, RunnablePassthrough
from langchain_core.utils.function_calling import convert_to_json_schema
from langchain_core.utils.pydantic import is_basemodel_subclass
from langgraph.graph.state import CompiledStateGraph
from pydantic import ConfigDict, Field, PrivateAttr, model_validator
from typing_extensions import override

from ..models.images import is_image_block
from ..nodes.review import waits_for_person
from ..nodes.settings import MAIContext
from ..nodes.state import MAIInput

# Every chat model of LangChain is given these; this one has no use for them.
_REMOTE = {"api_key", "max_retries", "streaming"}
_FORMS = {"schema", "response_format"}


class ChatMAI(BaseChatModel):
    """A chat model that answers with the whole cascade.

    The last human message is the question, its images included; earlier messages and system
    messages are not read. The answer is known only at the end of a run, so a stream holds it in one
    chunk. What the two models generate meanwhile is not streamed as the chat model's own tokens:
    watch the graph for that.

    The answering message has `usage_metadata` summed over all calls, and in `response_metadata`
    `route`, `fallback`, `calls` and `model_name`.

    Example:
        >>> model = ChatMAI(mai=create_mai(small, large))
        >>> model.invoke([HumanMessage([load_image("chart.png").block, {"type": "text", ...}])])

    Attributes:
        mai: What `create_mai` or `create_strategy` returned, without a checkpointer of its own: a
            chat model gets the whole conversation at every call, and keeps no thread.
        context: Settings of every run; None leaves them as the graph was made. Per call, each of
            them by its name: `answer_type=`, `max_tokens_reason=`, ...
        model: Its name in `response_metadata` and traces.
        max_tokens: Limit on each answer, reasonings excepted, in tokens. Per call: `max_tokens=`.
        timeout: Seconds that one call of one model may take. Per call: `timeout=`.
        stop: The answer ends before the first of these strings. Per call: `stop=`.
    """

    model_config = ConfigDict(arbitrary_types_allowed=True)

    mai: CompiledStateGraph[Any, Any, Any, Any] = Field(repr=False)
    context: MAIContext | None = None
    model: str = "mai"
    max_tokens: int | None = Field(default=None, gt=0)
    timeout: float | None = Field(default=None, gt=0)
    stop: list[str] | None = None
    profile: ModelProfile | None = Field(
        default_factory=lambda: ModelProfile(structured_output=True, image_inputs=True)
    )
    _key: str = PrivateAttr(default_factory=lambda: str(uuid4()))

    @model_validator(mode="before")
    @classmethod
    def _known_settings(cls, values: Any) -> Any:
        unknown = sorted(set(values) - set(cls.model_fields) - _REMOTE)
        if unknown:
            # As for any function; pydantic would wrap a ValueError into several lines.
            raise TypeError(
                f"ChatMAI has no setting {', '.join(map(repr, unknown))}; it has mai, context, "
                "model, max_tokens, timeout and stop."
            )
        if getattr(values.get("mai"), "checkpointer", None):
            raise TypeError(
                "ChatMAI keeps no threads: give it a graph made without `checkpointer`, and keep "
                "the conversation in the graph or agent around it."
            )
        return values

    @property
    def _llm_type(self) -> str:
        return "langgraph-mai"

    @property
    def _identifying_params(self) -> dict[str, Any]:
        # A graph says nothing about itself that tells it from another one, and an address may be
        # used again: a cache of answers keeps each chat model's own.
        return {
            "model": self.model,
            "mai": f"{self._key} {id(self.mai)}",
            "context": repr(self._context({})),
            "stop": self.stop,
        }

    def _get_ls_params(self, stop: list[str] | None = None, **kwargs: Any) -> LangSmithParams:
        params = super()._get_ls_params(stop=stop, **kwargs)
        params["ls_provider"] = "langgraph-mai"
        params["ls_model_name"] = kwargs.get("model", self.model)
        return params

    @override
    def bind_tools(self, tools: Any, **kwargs: Any) -> Runnable[LanguageModelInput, AIMessage]:
        """Bind a `response_format` in OpenAI's form, as `create_agent` does; refuse tools.

        Raises:
            NotImplementedError: There are tools, or there is no `response_format`.
        """
        if tools or "response_format" not in kwargs:
            raise NotImplementedError(
                "ChatMAI calls no tools: give an agent another chat model, and the cascade as its "
                "tool with `create_vision_tool`."
            )
        return self.bind(response_format=kwargs["response_format"])

    @override
    def with_structured_output(
        self, schema: Any, *, include_raw: bool = False, **kwargs: Any
    ) -> Runnable[LanguageModelInput, Any]:
        """Return a model whose answer is an object, agreed field by field.

        Args:
            schema: A pydantic model, a TypedDict or a JSON schema of an object.
            include_raw: Whether the message is returned too, as "raw" beside "parsed" and
                "parsing_error".
            kwargs: What other chat models take here; not used.

        Returns:
            A pydantic object for a pydantic model, else a dict.
        """
        form = convert_to_json_schema(schema)
        about = {"kwargs": {"method": "json_schema"}, "schema": form}
        model = self.bind(schema=form, ls_structured_output_format=about)
        parser: Any = JsonOutputParser()
        if is_basemodel_subclass(schema):
            parser = PydanticOutputParser(pydantic_object=schema)
        if not include_raw:
            chain: Runnable[LanguageModelInput, Any] = model | parser
            return chain
        parsed = RunnablePassthrough.assign(
            parsed=itemgetter("raw") | parser, parsing_error=lambda _: None
        )
        failed = RunnablePassthrough.assign(parsed=lambda _: None)
        with_error = parsed.with_fallbacks([failed], exception_key="parsing_error")
        return RunnableMap(raw=model) | with_error

    @override
    def _convert_input(self, model_input: LanguageModelInput) -> PromptValue:
        prompt = super()._convert_input(model_input)
        if isinstance(prompt, ChatPromptValue):
            messages = [_with_image_types(message) for message in prompt.messages]
            return ChatPromptValue(messages=messages)
        return prompt

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        config = _config(run_manager, CallbackManager)
        asked = _input(messages, kwargs)
        result = self.mai.invoke(asked, config, context=self._context(kwargs))
        return self._result(result, stop)

    async def _agenerate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: AsyncCallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        config = _config(run_manager, AsyncCallbackManager)
        asked = _input(messages, kwargs)
        result = await self.mai.ainvoke(asked, config, context=self._context(kwargs))
        return self._result(result, stop)

    def _stream(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> Iterator[ChatGenerationChunk]:
        result = self._generate(messages, stop, run_manager, **kwargs)
        chunk = _chunk(result)
        if run_manager:
            run_manager.on_llm_new_token(chunk.text, chunk=chunk)
        yield chunk

    async def _astream(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: AsyncCallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> AsyncIterator[ChatGenerationChunk]:
        result = await self._agenerate(messages, stop, run_manager, **kwargs)
        chunk = _chunk(result)
        if run_manager:
            await run_manager.on_llm_new_token(chunk.text, chunk=chunk)
        yield chunk

    def _context(self, kwargs: dict[str, Any]) -> MAIContext | None:
        own = {"max_tokens": self.max_tokens, "timeout": self.timeout}
        # LangChain itself passes `stream`, and with some wrappers `model`.
        called = {name: kwargs[name] for name in kwargs if name not in {"stream", "model", *_FORMS}}
        given = {name: value for name, value in own.items() if value is not None} | called
        if (limit := given.pop("max_tokens", None)) is not None:
            given = {"max_tokens_direct": limit, "max_tokens_transfer": limit} | given
        known = set(MAIContext.model_fields)
        if unknown := sorted(set(given) - known):
            raise ValueError(
                f"ChatMAI does not know {', '.join(map(repr, unknown))}; a call takes "
                f"{', '.join(sorted(known))}, max_tokens and stop."
            )
        if not given:
            return self.context
        former = self.context.model_dump() if self.context else {}
        return MAIContext(**(former | given))

    def _result(self, result: dict[str, Any], stop: list[str] | None) -> ChatResult:
        if waits_for_person(result):
            raise RuntimeError(
                "The run waits for a person, which a chat model cannot do: use the graph itself, "
                "or make it without `review`."
            )
        message: AIMessage = result["messages"][-1]
        given = message.response_metadata
        metadata = {
            **{key: given[key] for key in ("route", "fallback", "confidence", "images")},
            "calls": result["calls"],
            "model_name": self.model,
            "finish_reason": "stop",
        }
        if result.get("fields"):
            metadata["fields"] = result["fields"]
        text = _cut(str(message.text), self.stop if stop is None else stop)
        # An id of its own: with `subgraphs=True` the message of the run inside is streamed, too,
        # and whoever puts chunks together by their ids would read the answer twice.
        changed = {"content": text, "response_metadata": metadata, "id": str(uuid4())}
        return ChatResult(generations=[ChatGeneration(message=message.model_copy(update=changed))])


def _input(messages: list[BaseMessage], kwargs: dict[str, Any]) -> MAIInput:
    """Return the input of a run; a call may have a `schema`, or OpenAI's `response_format`."""
    asked: MAIInput = {"messages": cast("Any", list(messages))}
    schema = kwargs.get("schema")
    if schema is None and (form := kwargs.get("response_format")):
        schema = form.get("json_schema", {}).get("schema")
    if schema is not None:
        asked["schema"] = schema
    return asked


def _config(
    run_manager: BaseRunManager | None, kind: type[CallbackManager | AsyncCallbackManager]
) -> RunnableConfig:
    """Return the config of the run inside: traced below the chat model's own run, not streamed."""
    config: RunnableConfig = {"tags": ["nostream"]}
    if run_manager is not None:
        config["callbacks"] = kind(
            handlers=run_manager.inheritable_handlers,
            inheritable_handlers=run_manager.inheritable_handlers,
            parent_run_id=run_manager.run_id,
            inheritable_tags=run_manager.inheritable_tags,
            inheritable_metadata=run_manager.inheritable_metadata,
        )
    return config


def _cut(text: str, stop: list[str] | None) -> str:
    ends = [text.find(end) for end in stop or () if end and end in text]
    return text[: min(ends)] if ends else text


def _chunk(result: ChatResult) -> ChatGenerationChunk:
    fields = result.generations[0].message.model_dump(exclude={"type"})
    return ChatGenerationChunk(message=AIMessageChunk(**fields, chunk_position="last"))


def _with_image_types(message: BaseMessage) -> BaseMessage:
    """Return the message with a `mime_type` in each base64 image block.

    LangChain refuses a block without one before the chat model sees it. Any will do: the type is
    read from the bytes where the image is decoded.
    """
    if isinstance(message.content, str):
        return message
    content = [
        {"mime_type": "image/png", **block} if is_image_block(block) else block  # type: ignore[dict-item]
        for block in message.content
    ]
    return message.model_copy(update={"content": content})
