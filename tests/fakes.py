"""Chat models that answer from a script, prompts that they can tell apart, and a question."""

import asyncio
import base64
import io
import re
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from langchain_core.callbacks import CallbackManagerForLLMRun
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from PIL import Image
from pydantic import Field

from langgraph_mai.configs import PromptsConfig
from langgraph_mai.models.attention import Attention
from langgraph_mai.models.errors import ContextLengthError, ModelError

PROMPTS = PromptsConfig.model_validate(
    {
        "system": "You answer.",
        "direct": {"instruction": "DIRECT", "max_tokens": 4},
        "explain": {"instruction": "EXPLAIN", "max_tokens": 32},
        "reason": {"instruction": "REASON", "max_tokens": 64},
        "transfer": {"instruction": "TRANSFER [{reasoning}]", "max_tokens": 5},
    }
)


def png(color: str = "red", size: tuple[int, int] = (40, 40)) -> bytes:
    """A picture of one colour, as a file."""
    stream = io.BytesIO()
    Image.new("RGB", size, color).save(stream, "PNG")
    return stream.getvalue()


def data_uri(color: str = "red") -> str:
    return "data:image/png;base64," + base64.b64encode(png(color)).decode()


def block(color: str = "red") -> dict[str, str]:
    """The picture as a content block."""
    data = base64.b64encode(png(color)).decode()
    return {"type": "image", "base64": data, "mime_type": "image/png"}


QUESTION = {"question": "Is it red?", "images": [data_uri()]}


class ScriptedModel(BaseChatModel):
    """Answers each prompt style from `script`: a text, an exception, or a function of the prompt.

    Attributes:
        script: What to answer, by style.
        finish: Finish reasons that are not "stop", by style.
        delay: Seconds that a call takes.
        before: Called at the start of every call, in the call's thread.
        calls: Style, prompt text and settings of every call so far.
    """

    script: dict[str, Any]
    finish: dict[str, str] = Field(default_factory=dict)
    delay: float = 0.0
    before: Callable[[], None] | None = None
    calls: list[dict[str, Any]] = Field(default_factory=list)
    label: str = "scripted"
    max_tokens: int = 512

    @property
    def _llm_type(self) -> str:
        return "scripted"

    @property
    def _identifying_params(self) -> dict[str, Any]:
        return {"label": self.label}

    @property
    def styles(self) -> list[str]:
        return [call["style"] for call in self.calls]

    def _reply(self, messages: list[BaseMessage], kwargs: dict[str, Any]) -> tuple[str, str]:
        prompt = str(messages[-1].text)
        marks = {"DIRECT": "direct", "EXPLAIN": "explain", "REASON": "reason"}
        *_, last = (line for line in prompt.splitlines() if "Answer with JSON" not in line)
        style = marks.get(last)
        if style is None:
            style = "judge" if "Do both say the same?" in prompt else "transfer"
        images = sum(isinstance(b, dict) and b.get("type") == "image" for b in messages[-1].content)
        self.calls.append({"style": style, "prompt": prompt, "images": images, **kwargs})
        if self.before:
            self.before()
        reply = self.script[style]
        if callable(reply):
            reply = reply(prompt)
        if isinstance(reply, Exception):
            raise reply
        return reply, self.finish.get(style, "stop")

    def _usage(self, text: str) -> dict[str, Any]:
        written = len(text.split())
        return {
            "input_tokens": 100,
            "output_tokens": written,
            "total_tokens": 100 + written,
            "input_token_details": {"cache_read": 10},
        }

    def _generate(self, messages, stop=None, run_manager=None, **kwargs: Any) -> ChatResult:
        text, finish = self._reply(messages, kwargs)
        time.sleep(self.delay)
        drafted = _drafted(kwargs)
        return self._result(text, finish, *([drafted] if drafted else []))

    async def _agenerate(self, messages, stop=None, run_manager=None, **kwargs: Any) -> ChatResult:
        text, finish = await asyncio.to_thread(self._reply, messages, kwargs)
        await asyncio.sleep(self.delay)
        drafted = _drafted(kwargs)
        return self._result(text, finish, *([drafted] if drafted else []))

    def check_draft(self, draft: object, *, files: bool = False) -> None:
        """Any model may write ahead of one that computes nothing."""

    def _result(self, text: str, finish: str, drafted: dict[str, int] | None = None) -> ChatResult:
        message = AIMessage(
            content=text,
            usage_metadata=self._usage(text),
            response_metadata={
                "finish_reason": finish,
                "model_name": self.label,
                **(drafted or {}),
            },
        )
        return ChatResult(generations=[ChatGeneration(message=message)])


def _drafted(settings: dict[str, Any]) -> dict[str, int]:
    """What a model says of a draft's tokens, if it was given a draft."""
    return {"drafted_tokens": 8, "accepted_tokens": 6} if settings.get("draft") else {}


class StreamingModel(ScriptedModel):
    """The same, word by word."""

    def _stream(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> Iterator[ChatGenerationChunk]:
        text, finish = self._reply(messages, kwargs)
        words = text.split(" ")
        for number, word in enumerate(words):
            last = number == len(words) - 1
            message = AIMessageChunk(content=word if number == 0 else f" {word}")
            if last:
                message.usage_metadata = self._usage(text)
                message.response_metadata = {"finish_reason": finish, **_drafted(kwargs)}
                message.chunk_position = "last"
            chunk = ChatGenerationChunk(message=message)
            if run_manager:
                run_manager.on_llm_new_token(chunk.text, chunk=chunk)
            yield chunk


LAYERS = 4


class AttentiveModel(StreamingModel):
    """The same, and it attends to words: each is a token, with the white space before it.

    Attributes:
        attends: The weight of a word, by the word and its layer; or an exception.
        room: Words that a prompt may have.
        pause: Seconds that a pass takes.
        passes: The stretch that was asked for, and the other arguments, of every pass so far.
        given_up: How many passes were cancelled.
    """

    attends: Any = lambda word, layer: float(word.strip("[]") in {"Answer:", "no"})
    room: int = 10_000
    pause: float = 0.0
    passes: list[dict[str, Any]] = Field(default_factory=list)
    given_up: int = 0

    def attention(
        self, messages, span, *, layers=None, query=-1, heads=False, timeout=None
    ) -> Attention:
        time.sleep(self.pause)
        return self._attention(messages, span, layers, query, timeout)

    async def aattention(
        self, messages, span, *, layers=None, query=-1, heads=False, timeout=None
    ) -> Attention:
        try:
            await asyncio.sleep(self.pause)
        except asyncio.CancelledError:
            self.given_up += 1
            raise
        return await asyncio.to_thread(self._attention, messages, span, layers, query, timeout)

    def _attention(self, messages, span, layers, query, timeout) -> Attention:
        text, (start, end) = str(messages[-1].text), span
        asked = {"stretch": text[start:end], "layers": layers, "query": query, "timeout": timeout}
        self.passes.append(asked)
        if isinstance(self.attends, Exception):
            raise self.attends
        read = range(1, LAYERS + 1) if layers == "all" else layers or [2]
        if max(read) > LAYERS:
            raise ModelError(f"The model has {LAYERS} layers, and no layer {max(read)}.")
        words = list(re.finditer(r"\s*\S+|\s+$", text))
        if len(words) > self.room:
            raise ContextLengthError("It is too long.", limit=self.room, length=len(words))
        inside = [word for word in words if start < word.end() and word.start() < end]
        weights = [[self.attends(word.group().strip(), at) for word in inside] for at in read]
        return Attention(
            token_ids=tuple(range(len(inside))),
            spans=tuple(
                (max(word.start(), start) - start, min(word.end(), end) - start) for word in inside
            ),
            special=tuple(word.group().strip() == "<end>" for word in inside),
            layers=tuple(read),
            weights=np.array(weights, dtype=np.float32),
            heads=None,
            query=len(words) + query,
            input_tokens=len(words),
            cached_tokens=3,
            seconds=self.pause,
        )


class ScriptedPlanner(BaseChatModel):
    """An agent's planner that says what the test wrote down, one message a call.

    Attributes:
        said: What it still has to say.
        prompts: The messages of every call so far.
    """

    said: list[AIMessage]
    prompts: list[list[BaseMessage]] = Field(default_factory=list)

    @property
    def _llm_type(self) -> str:
        return "planner"

    def bind_tools(self, tools, **_: Any):
        return self

    def _generate(self, messages, stop=None, run_manager=None, **kwargs: Any) -> ChatResult:
        self.prompts.append(messages)
        return ChatResult(generations=[ChatGeneration(message=self.said.pop(0))])


def scripts(route: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """What a small and a large model say about "Is it red?" so that a run takes a route."""
    small = {
        "direct": "yes" if route == "direct" else "no",
        "reason": "It looks red.\nAnswer: yes" if route == "reasoned" else "Hm.\nAnswer: no",
        "explain": "It is red.\nAnswer: yes",
        "transfer": "no",
    }
    large = {
        "direct": "yes",
        "transfer": "yes",
        "reason": "I see red.\nAnswer: yes",
        "explain": "Red.\nAnswer: yes",
    }
    return small, large


def models(
    route: str = "direct", kind: type[ScriptedModel] = ScriptedModel, **settings: Any
) -> tuple[ScriptedModel, ScriptedModel]:
    """A small and a large model that take a route."""
    small, large = scripts(route)
    return (
        kind(script=small, label="small", **settings),
        kind(script=large, label="large", **settings),
    )
