"""Sparse transfer in the graph: failures, time and room."""

import asyncio
import time

import pytest
from fakes import LAYERS, PROMPTS, AttentiveModel
from sparse_runs import QUESTION, attentive, read, weighs

from langgraph_mai import SparseTransfer, create_mai
from langgraph_mai.models.errors import CallTimeoutError, ModelError

FAILURES = [
    (ModelError("The pass failed."), "The pass failed."),
    (CallTimeoutError("It took longer than 1 s."), "longer than 1 s"),
    (ValueError("odd\nthing"), "odd thing"),
    (lambda *_: float("nan"), "is no weight (the first is nan)"),
    (lambda *_: -1.0, "is no weight"),
]


@pytest.mark.parametrize(("fault", "reason"), FAILURES)
def test_a_selection_that_fails_costs_no_answer(run, fault, reason):
    small, large = attentive()
    large.attends = fault
    result = run(create_mai(small, large, prompts=PROMPTS, transfer="sparse"), QUESTION)
    assert (result["answer"], result["fallback"]) == ("yes", "large_direct")
    assert large.styles == ["direct"]
    failed = result["calls"][-1]
    assert failed["error"].startswith("The selection of tokens failed: ")
    assert reason in failed["error"]
    assert "\n" not in failed["error"]
    assert "selection" not in failed


def test_a_layer_that_is_not_there_is_named(run):
    small, large = attentive()
    graph = create_mai(small, large, prompts=PROMPTS, transfer=SparseTransfer(layer=LAYERS + 1))
    assert "no layer 5" in run(graph, QUESTION)["calls"][-1]["error"]


def test_a_selection_may_fail_for_want_of_memory_and_is_tried_again(run):
    small, large = attentive()
    large.attends = MemoryError("full")

    def recovers():
        if len(large.passes) == 1:
            large.attends = weighs(red=1.0)

    class Recovering(AttentiveModel):
        def _attention(self, *args):
            recovers()
            return super()._attention(*args)

    large = Recovering(**large.model_dump(exclude={"passes", "calls"}))
    result = run(create_mai(small, large, prompts=PROMPTS, transfer="sparse"), QUESTION)
    assert result["calls"][-1]["error"] is None
    assert len(large.passes) == 2


@pytest.mark.parametrize("timeout", [None, 30])
def test_a_pass_has_the_time_of_a_call(run, timeout):
    small, large = attentive()
    run(create_mai(small, large, prompts=PROMPTS, transfer="sparse", timeout=timeout), QUESTION)
    assert large.passes[0]["timeout"] == timeout


def test_the_event_loop_is_free_while_tokens_are_selected():
    small, large = attentive(pause=0.3)
    graph = create_mai(small, large, prompts=PROMPTS, transfer="sparse")

    async def watch():
        task = asyncio.create_task(graph.ainvoke(QUESTION))
        longest, last = 0.0, time.perf_counter()
        while not task.done():
            await asyncio.sleep(0.01)
            longest, last = max(longest, time.perf_counter() - last), time.perf_counter()
        return longest, await task

    longest, result = asyncio.run(watch())
    assert result["calls"][-1]["selection"]["seconds"] > longest


def test_a_cancelled_run_gives_up_its_pass():
    small, large = attentive(pause=60)
    graph = create_mai(small, large, prompts=PROMPTS, transfer="sparse")

    async def cancelled():
        task = asyncio.create_task(graph.ainvoke(QUESTION))
        while "reason" not in small.styles:
            await asyncio.sleep(0.01)
        await asyncio.sleep(0.2)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(cancelled())
    assert large.given_up == 1
    assert large.styles == ["direct"]


LONG = "\n".join([*(f"Row {number} holds a dot." for number in range(60)), "Answer: no"])


def test_a_reasoning_without_room_for_a_pass_is_shortened(run):
    small, large = attentive(room=150)
    small.script["reason"] = LONG
    large.attends = lambda word, _layer: float(word == "dot.")
    events = []
    graph = create_mai(small, large, prompts=PROMPTS, transfer=SparseTransfer(share=0.5))
    result = run(graph, QUESTION)
    transfer = result["calls"][-1]
    assert (transfer["error"], transfer["cut"]) == (None, "front")
    selection = transfer["selection"]
    assert LONG.endswith(selection["reasoning"])
    assert 100 < selection["reasoning_tokens"] < 150
    assert selection["kept_tokens"] * 10 == pytest.approx(selection["reasoning_tokens"], abs=10)
    assert large.styles == ["direct", "transfer"]
    # The pass that was refused read nothing.
    assert selection["input_tokens"] == selection["reasoning_tokens"] + 4
    for event in graph.stream(QUESTION, stream_mode="custom"):
        events += [event] if event["event"] == "reasoning_transfer" else []
    assert [(event["cut"], event["kept_tokens"]) for event in events] == [
        ("front", selection["kept_tokens"])
    ]


def test_a_selection_without_room_for_an_answer_is_made_again_of_less(run):
    small, large = attentive()
    small.script["reason"] = LONG

    def answers(prompt):
        from langgraph_mai.models.errors import ContextLengthError

        words = len(prompt.split())
        if words >= 150:
            return ContextLengthError("It is too long.", limit=150, length=words)
        return "yes"

    large.script["transfer"] = answers
    large.attends = lambda word, _layer: 1.0
    result = run(
        create_mai(small, large, prompts=PROMPTS, transfer=SparseTransfer(share=0.9)), QUESTION
    )
    transfer = result["calls"][-1]
    assert (transfer["error"], transfer["cut"], transfer["answer"]) == (None, "front", "yes")
    selection = transfer["selection"]
    assert len(large.passes) == large.styles.count("transfer") > 1
    assert selection["input_tokens"] > 2 * selection["reasoning_tokens"]
    assert selection["cached_tokens"] == 3 * len(large.passes)
    assert read(large) == selection["text"]
    assert LONG.endswith(selection["reasoning"])


def test_a_model_without_any_room_is_given_up(run):
    small, large = attentive(room=3)
    result = run(create_mai(small, large, prompts=PROMPTS, transfer="sparse"), QUESTION)
    assert result["fallback"] == "large_direct"
    assert "It is too long." in result["calls"][-1]["error"]
    assert len(large.passes) <= 7
