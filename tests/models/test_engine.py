"""Calls made at the same time go through a model together, with the outputs of single calls."""

import asyncio
import shutil
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from asked import ask, picture
from langchain_core.caches import InMemoryCache
from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.messages import HumanMessage, SystemMessage
from transformers import GenerationMixin, StoppingCriteriaList

from langgraph_mai import ChatTransformers, ImageError, ModelError

QUESTIONS = [
    ask("What?", picture("red")),
    "No image here, and a longer text than the others have",
    ask("Which of the two?", picture("blue", (64, 64)), picture("green", (200, 50))),
    [SystemMessage("Be brief."), *ask("Who?", picture("black", (32, 128)))],
    "?",
]
LONG = {"max_tokens": 200, "temperature": 1.0, "seed": 0}


class Watched:
    """Sequences of each generation, tokens of all, a way to make tokens slow or to fail."""

    def __init__(self, monkeypatch):
        self.batches, self.steps, self.pace, self.failing = [], 0, 0.0, None
        generate, step = GenerationMixin.generate, StoppingCriteriaList.__call__

        def counting(this, *args, **kwargs):
            self.batches.append(len(kwargs["input_ids"]))
            if self.failing:
                self.failing(kwargs["input_ids"])
            return generate(this, *args, **kwargs)

        def slowed(this, *args, **kwargs):
            time.sleep(self.pace)
            self.steps += 1
            return step(this, *args, **kwargs)

        monkeypatch.setattr(GenerationMixin, "generate", counting)
        monkeypatch.setattr(StoppingCriteriaList, "__call__", slowed)

    def begun(self, steps=1):
        while self.steps < steps:
            time.sleep(0.005)


@pytest.fixture
def watched(monkeypatch):
    return Watched(monkeypatch)


@pytest.fixture
def model(checkpoint):
    return chat(checkpoint, max_tokens=12)


@pytest.fixture
def qwen(qwen_checkpoint):
    return chat(qwen_checkpoint, prefix_cache_bytes=0, max_tokens=12).load()


def chat(folder, **settings):
    return ChatTransformers(model=str(folder), dtype="float32", device="cpu", **settings)


def alone(model, **settings):
    single = model.model_copy(update={"batch_size": 1, "prefix_cache_bytes": 0})
    return [told(single.invoke(question, **settings)) for question in QUESTIONS]


def told(message):
    usage = message.usage_metadata
    return (
        message.content,
        usage["input_tokens"],
        usage["output_tokens"],
        message.response_metadata["finish_reason"],
    )


def test_batches_of_threads_tasks_and_streams_give_the_outputs_of_single_calls(model, watched):
    expected = alone(model)

    async def tasks(asked):
        assert list(map(told, await asked.abatch(QUESTIONS))) == expected
        streams = [[chunk async for chunk in asked.astream(one)] for one in QUESTIONS]
        return ["".join(chunk.content for chunk in stream) for stream in streams]

    for bound in (None, 0):
        asked = model.model_copy(update={"prefix_cache_bytes": bound})
        watched.batches.clear()
        with ThreadPoolExecutor(len(QUESTIONS)) as pool:
            assert list(map(told, pool.map(asked.invoke, QUESTIONS))) == expected
        assert list(map(told, asked.batch(QUESTIONS))) == expected
        assert asyncio.run(tasks(asked)) == [content for content, *_ in expected]
        assert max(watched.batches) > 1


def test_seeded_draws_stop_strings_and_logprobs_are_those_of_single_calls(qwen):
    drawn = {"temperature": 1.0, "seed": 7, "max_tokens": 40}
    expected = alone(qwen, **drawn)
    assert list(map(told, qwen.batch(QUESTIONS, **drawn))) == expected
    stop = [expected[0][0][2:4], expected[3][0][5:8]]
    assert list(map(told, qwen.batch(QUESTIONS, stop=stop, **drawn))) == alone(
        qwen, stop=stop, **drawn
    )
    asked = {"logprobs": True, "top_logprobs": 2}
    for together, question in zip(qwen.batch(QUESTIONS, **asked), QUESTIONS, strict=True):
        single = qwen.invoke(question, **asked)
        one, other = (
            message.response_metadata["logprobs"]["content"] for message in (together, single)
        )
        assert all(len(entry["top_logprobs"]) == 2 for entry in one)
        assert [entry["token"] for entry in one] == [entry["token"] for entry in other]
        assert [entry["logprob"] for entry in one] == pytest.approx(
            [entry["logprob"] for entry in other], abs=1e-3
        )


def test_a_short_call_joins_a_long_one_and_neither_is_disturbed(model, watched):
    drawn = {"temperature": 1.0, "seed": 3}
    expected = [told(model.invoke(QUESTIONS[0], max_tokens=120, **drawn))]
    expected += [told(model.invoke(one, max_tokens=8, **drawn)) for one in QUESTIONS[1:3]]
    watched.steps, watched.pace, ended = 0, 0.02, []

    def call(at):
        limit = 120 if at == 0 else 8
        ended.append((at, told(model.invoke(QUESTIONS[at], max_tokens=limit, **drawn))))

    first = threading.Thread(target=call, args=[0])
    first.start()
    watched.begun()
    call(1)
    call(2)
    watched.pace = 0.0
    first.join()
    assert [at for at, _ in ended] == [1, 2, 0]
    assert [dict(ended)[at] for at in range(3)] == expected


def test_a_stream_of_short_calls_does_not_starve_a_long_one(qwen, watched):
    done = threading.Event()
    long = threading.Thread(target=lambda: (qwen.invoke("long", **LONG), done.set()))
    watched.steps = 0
    long.start()
    watched.begun()
    short = 0
    while not done.is_set():
        qwen.invoke("short", max_tokens=1)
        short += 1
    long.join()
    # At least four tokens of the long output between two short calls.
    assert short <= LONG["max_tokens"] / 4 + 2


def test_batches_are_bounded_in_sequences_tokens_and_padding(qwen, watched):
    expected = alone(qwen)
    for bound, largest in (({"batch_size": 2}, 2), ({"batch_tokens": 20}, 1)):
        watched.batches.clear()
        bounded = qwen.model_copy(update=bound)
        assert list(map(told, bounded.batch(QUESTIONS))) == expected
        assert max(watched.batches) <= largest
    watched.batches.clear()
    assert len(qwen.batch(QUESTIONS, {"max_concurrency": 1}, max_tokens=1)) == 5
    assert watched.batches == [1] * 5
    watched.batches.clear()
    qwen.batch(["x" * 700, *["y"] * 5], max_tokens=1)
    assert 6 not in watched.batches


def test_a_batch_with_one_bad_item_answers_the_others(qwen, tmp_path):
    bad = [HumanMessage([{"type": "image", "url": str(tmp_path / "no.png")}])]
    items = [QUESTIONS[0], bad, QUESTIONS[1]]
    results = qwen.batch(items, return_exceptions=True)
    assert isinstance(results[1], ImageError)
    assert [told(results[0]), told(results[2])] == alone(qwen)[:2]
    with pytest.raises(ImageError, match=r"no\.png"):
        asyncio.run(qwen.abatch(items))
    assert qwen.batch([]) == asyncio.run(qwen.abatch([])) == []


def test_batches_that_fail_are_tried_one_by_one_and_only_the_request_at_fault_fails(qwen, watched):
    expected = alone(qwen)
    token = qwen.get_token_ids("$")[0]

    def out_of_memory(ids):
        if len(ids) > 1:
            raise torch.OutOfMemoryError("out of memory")

    def fail(ids):
        if token in ids:
            raise RuntimeError("boom")

    watched.failing = out_of_memory
    assert list(map(told, qwen.batch(QUESTIONS))) == expected
    watched.failing = fail
    items = [QUESTIONS[1], "it costs $", QUESTIONS[4]]
    first, failed, last = qwen.batch(items, return_exceptions=True)
    assert isinstance(failed, ModelError)
    assert "boom" in str(failed)
    assert [told(first), told(last)] == [expected[1], expected[4]]
    watched.failing = None
    # As after an update that nobody checked: no batch can be chosen, and the thread lives on.
    spoilt = qwen.model_copy(update={"batch_size": "many"})
    results = spoilt.batch(QUESTIONS, return_exceptions=True)
    assert any(isinstance(one, ModelError) and "failed (TypeError" in str(one) for one in results)
    assert list(map(told, qwen.batch(QUESTIONS))) == expected


@pytest.mark.parametrize(("at", "name"), [(1, "log_softmax"), (6, "stack")])
def test_memory_that_runs_out_between_two_tokens_changes_no_output(qwen, monkeypatch, at, name):
    drawn = {"logprobs": True, "temperature": 2.0, "seed": 5}
    expected = alone(qwen, **drawn)
    original, calls = getattr(torch, name), []

    def failing_once(*args, **kwargs):
        calls.append(1)
        if len(calls) == at:
            raise torch.OutOfMemoryError("out of memory")
        return original(*args, **kwargs)

    monkeypatch.setattr(torch, name, failing_once)
    results = qwen.batch(QUESTIONS, return_exceptions=True, **drawn)
    monkeypatch.undo()
    # Where it happened to a request alone, that one says so; the others are not touched.
    failed = [one for one in results if isinstance(one, Exception)]
    assert len(failed) <= 1
    assert all("ran out of memory" in str(one) for one in failed)
    for result, single in zip(results, expected, strict=True):
        assert isinstance(result, Exception) or told(result) == single


def test_a_cancelled_call_ends_within_a_token_and_disturbs_nobody(qwen, watched):
    settings = {**LONG, "max_tokens": 60}
    expected = [told(qwen.invoke(question, **settings)) for question in QUESTIONS[:3]]
    watched.steps, watched.pace = 0, 0.02

    async def cancel_one():
        tasks = [asyncio.create_task(qwen.ainvoke(one, **settings)) for one in QUESTIONS[:3]]
        while watched.steps < 5:
            await asyncio.sleep(0.005)
        tasks[1].cancel()
        watched.pace = 0.0
        return await asyncio.gather(*tasks, return_exceptions=True)

    first, cancelled, last = asyncio.run(cancel_one())
    assert isinstance(cancelled, asyncio.CancelledError)
    assert [told(first), told(last)] == [expected[0], expected[2]]


def test_langchain_caches_answer_within_a_batch(qwen, watched):
    cached = qwen.model_copy(update={"cache": InMemoryCache(), "max_tokens": 1})
    first = cached.invoke("x")
    watched.batches.clear()
    assert cached.batch(["x", "y", "z"])[0].content == first.content
    assert sum(watched.batches) == 2


class Runs(BaseCallbackHandler):
    """Keep what LangChain tells of each run, and call a model as another call starts."""

    def __init__(self, model):
        self.started, self.ended, self.tokens, self.answers = [], set(), {}, []
        self.model = model

    def on_chat_model_start(self, serialized, messages, *, run_id, tags=None, **kwargs):
        self.started.append((run_id, tuple(tags or ())))
        settings = {"config": {"callbacks": []}, "timeout": 60}
        self.answers.append(self.model.invoke("side", **settings).text)

    def on_llm_new_token(self, token, *, run_id, **kwargs):
        self.tokens[run_id] = self.tokens.get(run_id, "") + token

    def on_llm_end(self, response, *, run_id, **kwargs):
        self.ended.add(run_id)


def test_each_item_of_a_batch_is_a_run_of_its_own_whose_callback_may_call_the_model(qwen):
    expected, side = [qwen.invoke(one).text for one in QUESTIONS], qwen.invoke("side").text
    handler = Runs(qwen)
    configs = [{"callbacks": [handler], "tags": [f"item {at}"]} for at in range(5)]
    assert [one.text for one in qwen.batch(QUESTIONS, configs, stream=True)] == expected
    assert sorted(tags for _, tags in handler.started) == [(f"item {at}",) for at in range(5)]
    assert handler.ended == {run for run, _ in handler.started}
    assert sorted(handler.tokens.values()) == sorted(expected)
    answers = asyncio.run(qwen.abatch(QUESTIONS, configs))
    assert [one.text for one in answers] == expected
    assert handler.answers == [side] * 10


def test_model_types_that_were_not_checked_give_the_same_one_by_one(
    model, checkpoint, tmp_path, monkeypatch
):
    from langgraph_mai.models.transformers import prompt

    expected = alone(model)
    monkeypatch.setattr(prompt, "REUSING", frozenset())
    other = chat(shutil.copytree(checkpoint, tmp_path / "other"), max_tokens=12)
    answers = other.batch(QUESTIONS)
    assert list(map(told, answers)) == expected
    details = [one.usage_metadata["input_token_details"] for one in answers]
    assert details == [{"cache_read": 0}] * 5
