import asyncio

import pytest
from fakes import PROMPTS, models
from langchain_core.exceptions import ContextOverflowError
from langchain_core.messages import HumanMessage

from langgraph_mai import ChatTransformers, create_mai
from langgraph_mai.benchmarks.evaluation.call_store import CallStore
from langgraph_mai.benchmarks.evaluation.model_identity import model_identity
from langgraph_mai.benchmarks.evaluation.shared_calls import SharedCalls
from langgraph_mai.benchmarks.evaluation.stored_model import StoredModel
from langgraph_mai.models.images import image_block

QUESTION = {"question": "Is it red?"}


@pytest.fixture
def store(tmp_path):
    with CallStore(tmp_path / "store") as opened:
        yield opened


@pytest.fixture
def calls(store):
    return SharedCalls(store)


def prompt(text: str = "Is it red?\nDIRECT", *blocks: dict) -> list[HumanMessage]:
    return [HumanMessage([*blocks, {"type": "text", "text": text}])]


async def test_a_call_is_made_once_and_comes_back_whole(calls):
    small, _ = models()
    model = StoredModel(small, calls, "small")
    first = await model.ainvoke(prompt(), max_tokens=4)
    again = StoredModel(small, calls, "small")
    second = await again.ainvoke(prompt(), max_tokens=4)
    assert len(small.calls) == 1
    assert (model.made, again.made) == (1, 0)
    assert second == first
    assert second.usage_metadata["input_token_details"] == {"cache_read": 10}
    assert second.response_metadata["finish_reason"] == "stop"


async def test_a_call_with_a_draft_is_stored_for_itself(calls, demo_weights):
    small, large = models("transferred")
    model = StoredModel(large, calls, "large")
    reason = prompt("Is it red?\nREASON")
    plain = await model.ainvoke(reason)
    drafted = [await model.ainvoke(reason, draft=small) for _ in range(2)]
    assert model.made == 2
    assert drafted[0] == drafted[1]
    assert drafted[0].response_metadata["drafted_tokens"] == 8
    assert "drafted_tokens" not in plain.response_metadata
    # A draft is told by its weights, wherever they lie and whoever holds them.
    folders = [demo_weights / "small", demo_weights / "large"]
    for folder in [*folders, *folders]:
        await model.ainvoke(reason, draft=ChatTransformers(model=str(folder)))
    assert model.made == 4


def test_a_draft_of_its_own_makes_no_other_model(demo_weights):
    model = ChatTransformers(model=str(demo_weights / "large"))
    drafted = model.model_copy(
        update={"draft": ChatTransformers(model=str(demo_weights / "small"))}
    )
    assert model_identity(drafted) == model_identity(model)


async def test_whatever_changes_the_answer_is_another_call(calls, tmp_path):
    from PIL import Image

    small, _ = models()
    pictures = []
    for color in ("red", "blue"):
        Image.new("RGB", (64, 64), color).save(tmp_path / f"{color}.png")
        pictures.append(image_block(str(tmp_path / f"{color}.png")))
    model = StoredModel(small, calls, "small")
    asked = [
        (prompt(), {"max_tokens": 4}),
        (prompt(), {"max_tokens": 5}),
        (prompt("Is it blue?\nDIRECT"), {"max_tokens": 4}),
        (prompt("Is it red?\nDIRECT", pictures[0]), {"max_tokens": 4}),
        (prompt("Is it red?\nDIRECT", pictures[1]), {"max_tokens": 4}),
        (prompt("Is it red?\nDIRECT", pictures[0], pictures[1]), {"max_tokens": 4}),
    ]
    for messages, settings in asked * 2:
        await model.ainvoke(messages, **settings)
    assert model.made == len(asked)
    other = StoredModel(models()[1], calls, "large")
    await other.ainvoke(asked[0][0], **asked[0][1])
    assert other.made == 1


async def test_a_timeout_changes_no_answer(calls):
    small, _ = models()
    model = StoredModel(small, calls, "small")
    await model.ainvoke(prompt(), timeout=5)
    await model.ainvoke(prompt(), timeout=7)
    assert model.made == 1


async def test_equal_calls_at_the_same_time_are_one_call(calls):
    small, _ = models(delay=0.05)
    model = StoredModel(small, calls, "small")
    answers = await asyncio.gather(*(model.ainvoke(prompt()) for _ in range(20)))
    assert len(small.calls) == 1
    assert {answer.text for answer in answers} == {"yes"}


async def test_a_caller_that_is_cancelled_takes_the_call_from_no_other(calls):
    small, _ = models(delay=0.1)
    model = StoredModel(small, calls, "small")
    first = asyncio.create_task(model.ainvoke(prompt()))
    second = asyncio.create_task(model.ainvoke(prompt()))
    await asyncio.sleep(0.03)
    first.cancel()
    assert (await second).text == "yes"
    assert len(small.calls) == 1


async def test_a_failed_call_fails_for_all_who_ask_and_is_made_again_later(calls, store):
    small, _ = models()
    small.script["direct"] = RuntimeError("The server\nis away.")
    model = StoredModel(small, calls, "small")
    for _ in range(2):
        with pytest.raises(RuntimeError, match="is away"):
            await model.ainvoke(prompt())
    assert len(small.calls) == 1
    assert store.failures()[0]["error"] == "The server is away."
    small.script["direct"] = "yes"
    answer = await StoredModel(small, calls, "small").ainvoke(prompt())
    assert answer.text == "yes"
    assert store.failures() == []


async def test_a_reasoning_that_is_too_long_is_shortened_as_without_a_store(calls, store):
    def answer(text: str) -> str | Exception:
        return ContextOverflowError("too long") if len(text) > 400 else "yes"

    async def run(wrapped: bool):
        small, large = models("transferred")
        small.script["reason"] = "It is dark. " * 60 + "\nAnswer: no"
        large.script["transfer"] = answer
        if wrapped:
            small, large = StoredModel(small, calls, "small"), StoredModel(large, calls, "large")
        output = await create_mai(small, large, prompts=PROMPTS).ainvoke(QUESTION)
        return [{**call, "seconds": 0, "cached_tokens": 0} for call in output["calls"]], output[
            "route"
        ]

    plain, fresh, stored = [await run(wrapped) for wrapped in (False, True, True)]
    assert plain[0][-1]["cut"] == "front"
    assert plain == fresh == stored
    assert store.failures() == []


def test_weights_tell_models_apart_and_places_and_speed_do_not(demo_weights, tmp_path):
    import shutil

    from langgraph_mai import ChatTransformers

    moved = tmp_path / "elsewhere" / "small"
    shutil.copytree(demo_weights / "small", moved)
    here = model_identity(ChatTransformers(model=str(demo_weights / "small")))
    assert model_identity(ChatTransformers(model=str(moved), batch_size=2, timeout=9)) == here
    assert model_identity(ChatTransformers(model=str(moved), temperature=0.5)) != here
    weights = bytearray((moved / "model.safetensors").read_bytes())
    weights[-1] ^= 1
    (moved / "model.safetensors").write_bytes(weights)
    assert model_identity(ChatTransformers(model=str(moved))) != here


def test_a_model_on_a_server_is_told_by_its_address_without_its_key():
    from langgraph_mai import ChatServer

    first = ChatServer(model="m", base_url="http://a:1/v1", api_key="secret-1")
    second = ChatServer(model="m", base_url="http://b:1/v1", api_key="secret-1")
    assert model_identity(first) != model_identity(second)
    assert "secret" not in str(model_identity(first))
