"""A pair's strategies and its two models, by the names that requests use."""

import asyncio
import json
import os
import re
from collections.abc import Callable
from functools import lru_cache
from typing import Any, cast, get_args

from langchain_core.exceptions import ContextOverflowError
from langchain_core.messages import AIMessageChunk, BaseMessage, HumanMessage
from langsmith import trace
from PIL import Image

from ..configs import ConfigError
from ..graph import STRATEGIES, create_strategy
from ..graph.build import MAIGraph
from ..graph.strategies import TRANSFER_STRATEGIES, unavailable
from ..models.errors import ModelError
from ..models.images import ImageError, block_image
from ..models.pairs import Pair
from ..nodes.gate import Gate
from ..nodes.settings import MAIContext
from ..nodes.state import MAX_SCHEMA, MAX_TEXT, CallStyle, MAIError, MAIInputError, ModelCall
from .metrics import ROLES, Metrics
from .protocol import ChatRequest, Completion, RequestError

Emit = Callable[[dict[str, str]], object]
"""Takes the next part of an answer, as the `delta` of a stream."""

_REASONING = {"explain", "reason"}
_TOLD = ("answer", "value", "route", "fallback", "confidence", "gate", "fields", "calls")
_FAILED_CALL = re.compile(
    rf"The (small|large) model's ({'|'.join(get_args(CallStyle))}) call failed: "
)


class Strategies:
    """Answers requests by what they name as their `model`; `names` are those that they may."""

    def __init__(
        self, pair: Pair, metrics: Metrics, *, timeout: float, allow_fetch: bool = False
    ) -> None:
        """Take a pair, where its calls are counted, and how many seconds each of them may take."""
        self._pair = pair
        self._metrics = metrics
        self._timeout = timeout
        self._allow_fetch = allow_fetch
        self._schemes = ("data:", "http://", "https://") if allow_fetch else ("data:",)
        self._gate = Gate(pair.gate, audit=pair.audit) if pair.gate else None
        self._graph = lru_cache(maxsize=64)(self._build)
        there = [name for name in STRATEGIES if not unavailable(name, pair.small, pair.large)]
        self.names = [*reversed(there), *ROLES]  # the cascade first

    def check(self, chat: ChatRequest) -> None:
        """Refuse what this pair cannot do.

        Raises:
            RequestError: With what to change.
        """
        if chat.model not in self.names:
            words = f"There is no model {chat.model!r:.80}; use one of {', '.join(self.names)}."
            raise RequestError(words, 404, param="model", code="model_not_found")
        if chat.model in ROLES and chat.mai.model_fields_set:
            words = f"{chat.model} is a model alone: it has no settings of the cascade."
            raise RequestError(words, param="mai")
        if chat.mai.transfer and chat.model not in TRANSFER_STRATEGIES:
            raise RequestError(f"{chat.model} transfers no reasoning.", param="mai.transfer")
        if chat.model == "speculative" and chat.temperature:
            raise RequestError("speculative decodes at temperature 0.", param="temperature")
        if sum(len(message.text) for message in chat.messages) > MAX_TEXT:
            words = f"The texts have more than {MAX_TEXT:,} characters together; shorten them."
            raise RequestError(words, param="messages", code="context_length_exceeded")
        if len(json.dumps(chat.form)) > MAX_SCHEMA:
            words = f"The schema has more than {MAX_SCHEMA:,} characters."
            raise RequestError(words, param="response_format")
        for url in (url for message in chat.messages for url in message.image_urls):
            if not url[:8].lower().startswith(self._schemes):
                words = "Send images as data URIs (data:image/png;base64,...)"
                also = ", or as http(s) URLs" if self._allow_fetch else "; none is fetched here"
                raise RequestError(f"{words}{also}.", param="messages")

    async def complete(self, chat: ChatRequest, emit: Emit | None = None) -> Completion:
        """Answer a request that was checked.

        Args:
            chat: The request.
            emit: Called with each part of the answer as it comes; None if nobody watches.

        Raises:
            RequestError: The input cannot be answered, or no model answers.
        """
        answer = self._alone if chat.model in ROLES else self._together
        try:
            # A run's metadata are sent when it begins; what is known at the end needs one around.
            with trace("chat.completions", metadata={"model": chat.model}) as run:
                done = await answer(chat, emit)
                if done.mai:
                    run.add_metadata({name: done.mai[name] for name in ("route", "confidence")})
        except (MAIInputError, ImageError, ConfigError) as error:
            raise RequestError(str(error)) from error
        except ContextOverflowError as error:
            raise RequestError(str(error), code="context_length_exceeded") from error
        except (MAIError, ModelError, TimeoutError) as error:
            words = str(error) or f"The {chat.model} model took more than {self._timeout:g} s."
            for role, style in _FAILED_CALL.findall(words) or [(chat.model, "alone")]:
                self._metrics.failed(role, style, words)
            late = isinstance(error, TimeoutError)
            raise RequestError(words, 504 if late else 502) from error
        return done

    async def probe(self, role: str) -> None:
        """Have a model read an image and generate a token, so that it is known to answer."""
        image = block_image({"image": Image.new("RGB", (64, 64))}).block
        prompt = HumanMessage([image, {"type": "text", "text": "What is it?"}])
        try:
            async with asyncio.timeout(self._timeout):
                await getattr(self._pair, role).ainvoke([prompt], max_tokens=1)
        except Exception as error:  # noqa: BLE001  whatever it is, the model does not answer
            self._metrics.note(role, " ".join(str(error).split()) or repr(error))
        else:
            self._metrics.note(role)

    async def _together(self, chat: ChatRequest, emit: Emit | None) -> Completion:
        context, messages = chat.split()
        limits = chat.max_tokens, chat.max_completion_tokens
        sparse = chat.mai.transfer == "sparse"
        graph = self._graph(chat.model, context, *limits, chat.temperature, chat.seed, sparse)
        asked = chat.mai.model_dump(include={"choices", "answer_type"}, exclude_none=True)
        asked |= {"messages": messages} | ({"schema": chat.form} if chat.form else {})
        timeout = min(chat.mai.timeout or self._timeout, self._timeout)
        result: dict[str, Any] = {}
        async for mode, event in graph.astream(
            cast("Any", asked),
            context=MAIContext(timeout=timeout),
            stream_mode=["messages", "values"] if emit else ["values"],
        ):
            if mode == "values":
                result = cast("dict[str, Any]", event)
            elif emit:
                token, metadata = cast("tuple[BaseMessage, dict[str, Any]]", event)
                if metadata.get("mai_style") in _REASONING:
                    _emit(emit, reasoning_content=_thought(token) or str(token.text))
        calls: list[ModelCall] = result["calls"]
        self._metrics.answered(chat.model, result["route"], result["fallback"], calls)
        answer = _cut(result["answer"], chat.stop or [])
        if emit:
            emit({"content": answer})
        thoughts = [call for call in calls if call["style"] in _REASONING]
        return Completion(
            content=answer,
            reasoning="\n\n".join(call["reasoning"] + call["text"] for call in thoughts),
            finish_reason="length" if calls[-1]["finish_reason"] == "length" else "stop",
            usage=result["messages"][-1].usage_metadata,
            reasoning_tokens=sum(call["output_tokens"] or 0 for call in thoughts),
            mai={name: result.get(name) for name in _TOLD},
        )

    async def _alone(self, chat: ChatRequest, emit: Emit | None) -> Completion:
        limits = [limit for limit in (chat.max_tokens, chat.max_completion_tokens) if limit]
        settings = chat.model_dump(include={"temperature", "seed", "stop"}, exclude_none=True)
        settings |= {"max_tokens": min(limits)} if limits else {}
        if chat.response_format and chat.form:
            settings["response_format"] = chat.response_format.model_dump(
                by_alias=True, exclude_none=True
            )
        messages = [message.as_langchain() for message in chat.messages]
        message = AIMessageChunk(content="")
        async with asyncio.timeout(self._timeout):
            async for chunk in getattr(self._pair, chat.model).astream(messages, **settings):
                message += chunk
                if emit:
                    _emit(emit, reasoning_content=_thought(chunk), content=str(chunk.text))
        self._metrics.answered(chat.model, "", None, [])
        if usage := message.usage_metadata:
            cached = usage.get("input_token_details", {}).get("cache_read")
            self._metrics.count_tokens(chat.model, usage, cached)
        cut = message.response_metadata.get("finish_reason") == "length"
        return Completion(
            str(message.text),
            _thought(message),
            finish_reason="length" if cut else "stop",
            usage=usage,
        )

    def _build(
        self,
        strategy: str,
        context: str,
        max_tokens: int | None,
        max_completion_tokens: int | None,
        temperature: float | None,
        seed: int | None,
        sparse: bool,
    ) -> MAIGraph:
        pair = self._pair
        changes: dict[str, Any] = {}
        if context:
            texts = (pair.prompts.system, context)
            changes["system"] = "\n\n".join(text for text in texts if text)
        for name in ("direct", "explain", "reason", "transfer"):
            style = getattr(pair.prompts, name)
            own = max_tokens if name not in _REASONING else None
            limits = [one for one in (style.max_tokens, max_completion_tokens, own) if one]
            changes[name] = style.model_copy(update={"max_tokens": min(limits)})
        prompts = pair.prompts.model_copy(update=changes)
        drawing = {"temperature": temperature, "seed": seed}
        drawing = {name: value for name, value in drawing.items() if value is not None}
        models = (pair.small, pair.large)
        # The gate is calibrated for the pair as it is.
        changed = prompts != pair.prompts or drawing or sparse
        return create_strategy(
            strategy,
            *(model.bind(**drawing) if drawing else model for model in models),
            prompts=prompts,
            transfer=pair.sparse if sparse else "full",
            selector=pair.selector,
            gate=None if changed else self._gate,
            timeout=self._timeout,
            allow_fetch=self._allow_fetch,
            image_root=os.devnull,  # no client names a file
        )


def _emit(emit: Emit, **parts: str) -> None:
    for name, text in parts.items():
        if text:
            emit({name: text})


def _thought(message: BaseMessage) -> str:
    """Return what a server's reasoning parser took out of a message."""
    return str(message.additional_kwargs.get("reasoning_content") or "")


def _cut(text: str, stops: list[str]) -> str:
    """Return the text before the first of some strings."""
    return min((text.partition(stop)[0] for stop in stops if stop), key=len, default=text)
