import asyncio
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from fakes import PROMPTS, QUESTION, ScriptedModel, StreamingModel, models
from langgraph.checkpoint.memory import InMemorySaver

from langgraph_mai import create_mai, load_pair

PICTURES = Path(__file__).parents[2] / "demo" / "pictures"


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
    given = [QUESTION | {"question": one, "answer_type": "number"} for one in questions]
    answers = [result["answer"] for result in graph.batch(given)]
    assert answers == [str(number) for number in range(8)]


QUESTIONS = [
    {"question": question, "images": [str(PICTURES / f"{name}.png")]}
    for name, question in [
        ("chart", "Which bar is the highest?"),
        ("chart", "What is the sum of the red value and the green value?"),
        ("shapes", "How many red shapes are there in the picture?"),
        ("squares", "How many squares can you see in the picture?"),
    ]
]


@pytest.fixture(scope="module")
def demo():
    pair = load_pair()
    return create_mai(pair.small, pair.large, prompts=pair.prompts)


@pytest.fixture(scope="module")
def one_by_one(demo):
    return [seen(demo.invoke(question)) for question in QUESTIONS]


def seen(result):
    return result["answer"], result["route"], [call["text"] for call in result["calls"]]


def test_one_compiled_graph_serves_many_threads_and_loops(demo, one_by_one):
    def loop():
        return asyncio.run(gather())

    async def gather():
        return await asyncio.gather(*(demo.ainvoke(question) for question in QUESTIONS))

    with ThreadPoolExecutor(4) as pool:
        loops = [pool.submit(loop) for _ in range(2)]
        plain = [pool.submit(demo.batch, QUESTIONS) for _ in range(2)]
        for future in (*loops, *plain):
            assert [seen(result) for result in future.result()] == one_by_one


def test_parallel_threads_of_one_checkpointer_do_not_mix():
    small, large = models()
    small.script["direct"] = large.script["direct"] = lambda prompt: prompt.split()[0]
    graph = create_mai(small, large, prompts=PROMPTS, checkpointer=InMemorySaver())

    def ask(number):
        config = {"configurable": {"thread_id": str(number % 4)}}
        given = QUESTION | {"question": f"{number} dots?", "answer_type": "number"}
        with locks[number % 4]:
            return graph.invoke(given, config)["answer"]

    locks = [threading.Lock() for _ in range(4)]
    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(ask, range(16))) == [str(number) for number in range(16)]
    for thread in range(4):
        state = graph.get_state({"configurable": {"thread_id": str(thread)}})
        said = [message.text for message in state.values["messages"]]
        assert {int(text.split()[0]) % 4 for text in said} == {thread}
