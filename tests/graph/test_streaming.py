import asyncio

import pytest
from fakes import PROMPTS, QUESTION, StreamingModel, models
from langgraph.graph import START, StateGraph

from langgraph_mai import MAIState, create_mai, create_strategy


def collect(graph, mode, way="stream"):
    if way == "stream":
        return list(graph.stream(QUESTION, stream_mode=mode, subgraphs=True))

    async def gather():
        return [event async for event in graph.astream(QUESTION, stream_mode=mode, subgraphs=True)]

    return asyncio.run(gather())


def nested(inner):
    graph = StateGraph(MAIState)
    graph.add_node("inner", inner)
    graph.add_edge(START, "inner")
    return graph.compile()


@pytest.fixture(params=["alone", "nested"])
def graph(request):
    inner = create_mai(*models("transferred", StreamingModel), prompts=PROMPTS)
    return inner if request.param == "alone" else nested(inner)


@pytest.mark.parametrize("way", ["stream", "astream"])
def test_tokens_of_both_agents_are_seen_and_told_apart(graph, way):
    said = {"mai:small": [], "mai:large": []}
    final = []
    for _, (chunk, metadata) in collect(graph, "messages", way):
        if metadata["langgraph_node"] == "respond":
            final.append(chunk.text)
            continue
        (tag,) = [tag for tag in metadata["tags"] if tag.startswith("mai:")]
        assert tag == f"mai:{metadata['mai_role']}" == f"mai:{chunk.name}"
        said[tag].append((metadata["mai_style"], chunk.text))
    assert said["mai:large"] == [("direct", "yes"), ("transfer", "yes")]
    assert said["mai:small"] == [
        ("direct", "no"),
        ("reason", "Hm.\nAnswer:"),
        ("reason", " no"),
    ]
    assert final == ["yes"]


def test_a_watcher_sees_stages_verdicts_and_route(graph):
    events = [event for _, event in collect(graph, "custom")]
    both, rest = events[:2], events[2:]
    assert {event["stage"] for event in both} == {"small_agent", "large_agent"}
    assert {event["event"] for event in both} == {"stage"}
    verdict = {"event": "verdict", "verdict": "disagree", "small": "no", "large": "yes"}
    assert rest == [
        {**verdict, "stage": "verification"},
        {"event": "stage", "stage": "small_reasoning", "role": "small", "style": "reason"},
        {**verdict, "stage": "reasoning_verification"},
        {"event": "stage", "stage": "reasoning_transfer", "role": "large", "style": "transfer"},
        {
            "event": "reasoning_transfer",
            "source": "small",
            "target": "large",
            "cut": None,
            "characters": 14,
            "characters_written": 14,
        },
        {"event": "route", "route": "transferred", "answer": "yes", "fallback": None},
    ]


@pytest.mark.parametrize("way", ["stream", "astream"])
def test_the_final_message_is_streamed_once(graph, way):
    final = [
        message
        for _, (message, metadata) in collect(graph, "messages", way)
        if metadata["langgraph_node"] in {"respond", "inner"}
    ]
    assert [message.text for message in final] == ["yes"]
    assert final[0].usage_metadata["output_tokens"] == 6


def test_tokens_can_be_left_out():
    small, large = models("direct", StreamingModel)
    silent = create_mai(small, large, prompts=PROMPTS, stream_tokens=False)
    for graph in (silent, nested(silent)):
        assert [chunk.text for _, (chunk, _) in collect(graph, "messages")] == ["yes"]
    quiet = create_mai(small.with_config(tags=["nostream"]), large, prompts=PROMPTS)
    said = [meta for _, (_, meta) in collect(quiet, "messages") if "mai_style" in meta]
    assert {tag for meta in said for tag in meta["tags"] if tag.startswith("mai:")} == {"mai:large"}


def test_tokens_stream_within_a_time_limit_too():
    small, large = models("direct", StreamingModel)
    small.script["direct"] = large.script["direct"] = "yes it is"
    graph = create_mai(small, large, prompts=PROMPTS, timeout=10)
    chunks = [chunk.text for _, (chunk, _) in collect(graph, "messages")]
    assert sorted(chunks) == sorted(["yes", " it", " is"] * 2 + ["yes"])


def test_updates_show_each_step():
    graph = create_mai(*models("reasoned"), prompts=PROMPTS)
    steps = [name for _, update in collect(graph, "updates") for name in update]
    assert steps[0] == "prepare"
    assert set(steps[1:3]) == {"small_agent", "large_agent"}
    assert steps[3:] == ["verification", "small_reasoning", "reasoning_verification", "respond"]


def test_a_strategy_streams_as_well():
    graph = create_strategy("small_reason", *models("direct", StreamingModel), prompts=PROMPTS)
    said = [chunk.text for _, (chunk, meta) in collect(graph, "messages") if "mai_style" in meta]
    assert "".join(said) == "Hm.\nAnswer: no"
