"""Streams: the same text in chunks, usage once, and nothing that blocks the event loop."""

import asyncio
import functools
import operator

import pytest
from asked import ask as asked
from asked import picture
from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.runnables import RunnableLambda

from langgraph_mai import ChatTransformers

QUESTION = asked("What?", picture("red"))


@pytest.fixture
def model(checkpoint):
    return ChatTransformers(
        model=str(checkpoint), dtype="float32", device="cpu", max_tokens=30, prefix_cache_bytes=0
    )


async def read(model, **settings):
    return [chunk async for chunk in model.astream(QUESTION, **settings)]


STREAMS = [
    lambda model, **settings: list(model.stream(QUESTION, **settings)),
    lambda model, **settings: asyncio.run(read(model, **settings)),
]


class Tokens(BaseCallbackHandler):
    def __init__(self):
        self.tokens, self.ends = [], 0

    def on_llm_new_token(self, token, *, chunk=None, **kwargs):
        assert chunk is not None
        self.tokens.append(token)

    def on_llm_end(self, response, **kwargs):
        self.ends += 1
        assert response.generations[0][0].message.usage_metadata


@pytest.mark.parametrize("stream", STREAMS, ids=["stream", "astream"])
def test_a_stream_adds_up_to_the_answer_and_shows_no_stop_string(model, stream):
    answer, handler = model.invoke(QUESTION, logprobs=True), Tokens()
    chunks = stream(model, logprobs=True, config={"callbacks": [handler]})
    assert len(chunks) > 5
    total = functools.reduce(operator.add, chunks)
    assert total.content == answer.content
    assert total.usage_metadata == answer.usage_metadata
    for key in ("model_name", "finish_reason", "logprobs"):
        assert total.response_metadata[key] == answer.response_metadata[key]
    assert total.response_metadata["seconds"] > 0
    *earlier, last = chunks
    assert last.chunk_position == "last"
    assert last.usage_metadata["output_tokens"] == 30
    assert all(one.usage_metadata is one.chunk_position is None for one in earlier)
    assert "".join(handler.tokens) == total.content
    assert len(handler.tokens) == len(chunks)
    assert handler.ends == 1
    stop = answer.content[4:7]
    chunks = stream(model, stop=[stop])
    shown = "".join(one.content for one in chunks)
    assert shown == answer.content[: answer.content.index(stop)]
    assert chunks[-1].response_metadata["finish_reason"] == "stop"


async def test_the_event_loop_stays_free(qwen_checkpoint):
    model = ChatTransformers(model=str(qwen_checkpoint), dtype="float32").load()
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


async def test_events_of_an_invoked_model_carry_its_tokens(model):
    """What LangGraph relies on: a node that calls invoke streams when somebody listens."""

    async def node(_):
        return (await model.ainvoke(QUESTION)).content

    texts = [
        event["data"]["chunk"].content
        async for event in RunnableLambda(node).astream_events(None, version="v2")
        if event["event"] == "on_chat_model_stream"
    ]
    assert len(texts) > 5
    assert "".join(texts) == model.invoke(QUESTION).content
