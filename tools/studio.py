"""The agent that `langgraph.json` names: a planner, and the cascade as its tool.

`LANGGRAPH_MAI_PLANNER` names a language model for `init_chat_model`; without one a relay plans,
offline and without a key.
"""

import os
from typing import Annotated, NotRequired

from langchain.agents import AgentState, create_agent
from pydantic import Field

from ..graph.studio import mai
from ..nodes.settings import MAIContext
from .relay_planner import RelayPlanner
from .vision_tool import create_vision_tool


class Album(AgentState[None]):
    """A conversation about images.

    Attributes:
        images: References of the images; without them, those inside the messages.
    """

    images: NotRequired[
        Annotated[
            list[str],
            Field(
                description="The images: a path or an http(s) URL each, in order.",
                examples=[["demo/pictures/chart.png"]],
            ),
        ]
    ]


agent = create_agent(
    os.environ.get("LANGGRAPH_MAI_PLANNER") or RelayPlanner(),
    [create_vision_tool(mai)],
    system_prompt="You answer questions about images. Look at them with your tool.",
    state_schema=Album,
    context_schema=MAIContext,
    name="agent",
)
"""An agent with the cascade as its tool."""
