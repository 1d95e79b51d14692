"""The small agent: answers at once, and reasons where that was not enough."""

from typing import Literal

from langchain_core.runnables import RunnableConfig

from .model_call import Agent, acall_model, call_model
from .state import RunState
from .step import ModelStep, Update


def small_agent(agent: Agent, style: Literal["direct", "explain"] = "direct") -> ModelStep:
    """The small model's answer in style S (or, as a strategy, E)."""
    return model_step("small_agent", agent, style)


def small_reasoning(agent: Agent) -> ModelStep:
    """The small model's reasoning, style R, with an answer on its last line."""
    return model_step("small_reasoning", agent, "reason")


def model_step(name: str, agent: Agent, style: Literal["direct", "explain", "reason"]) -> ModelStep:
    """A step that asks one model in one style, and writes the call under `ROLE_STYLE`."""
    key = f"{agent.role}_{style}"

    def run(state: RunState, config: RunnableConfig) -> Update:
        return {key: call_model(agent, style, state["task"], config)}

    async def arun(state: RunState, config: RunnableConfig) -> Update:
        return {key: await acall_model(agent, style, state["task"], config)}

    return ModelStep(name, agent, style, run, arun)
