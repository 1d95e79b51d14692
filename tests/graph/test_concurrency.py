import asyncio
import threading
import time

import pytest
from fakes import PROMPTS, ScriptedModel, StreamingModel, models

from langgraph_mai import create_mai

QUESTION = {"question": "Is it red?"}


@pytest.mark.parametrize("timeout", [None, 10.0])
@pytest.mark.parametrize("kind", [ScriptedModel, StreamingModel])
@pytest.mark.parametrize("way", ["invoke", "ainvoke"])
def test_both_direct_calls_are_inside_at_the_same_time(way, kind, timeout):
    # Each call waits for the other one; one after the other, both would fail.
    meeting = threading.Barrier(2, timeout=5)
    small, large = models("direct", kind, before=meeting.wait)
    graph = create_mai(small, large, prompts=PROMPTS, timeout=timeout)
    result = graph.invoke(QUESTION) if way == "invoke" else asyncio.run(graph.ainvoke(QUESTION))
    assert [call["error"] for call in result["calls"]] == [None, None]


async def test_a_run_does_not_block_the_loop():
    small, large = models("transferred", delay=2.0)
    graph = create_mai(small, large, prompts=PROMPTS)
    longest = 0.0

    async def tick() -> None:
        nonlocal longest
        while True:
            before = time.perf_counter()
            await asyncio.sleep(0.005)
            longest = max(longest, time.perf_counter() - before)

    ticking = asyncio.create_task(tick())
    await graph.ainvoke(QUESTION)
    ticking.cancel()
    assert longest < 1.5  # a call on the loop would hold it for 2 s


async def test_many_runs_wait_side_by_side():
    small, large = models("direct", delay=0.5)
    graph = create_mai(small, large, prompts=PROMPTS)
    start = time.perf_counter()
    results = await asyncio.gather(*(graph.ainvoke(QUESTION) for _ in range(20)))
    assert time.perf_counter() - start < 8
    assert {result["answer"] for result in results} == {"yes"}


def test_batches_keep_their_order():
    small, large = models()
    small.script["direct"] = large.script["direct"] = lambda prompt: prompt.split()[0]
    graph = create_mai(small, large, prompts=PROMPTS)
    questions = [f"{number} dots: how many?" for number in range(8)]
    given = [{"question": question, "answer_type": "number"} for question in questions]
    answers = [result["answer"] for result in graph.batch(given)]
    assert answers == [str(number) for number in range(8)]
