"""The large agent: answers at once, beside the small one."""

from typing import Literal

from .model_call import Agent
from .small_agent import model_step
from .step import ModelStep


def large_agent(agent: Agent, style: Literal["direct", "explain"] = "direct") -> ModelStep:
    """The large model's answer in style S (or, as a strategy, E)."""
    return model_step("large_agent", agent, style)


def large_reasoning(agent: Agent) -> ModelStep:
    """The large model's reasoning, style R: what the cascade saves, and strategies measure."""
    return model_step("large_reasoning", agent, "reason")
