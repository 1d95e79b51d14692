import asyncio
import math

import pytest
from fakes import PROMPTS, QUESTION, models
from langchain.agents.middleware.human_in_the_loop import HITLRequest
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from langgraph.graph import START, StateGraph
from langgraph.types import Command
from pydantic import TypeAdapter

from langgraph_mai import MAIState, create_mai

THREAD = {"configurable": {"thread_id": "1"}}
DURABILITIES = ["sync", "async", "exit"]


def reviewed(route="transferred", checkpointer=None, **options):
    small, large = models(route)
    graph = create_mai(
        small, large, prompts=PROMPTS, review=True, checkpointer=checkpointer, **options
    )
    return small, large, graph


def decision(**given):
    return {"decisions": [given]}


def edited(answer):
    return decision(type="edit", edited_action={"name": "answer", "args": {"answer": answer}})


@pytest.mark.parametrize(
    ("resumed", "durability"),
    [
        *(("No", durability) for durability in DURABILITIES),
        ({"answer": "no."}, "async"),
        (edited("no"), "async"),
        (decision(type="respond", message="No"), "async"),
    ],
)
def test_a_person_overrules_the_models(checkpointer, resumed, durability):
    _, large, graph = reviewed(checkpointer=checkpointer)
    stopped = graph.invoke(QUESTION, THREAD, durability=durability)
    (shown,) = (one.value for one in stopped["__interrupt__"])
    assert (shown["small"], shown["large"]) == ("no", "yes")
    assert shown["reasoning"] == "Hm.\nAnswer: no"
    assert shown["question"] == "Is it red?"

    result = graph.invoke(Command(resume=resumed), THREAD, durability=durability)
    assert (result["answer"], result["route"], result["fallback"]) == ("no", "reasoned", "review")
    assert large.styles == ["direct"]
    assert [call["style"] for call in result["calls"]] == ["direct", "direct", "reason"]
    assert result["messages"][-1].text == "no"


def test_the_request_is_langchains_and_the_conversation_says_what_it_is_about():
    *_, graph = reviewed(checkpointer=InMemorySaver())
    (request,) = (one.value for one in graph.invoke(QUESTION, THREAD)["__interrupt__"])
    TypeAdapter(HITLRequest).validate_python(request)
    (action,), (config,) = request["action_requests"], request["review_configs"]
    assert (action["name"], action["args"]) == (config["action_name"], {"answer": "yes"})
    assert config["allowed_decisions"] == ["approve", "edit", "reject", "respond"]
    assert "> Hm." in action["description"]
    told = graph.get_state(THREAD).values["messages"][-1]
    assert told.text == "The small model answers no, the large one yes."

    result = graph.invoke(Command(resume=decision(type="approve")), THREAD)
    assert (result["answer"], result["fallback"]) == ("yes", "review")
    messages = result["messages"]
    assert [(message.type, message.text) for message in messages] == [
        ("human", "Is it red?"),
        ("ai", "yes"),
    ]
    assert messages[-1].id == told.id


def test_what_the_large_model_did_not_answer_cannot_be_approved():
    _, large, graph = reviewed(checkpointer=InMemorySaver())
    large.script["direct"] = "Hm."
    (shown,) = graph.invoke(QUESTION, THREAD)["__interrupt__"]
    assert shown.value["review_configs"][0]["allowed_decisions"] == ["edit", "reject", "respond"]
    (again,) = graph.invoke(Command(resume=decision(type="approve")), THREAD)["__interrupt__"]
    assert again.value["problem"]


@pytest.mark.parametrize(
    "resumed", [{"answer": None}, {"answer": ""}, " ", decision(type="reject")]
)
def test_a_person_lets_it_go_on(resumed):
    _, large, graph = reviewed(checkpointer=InMemorySaver())
    graph.invoke(QUESTION, THREAD)
    result = graph.invoke(Command(resume=resumed), THREAD)
    assert (result["answer"], result["route"], result["fallback"]) == ("yes", "transferred", None)
    assert large.styles == ["direct", "transfer"]


@pytest.mark.parametrize("route", ["direct", "reasoned"])
def test_nobody_is_asked_where_the_models_agree(route):
    *_, graph = reviewed(route, InMemorySaver())
    result = graph.invoke(QUESTION, THREAD)
    assert "__interrupt__" not in result
    assert (result["answer"], result["route"]) == ("yes", route)


def test_a_persons_words_stand_where_they_hold_no_answer_of_the_kind():
    *_, graph = reviewed(checkpointer=InMemorySaver())
    graph.invoke(QUESTION, THREAD)
    result = graph.invoke(Command(resume="The picture is black and white."), THREAD)
    assert result["answer"] == "The picture is black and white."


@pytest.mark.parametrize("resumed", [4, 4.0, {"answer": 4}, {"answer": "4"}])
def test_a_number_is_an_answer(resumed):
    *_, graph = reviewed(checkpointer=InMemorySaver())
    graph.invoke({**QUESTION, "answer_type": "number"}, THREAD)
    result = graph.invoke(Command(resume=resumed), THREAD)
    assert (result["answer"], result["fallback"]) == ("4", "review")


WRONG = [
    decision(type="what"),
    {"decisions": []},
    ["yes"],
    True,
    {"answer": ["yes"]},
    {"foo": 1},
    {"answer": "no", "foo": 1},
    math.nan,
]


@pytest.mark.parametrize("wrong", WRONG, ids=str)
def test_what_is_no_answer_is_asked_again_with_what_was_wrong(wrong, run):
    small, large, graph = reviewed(checkpointer=InMemorySaver())
    (first,) = run(graph, QUESTION, THREAD)["__interrupt__"]
    assert first.value["problem"] is None
    for resumed in (wrong, wrong):
        (again,) = run(graph, Command(resume=resumed), THREAD)["__interrupt__"]
        assert again.value["problem"].startswith("Resume with")
        assert {**again.value, "problem": None} == first.value
    result = run(graph, Command(resume="no"), THREAD)
    assert (result["answer"], result["fallback"]) == ("no", "review")
    assert small.styles + large.styles == ["direct", "reason", "direct"]


def test_the_next_question_on_the_thread_is_reviewed_afresh():
    *_, graph = reviewed(checkpointer=InMemorySaver())
    graph.invoke(QUESTION, THREAD)
    graph.invoke(Command(resume="no"), THREAD)
    assert "__interrupt__" in graph.invoke(QUESTION, THREAD)
    result = graph.invoke(Command(resume=""), THREAD)
    assert (result["answer"], result["fallback"]) == ("yes", None)


@pytest.mark.parametrize("durability", DURABILITIES)
async def test_it_works_in_an_event_loop_as_a_subgraph(tmp_path, durability):
    *_, inner = reviewed()
    graph = StateGraph(MAIState).add_node("mai", inner).add_edge(START, "mai")
    async with AsyncSqliteSaver.from_conn_string(str(tmp_path / "t.sqlite")) as saver:
        compiled = graph.compile(checkpointer=saver)
        stopped = await compiled.ainvoke(QUESTION, THREAD, durability=durability)
        assert stopped["__interrupt__"][0].value["large"] == "yes"
        state = await compiled.aget_state(THREAD, subgraphs=True)
        assert state.tasks[0].state.next == ("review",)
        result = await compiled.ainvoke(Command(resume="no"), THREAD, durability=durability)
    assert (result["answer"], result["fallback"]) == ("no", "review")


def test_without_a_checkpointer_the_run_ends_with_the_question_to_the_person():
    *_, graph = reviewed()
    result = graph.invoke(QUESTION)
    assert result["__interrupt__"][0].value["action_requests"]
    assert "answer" not in result


def test_the_drawing_shows_the_person():
    drawn = reviewed()[2].get_graph()
    edges = {(edge.source, edge.target) for edge in drawn.edges if "review" in edge}
    assert edges == {
        ("reasoning_verification", "review"),
        ("review", "respond"),
        ("review", "reasoning_transfer"),
    }


STEPS = [
    "prepare",
    "small_agent",
    "large_agent",
    "verification",
    "small_reasoning",
    "reasoning_verification",
    "reasoning_transfer",
    "respond",
]


@pytest.mark.parametrize("way", ["invoke", "ainvoke"])
def test_any_step_can_be_stopped_before_and_resumed(way, checkpointer):
    small, large = models("transferred")
    saver = checkpointer if way == "invoke" else InMemorySaver()
    graph = create_mai(small, large, prompts=PROMPTS, checkpointer=saver)
    for step in STEPS:
        thread = {"configurable": {"thread_id": step}}

        def run(given, thread=thread, **options):
            if way == "invoke":
                return graph.invoke(given, thread, **options)
            return asyncio.run(graph.ainvoke(given, thread, **options))

        run(QUESTION, interrupt_before=[step])
        assert step in graph.get_state(thread).next
        result = run(None)
        assert (result["answer"], result["route"]) == ("yes", "transferred")
        assert small.styles + large.styles == ["direct", "reason", "direct", "transfer"]
        small.calls.clear()
        large.calls.clear()
