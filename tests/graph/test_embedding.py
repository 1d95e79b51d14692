import asyncio
import operator
from typing import Annotated, Any

import pytest
from fakes import PROMPTS, QUESTION, block, models, png
from langchain_core.messages import AnyMessage, HumanMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, StateGraph
from langgraph.graph.message import add_messages
from langgraph.types import Command, Send, interrupt
from typing_extensions import TypedDict

from langgraph_mai import MAIError, MAIInput, MAIInputError, MAIOutput, MAIState, create_mai


class Parent(TypedDict, total=False):
    messages: Annotated[list[AnyMessage], add_messages]
    calls: Annotated[list[Any], operator.add]
    question: str
    images: list[str]
    answer: str
    route: str


def parent_of(node, checkpointer=None, state=Parent):
    graph = StateGraph(state)
    graph.add_node("mai", node)
    graph.add_edge(START, "mai")
    graph.add_edge("mai", END)
    return graph.compile(checkpointer=checkpointer)


def mai(route="reasoned", **options):
    return create_mai(*models(route), prompts=PROMPTS, **options)


def test_as_a_node_it_fills_the_shared_keys():
    result = parent_of(mai()).invoke(QUESTION)
    assert (result["answer"], result["route"]) == ("yes", "reasoned")
    assert [message.type for message in result["messages"]] == ["human", "ai"]


def test_keys_with_a_reducer_are_not_doubled():
    given = {
        "messages": [HumanMessage("Hello"), HumanMessage([block(), "Is it red?"])],
        "calls": ["a call of the parent's own"],
    }
    result = parent_of(mai()).invoke(given)
    assert [message.type for message in result["messages"]] == ["human", "human", "ai"]
    assert len(result["calls"]) == 1 + 3
    assert len({message.id for message in result["messages"]}) == 3


async def test_a_wrapper_node_works_too_and_both_in_an_event_loop():
    inner = mai()

    def wrapper(state: Parent) -> Parent:
        return {"answer": inner.invoke({key: state[key] for key in QUESTION})["answer"]}

    async def awrapper(state: Parent) -> Parent:
        return {"answer": (await inner.ainvoke({key: state[key] for key in QUESTION}))["answer"]}

    assert parent_of(wrapper).invoke(QUESTION)["answer"] == "yes"
    for node in (inner, awrapper):
        assert (await parent_of(node).ainvoke(QUESTION))["answer"] == "yes"


def test_the_parents_checkpointer_is_inherited():
    small, large = models("reasoned")
    inner = create_mai(small, large, prompts=PROMPTS)
    graph = parent_of(inner, InMemorySaver())
    config = {"configurable": {"thread_id": "1"}}
    stops = graph.stream(QUESTION, config, subgraphs=True, stream_mode="updates")
    for namespace, update in stops:
        if namespace and "large_agent" in update:
            inside = graph.get_state(config, subgraphs=True).tasks[0].state
            assert inside.values["task"]["question"] == "Is it red?"
    assert graph.get_state(config).values["answer"] == "yes"


THREAD = {"configurable": {"thread_id": "1"}}


def asked_by(small):
    """What the small agent was asked at last."""
    prompt, instruction = small.calls[-1]["prompt"].rsplit("\n", 1)
    assert instruction in {"DIRECT", "REASON"}
    return prompt


def with_nodes_before(inner, checkpointer=None, form="nodes", **schemas):
    """A graph of the exported state, where `mai` comes after something else."""
    graph = StateGraph(MAIState, **schemas)
    graph.add_node("first", lambda _state: {})
    graph.add_node("second", lambda _state: {})
    graph.add_node("mai", inner, defer=form == "deferred")
    graph.add_edge(START, "first")
    if form == "send":
        graph.add_conditional_edges("first", lambda _: [Send("second", {})] * 2, ["second"])
        graph.add_edge("second", "mai")
    elif form == "deferred":
        graph.add_edge("first", "second")
        graph.add_edge("first", "mai")
    else:
        graph.add_edge("first", "second")
        graph.add_edge("second", "mai")
    return graph.compile(checkpointer=checkpointer)


@pytest.mark.parametrize("form", ["nodes", "send", "deferred"])
@pytest.mark.parametrize(
    ("keep", "schemas"),
    [(False, {}), (True, {}), (True, {"input_schema": MAIInput, "output_schema": MAIOutput})],
)
def test_nodes_before_it_lose_nothing_and_the_next_run_starts_without(
    form, keep, schemas, tmp_path
):
    path = tmp_path / "red.png"
    path.write_bytes(png())
    small, large = models("direct")
    inner = create_mai(small, large, prompts=PROMPTS)
    graph = with_nodes_before(inner, InMemorySaver() if keep else None, form, **schemas)
    config = THREAD if keep else None

    given = {"question": "Which?", "images": [str(path)], "choices": ["yes", "no"]}
    assert graph.invoke(given, config)["route"] == "direct"
    assert (asked_by(small), small.calls[-1]["images"]) == ("Which?\nA. yes\nB. no", 1)

    with pytest.raises(MAIInputError, match="There is no image"):
        graph.invoke({"messages": [HumanMessage("Is it red?")]}, config)
    graph.invoke({"messages": [HumanMessage([block(), "Is it red?"])]}, config)
    assert (asked_by(small), small.calls[-1]["images"]) == ("Is it red?", 1)


def test_a_node_before_it_may_change_the_question():
    small, large = models("direct")
    graph = StateGraph(MAIState)
    graph.add_node("translate", lambda _state: QUESTION)
    graph.add_node("mai", create_mai(small, large, prompts=PROMPTS))
    graph.add_edge(START, "translate").add_edge("translate", "mai")
    assert graph.compile().invoke(QUESTION | {"question": "Ist es rot?"})["answer"] == "yes"
    assert asked_by(small) == "Is it red?"


def test_a_graph_that_interrupts_before_it_declares_the_question_itself():
    class Own(MAIState):
        question: str
        images: list[str]

    small, large = models("direct")
    graph = StateGraph(Own)
    graph.add_node("person", lambda _state: {"choices": interrupt("which?")})
    graph.add_node("mai", create_mai(small, large, prompts=PROMPTS))
    graph.add_edge(START, "person").add_edge("person", "mai")
    compiled = graph.compile(checkpointer=InMemorySaver())
    compiled.invoke(QUESTION, THREAD)
    compiled.invoke(Command(resume=["yes", "no"]), THREAD)
    assert asked_by(small) == "Is it red?\nA. yes\nB. no"


def test_many_questions_by_abatch_or_send():
    """The recipe of docs/embedding.md; a question that fails costs no other one's answer."""
    small, large = models("direct")
    inner = create_mai(small, large, prompts=PROMPTS)

    class Many(TypedDict, total=False):
        questions: list[MAIInput]
        answers: Annotated[list[Any], operator.add]

    async def answer(item: dict[str, Any]) -> Many:
        try:
            result = await inner.ainvoke(item["asked"])
        except (MAIError, MAIInputError) as error:
            result = {"error": str(error)}
        return {"answers": [result]}

    graph = StateGraph(Many)
    graph.add_node("answer", answer)
    graph.add_conditional_edges(
        START,
        lambda state: [Send("answer", {"asked": one}) for one in state["questions"]],
        ["answer"],
    )
    questions = [QUESTION, QUESTION | {"question": " "}, QUESTION | {"question": "Is it round?"}]
    limits = {"max_concurrency": 2}
    results = asyncio.run(graph.compile().ainvoke({"questions": questions}, limits))["answers"]
    assert [result.get("answer") for result in results] == ["yes", None, "yes"]
    assert "question is empty" in results[1]["error"]

    batch = asyncio.run(inner.abatch(questions, limits, return_exceptions=True))
    assert [isinstance(result, MAIInputError) for result in batch] == [False, True, False]
