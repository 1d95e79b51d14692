"""The graphs that `langgraph.json` names, for Studio, chat pages, MCP and the LangGraph server.

They have no checkpointer: the server brings its own. Variables of the environment:

- `LANGGRAPH_MAI_PAIR` names another pair than the demo's, or its file;
- `LANGGRAPH_MAI_TRANSFER=sparse` makes transfer sparse, as that pair's file says;
- `LANGGRAPH_MAI_IMAGE_ROOT` is the folder below which image files may be read: who may send a
  question may name any image, so without it none are;
- `LANGGRAPH_MAI_ALLOW_FETCH=1` lets http(s) images be fetched;
- `LANGGRAPH_MAI_PRELOAD=1` loads the weights before the server is ready, not at the first run;
- `LANGGRAPH_MAI_STREAM_TOKENS=1` streams what the models generate inside. Chat pages would show it
  as messages that vanish when the answer comes.
"""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Required

from langgraph.channels import UntrackedValue
from langgraph.graph import END, START, StateGraph
from pydantic import Field
from typing_extensions import TypedDict

from ..models.pairs import load_pair
from ..nodes.gate import Gate
from ..nodes.settings import MAIContext
from ..nodes.state import AskedType, MAIError, MAIInputError, Route, Value
from .build import MAIGraph, create_mai

_pair = load_pair(os.environ.get("LANGGRAPH_MAI_PAIR") or "demo")
# A folder of this package too, such as demo/pictures; below the null device is no image.
_images = Path(os.environ.get("LANGGRAPH_MAI_IMAGE_ROOT") or os.devnull)
_transfer: Any = os.environ.get("LANGGRAPH_MAI_TRANSFER") or "full"


def _create(**options: Any) -> MAIGraph:
    return create_mai(
        _pair.small,
        _pair.large,
        prompts=_pair.prompts,
        transfer=_pair.sparse if _transfer == "sparse" else _transfer,
        selector=_pair.selector,
        gate=_pair.gate and Gate(_pair.gate, audit=_pair.audit),
        allow_fetch=os.environ.get("LANGGRAPH_MAI_ALLOW_FETCH") == "1",
        image_root=_images if _images.is_dir() else Path(__file__).parents[1] / _images,
        stream_tokens=os.environ.get("LANGGRAPH_MAI_STREAM_TOKENS") == "1",
        **options,
    )


mai = _create()
mai_review = _create(review=True, name="mai_review")


class ToolInput(TypedDict, total=False):
    """A question about images, as a model writes it."""

    question: Required[
        Annotated[
            str,
            UntrackedValue,
            Field(description="One question about the images, complete in itself."),
        ]
    ]
    images: Annotated[
        list[str],
        UntrackedValue,
        Field(
            description=(
                "The images, in order: data URIs (data:image/png;base64,...), or http(s) URLs "
                "where the server fetches them. A path names a file of the server, not of its "
                "caller."
            )
        ),
    ]
    choices: Annotated[
        list[str],
        UntrackedValue,
        Field(description="The options' texts of a multiple-choice question."),
    ]
    answer_type: Annotated[
        AskedType,
        UntrackedValue,
        Field(description="What kind of answer is expected; auto finds out."),
    ]


class ToolOutput(TypedDict):
    """What a model reads of the answer.

    Attributes:
        answer: The answer, as people write it; None if there is none.
        value: The same as a typed value.
        route: How far the run went.
        confidence: The measured rate of right answers like this one; None where it is unknown.
        error: Why there is no answer; else None. MCP passes on no more than an exception's class.
    """

    answer: str | None
    value: Value
    route: Route | None
    confidence: float | None
    error: str | None


class _ToolState(ToolInput, ToolOutput):
    """Both."""


async def _answer(state: Any) -> Any:
    asked: Any = {key: state[key] for key in ToolInput.__annotations__ if key in state}
    result: Mapping[str, Any] = {}
    reason = None
    try:
        result = await mai.ainvoke(asked)
    except (MAIError, MAIInputError) as error:
        reason = str(error)
    return {key: result.get(key) for key in ToolOutput.__annotations__} | {"error": reason}


mai_tool = (
    StateGraph(
        _ToolState, context_schema=MAIContext, input_schema=ToolInput, output_schema=ToolOutput
    )
    .add_node("mai", _answer)
    .add_edge(START, "mai")
    .add_edge("mai", END)
    .compile(name="mai_tool")
)

if os.environ.get("LANGGRAPH_MAI_PRELOAD") == "1":
    _models: Any = (_pair.small, _pair.large)
    for _model in _models:
        _model.load()
