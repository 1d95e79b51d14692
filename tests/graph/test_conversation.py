"""Which images a question is about, on every road that a person takes; never about none."""

from typing import Annotated

import pytest
from fakes import PROMPTS, QUESTION, block, data_uri, models, png
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, SystemMessage, ToolMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, StateGraph
from langgraph.graph.message import add_messages
from typing_extensions import TypedDict

from langgraph_mai import ChatMAI, MAIInputError, create_mai, create_strategy, create_vision_tool
from langgraph_mai.graph import STRATEGIES
from langgraph_mai.models.images import block_image

THREAD = {"configurable": {"thread_id": "1"}}
NO_IMAGE = "There is no image in this conversation"
RED, BLUE, GREEN = (block(color) for color in ("red", "blue", "green"))
ASKED = HumanMessage("Is it red?")


def shown(*images, text="", kind=HumanMessage, **more):
    return kind([*images, {"type": "text", "text": text}] if text else list(images), **more)


def called(*images):
    """A tool's message with images."""
    return shown(*images, text="Done.", kind=ToolMessage, tool_call_id="1")


ANSWER = AIMessage("yes")
CALL = AIMessage("", tool_calls=[{"name": "zoom", "args": {}, "id": "1"}])
HISTORY = [shown(RED, text="Is it round?"), ANSWER]

ROADS = {
    "in one message": ([shown(RED, text="Is it red?")], [RED]),
    "image first": ([shown(RED), ASKED], [RED]),
    "question first": ([ASKED, shown(RED)], [RED]),
    "two images first": ([shown(RED), shown(BLUE), ASKED], [RED, BLUE]),
    "around": ([shown(RED), ASKED, shown(BLUE)], [RED, BLUE]),
    "asked again": ([*HISTORY, ASKED], [RED]),
    "asked a third time": ([*HISTORY, HumanMessage("Is it big?"), ANSWER, ASKED], [RED]),
    "a new image": ([*HISTORY, shown(BLUE, text="Is it red?")], [BLUE]),
    "a new image first": ([*HISTORY, shown(BLUE), ASKED], [BLUE]),
    "cancelled and asked": ([shown(RED, text="Is it round?"), ASKED], [RED]),
    "cancelled too": ([shown(RED, text="Round?"), shown(BLUE, text="Is it red?")], [BLUE]),
    "edited": ([*HISTORY, shown(BLUE, text="Big?"), ANSWER, ASKED], [BLUE]),
    "by a tool": ([ASKED, CALL, called(RED)], [RED]),
    "by two tools": ([ASKED, CALL, called(RED), called(BLUE)], [RED, BLUE]),
    "by a tool, later": ([ASKED, CALL, called(RED), ANSWER, ASKED], [RED]),
    "beside a tool": ([shown(BLUE, text="Is it red?"), CALL, called(RED)], [BLUE]),
    "behind words": ([shown(RED), ASKED, AIMessage("Let me ask.")], [RED]),
    "painted": ([HumanMessage("Paint."), shown(RED, kind=AIMessage), ASKED], [RED]),
    "none": ([ASKED], None),
    "none in the history": ([HumanMessage("Hello"), AIMessage("Hi"), ASKED], None),
    "in the rules": ([shown(RED, text="You answer.", kind=SystemMessage), ASKED], None),
    "misspelt": ([HumanMessage([{"type": "text", "text": "Is it red?", "image": "x"}])], None),
}  # fmt: skip


def colors(blocks):
    return [block_image(one).digest for one in blocks]


@pytest.mark.parametrize(("messages", "images"), ROADS.values(), ids=ROADS)
def test_every_road_leads_to_its_images_or_to_an_error(messages, images):
    graph = create_mai(*models("transferred"), prompts=PROMPTS, checkpointer=InMemorySaver())
    if images is None:
        with pytest.raises(MAIInputError, match=NO_IMAGE):
            graph.invoke({"messages": messages}, THREAD)
        return
    result = graph.invoke({"messages": messages}, THREAD)
    assert digests(graph) == colors(images)
    assert graph.get_state(THREAD).values["task"]["question"] == "Is it red?"
    assert {call["images"] for call in result["calls"]} == {len(images)}
    # The answer says where its images stand.
    references = result["messages"][-1].response_metadata["images"]
    kept = {message.id: message for message in result["messages"]}
    for reference, image in zip(references, images, strict=True):
        identifier, index = reference.removeprefix("message:").rsplit("/", 1)
        assert kept[identifier].content[int(index)] == image


@pytest.mark.parametrize("name", STRATEGIES)
def test_no_strategy_answers_without_an_image_unless_it_may(name):
    pair = models("transferred")
    with pytest.raises(MAIInputError, match=NO_IMAGE):
        create_strategy(name, *pair, prompts=PROMPTS).invoke({"question": "Is it red?"})
    assert pair[0].calls == pair[1].calls == []
    blind = create_strategy(name, *pair, prompts=PROMPTS, require_images=False)
    result = blind.invoke({"question": "Is it red?"})
    assert {call["images"] for call in result["calls"]} == {0}
    assert result["messages"][-1].response_metadata["images"] == []


@pytest.mark.parametrize(
    "given", [{"image": data_uri()}, {"images": []}, {"images": [""]}, {"images": None}]
)
def test_an_image_by_another_name_is_none(given):
    with pytest.raises(MAIInputError, match=NO_IMAGE):
        create_mai(*models(), prompts=PROMPTS).invoke({"question": "Is it red?", **given})


def test_a_chat_model_and_a_tool_refuse_too(run):
    graph = create_mai(*models(), prompts=PROMPTS)
    with pytest.raises(MAIInputError, match=NO_IMAGE):
        run(ChatMAI(mai=graph), [ASKED])
    tool = create_vision_tool(graph)
    call = {"name": tool.name, "args": {"question": "Is it red?"}, "id": "1", "type": "tool_call"}
    message = run(tool, call)
    assert (message.status, NO_IMAGE in message.content) == ("error", True)
    assert run(ChatMAI(mai=graph), [shown(RED), ASKED]).text == "yes"


def digests(graph):
    return [image["digest"] for image in graph.get_state(THREAD).values["task"]["images"]]


def test_a_question_by_its_key_is_about_the_conversation_too():
    graph = create_mai(*models(), prompts=PROMPTS, checkpointer=InMemorySaver())
    graph.invoke({"messages": HISTORY, "question": "Is it red?"}, THREAD)
    assert digests(graph) == colors([RED])
    graph.invoke({"question": "Is it blue?"}, THREAD)
    assert digests(graph) == colors([RED])


def test_images_of_one_run_never_outlive_it_in_a_thread():
    graph = create_mai(*models(), prompts=PROMPTS, checkpointer=InMemorySaver())
    result = graph.invoke(QUESTION, THREAD)
    (reference,) = result["messages"][-1].response_metadata["images"]
    assert reference == f"input:{block_image(RED).digest}"
    with pytest.raises(MAIInputError, match=NO_IMAGE):
        graph.invoke({"messages": [ASKED]}, THREAD)
    # In the cascade's own thread, what is given for a run goes before what messages show.
    given = {"messages": [shown(BLUE, text="Is it red?")], "images": [data_uri("green")]}
    graph.invoke(given, THREAD)
    assert digests(graph) == colors([GREEN])
    graph.invoke({"messages": [ASKED]}, THREAD)
    assert digests(graph) == colors([BLUE])


class Parent(TypedDict, total=False):
    """A parent whose state keeps `images` for every later run."""

    messages: Annotated[list[AnyMessage], add_messages]
    images: list[str]
    answer: str


@pytest.mark.parametrize("form", ["node", "wrapper"])
def test_images_of_one_run_never_outlive_it_in_a_parent(form, tmp_path):
    inner = create_mai(*models(), prompts=PROMPTS)

    def wrapper(state):
        return {"messages": inner.invoke(state)["messages"][-1:]}

    graph = StateGraph(Parent).add_node("mai", inner if form == "node" else wrapper)
    graph = graph.add_edge(START, "mai").compile(InMemorySaver())
    path = tmp_path / "green.png"
    path.write_bytes(png("green"))

    def images(text, *blocks, **given):
        messages = [shown(*blocks, text=text)] if blocks else [HumanMessage(text)]
        result = graph.invoke({"messages": messages, **given}, THREAD)
        return result["messages"][-1].response_metadata["images"]

    assert images("Is it red?", images=[str(path)]) == [str(path)]
    assert images("Is it big?") == [str(path)]  # the conversation's only image
    (reference,) = images("Is it red?", BLUE)
    assert reference.startswith("message:")
    assert images("Is it big?") == [reference]  # not what the first run was given
    assert images("Is it red?", images=[data_uri()]) == [f"input:{block_image(RED).digest}"]
