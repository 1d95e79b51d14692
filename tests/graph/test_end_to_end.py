"""The same body with every kind of pair: scripted, the demo pair, tiny checkpoints."""

import asyncio
import json

import pytest
import yaml
from fakes import PROMPTS, AttentiveModel, models
from langgraph.checkpoint.memory import InMemorySaver
from PIL import Image, ImageDraw

from langgraph_mai import MAIError, Pair, SparseTransfer, create_mai, create_strategy, load_pair
from langgraph_mai.graph import STRATEGIES, TRANSFER_STRATEGIES


@pytest.fixture(scope="module", params=["scripted", "demo", "qwen3-vl", "internvl"])
def pair(request, tmp_path_factory):
    if request.param == "scripted":
        return Pair("scripted", *models("transferred", AttentiveModel), PROMPTS)
    if request.param == "demo":
        return load_pair()
    folder = tmp_path_factory.mktemp("pair")
    checkpoint = "qwen_checkpoint" if request.param == "qwen3-vl" else "internvl_checkpoint"
    weights = str(request.getfixturevalue(checkpoint))
    (folder / "prompts.yaml").write_text(yaml.safe_dump(PROMPTS.model_dump()))
    config = {
        "prompts": "./prompts.yaml",
        "small": {"model": weights},
        "large": {"model": weights, "attention": "eager"},
    }
    (folder / "pair.yaml").write_text(yaml.safe_dump(config))
    return load_pair(folder / "pair.yaml")


@pytest.fixture
def picture(tmp_path):
    drawn = Image.new("RGB", (128, 128), "white")
    ImageDraw.Draw(drawn).ellipse((40, 40, 88, 88), fill="red")
    path = tmp_path / "circle.png"
    drawn.save(path)
    return str(path)


@pytest.mark.parametrize("name", STRATEGIES)
def test_every_strategy_answers(pair, picture, name):
    graph = create_strategy(name, pair.small, pair.large, prompts=pair.prompts)
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
    graph = create_strategy("full_transfer", pair.small, pair.large, prompts=pair.prompts)
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
def test_sparse_transfer_hands_over_a_part_of_the_reasoning(pair, picture, name):
    graph = create_strategy(
        name, pair.small, pair.large, prompts=pair.prompts, transfer=SparseTransfer(share=0.5)
    )
    given = {"question": QUESTION, "images": [picture]}
    result = graph.invoke(given)
    reason, transfer = result["calls"]
    assert transfer["error"] is None
    selection = transfer["selection"]
    assert 0 < selection["kept_tokens"] <= selection["reasoning_tokens"]
    assert 0.5 <= selection["reached"] <= 1
    assert selection["reasoning"] in reason["text"]
    stretches = [selection["reasoning"][start:end] for start, end in selection["spans"]]
    place = 0
    for stretch in stretches:
        place = selection["text"].index(stretch.strip(), place) + len(stretch.strip())
    assert transfer["seconds"] >= selection["seconds"] > 0
    read = sum(call["input_tokens"] for call in result["calls"]) + selection["input_tokens"]
    assert result["messages"][-1].usage_metadata["input_tokens"] == read
    again = asyncio.run(graph.ainvoke(given))["calls"][-1]
    assert again["text"] == transfer["text"]
    assert again["selection"]["spans"] == selection["spans"]


@pytest.mark.parametrize("name", TRANSFERS)
def test_the_whole_share_is_full_transfer_token_for_token(pair, picture, name):
    given = {"question": QUESTION, "images": [picture]}
    calls = []
    for transfer in ("full", SparseTransfer(share=1.0)):
        graph = create_strategy(
            name, pair.small, pair.large, prompts=pair.prompts, transfer=transfer
        )
        calls.append(graph.invoke(given)["calls"][-1])
    for key in ("text", "answer", "input_tokens", "output_tokens", "error"):
        assert calls[0][key] == calls[1][key], key
    selection = calls[1]["selection"]
    assert selection["text"] == selection["reasoning"]
    assert selection["kept_tokens"] == selection["reasoning_tokens"]


@pytest.mark.parametrize("keep", ["sentences", "last", "random", "small"])
def test_other_ways_keep_no_more_tokens(pair, picture, keep):
    given = {"question": QUESTION, "images": [picture]}
    kept = {}
    for way in ("attention", keep):
        graph = create_strategy(
            "full_transfer",
            pair.small,
            pair.large,
            prompts=pair.prompts,
            transfer=SparseTransfer(keep=way, share=0.5),
        )
        call = graph.invoke(given)["calls"][-1]
        assert call["error"] is None
        kept[way] = call["selection"]
    assert 0 < kept[keep]["kept_tokens"] <= kept["attention"]["kept_tokens"]
    assert kept[keep]["reasoning_tokens"] == kept["attention"]["reasoning_tokens"]
    assert 0 <= kept[keep]["reached"] <= 1


def test_a_thread_with_a_selection_is_resumed(pair, picture):
    graph = create_strategy(
        "full_transfer",
        pair.small,
        pair.large,
        prompts=pair.prompts,
        transfer="sparse",
        checkpointer=InMemorySaver(),
    )
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
    graph = create_strategy(
        "small_reason", pair.small, pair.large, prompts=pair.prompts, timeout=0.001
    )
    given = {"question": "Is there a red circle?", "images": [picture]}
    with pytest.raises(MAIError, match=r"within its timeout of 0\.001 seconds"):
        graph.invoke(given) if way == "invoke" else asyncio.run(graph.ainvoke(given))
