"""One call of one agent: a task and a prompt style in, a `ModelCall` out."""

import asyncio
import re
from dataclasses import dataclass, replace
from typing import Any, Literal

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import BaseMessage
from langchain_core.runnables import RunnableConfig

from ..answers import Answer, parse
from ..configs import PromptsConfig, load_prompts
from ..models.images import ImageError, image_block
from .chat_models import ChatModel
from .finish_reason import finish_reason
from .prompts import build_messages, question_text, style_instruction, transfer_instruction
from .reasoning import cut_reasoning
from .request import Reply, Request, asend, failed, send
from .state import CallStyle, ModelCall, Role, Task

PromptStyle = Literal["direct", "explain", "reason", "transfer"]


@dataclass(frozen=True, slots=True)
class Agent:
    """A model in its role.

    Attributes:
        role: Small or large.
        model: Any chat model that takes images.
        prompts: The texts around a question.
        timeout: Seconds that one call may take; None for no limit.
        allow_fetch: Whether the model may be given http(s) images.
        draft: A model that writes ahead of it, if there is one; see `drafts.with_draft`.
    """

    role: Literal["small", "large"]
    model: ChatModel
    prompts: PromptsConfig
    timeout: float | None = None
    allow_fetch: bool = False
    draft: BaseChatModel | None = None


def call_model(
    agent: Agent, style: PromptStyle, task: Task, config: RunnableConfig, reasoning: str = ""
) -> ModelCall:
    """Ask in one prompt style and read the answer.

    Args:
        agent: Who is asked.
        style: The prompt style; "transfer" hands over `reasoning`.
        task: What is asked.
        config: The running node's config.
        reasoning: A finished reasoning, as it is to be read.

    Returns:
        The call; if it failed, its `error` says why.
    """
    return record(agent.role, style, ask(agent, style, task, config, reasoning), task)


async def acall_model(
    agent: Agent, style: PromptStyle, task: Task, config: RunnableConfig, reasoning: str = ""
) -> ModelCall:
    """`call_model` for the event loop; images are read in a thread."""
    return record(agent.role, style, await aask(agent, style, task, config, reasoning), task)


def ask(
    agent: Agent, style: PromptStyle, task: Task, config: RunnableConfig, reasoning: str = ""
) -> Reply:
    """`call_model` without the reading: what came back, or why nothing did."""
    try:
        request = agent_request(agent, style, task, reasoning)
    except ImageError as error:
        return failed(agent.role, style, error)
    return send(request, config)


async def aask(
    agent: Agent, style: PromptStyle, task: Task, config: RunnableConfig, reasoning: str = ""
) -> Reply:
    """`ask` for the event loop."""
    try:
        request = await asyncio.to_thread(agent_request, agent, style, task, reasoning)
    except ImageError as error:
        return failed(agent.role, style, error)
    return await asend(request, config)


def agent_request(agent: Agent, style: PromptStyle, task: Task, reasoning: str = "") -> Request:
    """The request of a call: prompt, images and limits."""
    agent = with_settings(agent, task)
    return Request(
        model=agent.model,
        role=agent.role,
        style=style,
        messages=task_messages(agent, style, task, reasoning),
        max_tokens=answer_limit(agent, style, task),
        timeout=agent.timeout,
        draft=agent.draft,
    )


def answer_limit(agent: Agent, style: PromptStyle, task: Task) -> int:
    """How long an output may be, in tokens."""
    limits = task.get("settings", {}).get("max_tokens", {})
    prompts = with_settings(agent, task).prompts
    limit: int = limits.get(style, getattr(prompts, style).max_tokens)
    return limit


def task_messages(
    agent: Agent, style: PromptStyle, task: Task, reasoning: str = ""
) -> list[BaseMessage]:
    """The prompt of a call; those about one task share their first part, byte for byte."""
    prompts = agent.prompts
    if style == "transfer":
        instruction = transfer_instruction(prompts, reasoning, task["answer_type"])
    else:
        instruction = style_instruction(prompts, style, task["answer_type"])
    blocks = [image_block(image, allow_fetch=agent.allow_fetch) for image in task["images"]]
    question = question_text(prompts, task["question"], task["choices"])
    return build_messages(prompts, blocks, question, instruction)


def with_settings(agent: Agent, task: Task) -> Agent:
    """The agent, as the run's context wants it."""
    settings = task.get("settings", {})
    if prompts := settings.get("prompts"):
        agent = replace(agent, prompts=load_prompts(prompts))
    if timeout := settings.get("timeout"):
        agent = replace(agent, timeout=timeout)
    return agent


def record(role: Role, style: CallStyle, reply: Reply, task: Task) -> ModelCall:
    """A call's record: text and answer, tokens and seconds."""
    text = str(reply.message.text)
    reason = finish_reason(reply.message)
    reasons = style in {"explain", "reason"}
    usage: dict[str, Any] = dict(reply.message.usage_metadata or {})
    call: ModelCall = {
        "role": role,
        "style": style,
        "text": text,
        "answer": None,
        "kind": task["answer_type"],
        "input_tokens": usage.get("input_tokens"),
        "output_tokens": usage.get("output_tokens"),
        "cached_tokens": usage.get("input_token_details", {}).get("cache_read"),
        "seconds": reply.seconds,
        "finish_reason": reason,
        "cut": cut_reasoning(text, reason).cut if reasons else None,
        "error": reply.error,
    }
    said = reply.message.response_metadata
    if "drafted_tokens" in said:
        call["drafted_tokens"] = said["drafted_tokens"]
        call["accepted_tokens"] = said["accepted_tokens"]
    answer = read_answer(call, task)
    call["answer"] = None if answer.value is None else answer.shown
    return call


def read_answer(call: ModelCall, task: Task) -> Answer:
    """The answer in a call's text; an abstention if the call failed or its text holds none.

    Unfinished thoughts name many values: from a reasoning that was cut, only what is called the
    answer is read.
    """
    text = call["text"]
    if call["cut"] in {"length", "loop"}:
        text = cut_reasoning(text).text
        if not re.search(r"\banswer\W{0,4}(:|is\b)", text, re.IGNORECASE):
            text = ""
    return parse(text, task["answer_type"], task["choices"], task["question"])
