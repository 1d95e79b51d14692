import asyncio
import time

import pytest
from fakes import PROMPTS, QUESTION, ScriptedModel, models
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command, interrupt

from langgraph_mai import MAIError, create_mai, create_strategy


def failing(route: str, role: str, style: str, failure: object = None):
    pair = dict(zip(("small", "large"), models(route), strict=True))
    pair[role].script[style] = failure or RuntimeError("out of memory")
    return create_mai(pair["small"], pair["large"], prompts=PROMPTS), pair


@pytest.mark.parametrize(
    ("role", "style", "route", "answer", "fallback"),
    [
        ("small", "direct", "direct", "yes", "large_direct"),
        ("large", "direct", "direct", "no", "small_direct"),
        ("small", "reason", "reasoned", "yes", "large_direct"),
        ("large", "transfer", "transferred", "yes", "large_direct"),
    ],
)
def test_a_failed_call_costs_no_answer(role, style, route, answer, fallback, run):
    graph, _ = failing("transferred", role, style)
    result = run(graph, QUESTION)
    assert (result["route"], result["answer"], result["fallback"]) == (route, answer, fallback)
    (failed,) = [call for call in result["calls"] if call["error"]]
    assert (failed["role"], failed["style"]) == (role, style)
    assert failed["error"] == f"The {role} model's {style} call failed: out of memory"


def test_both_direct_calls_failing_is_one_clear_error(run):
    graph, pair = failing("direct", "small", "direct")
    pair["large"].script["direct"] = OSError("no network")
    with pytest.raises(MAIError) as error:
        run(graph, QUESTION)
    assert str(error.value) == (
        "The small model's direct call failed: out of memory. "
        "The large model's direct call failed: no network."
    )


@pytest.mark.parametrize("name", ["small_direct", "small_reason", "small_two_stage"])
def test_a_strategy_whose_first_call_fails_raises(name, run):
    small, large = models()
    small.script = dict.fromkeys(small.script, RuntimeError("out of memory"))
    with pytest.raises(MAIError, match="out of memory"):
        run(create_strategy(name, small, large, prompts=PROMPTS), QUESTION)


@pytest.mark.parametrize(
    ("small", "large", "answer", "fallback"),
    [
        # The last step abstains: the large model's direct answer, then the small one's reasoned
        # one, then the small one's direct one, then the text as it is.
        (("no", "Answer: no"), ("yes", "hard to say"), "yes", "large_direct"),
        (("no", "Answer: no"), ("unclear", "hard to say"), "no", "small_reason"),
        (("no", "unclear"), ("unclear", "hard to say"), "no", "small_direct"),
        (("what?", "unclear"), ("unclear", "hard to say"), "hard to say", "raw_text"),
    ],
)
def test_what_stands_in_for_an_abstention(small, large, answer, fallback, run):
    graph = create_mai(
        ScriptedModel(script=dict(zip(("direct", "reason"), small, strict=True))),
        ScriptedModel(script=dict(zip(("direct", "transfer"), large, strict=True))),
        prompts=PROMPTS,
    )
    result = run(graph, QUESTION)
    assert result["route"] == "transferred"
    assert (result["answer"], result["fallback"]) == (answer, fallback)


def test_a_call_out_of_time_counts_as_failed(run):
    small, large = models("direct")
    small.delay = 30.0
    start = time.perf_counter()
    result = run(create_mai(small, large, prompts=PROMPTS, timeout=0.2), QUESTION)
    assert time.perf_counter() - start < 15
    assert (result["answer"], result["fallback"]) == ("yes", "large_direct")
    assert "no answer within 0.2 s" in result["calls"][0]["error"]


LOOP = "Let me look at it again, from the left to the right. "


@pytest.mark.parametrize(
    ("reasoning", "route", "cut", "read"),
    [
        ("  ", "reasoned", None, None),  # nothing to transfer
        ("It is red or yes or no", "transferred", "length", "It is red or yes or no"),
        ("It is round. " + LOOP * 9, "transferred", "loop", ("It is round. " + LOOP).strip(" .")),
    ],
)
def test_an_incomplete_reasoning_is_marked_and_its_loop_cut(reasoning, route, cut, read, run):
    graph, pair = failing("transferred", "small", "reason", reasoning)
    pair["small"].finish["reason"] = "length" if read else "stop"
    result = run(graph, QUESTION)
    assert (result["route"], result["answer"]) == (route, "yes")
    assert result["fallback"] == (None if read else "large_direct")
    reasoned = result["calls"][2]
    assert (reasoned["cut"], reasoned["answer"], reasoned["text"]) == (cut, None, reasoning)
    assert pair["large"].styles == ["direct", "transfer"][: 2 if read else 1]
    if read:
        assert pair["large"].calls[-1]["prompt"].endswith(f"TRANSFER [{read}]")


def test_an_interrupt_inside_a_model_is_no_failure():
    small, large = models()

    def ask_a_person(_prompt: str) -> str:
        return str(interrupt("may I?"))

    small.script["direct"] = ask_a_person
    graph = create_mai(small, large, prompts=PROMPTS, checkpointer=InMemorySaver())
    thread = {"configurable": {"thread_id": "1"}}
    result = graph.invoke(QUESTION, thread)
    assert result["__interrupt__"][0].value == "may I?"
    result = graph.invoke(Command(resume="yes"), thread)
    assert (result["answer"], result["route"], result["fallback"]) == ("yes", "direct", None)
    # What had been answered was not asked again.
    assert (len(small.calls), len(large.calls)) == (2, 1)


async def test_a_cancelled_run_cancels_its_calls():
    small, large = models(delay=30.0)
    task = asyncio.create_task(create_mai(small, large, prompts=PROMPTS).ainvoke(QUESTION))
    while not (small.calls and large.calls):
        await asyncio.sleep(0.01)
    task.cancel()
    start = time.perf_counter()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert time.perf_counter() - start < 15
