"""The same body with real models: the demo pair, and tiny checkpoints of two families."""

import asyncio
import json

import pytest
import yaml
from fakes import PROMPTS
from langgraph.checkpoint.memory import InMemorySaver
from PIL import Image, ImageDraw

from langgraph_mai import (
    CallCache,
    MAIError,
    SparseTransfer,
    create_mai,
    create_strategy,
    load_pair,
)
from langgraph_mai.graph import STRATEGIES, TRANSFER_STRATEGIES


@pytest.fixture(scope="module", params=["demo", "qwen_checkpoint", "internvl_checkpoint"])
def pair(request, tmp_path_factory):
    if request.param == "demo":
        return load_pair()
    folder = tmp_path_factory.mktemp("pair")
    weights = str(request.getfixturevalue(request.param))
    (folder / "prompts.yaml").write_text(yaml.safe_dump(PROMPTS.model_dump()))
    config = {
        "prompts": "./prompts.yaml",
        "small": {"model": weights},
        "large": {"model": weights, "attention": "eager"},
    }
    (folder / "pair.yaml").write_text(yaml.safe_dump(config))
    return load_pair(folder / "pair.yaml")


def strategy(pair, name, **options):
    return create_strategy(name, pair.small, pair.large, prompts=pair.prompts, **options)


@pytest.fixture
def picture(tmp_path):
    drawn = Image.new("RGB", (128, 128), "white")
    ImageDraw.Draw(drawn).ellipse((40, 40, 88, 88), fill="red")
    path = tmp_path / "circle.png"
    drawn.save(path)
    return str(path)


def test_every_strategy_answers(pair, picture):
    for name in STRATEGIES:
        graph = strategy(pair, name)
        result = graph.invoke({"question": "Is there a red circle?", "images": [picture]})
        assert isinstance(result["answer"], str)
        for call in result["calls"]:
            assert call["error"] is None
            assert call["input_tokens"] > 0
            assert call["seconds"] > 0
        _, message = result["messages"]
        written = sum(call["output_tokens"] for call in result["calls"])
        assert message.usage_metadata["output_tokens"] == written


def test_sync_and_async_say_the_same(pair, picture):
    graph = strategy(pair, "full_transfer")
    given = {"question": "How many circles are there?", "images": [picture]}
    texts = [
        [call["text"] for call in result["calls"]]
        for result in (graph.invoke(given), asyncio.run(graph.ainvoke(given)))
    ]
    assert texts[0] == texts[1]


def test_what_streams_is_what_the_calls_hold(pair, picture):
    graph = create_mai(pair.small, pair.large, prompts=pair.prompts)
    given = {"question": "Is there a red circle?", "images": [picture]}
    said: dict[str, str] = {}
    for mode, event in graph.stream(given, stream_mode=["messages", "values"]):
        if mode == "values":
            result = event
            continue
        chunk, metadata = event
        if "mai_style" in metadata:
            (role,) = [tag for tag in metadata["tags"] if tag.startswith("mai:")]
            key = f"{role} {metadata['mai_style']}"
            said[key] = said.get(key, "") + chunk.text
    assert said == {f"mai:{c['role']} {c['style']}": c["text"] for c in result["calls"]}


QUESTION = "How many circles are there?"
TRANSFERS = [name for name in TRANSFER_STRATEGIES if name != "mai"]


@pytest.mark.parametrize("name", TRANSFERS)
def test_sparse_transfer_passes_on_a_part_of_the_reasoning(pair, picture, name):
    given = {"question": QUESTION, "images": [picture]}
    cache = CallCache()  # the reasoning is the same
    graph = strategy(pair, name, transfer=SparseTransfer(share=0.5), cache=cache)
    result = graph.invoke(given)
    reason, transfer = result["calls"]
    assert transfer["error"] is None
    selection = transfer["selection"]
    assert 0 < selection["kept_tokens"] <= selection["reasoning_tokens"]
    assert 0.5 <= selection["reached"] <= 1
    assert selection["reasoning"] in reason["text"]
    place = 0
    for start, end in selection["spans"]:
        span = selection["reasoning"][start:end].strip()
        place = selection["text"].index(span, place) + len(span)
    assert transfer["seconds"] >= selection["seconds"] > 0
    read = sum(call["input_tokens"] for call in result["calls"]) + selection["input_tokens"]
    assert result["messages"][-1].usage_metadata["input_tokens"] == read
    # The same without a cache, in an event loop; and the whole share is full transfer.
    again = asyncio.run(strategy(pair, name, transfer=SparseTransfer(share=0.5)).ainvoke(given))
    again = again["calls"][-1]
    assert again["text"] == transfer["text"]
    assert again["selection"]["spans"] == selection["spans"]
    full, whole = (
        strategy(pair, name, transfer=one).invoke(given)["calls"][-1]
        for one in ("full", SparseTransfer(share=1.0))
    )
    for key in ("text", "answer", "input_tokens", "output_tokens", "error"):
        assert full[key] == whole[key], key
    assert whole["selection"]["text"] == whole["selection"]["reasoning"]
    assert whole["selection"]["kept_tokens"] == whole["selection"]["reasoning_tokens"]


def test_other_ways_keep_no_more_tokens(pair, picture):
    given = {"question": QUESTION, "images": [picture]}
    kept, cache = {}, CallCache()
    for way in ("attention", "sentences", "last", "random", "small"):
        sparse = SparseTransfer(keep=way, share=0.5)
        graph = strategy(pair, "full_transfer", transfer=sparse, cache=cache)
        call = graph.invoke(given)["calls"][-1]
        assert call["error"] is None
        kept[way] = call["selection"]
        assert 0 < kept[way]["kept_tokens"] <= kept["attention"]["kept_tokens"]
        assert kept[way]["reasoning_tokens"] == kept["attention"]["reasoning_tokens"]
        assert 0 <= kept[way]["reached"] <= 1


def test_a_thread_with_a_selection_is_resumed(pair, picture):
    graph = strategy(pair, "full_transfer", transfer="sparse", checkpointer=InMemorySaver())
    thread = {"configurable": {"thread_id": "1"}}
    given = {"question": QUESTION, "images": [picture]}
    graph.invoke(given, thread, interrupt_before=["reasoning_transfer"])
    graph.invoke(None, thread, interrupt_before=["respond"])
    kept = graph.get_state(thread).values["large_transfer"]
    calls = graph.invoke(None, thread)["calls"]
    assert calls[-1] == kept
    assert json.loads(json.dumps(calls)) == calls


def test_two_turns_on_a_thread(pair, picture):
    graph = create_mai(pair.small, pair.large, prompts=pair.prompts, checkpointer=InMemorySaver())
    thread = {"configurable": {"thread_id": "1"}}
    graph.invoke({"question": "Is there a red circle?", "images": [picture]}, thread)
    result = graph.invoke({"question": "How many circles are there?", "images": [picture]}, thread)
    assert {call["kind"] for call in result["calls"]} == {"number"}
    assert [message.type for message in result["messages"]] == ["human", "ai"] * 2


@pytest.mark.parametrize("way", ["invoke", "ainvoke"])
def test_a_time_limit_stops_a_real_model(way, picture):
    pair = load_pair()
    pair.small.load()
    graph = strategy(pair, "small_reason", timeout=0.001)
    given = {"question": "Is there a red circle?", "images": [picture]}
    with pytest.raises(MAIError, match=r"within its timeout of 0\.001 seconds"):
        graph.invoke(given) if way == "invoke" else asyncio.run(graph.ainvoke(given))
