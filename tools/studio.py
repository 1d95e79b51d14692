"""The agent that `langgraph.json` names: a planner, and the cascade as its eyes.

`LANGGRAPH_MAI_PLANNER` names a language model for `init_chat_model`; without one a relay plans,
offline and without a key. Where a package is missing, the graph says so when it runs: the server
starts all the same, with the other graphs.
"""

import os
from typing import Annotated, Any, NotRequired

from langgraph.channels import UntrackedValue
from langgraph.graph import START, MessagesState, StateGraph
from pydantic import Field

from ..graph.studio import mai
from ..nodes.settings import MAIContext
from ..nodes.state import MAIError
from .relay_planner import RelayPlanner


def _create_agent() -> Any:
    from langchain.agents import AgentState, create_agent

    from .vision_middleware import VisionMiddleware

    class Album(AgentState[None]):
        """A conversation about images.

        Attributes:
            images: References of a run's images; the conversation remembers them.
        """

        images: NotRequired[
            Annotated[
                list[str],
                UntrackedValue,
                Field(
                    description="The images: a path or an http(s) URL each, in order.",
                    examples=[["demo/pictures/chart.png"]],
                ),
            ]
        ]

    return create_agent(
        os.environ.get("LANGGRAPH_MAI_PLANNER") or RelayPlanner(),
        middleware=[VisionMiddleware(mai)],
        system_prompt="You answer questions about images. Look at them with your tool.",
        state_schema=Album,
        context_schema=MAIContext,
        name="agent",
    )


def _create_substitute(reason: ImportError) -> Any:
    def tell(_: MessagesState) -> Any:
        raise MAIError(
            f"The graph `agent` cannot run here ({reason}); install what it needs with: "
            'pip install "langgraph-mai[agents]"'
        )

    graph: Any = StateGraph(MessagesState)
    graph.add_node("tell", tell)
    return graph.add_edge(START, "tell").compile(name="agent")


try:
    agent = _create_agent()
except ImportError as error:
    agent = _create_substitute(error)
