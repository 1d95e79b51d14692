"""Time limits and cancelled calls: the caller is free immediately, the model within a token."""

import asyncio
import threading
import time

import pytest
from asked import ask, picture

from langgraph_mai import ChatTransformers

QUESTION = ask("What?", picture("red"))
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


async def read(model, **settings):
    return [chunk async for chunk in model.astream(QUESTION, **settings)]


WAYS = {
    "invoke": lambda model, **settings: model.invoke(QUESTION, **settings),
    "ainvoke": lambda model, **settings: asyncio.run(model.ainvoke(QUESTION, **settings)),
    "stream": lambda model, **settings: list(model.stream(QUESTION, **settings)),
    "astream": lambda model, **settings: asyncio.run(read(model, **settings)),
    "batch": lambda model, **settings: model.batch([QUESTION] * 2, **settings),
}


def test_a_call_that_takes_too_long(model, slow):
    hurried = model.model_copy(update={"timeout": 0.1})
    for call in WAYS.values():
        with pytest.raises(TimeoutError, match=r"did not finish within its timeout of 0\.2 seco"):
            call(model, timeout=0.2, **LONG)
        assert_stopped(model, slow)
        with pytest.raises(TimeoutError, match="raise the timeout"):
            call(hurried, **LONG)
    assert model.invoke(QUESTION, max_tokens=3).usage_metadata["output_tokens"] == 3
    stream = model.stream(QUESTION, **LONG)  # left early
    next(stream)
    stream.close()
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
    answers = {model.invoke(QUESTION, timeout=one).content for one in (None, 60, 1e10)}
    assert len(answers) == 1


@pytest.mark.parametrize("way", ["ainvoke", "astream", "abatch", "encoding", "loop"])
def test_a_cancelled_call_stops_the_model(model, slow, monkeypatch, way):
    async def cancel():
        calls = {
            "astream": lambda: read(model, **LONG),
            "abatch": lambda: model.abatch([QUESTION] * 3, **LONG),
        }
        task = asyncio.create_task(calls.get(way, lambda: model.ainvoke(QUESTION, **LONG))())
        if way == "encoding":
            await asyncio.sleep(0.1)
        else:
            await begun(slow)
        if way == "loop":
            return  # the event loop ends during the call
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    if way == "encoding":
        from transformers import Qwen3VLProcessor

        encode = Qwen3VLProcessor.__call__

        def slow_encode(self, *args, **kwargs):
            time.sleep(0.3)
            return encode(self, *args, **kwargs)

        monkeypatch.setattr(Qwen3VLProcessor, "__call__", slow_encode)
    asyncio.run(cancel())
    assert_stopped(model, slow)
