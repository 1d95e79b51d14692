"""Faults that were reported to LangGraph, re-enacted with the cascade (public issue numbers)."""

import io
import operator
import time
from typing import Annotated, Any

import pytest
from fakes import PROMPTS, QUESTION, models
from langchain_core.messages import AnyMessage, HumanMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.graph import START, StateGraph
from langgraph.graph.message import add_messages
from PIL import Image
from typing_extensions import TypedDict

from langgraph_mai import MAIContext, MAIError, MAIState, create_mai

THREAD = {"configurable": {"thread_id": "1"}}


def made(route="transferred", **options):
    small, large = models(route)
    return small, large, create_mai(small, large, prompts=PROMPTS, **options)


def under(node, state=MAIState, checkpointer=None, **options):
    graph = StateGraph(state, **options)
    graph.add_node("mai", node)
    graph.add_edge(START, "mai")
    return graph.compile(checkpointer=checkpointer)


def test_2198_schemas_are_not_null_on_any_python():
    graph = made()[2]
    for schema in (graph.get_input_jsonschema(), graph.get_output_jsonschema()):
        assert schema["properties"]
    assert graph.get_context_jsonschema()["properties"]


class Counting(TypedDict, total=False):
    question: str
    images: list[str]
    answer: str
    messages: Annotated[list[AnyMessage], add_messages]
    calls: Annotated[list[Any], operator.add]
    asked: Annotated[int, operator.add]


@pytest.mark.parametrize("checkpointer", [None, InMemorySaver()], ids=["none", "memory"])
def test_4007_6290_a_parents_counters_are_counted_once(checkpointer):
    graph = under(made()[2], Counting, checkpointer)
    given = {**QUESTION, "asked": 1, "messages": [HumanMessage("Hello", id="1")], "calls": ["own"]}
    result = graph.invoke(given, THREAD)
    assert result["asked"] == 1
    assert len(result["calls"]) == 1 + 4
    assert [message.type for message in result["messages"]] == ["human", "human", "ai"]


def test_8606_7695_a_strict_serializer_restores_the_state_as_it_was(tmp_path):
    saver = InMemorySaver(serde=JsonPlusSerializer(allowed_msgpack_modules=()))
    *_, graph = made(checkpointer=saver)
    stream = io.BytesIO()
    Image.new("RGB", (40, 40), "red").save(stream, "PNG")
    given = {**QUESTION, "images": [stream.getvalue()], "choices": ["yes", "no"]}
    graph.invoke(given, THREAD, context=MAIContext(timeout=60))
    values = graph.get_state(THREAD).values
    assert values["task"]["settings"] == {"timeout": 60.0}
    (image,) = values["task"]["images"]
    assert image["reference"] == f"input:{image['digest']}"
    assert all(type(call) is dict for call in values["calls"])
    assert {type(value) for value in values["task"].values()} <= {str, list, dict}


@pytest.mark.parametrize("nested", [False, True])
def test_a_failed_branch_is_run_again_alone(nested):
    """What a checkpointer keeps of a superstep in which one of two branches raised."""
    small, large, inner = made("direct")
    stop = KeyboardInterrupt()
    large.script["direct"] = lambda _prompt: raise_once(stop)
    left = [stop]

    def raise_once(error):
        if left:
            time.sleep(0.5)  # the other branch ends first
            raise left.pop()
        return "yes"

    saver = InMemorySaver()
    own = create_mai(small, large, prompts=PROMPTS, checkpointer=saver)
    graph = under(inner, checkpointer=saver) if nested else own
    with pytest.raises(KeyboardInterrupt):
        graph.invoke(QUESTION, THREAD)
    assert graph.invoke(None, THREAD)["answer"] == "yes"
    assert (small.styles, large.styles) == (["direct"], ["direct", "direct"])


def test_a_run_whose_models_all_failed_can_be_resumed():
    small, large, graph = made("direct", checkpointer=InMemorySaver())
    small.script["direct"] = large.script["direct"] = RuntimeError("busy")
    with pytest.raises(MAIError):
        graph.invoke(QUESTION, THREAD)
    assert graph.get_state(THREAD).next == ("respond",)


def test_without_a_checkpointer_of_its_own_it_stores_nothing():
    saver = InMemorySaver()
    inner = made(checkpointer=False)[2]
    under(inner, checkpointer=saver).invoke(QUESTION, THREAD)
    assert {saved.config["configurable"]["checkpoint_ns"] for saved in saver.list(THREAD)} == {""}


def test_a_wrapper_with_a_thread_of_its_own():
    small, large = models("direct")
    inner = create_mai(small, large, prompts=PROMPTS, checkpointer=InMemorySaver())

    def wrapper(state: MAIState) -> MAIState:
        own = {"configurable": {"thread_id": "inner"}}
        return {"answer": inner.invoke({key: state[key] for key in QUESTION}, own)["answer"]}

    graph = under(wrapper, checkpointer=InMemorySaver())
    for _ in range(2):
        assert graph.invoke(QUESTION, THREAD)["answer"] == "yes"


@pytest.mark.parametrize("limit", [1, 2])
def test_8920_max_concurrency_limits_the_branches_of_a_run(limit):
    small, large, graph = made("direct")
    inside, most = [], []

    def count():
        inside.append(1)
        most.append(len(inside))

    def answer(_prompt):
        inside.pop()
        return "yes"

    small.before = large.before = count
    small.script["direct"] = large.script["direct"] = answer
    graph.invoke(QUESTION, {"max_concurrency": limit})
    assert max(most) <= limit
