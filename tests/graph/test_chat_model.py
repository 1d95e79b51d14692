import asyncio
import base64
import io
from pathlib import Path

import langchain_tests.integration_tests
import langchain_tests.unit_tests
import pytest
from fakes import PROMPTS, StreamingModel, models
from langchain_core.caches import InMemoryCache
from langchain_core.messages import HumanMessage
from langchain_core.tracers.run_collector import RunCollectorCallbackHandler
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph
from PIL import Image
from pydantic import ValidationError

from langgraph_mai import ChatMAI, MAIContext, MAIInputError, create_mai, load_pair
from langgraph_mai.models.images import load_image

PICTURES = Path(__file__).parents[2] / "demo" / "pictures"


def demo():
    pair = load_pair()
    # LangChain's suites ask without images, too.
    return create_mai(pair.small, pair.large, prompts=pair.prompts, require_images=False)


def asked(name, question):
    block = load_image(str(PICTURES / f"{name}.png")).block
    return [HumanMessage([block, {"type": "text", "text": question}])]


class Suite:
    """What both suites of LangChain are told of it."""

    has_tool_calling = False
    has_structured_output = False
    chat_model_class = property(lambda _: ChatMAI)
    chat_model_params = property(lambda _: {"mai": demo(), "model": "mai"})
    supports_image_inputs = property(lambda _: True)

    @property
    def standard_chat_model_params(self):
        # The temperature is that of the two models inside.
        return {"max_tokens": 100, "timeout": 60, "stop": [], "max_retries": 2}


class TestUnit(Suite, langchain_tests.unit_tests.ChatModelUnitTests):
    pass


@pytest.mark.usefixtures("local_download")
class TestIntegration(Suite, langchain_tests.integration_tests.ChatModelIntegrationTests):
    pass


def said(model, messages, way):
    """What a model answers in one of the ways to call it; the chunks of a stream added up."""

    async def gather():
        return [chunk async for chunk in model.astream(messages)]

    ways = {
        "invoke": lambda: [model.invoke(messages)],
        "ainvoke": lambda: [asyncio.run(model.ainvoke(messages))],
        "batch": lambda: model.batch([messages]),
        "stream": lambda: list(model.stream(messages)),
        "astream": lambda: asyncio.run(gather()),
    }
    first, *others = ways[way]()
    for chunk in others:
        first += chunk
    return first


WAYS = ["invoke", "ainvoke", "batch", "stream", "astream"]
ROUTES = {
    "direct": ("chart", "Which bar is the highest?"),
    "reasoned": ("shapes", "How many red shapes are there in the picture?"),
    "transferred": ("squares", "How many squares can you see in the picture?"),
}


@pytest.mark.parametrize("route", ROUTES)
def test_it_answers_as_the_graph_does(route):
    graph = demo()
    messages = asked(*ROUTES[route])
    expected = graph.invoke({"messages": messages})
    for way in WAYS:
        message = said(ChatMAI(mai=graph), messages, way)
        assert message.text == expected["answer"], way
        metadata = message.response_metadata
        assert (metadata["route"], metadata["fallback"]) == (route, None)
        assert [one["text"] for one in metadata["calls"]] == [c["text"] for c in expected["calls"]]
        written = sum(call["output_tokens"] for call in metadata["calls"])
        assert message.usage_metadata["output_tokens"] == written


def scripted(route="transferred", **options):
    small, large = models(route, StreamingModel)
    options = {"require_images": False, **options}
    return small, large, create_mai(small, large, prompts=PROMPTS, **options)


def test_settings_of_all_calls_and_of_one():
    small, _, graph = scripted()
    model = ChatMAI(mai=graph, context=MAIContext(max_tokens_direct=7, max_tokens_reason=8))
    model.invoke("Is it red?")
    model.invoke("Is it red?", max_tokens_direct=9)
    model.bind(max_tokens_reason=10).invoke("Is it red?")
    assert [call["max_tokens"] for call in small.calls] == [7, 8, 9, 8, 7, 10]


def test_limits_that_every_chat_model_has():
    small, large, graph = scripted()
    model = ChatMAI(mai=graph, max_tokens=11)
    model.invoke("Is it red?")
    model.invoke("Is it red?", max_tokens=12, max_tokens_transfer=13)
    assert [call["max_tokens"] for call in small.calls] == [11, 64, 12, 64]
    assert [call["max_tokens"] for call in large.calls] == [11, 11, 12, 13]
    small.delay = 5
    message = ChatMAI(mai=graph, timeout=0.1).invoke("Is it red?")
    assert message.response_metadata["fallback"] == "large_direct"


def test_its_run_is_traced_with_the_calls_inside():
    *_, graph = scripted()
    tracer = RunCollectorCallbackHandler()
    ChatMAI(mai=graph).invoke("Is it red?", {"callbacks": [tracer]})
    (root,) = tracer.traced_runs
    names, left = [], [root]
    while left:
        run = left.pop()
        names.append(run.name)
        left += run.child_runs
    assert names[0] == "ChatMAI"
    assert {"small_agent", "reasoning_transfer", "StreamingModel"} <= set(names)


def test_the_answer_ends_before_a_stop_string():
    small, large, graph = scripted("direct")
    small.script["direct"] = large.script["direct"] = "red, blue"
    model = ChatMAI(mai=graph, context=MAIContext(answer_type="list"))
    assert model.invoke("Which colours?", stop=[", b", "zzz"]).text == "red"


def test_what_it_cannot_take_is_named():
    *_, graph = scripted()
    for limit in (0, -1):
        with pytest.raises(MAIInputError, match="max_tokens"):
            ChatMAI(mai=graph).invoke("Is it red?", max_tokens=limit)
    with pytest.raises(ValueError, match="does not know 'temperature'"):
        ChatMAI(mai=graph).invoke("Is it red?", temperature=1)
    with pytest.raises(TypeError, match="no setting 'temperature'"):
        ChatMAI(mai=graph, temperature=1)
    with pytest.raises(ValidationError, match="mai"):
        ChatMAI(mai="demo")
    with pytest.raises(TypeError, match="made without `checkpointer`"):
        ChatMAI(mai=scripted(checkpointer=InMemorySaver())[2])
    with pytest.raises(NotImplementedError, match="calls no tools"):
        ChatMAI(mai=graph).bind_tools([len])
    with pytest.raises(RuntimeError, match="waits for a person"):
        ChatMAI(mai=scripted(review=True)[2]).invoke("Is it red?")


@pytest.mark.parametrize("subgraphs", [False, True])
@pytest.mark.parametrize("way", ["stream", "astream"])
def test_in_a_graph_its_answer_streams_once_and_alone(way, subgraphs):
    model = ChatMAI(mai=scripted()[2])

    def node(state: MessagesState):
        return {"messages": [model.invoke(state["messages"])]}

    async def anode(state: MessagesState):
        return {"messages": [await model.ainvoke(state["messages"])]}

    graph = StateGraph(MessagesState)
    graph.add_node("model", node if way == "stream" else anode)
    graph.add_edge(START, "model")
    compiled = graph.compile(checkpointer=InMemorySaver())
    given = {"messages": [HumanMessage("Is it red?")]}
    options = {
        "config": {"configurable": {"thread_id": "1"}},
        "stream_mode": "messages",
        "subgraphs": subgraphs,
    }

    async def gather():
        return [event async for event in compiled.astream(given, **options)]

    events = list(compiled.stream(given, **options)) if way == "stream" else asyncio.run(gather())
    # With subgraphs, the run inside shows its own end under its own name.
    outside = [event for namespace, event in events if not namespace] if subgraphs else events
    said = [message for message, _ in outside]
    inside = [meta for namespace, (_, meta) in events if namespace] if subgraphs else []
    assert [meta["langgraph_node"] for meta in inside] == ["respond"] * subgraphs
    assert [message.text for message in said] == ["yes"]
    ids = [event[1][0].id for event in events] if subgraphs else [said[0].id]
    assert len(set(ids)) == len(ids)
    assert said[0].response_metadata["route"] == "transferred"
    kept = compiled.get_state(options["config"]).values["messages"]
    assert [message.type for message in kept] == ["human", "ai"]


@pytest.mark.parametrize(
    ("kind", "form", "way"),
    [
        *((kind, "v1", "invoke") for kind in ("JPEG", "GIF", "WEBP", "TIFF", "BMP", "PPM")),
        *(("PNG", form, way) for form in ("v1", "v0") for way in WAYS),
    ],
)
def test_a_picture_without_its_type(kind, form, way):
    stream = io.BytesIO()
    Image.new("RGB", (40, 40), "red").save(stream, kind)
    data = base64.b64encode(stream.getvalue()).decode()
    held = {"v1": {"base64": data}, "v0": {"source_type": "base64", "data": data}}
    content = [{"type": "image", **held[form]}, {"type": "text", "text": "Is it red?"}]
    small, _, graph = scripted()
    messages = [HumanMessage(content)]
    assert said(ChatMAI(mai=graph), messages, way).text == "yes"
    assert {call["images"] for call in small.calls} == {1}
    assert messages[0].content == content


def test_bytes_that_are_no_picture_are_refused_by_the_graph():
    data = base64.b64encode(b"no picture at all").decode()
    for given in (data, "?"):
        message = HumanMessage([{"type": "image", "base64": given}, {"type": "text", "text": "?"}])
        with pytest.raises(MAIInputError):
            ChatMAI(mai=scripted()[2]).invoke([message])


def test_two_graphs_are_not_taken_for_one_by_a_cache():
    cache = InMemoryCache()
    asked = 0
    for number in range(12):
        # Made anew each time: the next graph may come to lie at the same address.
        small, large, graph = scripted("direct")
        small.script["direct"] = large.script["direct"] = ("yes", "no")[number % 2]
        model = ChatMAI(mai=graph, cache=cache)
        answers = [model.invoke("Is it red?").text for _ in range(2)]
        assert answers == [("yes", "no")[number % 2]] * 2
        asked += len(small.calls)
        del small, large, graph, model
    assert asked == 12
