"""The same body on every backend: transformers, engines of this process, servers.

Servers that already run are used if MAI_TEST_SMALL_URL and MAI_TEST_LARGE_URL name them; what they
serve decides which answers can be checked.
"""

import asyncio
import json
import os
import re
from importlib.util import find_spec
from pathlib import Path

import httpx
import pytest
import yaml

import langgraph_mai.demo
from langgraph_mai import ConfigError, create_mai, create_strategy, load_pair, load_prompts
from langgraph_mai.demo.held_out import held_out
from langgraph_mai.graph import STRATEGIES, unavailable

PICTURES = Path(langgraph_mai.demo.__file__).parent / "pictures"
ROUTES = [
    ("chart.png", "What is the sum of the red value and the green value?", "direct", "12"),
    ("shapes.png", "How many red shapes are there in the picture?", "reasoned", "10"),
    ("squares.png", "How many squares can you see in the top row?", "transferred", "4"),
]
BLOCK = 32
"""Tokens of a block of the KV cache of the engines that these tests start."""

needs_vllm = pytest.mark.skipif(find_spec("vllm") is None, reason="vLLM is not installed")
needs_urls = pytest.mark.skipif(
    not {"MAI_TEST_SMALL_URL", "MAI_TEST_LARGE_URL"} <= set(os.environ),
    reason="MAI_TEST_SMALL_URL and MAI_TEST_LARGE_URL name no servers",
)


@pytest.fixture(
    scope="module",
    params=[
        "transformers",
        pytest.param("vllm", marks=[needs_vllm, pytest.mark.shares_vllm]),
        pytest.param("started servers", marks=[needs_vllm, pytest.mark.shares_vllm]),
        pytest.param("named servers", marks=needs_urls),
    ],
)
def backend(request):
    return request.param


@pytest.fixture(scope="module")
def pair(backend, request, tmp_path_factory):
    if backend == "transformers":
        return load_pair("demo")
    if backend == "vllm":
        return request.getfixturevalue("vllm_pair")
    if backend == "started servers":
        served = request.getfixturevalue("served_demo")
        served.running()
        return load_pair(served.file)
    file = tmp_path_factory.mktemp("named") / "pair.yaml"
    file.write_text(yaml.safe_dump(named_pair()))
    return load_pair(file)


def named_pair():
    """The servers of the environment as a pair file, with the first model that each has."""
    roles = {}
    for role in ("small", "large"):
        url = os.environ[f"MAI_TEST_{role.upper()}_URL"].rstrip("/")
        key = os.environ.get("VLLM_API_KEY")
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        (first, *_) = httpx.get(f"{url}/models", headers=headers).json()["data"]
        roles[role] = {"model": first["id"], "base_url": url}
    demo = all(one["model"].startswith("demo:") for one in roles.values())
    return {"backend": "server", "prompts": "demo" if demo else "default", **roles}


@pytest.fixture
def is_demo(pair):
    """Whether the answers are known: the demo pair has prompts of its own."""
    return pair.prompts == load_prompts("demo")


@pytest.fixture(scope="module")
def questions(tmp_path_factory):
    items = held_out(tmp_path_factory.mktemp("held-out"), count=44, seed=616)
    return [
        {
            "question": item.question.text,
            "images": [item.image],
            "choices": list(item.question.choices),
            "answer_type": item.question.answer_type,
        }
        for item in items
    ]


def mai_of(pair, **options):
    return create_mai(pair.small, pair.large, prompts=pair.prompts, **options)


@pytest.mark.parametrize(("picture", "question", "route", "answer"), ROUTES)
def test_each_route_is_taken(pair, is_demo, picture, question, route, answer):
    result = mai_of(pair).invoke({"question": question, "images": [str(PICTURES / picture)]})
    assert all(call["error"] is None for call in result["calls"])
    assert all(call["input_tokens"] > 20 for call in result["calls"])
    assert all(call["output_tokens"] > 0 for call in result["calls"])
    assert result["answer"]
    if is_demo:
        assert (result["route"], result["answer"]) == (route, answer)


@pytest.mark.parametrize("name", STRATEGIES)
def test_every_strategy_answers_or_says_why_not(pair, backend, questions, name):
    if reason := unavailable(name, pair.small, pair.large):
        assert name == "speculative"
        assert backend != "transformers"
        with pytest.raises(ConfigError, match=re.escape(reason)):
            create_strategy(name, pair.small, pair.large, prompts=pair.prompts)
        return
    graph = create_strategy(name, pair.small, pair.large, prompts=pair.prompts)
    result = graph.invoke(questions[0])
    assert result["answer"]
    message = result["messages"][-1]
    written = sum(call["output_tokens"] for call in result["calls"])
    assert message.usage_metadata["output_tokens"] == written


async def test_tokens_are_streamed_with_their_role(pair):
    graph = create_strategy("full_transfer", pair.small, pair.large, prompts=pair.prompts)
    given = {"question": ROUTES[2][1], "images": [str(PICTURES / ROUTES[2][0])]}
    texts = {"mai:small": "", "mai:large": ""}
    pieces = 0
    async for chunk, metadata in graph.astream(given, stream_mode="messages"):
        for tag in set(metadata.get("tags") or ()) & set(texts):
            texts[tag] += chunk.text
            pieces += 1
    assert pieces > 5
    assert all(texts.values())


def test_many_questions_at_once_are_answered_as_one_by_one(pair, questions):
    graph = mai_of(pair)
    alone = [graph.invoke(question) for question in questions]
    together = asyncio.run(graph.abatch(questions))
    assert [two["answer"] for two in together] == [one["answer"] for one in alone]
    assert [two["route"] for two in together] == [one["route"] for one in alone]
    assert not any(call["error"] for result in together for call in result["calls"])


FORM = {
    "type": "object",
    "properties": {
        "red_shapes": {"type": "integer", "minimum": 0, "maximum": 20},
        "star": {"type": "boolean"},
        "color": {"enum": ["red", "green", "blue", "yellow"]},
    },
    "required": ["red_shapes", "star", "color"],
    "additionalProperties": False,
}


def test_a_form_is_filled_whatever_the_models_know(pair):
    """Its models were trained on sentences: they are held to the form while they decode."""
    asked = {"question": "Fill in the form.", "images": [str(PICTURES / "shapes.png")]}
    result = mai_of(pair).invoke(asked | {"schema": FORM})
    for call in result["calls"]:
        assert call["error"] is None
        if call["style"] == "direct":
            assert list(json.loads(call["text"])) == FORM["required"]
    value = result["value"]
    assert list(value) == list(result["fields"]) == FORM["required"]
    assert isinstance(value["red_shapes"], int)
    assert isinstance(value["star"], bool)
    assert value["color"] in FORM["properties"]["color"]["enum"]
    assert all(0 < field["probability"] <= 1 for field in result["fields"].values())


def test_probabilities_are_those_of_transformers(pair, is_demo, questions):
    if not is_demo:
        pytest.skip("only of the demo pair is it known what they are")
    known = mai_of(load_pair("demo"))
    graph = mai_of(pair)
    for question in questions[:12]:
        wanted, found = known.invoke(question)["calls"], graph.invoke(question)["calls"]
        for one, other in zip(wanted, found, strict=True):
            assert other["probability"] == pytest.approx(one["probability"], abs=1e-3)
            assert one["style"] not in {"direct", "transfer"} or 0 < one["probability"] <= 1


def test_the_second_call_reuses_what_the_first_one_computed(pair, backend, is_demo):
    if backend == "transformers" or not is_demo:
        pytest.skip("the size of this engine's blocks is not known here")
    picture, question, *_ = ROUTES[2]
    result = mai_of(pair).invoke({"question": question, "images": [str(PICTURES / picture)]})
    calls = {(call["role"], call["style"]): call for call in result["calls"]}
    # Both prompts are alike up to the instruction: 42 tokens and more, so one whole block.
    assert calls["small", "reason"]["cached_tokens"] >= BLOCK
    assert calls["large", "transfer"]["cached_tokens"] >= BLOCK


def test_a_reasoning_too_long_for_the_context_loses_its_front(pair, is_demo):
    if not is_demo:
        pytest.skip("the context of this model is not known here")
    long = "red blue " * 2000
    picture, question, *_ = ROUTES[2]
    graph = mai_of(pair, transfer=lambda reasoning: long + reasoning)
    result = graph.invoke({"question": question, "images": [str(PICTURES / picture)]})
    assert result["route"] == "transferred"
    (transfer,) = (call for call in result["calls"] if call["style"] == "transfer")
    assert transfer["error"] is None
    assert transfer["text"]
    assert transfer["cut"] == "front"
    assert 1000 < transfer["input_tokens"] < 2048


def test_a_call_out_of_time_leaves_the_next_one_alone(pair, backend, questions):
    if "servers" in backend:
        pytest.skip("cancelled at once, httpcore leaves its idle connections to the collector")
    graph = mai_of(pair, timeout=1e-9)  # over before anything can be done
    with pytest.raises(RuntimeError, match=r"within its timeout of 1e-09 seconds"):
        graph.invoke(questions[1])
    assert mai_of(pair).invoke(questions[1])["answer"]
