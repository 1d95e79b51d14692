"""Time limits and cancelled calls: the caller is free at once, the model within a token."""

import asyncio
import threading
import time

import pytest
from langchain_core.messages import HumanMessage
from PIL import Image

from langgraph_mai import ChatTransformers

QUESTION = [HumanMessage([{"type": "image", "image": Image.new("RGB", (90, 60), "red")}, "What?"])]
LONG = {"max_tokens": 900, "temperature": 1.0, "seed": 0}


@pytest.fixture
def model(qwen_checkpoint):
    model = ChatTransformers(model=str(qwen_checkpoint), dtype="float32", device="cpu")
    model.invoke("warm up", max_tokens=1)
    return model


@pytest.fixture
def slow(monkeypatch, model):
    """Every token takes 20 ms; yields a list that grows with each of them."""
    from transformers import StoppingCriteriaList as Watch

    steps = []
    original = Watch.__call__

    def slowed(self, *args, **kwargs):
        time.sleep(0.02)
        steps.append(time.monotonic())
        return original(self, *args, **kwargs)

    monkeypatch.setattr(Watch, "__call__", slowed)
    return steps


async def begun(steps):
    """Waits for a first token, however busy the machine is."""
    while not steps:
        await asyncio.sleep(0.01)


def assert_stopped(model, steps):
    """The next call finds the model free after the token that was under way, not after 900."""
    count = len(steps)
    model.invoke("x", max_tokens=1)
    assert len(steps) - count <= 3


def test_a_call_that_takes_too_long(model, slow):
    with pytest.raises(TimeoutError, match=r"did not finish within its timeout of 0\.2 seconds"):
        model.invoke(QUESTION, timeout=0.2, **LONG)
    assert_stopped(model, slow)


def test_a_time_limit_of_the_model(model, slow):
    hurried = model.model_copy(update={"timeout": 0.1})
    with pytest.raises(TimeoutError, match="raise the timeout"):
        hurried.invoke(QUESTION, **LONG)


async def test_an_async_call_that_takes_too_long(model, slow):
    with pytest.raises(TimeoutError, match="did not finish"):
        await model.ainvoke(QUESTION, timeout=0.2, **LONG)
    assert_stopped(model, slow)


def test_a_stream_that_takes_too_long_shows_what_came_before(model, slow):
    texts = []
    with pytest.raises(TimeoutError, match="did not finish"):
        texts.extend(chunk.content for chunk in model.stream(QUESTION, timeout=0.3, **LONG))
    assert_stopped(model, slow)


async def test_an_async_stream_that_takes_too_long(model, slow):
    with pytest.raises(TimeoutError, match="did not finish"):
        async for _ in model.astream(QUESTION, timeout=0.2, **LONG):
            pass
    assert_stopped(model, slow)


def test_waiting_for_another_call_counts(model, slow):
    model.batch_size = 1
    other = threading.Thread(target=lambda: model.invoke(QUESTION, **{**LONG, "max_tokens": 40}))
    other.start()
    asyncio.run(begun(slow))
    with pytest.raises(TimeoutError, match="did not finish"):
        model.invoke(QUESTION, timeout=0.2, max_tokens=1)
    other.join()


def test_enough_time_changes_nothing(model):
    assert model.invoke(QUESTION, timeout=60).content == model.invoke(QUESTION).content


async def test_a_cancelled_call_stops_the_model(model, slow):
    task = asyncio.create_task(model.ainvoke(QUESTION, **LONG))
    await begun(slow)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert_stopped(model, slow)


async def test_a_call_cancelled_while_its_prompt_is_prepared(model, slow, monkeypatch):
    from transformers import Qwen3VLProcessor

    encode = Qwen3VLProcessor.__call__

    def slow_encode(self, *args, **kwargs):
        time.sleep(0.2)
        return encode(self, *args, **kwargs)

    monkeypatch.setattr(Qwen3VLProcessor, "__call__", slow_encode)
    task = asyncio.create_task(model.ainvoke(QUESTION, **LONG))
    await asyncio.sleep(0.1)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await asyncio.sleep(0.3)
    assert_stopped(model, slow)


async def test_a_cancelled_stream_stops_the_model(model, slow):
    async def read():
        async for _ in model.astream(QUESTION, **LONG):
            pass

    task = asyncio.create_task(read())
    await begun(slow)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert_stopped(model, slow)


async def test_a_cancelled_batch_stops_the_model(model, slow):
    task = asyncio.create_task(model.abatch([QUESTION] * 3, **LONG))
    await begun(slow)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert_stopped(model, slow)


def test_a_loop_that_ends_during_a_call_stops_the_model(model, slow):
    async def give_up():
        asyncio.get_running_loop().create_task(model.ainvoke(QUESTION, **LONG))
        await begun(slow)

    asyncio.run(give_up())
    assert_stopped(model, slow)


def test_the_model_answers_after_all_this(model, slow):
    with pytest.raises(TimeoutError):
        model.batch([QUESTION] * 2, timeout=0.1, **LONG)
    assert model.invoke(QUESTION, max_tokens=3).usage_metadata["output_tokens"] == 3
