"""One call of one agent: a task and a prompt style in, a `ModelCall` out."""

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Literal

from langchain_core.language_models import BaseChatModel

from ..answers import Answer, parse
from ..configs import ConfigError, PromptsConfig, load_prompts
from ..models.capabilities import chat_models
from ..models.images import ImageAccess, ImageError, cached_image
from .call_cache import CallCache
from .caller import Caller, ChatModel, Node, Request, Update, emit, finish
from .confidence import answer_probability
from .fields import most_tokens, read_fields, wanted_schema
from .prepare import read_images
from .prompts import (
    build_messages,
    question_text,
    reasoning_span,
    schema_instruction,
    style_instruction,
    transfer_instruction,
)
from .reasoning import cut_reasoning
from .reply import Reply
from .state import CallStyle, ModelCall, Role, RunState, Task, Value

PromptStyle = Literal["direct", "explain", "reason", "transfer"]
ReadingStyle = Literal["direct", "explain", "reason"]
"""Those without a transferred reasoning."""

_LONG_ANSWER = 300
"""From so many characters on, a direct answer that is cut is one that thinks first."""


@dataclass(frozen=True, slots=True)
class Agent:
    """A model in its role.

    Attributes:
        role: Small or large.
        model: Any chat model that takes images.
        prompts: The texts around a question.
        timeout: Seconds that one call may take; None for no limit.
        access: From where images may be read.
        draft: A draft model for speculative decoding, if there is one; see `create_strategy`.
    """

    role: Literal["small", "large"]
    model: ChatModel
    prompts: PromptsConfig
    timeout: float | None = None
    access: ImageAccess = field(default_factory=ImageAccess)
    draft: BaseChatModel | None = None


def agent_node(
    name: str, agent: Agent, style: ReadingStyle, cache: CallCache | None = None
) -> Node:
    """Make a node that calls one agent in one style, and writes the call under `ROLE_STYLE`."""

    async def steps(state: RunState, caller: Caller) -> Update:
        emit({"event": "stage", "stage": name, "role": agent.role, "style": style})
        reply = await ask(caller, agent, style, state["task"], state)
        return {f"{agent.role}_{style}": record(agent.role, style, reply, state["task"])}

    return Node(name, steps, cache)


def call_model(agent: Agent, style: ReadingStyle, task: Task) -> ModelCall:
    """Call an agent outside of a graph; if the call failed, its `error` says why."""
    reply = finish(ask(Caller({}), agent, style, task, {}))
    return record(agent.role, style, reply, task)


async def ask(
    caller: Caller,
    agent: Agent,
    style: PromptStyle,
    task: Task,
    state: RunState,
    reasoning: str = "",
) -> Reply:
    """Call an agent and return its reply; an image that is gone is a failed call."""
    try:
        request = await request_of(caller, agent, style, task, state, reasoning)
    except ImageError as error:
        return Reply(0.0, error=f"The {agent.role} model's {style} call failed: {error}")
    return await caller.reply(request)


async def request_of(
    caller: Caller, agent: Agent, style: PromptStyle, task: Task, state: RunState, reasoning: str
) -> Request:
    """Return `agent_request`, whose files are read where that may block."""
    arguments = (agent, style, task, reasoning, state)
    reads = "prompts" in task.get("settings", {})
    if caller.in_loop and (reads or not all(cached_image(one["digest"]) for one in task["images"])):
        return await caller.run(agent_request, *arguments)
    return agent_request(*arguments)


def agent_request(
    agent: Agent,
    style: PromptStyle,
    task: Task,
    reasoning: str = "",
    state: RunState | None = None,
) -> Request:
    """Return the request of a call: prompt, images and limits.

    Requests about one task share the first part of their prompts, byte for byte.

    Args:
        agent: Who is called.
        style: The prompt style.
        task: The question.
        reasoning: A finished reasoning, for "transfer"; white space around it is left out.
        state: The run's state, for images inside it that are decoded no more.

    Raises:
        ImageError: An image cannot be read again.
    """
    settings = task.get("settings", {})
    prompts = load_prompts(settings["prompts"]) if "prompts" in settings else agent.prompts
    answer_type = task["answer_type"]
    question = question_text(prompts, task["question"], task["choices"])
    span = None
    if style == "transfer":
        instruction = transfer_instruction(prompts, reasoning, answer_type)
        span = reasoning_span(prompts, question, reasoning, answer_type)
    else:
        instruction = style_instruction(prompts, style, answer_type)
    schema = wanted_schema(task, (state or {}).get("disputed")) if "schema" in task else None
    most = getattr(prompts, style).max_tokens
    if schema:
        instruction += schema_instruction(schema.forms())
        most = max(most, most_tokens(schema))
    blocks = [image.block for image in read_images(task, state or {}, agent.access)]
    return Request(
        model=agent.model,
        role=agent.role,
        style=style,
        messages=build_messages(prompts, blocks, question, instruction),
        images=[image["digest"] for image in task["images"]],
        max_tokens=settings.get(f"max_tokens_{style}") or most,
        timeout=settings.get("timeout") or agent.timeout,
        draft=agent.draft,
        span=span,
        schema=schema.json_schema() if schema and style in {"direct", "transfer"} else None,
    )


def record(role: Role, style: CallStyle, reply: Reply, task: Task) -> ModelCall:
    """Return a call's record; the output is parsed here, once, to a typed value."""
    cut: Literal["length", "loop"] | None = None
    text = reply.text
    if style in {"explain", "reason"} or len(text) > _LONG_ANSWER:
        reasoning = cut_reasoning(text, reply.finish_reason)
        cut = reasoning.cut
        # Unfinished thoughts name many values: only what is called the answer is read.
        if cut:
            called = re.search(r"\banswer\W{0,4}(:|is\b)", reasoning.text, re.IGNORECASE)
            text = reasoning.text if called else ""
    elif style != "judge" and reply.finish_reason == "length":
        cut = "length"
    answer = parse(text, task["answer_type"], task["choices"], task["question"])
    read = answer.value is not None
    shown, value = answer.shown if read else None, plain_value(answer)
    if "schema" in task:
        shown, value = read_fields(task, reply.text, reply.logprobs)
    call: ModelCall = {
        "role": role,
        "style": style,
        "text": reply.text,
        "reasoning": reply.reasoning,
        "images": 0 if style == "judge" else len(task["images"]),
        "answer": shown,
        "value": value,
        "unit": answer.unit if read else "",
        "kind": task["answer_type"],
        "input_tokens": reply.input_tokens,
        "output_tokens": reply.output_tokens,
        "cached_tokens": reply.cached_tokens,
        "seconds": reply.seconds,
        "finish_reason": reply.finish_reason,
        "cut": cut,
        "probability": answer_probability(
            reply.text, answer.shown, answer.kind, len(task["choices"]), reply.logprobs
        )
        if read and reply.logprobs
        else None,
        "error": reply.error,
        "cached": reply.cached,
    }
    if reply.drafted_tokens is not None:
        call["drafted_tokens"] = reply.drafted_tokens
        call["accepted_tokens"] = reply.accepted_tokens or 0
    return call


def whole_reasoning(call: ModelCall) -> str:
    """Return what a call thought and wrote, as it is transferred and shown."""
    return "\n".join(part for part in (call["reasoning"].strip(), call["text"]) if part)


def plain_value(answer: Answer) -> Value:
    """Return an answer's value as plain data."""
    return list(answer.value) if isinstance(answer.value, tuple) else answer.value


def read_answer(call: ModelCall, task: Task | None = None) -> Answer:
    """Return the answer of a call; parsed again only if a person has changed it in the state.

    Args:
        call: The call.
        task: The question, where the answer may have been changed.
    """
    shown, value = call["answer"] or "", call["value"]
    kept: Any = tuple(value) if isinstance(value, list) else value
    answer = Answer(kind=call["kind"], value=kept, text=shown, unit=call["unit"])
    typed = isinstance(kept, bool | float) or call["kind"] == "choice"
    as_read = kept is not None and answer.shown == shown and (typed or shown in call["text"])
    if task is None or not shown or as_read:
        return answer
    return parse(shown, call["kind"], task["choices"], task["question"])


def accept_rate(calls: Iterable[ModelCall]) -> float | None:
    """Return the share of drafted tokens that are in the outputs; None if none was drafted."""
    drafted = accepted = 0
    for call in calls:
        drafted += call.get("drafted_tokens", 0)
        accepted += call.get("accepted_tokens", 0)
    return accepted / drafted if drafted else None


def check_chat_model(model: Any, name: str) -> None:
    """Raise `ConfigError` for what is no chat model, with the argument's name."""
    if chat_models(model):
        return
    given = f"the class {model.__name__}" if isinstance(model, type) else type(model).__name__
    raise ConfigError(
        f"`{name}` must be a chat model (also one with .bind, .with_config, .with_retry or "
        f".with_fallbacks), not {given}."
    )


def check_timeout(timeout: Any) -> None:
    """Raise `ConfigError` for what is no number of seconds that a call could meet."""
    number = isinstance(timeout, int | float) and not isinstance(timeout, bool)
    if timeout is not None and not (number and 0 < timeout < float("inf")):
        raise ConfigError(
            f"`timeout` must be a number of seconds above 0, or None for no limit, not {timeout!r}."
        )
