"""An agent's planner that is no language model: it passes each question to a tool."""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any
from uuid import uuid4

from langchain_core.callbacks import CallbackManagerForLLMRun
from langchain_core.language_models import BaseChatModel, LanguageModelInput
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.runnables import Runnable
from langchain_core.tools import BaseTool
from langchain_core.utils.function_calling import convert_to_openai_tool

# What `VisionMiddleware` tells a planner.
_IMAGE_NUMBER = re.compile(r"\[image( \d+)?\]\s*")


class RelayPlanner(BaseChatModel):
    """Runs an agent without a language model, offline and without a key.

    It calls one tool with the text of the last human message as its `question`, and answers with
    the tool's message. So an agent can be tried, tested and shown in Studio with the vision models
    alone; a language model in its place plans for itself.

    Attributes:
        tool: The name of the tool that is called; None for the first one that takes a `question`.
    """

    tool: str | None = None

    @property
    def _llm_type(self) -> str:
        return "langgraph-mai-relay"

    def bind_tools(
        self,
        tools: Sequence[dict[str, Any] | type | Callable[..., Any] | BaseTool],
        *,
        tool_choice: str | None = None,  # noqa: ARG002  there is no choice
        **kwargs: Any,
    ) -> Runnable[LanguageModelInput, AIMessage]:
        """The planner, with tools to choose from."""
        return self.bind(tools=[convert_to_openai_tool(tool) for tool in tools], **kwargs)

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,  # noqa: ARG002
        run_manager: CallbackManagerForLLMRun | None = None,  # noqa: ARG002
        **kwargs: Any,
    ) -> ChatResult:
        last = messages[-1] if messages else None
        if isinstance(last, ToolMessage):
            message = AIMessage(content=str(last.text))
        else:
            message = self._call(messages, kwargs.get("tools", []))
        return ChatResult(generations=[ChatGeneration(message=message)])

    def _call(self, messages: list[BaseMessage], tools: list[dict[str, Any]]) -> AIMessage:
        question = next((m.text for m in reversed(messages) if isinstance(m, HumanMessage)), "")
        question = _IMAGE_NUMBER.sub("", str(question))
        name = self.tool or next((t["function"]["name"] for t in tools if _asks(t)), None)
        if name is None:
            raise ValueError("The planner has no tool that takes a `question`; give it one.")
        if not question.strip():
            return AIMessage(content="Ask a question about an image.")
        call = {"name": name, "args": {"question": question}, "id": str(uuid4())}
        return AIMessage(content="", tool_calls=[call])


def _asks(tool: Mapping[str, Any]) -> bool:
    return "question" in tool["function"].get("parameters", {}).get("properties", {})
