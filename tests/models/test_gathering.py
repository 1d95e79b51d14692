"""Calls made at the same time go through the model together, with the answers of single calls."""

import asyncio
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from langchain_core.caches import InMemoryCache
from langchain_core.messages import HumanMessage
from PIL import Image

from langgraph_mai.models import ChatTransformers, ModelError
from langgraph_mai.models.completion import Settings
from langgraph_mai.models.stop_signal import CallStoppedError, StopSignal
from langgraph_mai.models.transformers.rows import Row, Sharing
from langgraph_mai.models.transformers.waiting import WaitingRows

LONG = {"max_tokens": 900, "temperature": 1.0, "seed": 0}


def ask(text, colour="red", size=(90, 60)):
    return [HumanMessage([{"type": "image", "image": Image.new("RGB", size, colour)}, text])]


QUESTIONS = [
    ask("What?"),
    ask("And a longer one?", "blue", (64, 64)),
    "No picture in this one",
    ask("Who?", "green", (40, 130)),
    "?",
    ask("What now?"),
]


class Passes:
    """Rows and rounds of each generation, and a way to make its tokens slow."""

    def __init__(self, monkeypatch):
        from transformers import GenerationMixin

        from langgraph_mai.models.transformers.sampling import Watch

        self.rows, self.steps, self.pace = [], [], 0.0
        self.failing = None
        generate, step = GenerationMixin.generate, Watch.__call__

        def counting(this, *args, **kwargs):
            self.rows.append(kwargs["input_ids"].shape[0])
            if self.failing:
                self.failing(kwargs["input_ids"])
            return generate(this, *args, **kwargs)

        def slowed(this, *args, **kwargs):
            time.sleep(self.pace)
            self.steps.append(1)
            return step(this, *args, **kwargs)

        monkeypatch.setattr(GenerationMixin, "generate", counting)
        monkeypatch.setattr(Watch, "__call__", slowed)


@pytest.fixture
def passes(monkeypatch):
    return Passes(monkeypatch)


@pytest.fixture(params=[None, 0])
def model(request, checkpoint):
    return ChatTransformers(
        model=str(checkpoint),
        dtype="float32",
        device="cpu",
        max_tokens=12,
        prefix_cache_bytes=request.param,
    )


@pytest.fixture
def qwen(qwen_checkpoint):
    model = ChatTransformers(
        model=str(qwen_checkpoint), dtype="float32", device="cpu", prefix_cache_bytes=0
    )
    model.invoke("warm up", max_tokens=1)
    return model


def answers(model):
    single = model.model_copy(update={"batch_size": 1, "prefix_cache_bytes": 0})
    return [single.invoke(question).content for question in QUESTIONS]


def begun(passes):
    while not passes.steps:
        time.sleep(0.01)


def test_calls_of_threads(model, passes):
    expected = answers(model)
    passes.rows.clear()
    with ThreadPoolExecutor(len(QUESTIONS)) as pool:
        assert [m.content for m in pool.map(model.invoke, QUESTIONS)] == expected
    assert max(passes.rows) > 1


def test_calls_of_tasks(model, passes):
    expected = answers(model)
    passes.rows.clear()

    async def gather():
        return await asyncio.gather(*map(model.ainvoke, QUESTIONS))

    assert [message.content for message in asyncio.run(gather())] == expected
    assert max(passes.rows) > 1


def test_streams(model, passes):
    expected = answers(model)
    passes.rows.clear()

    async def read(question):
        return "".join([chunk.content async for chunk in model.astream(question)])

    async def gather():
        return await asyncio.gather(*map(read, QUESTIONS))

    assert asyncio.run(gather()) == expected
    assert max(passes.rows) > 1


def test_draws_are_those_of_single_calls(model):
    drawing = model.model_copy(update={"temperature": 1.0, "seed": 7, "max_tokens": 40})
    expected = answers(drawing)
    with ThreadPoolExecutor(len(QUESTIONS)) as pool:
        assert [m.content for m in pool.map(drawing.invoke, QUESTIONS)] == expected


def test_a_call_joins_those_that_run(model, passes):
    drawing = model.model_copy(update={"temperature": 1.0, "seed": 3, "max_tokens": 120})
    expected = answers(drawing)
    passes.rows.clear()
    passes.steps.clear()
    passes.pace = 0.05  # seconds for the short ones to begin, however busy the machine is
    ended = []

    def call(at):
        ended.append((at, drawing.invoke(QUESTIONS[at], max_tokens=120 if at == 0 else 8)))

    first = threading.Thread(target=call, args=[0])
    first.start()
    begun(passes)
    for at in (1, 2):
        call(at)
    passes.pace = 0.0
    first.join()
    contents = {at: message.content for at, message in ended}
    # The short calls did not wait for the long one, which was not disturbed either.
    assert [at for at, _ in ended] == [1, 2, 0]
    assert contents[0] == expected[0]
    short = drawing.model_copy(update={"max_tokens": 8})
    assert [contents[at] for at in (1, 2)] == answers(short)[1:3]


def test_a_lone_call_is_one_generation(model, passes):
    model.invoke(QUESTIONS[0])
    assert passes.rows == [1]


def test_the_count_is_bounded(model, passes):
    expected = answers(model)
    passes.rows.clear()
    few = model.model_copy(update={"batch_size": 2})
    with ThreadPoolExecutor(len(QUESTIONS)) as pool:
        assert [m.content for m in pool.map(few.invoke, QUESTIONS)] == expected
    assert max(passes.rows) <= 2


def test_the_tokens_are_bounded(model, passes):
    expected = answers(model)
    passes.rows.clear()
    narrow = model.model_copy(update={"batch_tokens": 20})
    assert [message.content for message in narrow.batch(QUESTIONS)] == expected
    assert set(passes.rows) == {1}


def test_one_long_prompt_does_not_pad_many_short_ones(qwen, passes, monkeypatch):
    from langgraph_mai.models.transformers import waiting

    monkeypatch.setattr(waiting, "PADDING", 0)
    qwen.batch(["x" * 700, *["y"] * 5], max_tokens=1)
    assert passes.rows in ([2, 4], [5, 1])  # the long one comes among the first two, or later


def test_a_batch_that_fails_is_tried_row_by_row(model, passes):
    import torch

    expected = answers(model)
    passes.rows.clear()

    def out_of_memory(ids):
        if len(ids) > 1:
            raise torch.OutOfMemoryError("out of memory")

    passes.failing = out_of_memory
    assert [message.content for message in model.batch(QUESTIONS)] == expected
    assert passes.rows[0] == len(QUESTIONS)
    assert set(passes.rows[1:]) == {1}


def test_only_the_row_at_fault_fails(qwen, passes):
    token = qwen.get_token_ids("$")[0]

    def fail(ids):
        if token in ids:
            raise RuntimeError("boom")

    passes.failing = fail
    results = qwen.batch(["a", "it costs $", "b"], return_exceptions=True, max_tokens=4)
    assert isinstance(results[1], ModelError)
    assert "boom" in str(results[1])
    passes.failing = None
    assert [results[0].content, results[2].content] == [
        qwen.invoke(text, max_tokens=4).content for text in ("a", "b")
    ]


def test_a_cancelled_call_does_not_disturb_its_neighbours(qwen, passes):
    settings = {**LONG, "max_tokens": 60}
    expected = [qwen.invoke(question, **settings).content for question in QUESTIONS[:3]]
    passes.steps.clear()
    passes.pace = 0.05

    async def some():
        tasks = [asyncio.create_task(qwen.ainvoke(one, **settings)) for one in QUESTIONS[:3]]
        while len(passes.steps) < 5:
            await asyncio.sleep(0.005)
        tasks[1].cancel()
        passes.pace = 0.0
        return await asyncio.gather(*tasks, return_exceptions=True)

    first, cancelled, last = asyncio.run(some())
    assert isinstance(cancelled, asyncio.CancelledError)
    assert [first.content, last.content] == [expected[0], expected[2]]


class Prompt:
    length = 5
    chain = ()


def waiting_row(batch_size=4):
    sharing = Sharing(batch_size, 99)
    return Row(Prompt(), limit=3, settings=Settings(3), sharing=sharing, decode=str)


@pytest.fixture
def waits(monkeypatch):
    """The seconds that somebody was ready to wait; time passes at once."""
    seconds = []

    def wait(self, timeout=None):
        seconds.append(timeout)
        return False

    monkeypatch.setattr(threading.Condition, "wait", wait)
    return seconds


def test_a_lone_call_does_not_wait(waits):
    waiting = WaitingRows(lambda _: 5)
    arrived = waiting.announce()
    waiting.put([waiting_row()])
    arrived()
    arrived()
    assert len(waiting.take([])) == 1
    assert waits == []


def test_a_call_waits_a_moment_for_one_that_is_coming(waits):
    waiting = WaitingRows(lambda _: 5)
    waiting.announce()
    waiting.put([waiting_row()])
    assert len(waiting.take([])) == 1
    assert len(waits) == 1
    assert 0 < waits[0] < 0.01


def test_a_full_batch_does_not_wait(waits):
    waiting = WaitingRows(lambda _: 5)
    waiting.announce()
    waiting.put([waiting_row() for _ in range(5)])
    assert len(waiting.take([])) == 4
    assert waits == []


def test_nobody_joins_past_a_row_that_waits_for_the_running_ones():
    waiting = WaitingRows(lambda _: 5)
    running, alone, later = waiting_row(), waiting_row(batch_size=1), waiting_row()
    waiting.put([alone, later])
    assert not waiting.may_join([running], 9)
    assert waiting.take([running]) == []
    assert waiting.take([]) == [alone]
    assert waiting.may_join([running], 9)
    assert waiting.take([running]) == [later]


def test_a_row_whose_caller_wants_no_more_is_not_begun():
    waiting = WaitingRows(lambda _: 5)
    row = waiting_row()
    row.stop()
    waiting.put([row])
    assert waiting.take([]) == []
    assert row.future.result().finish_reason == "cancelled"
    assert row.future.result().output_tokens == 0


def test_a_stopped_row_does_not_wait_for_the_rows_before_it():
    waiting = WaitingRows(lambda _: 5)
    running, alone, later = waiting_row(), waiting_row(batch_size=1), waiting_row()
    waiting.put([alone, later])
    assert waiting.take([running]) == []
    alone.stop()
    later.stop()
    for row in (alone, later):
        assert row.future.result(timeout=0).finish_reason == "cancelled"
        assert row.future.result().output_tokens == 0
    assert waiting.take([running]) == waiting.take([]) == []
    assert not waiting.may_join([running], 9)


def test_a_stopped_row_that_the_model_computes_keeps_what_it_wrote():
    waiting = WaitingRows(lambda _: 5)
    row = waiting_row()
    waiting.put([row])
    assert waiting.take([]) == [row]
    row.stop()
    assert not row.done
    row.accept(7, ends=False)
    assert row.future.result(timeout=0).finish_reason == "cancelled"
    assert row.future.result().output_tokens == 1


def test_a_stop_signal_ends_a_call_with_what_it_wrote(qwen, passes):
    passes.pace = 0.005
    signal, answers = StopSignal(), []

    def call():
        with signal.covering(), pytest.raises(CallStoppedError) as stopped:
            qwen.invoke(QUESTIONS[0], **LONG)
        answers.append(stopped.value.message)

    calling = threading.Thread(target=call)
    calling.start()
    begun(passes)
    signal.stop()
    steps = len(passes.steps)
    calling.join()
    (answer,) = answers
    assert answer.response_metadata["finish_reason"] == "cancelled"
    assert answer.usage_metadata["output_tokens"] == len(passes.steps) <= steps + 2
    whole = qwen.invoke(QUESTIONS[0], **{**LONG, "max_tokens": len(passes.steps)}).content
    assert whole.startswith(answer.content.rstrip("\ufffd"))


@pytest.mark.parametrize("way", ["invoke", "ainvoke", "stream", "astream"])
def test_a_stopped_call_does_not_enter_the_cache(qwen, way):
    cached = qwen.model_copy(update={"cache": InMemoryCache()})
    signal = StopSignal()
    signal.stop()

    async def astream():
        return [chunk async for chunk in cached.astream(QUESTIONS[0], max_tokens=5)]

    ways = {
        "invoke": lambda: cached.invoke(QUESTIONS[0], max_tokens=5),
        "ainvoke": lambda: asyncio.run(cached.ainvoke(QUESTIONS[0], max_tokens=5)),
        "stream": lambda: list(cached.stream(QUESTIONS[0], max_tokens=5)),
        "astream": lambda: asyncio.run(astream()),
    }
    with signal.covering(), pytest.raises(CallStoppedError) as stopped:
        ways[way]()
    assert stopped.value.message.response_metadata["finish_reason"] == "cancelled"
    later = cached.invoke(QUESTIONS[0], max_tokens=5)
    assert later.usage_metadata["output_tokens"] == 5
    assert cached.invoke(QUESTIONS[0], max_tokens=5).content == later.content
