"""Several replicas and one store, without Ray: requests go through the same mailbox."""

import asyncio
import sqlite3
from collections import Counter
from contextlib import asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from fakes import PROMPTS, models
from hypothesis import given, settings
from hypothesis import strategies as st
from langchain_core.messages import HumanMessage

from langgraph_mai import create_strategy
from langgraph_mai.benchmarks.evaluation.call_store import FILE_NAME, CallStore
from langgraph_mai.benchmarks.evaluation.ray_calls import CallServer, Mailbox, RemoteCalls
from langgraph_mai.benchmarks.evaluation.shared_calls import SharedCalls
from langgraph_mai.benchmarks.evaluation.stored_model import StoredModel
from langgraph_mai.graph import STRATEGIES

PROMPT = [HumanMessage("Is it red?\nDIRECT")]
QUESTIONS = ("Is it red?", "Is it blue?")


@asynccontextmanager
async def replicas(store: CallStore, *names: str):
    """What each replica sees of the store, and the server behind it."""
    server, mailbox = CallServer(SharedCalls(store)), Mailbox()
    serving = asyncio.create_task(server.serve(mailbox.take, mailbox.reply))
    try:
        yield server, [RemoteCalls(mailbox.ask, name) for name in names]
    finally:
        serving.cancel()


async def run_all(calls, route: str = "transferred") -> Counter:
    """All strategies on all questions, by a replica with models of its own; what it asked them."""
    small, large = models(route, delay=0.001)
    pair = StoredModel(small, calls, "small"), StoredModel(large, calls, "large")
    # With a draft, the same prompt is another call.
    names = [name for name in STRATEGIES if name != "speculative"]
    graphs = [create_strategy(name, *pair, prompts=PROMPTS) for name in names]
    await asyncio.gather(
        *(graph.ainvoke({"question": text}) for graph in graphs for text in QUESTIONS)
    )
    return Counter(
        (model.label, call["style"], call["prompt"])
        for model in (small, large)
        for call in model.calls
    )


def stored(store: CallStore) -> int:
    return sum(store.count_calls().values())


async def test_replicas_make_each_call_once_together(tmp_path):
    with CallStore(tmp_path) as store:
        async with replicas(store, "a", "b") as (server, (first, second)):
            made = sum(await asyncio.gather(run_all(first), run_all(second)), Counter())
        assert set(made.values()) == {1}
        assert server.made == len(made) == stored(store)


async def evaluated(folder: Path) -> tuple[int, int]:
    """Calls that two replicas make in a folder, and those that are stored there then."""
    with CallStore(folder) as store:
        async with replicas(store, "a", "b") as (server, (first, second)):
            await asyncio.gather(run_all(first), run_all(second))
        return server.made, stored(store)


@pytest.fixture(scope="module")
def whole(tmp_path_factory) -> tuple[bytes, int]:
    """A store with all calls, and how many there are."""
    folder = tmp_path_factory.mktemp("whole")
    _, total = asyncio.run(evaluated(folder))
    return (folder / FILE_NAME).read_bytes(), total


@settings(max_examples=10, deadline=None)
@given(data=st.data())
def test_what_is_stored_is_not_made_again_and_what_is_lost_is_made_once(whole, data):
    """Any part of the calls may be there, as after a kill or an evaluation of other strategies."""
    content, total = whole
    lost = data.draw(st.sets(st.integers(1, total)))
    with TemporaryDirectory() as name:
        (Path(name) / FILE_NAME).write_bytes(content)
        file = sqlite3.connect(Path(name) / FILE_NAME)
        with file:
            file.executemany("DELETE FROM calls WHERE rowid = ?", [(row,) for row in lost])
        file.close()
        assert asyncio.run(evaluated(Path(name))) == (len(lost), total)


async def test_a_call_that_failed_in_one_replica_is_tried_by_the_next(tmp_path):
    with CallStore(tmp_path) as store:
        async with replicas(store, "a", "b") as (server, (first, second)):
            broken, whole = models(delay=0.05)[0], models()[0]
            broken.script["direct"] = RuntimeError("out of memory")
            failing = asyncio.create_task(StoredModel(broken, first, "small").ainvoke(PROMPT))
            while not broken.calls:
                await asyncio.sleep(0.001)
            answer = await StoredModel(whole, second, "small").ainvoke(PROMPT)
            with pytest.raises(RuntimeError, match="out of memory"):
                await failing
        assert answer.text == "yes"
        assert (server.made, stored(store), store.failures()) == (2, 1, [])


async def test_a_replica_that_ray_starts_anew_finds_its_calls_free(tmp_path):
    with CallStore(tmp_path) as store:
        async with replicas(store, "a", "b", "a", "b") as (_, (dead, other, again, last)):
            assert await dead.call("one") is None
            assert await other.call("two") is None
            # Both wait for each other's call when they end without a word.
            waiting = [
                asyncio.create_task(dead.call("two")),
                asyncio.create_task(other.call("one")),
            ]
            await asyncio.sleep(0.01)
            assert not any(task.done() for task in waiting)
            for fresh, key in ((again, "three"), (last, "four"), (again, "one"), (last, "two")):
                assert await asyncio.wait_for(fresh.call(key), 10) is None
            for task in waiting:
                task.cancel()


async def test_a_store_that_fails_fails_the_call(tmp_path):
    with CallStore(tmp_path) as store:
        async with replicas(store, "a") as (_, (calls,)):
            model = StoredModel(models()[0], calls, "small")
            store.close()
            with pytest.raises(RuntimeError, match="could not be stored or looked up"):
                await asyncio.wait_for(model.ainvoke(PROMPT), 10)
