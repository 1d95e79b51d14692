"""Passes that read attention run beside calls: they change nothing, and nothing holds them up."""

import asyncio
import itertools
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch
from attention_prompts import PICTURES, ask
from langchain_core.messages import SystemMessage

from langgraph_mai.models import ChatTransformers, ModelError
from langgraph_mai.models.errors import CallTimeoutError
from langgraph_mai.models.transformers.attention_passes import AttentionPasses
from langgraph_mai.models.transformers.attention_recording import Recorder
from langgraph_mai.models.transformers.sampling import Watch

QUESTION = "What is it?"
REASONING = "It is round, and 赤い 😀, so it must be a circle."
TRANSFER = f"{QUESTION}\n{REASONING}\nAnswer now."
SPAN = (len(QUESTION) + 1, len(QUESTION) + 1 + len(REASONING))


@pytest.fixture
def model(deep_checkpoint):
    model = ChatTransformers(
        model=str(deep_checkpoint), dtype="float32", device="cpu", max_tokens=8
    ).load()
    model.clear_prefix_cache()
    return model


@pytest.fixture
def qwen(deep_checkpoints):
    return ChatTransformers(model=str(deep_checkpoints["qwen3-vl"]), dtype="float32", max_tokens=8)


@pytest.fixture
def reached(monkeypatch):
    """The layers that passes reach; passes wait at the first one until `go` is set."""
    reach = Recorder.reach

    class Reached(list):
        go = threading.Event()
        begun = threading.Event()

    layers = Reached()

    def watched(self, layer, *args):
        layers.append(layer)
        layers.begun.set()
        assert layers.go.wait(60)
        return reach(self, layer, *args)

    monkeypatch.setattr(Recorder, "reach", watched)
    yield layers
    layers.go.set()


@pytest.fixture
def failing(monkeypatch):
    """Makes the next pass fail at its second layer with a given error."""
    reach = Recorder.reach
    errors = []

    def failing_once(self, layer, *args):
        if layer == 2 and errors:
            raise errors.pop()
        return reach(self, layer, *args)

    monkeypatch.setattr(Recorder, "reach", failing_once)
    return errors.append


def read(model, *pictures, **asked):
    return model.attention(ask(TRANSFER, *pictures), SPAN, **asked)


def answers(model, *pictures):
    """What a question is answered directly, and after a transfer, to the last bit."""
    texts = (QUESTION, TRANSFER, TRANSFER[:30])
    messages = [model.invoke(ask(text, *pictures), logprobs=True) for text in texts]
    return [(m.content, m.response_metadata["logprobs"], m.usage_metadata) for m in messages]


@pytest.mark.parametrize("bound", [None, 0])
@pytest.mark.parametrize("pictures", range(3))
def test_answers_are_the_same_to_the_last_bit(model, bound, pictures):
    model = model.model_copy(update={"prefix_cache_bytes": bound})
    shown = PICTURES[:pictures]
    expected = answers(model, *shown)
    model.clear_prefix_cache()
    read(model, *shown, layers="all")
    read(model, PICTURES[2])  # another picture's positions are not kept either
    assert answers(model, *shown) == expected


def test_answers_are_the_same_after_a_pass_that_failed(model, failing):
    expected = answers(model, PICTURES[0])
    model.clear_prefix_cache()
    failing(RuntimeError("no luck"))
    with pytest.raises(ModelError, match=r"failed \(RuntimeError: no luck\)"):
        read(model, PICTURES[0], layers=[4])
    assert answers(model, PICTURES[0]) == expected


def test_memory_that_runs_out_is_told_and_the_next_pass_works(model, failing):
    expected = read(model, PICTURES[0], layers=[4]).weights
    failing(torch.OutOfMemoryError("out of memory"))
    with pytest.raises(ModelError, match="ran out of memory"):
        read(model, PICTURES[0], layers=[4])
    np.testing.assert_array_equal(read(model, PICTURES[0], layers=[4]).weights, expected)


def test_a_pass_computes_what_is_behind_the_direct_answers_prompt(model):
    direct = model.invoke(ask(QUESTION, PICTURES[0]))
    attention = read(model, PICTURES[0])
    # All of the question's prompt but the end of its message and the beginning of the answer.
    behind = len("\nassistant\n") + 2
    assert attention.cached_tokens == direct.usage_metadata["input_tokens"] - behind
    assert attention.input_tokens > attention.cached_tokens


def test_a_pass_in_the_middle_of_what_is_known(model):
    """The query is computed even where all of the prompt is known."""
    model.invoke(ask(TRANSFER, PICTURES[0]))
    alone = read(model.model_copy(update={"prefix_cache_bytes": 0}), PICTURES[0], query=-9)
    attention = read(model, PICTURES[0], query=-9)
    assert attention.cached_tokens == attention.query == attention.input_tokens - 9
    np.testing.assert_allclose(attention.weights, alone.weights, rtol=0, atol=1e-6)


def test_the_answer_behind_a_pass_reuses_the_prefix_again(model):
    def cached(text):
        usage = model.invoke(ask(text, PICTURES[0])).usage_metadata
        return usage["input_token_details"]["cache_read"]

    sparse = f"{QUESTION}\nround circle.\nAnswer now."
    model.invoke(ask(QUESTION, PICTURES[0]))
    without_a_pass = cached(sparse)
    model.clear_prefix_cache()
    model.invoke(ask(QUESTION, PICTURES[0]))
    attention = read(model, PICTURES[0])
    assert cached(sparse) == without_a_pass == attention.cached_tokens


def test_the_vision_tower_does_not_see_a_known_picture(model, monkeypatch):
    import functools

    from transformers import InternVLModel, Qwen3VLModel

    seen = []

    def counting(look):
        @functools.wraps(look)
        def call(self, pixel_values, *args, **kwargs):
            seen.append(len(pixel_values))
            return look(self, pixel_values, *args, **kwargs)

        return call

    for kind in (InternVLModel, Qwen3VLModel):
        monkeypatch.setattr(kind, "get_image_features", counting(kind.get_image_features))
    system = SystemMessage("Look at the pictures.")
    two, one = ([system, *ask(TRANSFER, *PICTURES[:count])] for count in (2, 1))
    model.attention(two, SPAN)
    (both,) = seen
    model.invoke(one, max_tokens=1)
    seen.clear()
    model.attention(one, SPAN)
    assert seen == []
    model.attention(two, SPAN)  # only the second one is new
    assert 0 < seen[0] < both


def test_a_pass_runs_in_the_middle_of_an_answer(qwen, monkeypatch):
    events, waits = [], threading.Event()
    step, put, reach = Watch.__call__, AttentionPasses.put, Recorder.reach

    def stepping(self, *args, **kwargs):
        events.append("step")
        if len(events) == 3:
            assert waits.wait(60)
        return step(self, *args, **kwargs)

    def putting(self, one):
        put(self, one)
        waits.set()

    def reaching(self, layer, *args):
        events.append(layer)
        return reach(self, layer, *args)

    asked = {"max_tokens": 40, "temperature": 1.0, "seed": 3}
    expected = qwen.invoke(ask(QUESTION, PICTURES[0]), **asked).content
    weights = read(qwen, PICTURES[1], layers="all").weights
    monkeypatch.setattr(Watch, "__call__", stepping)
    monkeypatch.setattr(AttentionPasses, "put", putting)
    monkeypatch.setattr(Recorder, "reach", reaching)
    with ThreadPoolExecutor(1) as pool:
        answer = pool.submit(qwen.invoke, ask(QUESTION, PICTURES[0]), **asked)
        attention = read(qwen, PICTURES[1], layers="all")
        assert answer.result().content == expected
    np.testing.assert_allclose(attention.weights, weights, rtol=0, atol=1e-6)
    at = events.index(1)
    assert events[at : at + 4] == [1, 2, 3, 4]
    assert at < 10
    assert events.count("step") >= 40


def test_calls_that_never_cease_do_not_hold_it_up(qwen):
    over = threading.Event()
    expected = qwen.invoke(ask(QUESTION)).content

    def go_on():
        return {qwen.invoke(ask(QUESTION)).content for _ in iter(over.is_set, True)}

    with ThreadPoolExecutor(4) as pool:
        asked = [pool.submit(go_on) for _ in range(4)]
        try:
            passes = [read(qwen, timeout=60) for _ in range(5)]
        finally:
            over.set()
        assert all(one.result() <= {expected} for one in asked)
    assert len({attention.weights.tobytes() for attention in passes}) == 1


def test_passes_that_never_cease_do_not_hold_up_calls(qwen):
    over = threading.Event()

    def go_on():
        return sum(1 for _ in itertools.takewhile(lambda _: not over.is_set(), passes()))

    def passes():
        while True:
            yield read(qwen)

    expected = qwen.invoke(ask(QUESTION), max_tokens=60).content
    with ThreadPoolExecutor(3) as pool:
        asked = [pool.submit(go_on) for _ in range(3)]
        try:
            got = [qwen.invoke(ask(QUESTION), max_tokens=60, timeout=60) for _ in range(3)]
        finally:
            over.set()
        assert all(one.result() for one in asked)
    assert {message.content for message in got} == {expected}


def test_calls_and_passes_from_many_threads(model):
    expected = {
        one: (
            model.invoke(ask(QUESTION, PICTURES[one])).content,
            read(model, PICTURES[one]).weights,
        )
        for one in range(3)
    }

    def both(one):
        return one, model.invoke(ask(QUESTION, PICTURES[one])).content, read(model, PICTURES[one])

    with ThreadPoolExecutor(6) as pool:
        for one, content, attention in pool.map(both, [0, 1, 2] * 6):
            assert content == expected[one][0]
            np.testing.assert_allclose(attention.weights, expected[one][1], rtol=0, atol=1e-6)


def test_a_caller_that_is_cancelled_ends_the_pass_at_the_next_layer(qwen, reached):
    async def give_up():
        messages = ask(TRANSFER, PICTURES[0])
        task = asyncio.create_task(qwen.aattention(messages, SPAN, layers="all"))
        await asyncio.to_thread(reached.begun.wait, 60)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(give_up())
    reached.go.set()
    assert qwen.invoke(ask(QUESTION), timeout=60).content
    assert reached == [1]


def test_a_pass_that_waits_is_given_up_before_it_begins(qwen, reached):
    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(read, qwen, layers=[1])
        assert reached.begun.wait(60)
        with pytest.raises(CallTimeoutError, match=r"its timeout of 0\.05 seconds; raise the time"):
            read(qwen, layers="all", timeout=0.05)
        reached.go.set()
        first.result()
    qwen.invoke(ask(QUESTION))
    assert reached == [1]


def test_a_time_limit_of_the_model(qwen, reached):
    limited = qwen.model_copy(update={"timeout": 0.05})
    with pytest.raises(TimeoutError):
        read(limited)
    reached.go.set()
    assert read(limited, timeout=60).weights.any()


@pytest.mark.parametrize("timeout", [0, -1, float("nan"), float("inf"), "5", True])
def test_a_time_limit_that_is_none(qwen, timeout):
    with pytest.raises(ValueError, match="must be a number of seconds above 0"):
        read(qwen, timeout=timeout)


def test_the_seconds_hold_the_time_that_a_pass_waits(qwen, reached):
    with ThreadPoolExecutor(1) as pool:
        start = time.monotonic()
        waiting = pool.submit(read, qwen)
        assert reached.begun.wait(60)
        time.sleep(0.1)
        reached.go.set()
        seconds = waiting.result().seconds
    assert 0.1 <= seconds <= time.monotonic() - start


def test_a_model_that_is_unloaded_meanwhile(qwen, reached):
    """What has begun is done; what comes later loads the model again."""
    with ThreadPoolExecutor(1) as pool:
        begun = pool.submit(read, qwen)
        assert reached.begun.wait(60)
        qwen.unload()
        reached.go.set()
        weights = begun.result().weights
    np.testing.assert_allclose(read(qwen).weights, weights, rtol=0, atol=1e-6)
