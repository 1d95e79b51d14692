"""Streams: the same text in pieces, usage once, and nothing that blocks the event loop."""

import asyncio
import time

import pytest
from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.messages import HumanMessage
from PIL import Image

from langgraph_mai import ChatTransformers

QUESTION = [HumanMessage([{"type": "image", "image": Image.new("RGB", (90, 60), "red")}, "What?"])]


@pytest.fixture
def model(checkpoint):
    return ChatTransformers(
        model=str(checkpoint), dtype="float32", device="cpu", max_tokens=30, prefix_cache_bytes=0
    )


def joined(chunks):
    total = chunks[0]
    for chunk in chunks[1:]:
        total += chunk
    return total


def test_a_stream_adds_up_to_the_answer(model):
    answer = model.invoke(QUESTION)
    chunks = list(model.stream(QUESTION))
    assert len(chunks) > 5
    total = joined(chunks)
    assert total.content == answer.content
    assert total.usage_metadata == answer.usage_metadata
    for key in ("model_name", "finish_reason"):
        assert total.response_metadata[key] == answer.response_metadata[key]
    assert total.response_metadata["seconds"] > 0


def test_usage_and_the_end_come_with_the_last_chunk_alone(model):
    *earlier, last = model.stream(QUESTION)
    assert last.chunk_position == "last"
    assert last.usage_metadata["output_tokens"] == 30
    assert all(chunk.usage_metadata is None for chunk in earlier)
    assert all(chunk.chunk_position is None for chunk in earlier)


def test_log_probabilities_add_up(model):
    answer = model.invoke(QUESTION, logprobs=True)
    total = joined(list(model.stream(QUESTION, logprobs=True)))
    assert total.response_metadata["logprobs"] == answer.response_metadata["logprobs"]


def test_a_stop_string_is_never_shown(model):
    whole = model.invoke(QUESTION).content
    stop = whole[4:7]
    chunks = list(model.stream(QUESTION, stop=[stop]))
    assert joined(chunks).content == whole[: whole.index(stop)]
    assert chunks[-1].response_metadata["finish_reason"] == "stop"


async def test_an_async_stream_is_the_same(model):
    chunks = [chunk async for chunk in model.astream(QUESTION)]
    answer = await model.ainvoke(QUESTION)
    assert joined(chunks).content == answer.content == model.invoke(QUESTION).content
    assert chunks[-1].chunk_position == "last"


async def test_the_event_loop_stays_free(model):
    model.load()
    ticks = 0

    async def tick():
        nonlocal ticks
        while True:
            await asyncio.sleep(0.001)
            ticks += 1

    ticking = asyncio.create_task(tick())
    await model.ainvoke(QUESTION, max_tokens=300, temperature=1.0, seed=1)
    ticking.cancel()
    assert ticks > 20


class Tokens(BaseCallbackHandler):
    def __init__(self):
        self.tokens = []
        self.ends = 0

    def on_llm_new_token(self, token, *, chunk=None, **kwargs):
        assert chunk is not None
        self.tokens.append(token)

    def on_llm_end(self, response, **kwargs):
        self.ends += 1
        assert response.generations[0][0].message.usage_metadata


def test_callbacks_see_every_token_once(model):
    handler = Tokens()
    chunks = list(model.stream(QUESTION, config={"callbacks": [handler]}))
    assert "".join(handler.tokens) == joined(chunks).content
    assert len(handler.tokens) == len(chunks)
    assert handler.ends == 1


async def test_callbacks_of_an_async_stream(model):
    handler = Tokens()
    chunks = [chunk async for chunk in model.astream(QUESTION, config={"callbacks": [handler]})]
    assert "".join(handler.tokens) == joined(chunks).content
    assert handler.ends == 1


async def test_events_of_an_invoked_model_carry_its_tokens(model):
    """What LangGraph relies on: a node that calls invoke streams when somebody listens."""
    from langchain_core.runnables import RunnableLambda

    async def node(_):
        return (await model.ainvoke(QUESTION)).content

    texts = [
        event["data"]["chunk"].content
        async for event in RunnableLambda(node).astream_events(None, version="v2")
        if event["event"] == "on_chat_model_stream"
    ]
    assert len(texts) > 5
    assert "".join(texts) == model.invoke(QUESTION).content


def test_a_stream_may_be_left_early(model, monkeypatch):
    from transformers import StoppingCriteriaList as Watch

    steps = []
    original = Watch.__call__

    def counted(self, *args, **kwargs):
        steps.append(1)
        time.sleep(0.01)
        return original(self, *args, **kwargs)

    monkeypatch.setattr(Watch, "__call__", counted)
    stream = model.stream(QUESTION, max_tokens=900, temperature=1.0, seed=0)
    next(stream)
    stream.close()
    count = len(steps)
    model.invoke(QUESTION, max_tokens=1)  # begins when the model is free
    assert len(steps) - count <= 3
