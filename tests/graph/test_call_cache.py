"""The cache of model calls: what is equal is called once, and nothing else is shared."""

import asyncio
import sqlite3
import subprocess
import sys
import threading
from contextlib import closing

import pytest
from fakes import PROMPTS, QUESTION, AttentiveModel, ScriptedModel, models
from langchain_core.messages import HumanMessage
from PIL import Image

from langgraph_mai import CallCache, ConfigError, MAIContext, create_mai, create_strategy
from langgraph_mai.graph import STRATEGIES
from langgraph_mai.nodes.call_cache import model_identity


@pytest.fixture
def image(tmp_path):
    def draw(color, name=None):
        path = tmp_path / f"{name or color}.png"
        Image.new("RGB", (40, 40), color).save(path)
        return str(path)

    return draw


def without_cached(calls):
    return [{key: call[key] for key in call if key != "cached"} for call in calls]


def test_equal_content_is_called_once_and_marked(run, image, tmp_path):
    small, large = models("transferred")
    path = tmp_path / "deep" / "calls.sqlite"
    graph = create_mai(small, large, prompts=PROMPTS, cache=CallCache(path))
    first = run(graph, QUESTION | {"images": [image("red")]})
    copy = image("red", "copy")
    block = {"type": "image_url", "image_url": {"url": copy}}
    asked = HumanMessage([block, {"type": "text", "text": "Is it red?"}])
    # Another graph that opens the same file finds them too.
    other = create_mai(small, large, prompts=PROMPTS, cache=CallCache(path), transfer="full")
    for made, given in ((graph, QUESTION | {"images": [copy]}), (other, {"messages": [asked]})):
        again = run(made, given)
        assert without_cached(again["calls"]) == without_cached(first["calls"])
        assert [call["cached"] for call in again["calls"]] == [True] * 4
    assert [call["cached"] for call in first["calls"]] == [False] * 4
    assert len(small.calls) + len(large.calls) == 4


def test_a_damaged_call_is_made_again(run, image, tmp_path):
    path = tmp_path / "calls.sqlite"
    for damaged in (
        "",
        "{",
        "5",
        "[1]",
        '"x"',
        "{}",
        '{"text": 5}',
        '{"seconds": 1.0, "text": "no", "error": "broken"}',
        '{"seconds": "soon"}',
        "[" * 9999,
    ):
        small, large = models("direct")
        cache = CallCache(path)
        graph = create_mai(small, large, prompts=PROMPTS, cache=cache)
        run(graph, QUESTION | {"images": [image("red")]})
        assert len(small.calls) + len(large.calls) == 2, damaged
        cache.close()
        with closing(sqlite3.connect(path)) as database, database:
            assert database.execute("SELECT count(*) FROM calls").fetchone() == (2,)
            database.execute("UPDATE calls SET value = ?", [damaged])


def test_what_differs_is_called_again(run, image):
    small, large = models("transferred")
    graph = create_mai(small, large, prompts=PROMPTS, cache=CallCache())
    red, blue = image("red"), image("blue")
    questions = [
        QUESTION | {"images": [red]},
        QUESTION | {"images": [blue]},
        QUESTION | {"images": [red, blue]},
        {"question": "Is it round?", "images": [red]},
    ]
    for number, question in enumerate(questions, start=1):
        run(graph, question)
        assert len(small.calls) + len(large.calls) == 4 * number
    run(graph, QUESTION | {"images": [image("green", "red")]})  # the same path, another image
    run(
        graph,
        QUESTION,
        context=MAIContext(max_tokens_direct=7, max_tokens_reason=8, max_tokens_transfer=9),
    )
    assert len(small.calls) + len(large.calls) == 4 * len(questions) + 4 + 4


def test_the_same_model_in_both_roles_is_called_once():
    model = models("direct")[1]
    graph = create_mai(model, model, prompts=PROMPTS, cache=CallCache())
    result = graph.invoke(QUESTION)
    assert sorted(call["cached"] for call in result["calls"]) == [False, True]
    assert model.styles == ["direct"]


def test_failed_calls_are_made_again(run):
    small, large = models("direct")
    graph = create_mai(small, large, prompts=PROMPTS, cache=CallCache())
    small.script["direct"] = RuntimeError("busy")
    assert run(graph, QUESTION)["fallback"] == "large_direct"
    small.script["direct"] = "yes"
    assert run(graph, QUESTION)["fallback"] is None
    assert (len(small.calls), len(large.calls)) == (2, 1)


def test_strategies_share_their_calls_and_give_the_same():
    cache = CallCache()
    small, large = models("transferred")
    for _ in range(2):
        for name in STRATEGIES:
            graph = create_strategy(name, small, large, prompts=PROMPTS, cache=cache)
            alone = create_strategy(name, *models("transferred"), prompts=PROMPTS)
            assert graph.invoke(QUESTION)["answer"] == alone.invoke(QUESTION)["answer"]
    # Speculation is a call of its own: it tells how many tokens were drafted.
    assert sorted(small.styles) == ["direct", "explain", "reason", "transfer"]
    assert sorted(large.styles) == ["direct", "explain", "reason", "reason", "transfer", "transfer"]


def test_attention_passes_are_cached_too(run):
    small, large = models("transferred", AttentiveModel)
    cache = CallCache()
    for layer in (None, 3, None, 3):
        graph = create_mai(small, large, prompts=PROMPTS, cache=cache, transfer="sparse")
        run(graph, QUESTION, context=MAIContext(sparse_layer=layer))
    assert [one["layers"] for one in large.passes] == [None, [3]]


def test_a_transfer_function_shares_a_call_only_where_it_gives_the_same():
    small, large = models("transferred")
    cache = CallCache()
    for word in ("one", "two", "one"):
        graph = create_mai(small, large, prompts=PROMPTS, cache=cache, transfer=lambda _, w=word: w)
        graph.invoke(QUESTION)
    assert large.styles == ["direct", "transfer", "transfer"]


@pytest.mark.parametrize("way", ["threads", "tasks"])
def test_equal_calls_at_the_same_time_are_made_once(way):
    small, large = models("direct", delay=0.1)
    graph = create_mai(small, large, prompts=PROMPTS, cache=CallCache())
    if way == "tasks":

        async def many():
            return await asyncio.gather(*(graph.ainvoke(QUESTION) for _ in range(5)))

        results = asyncio.run(many())
    else:
        results = graph.batch([QUESTION] * 5)
    assert (len(small.calls), len(large.calls)) == (1, 1)
    assert (
        sorted(call["cached"] for result in results for call in result["calls"]).count(False) == 2
    )


def test_who_waits_for_a_call_that_is_cancelled_or_fails_makes_it():
    cache = CallCache()

    async def first():
        await asyncio.sleep(10)

    async def second():
        return {"text": "yes", "error": None}

    async def cancelled():
        owner = asyncio.create_task(cache.acall("key", first))
        await asyncio.sleep(0.05)
        waiting = asyncio.create_task(cache.acall("key", second))
        await asyncio.sleep(0.05)
        owner.cancel()
        return await waiting

    assert asyncio.run(cancelled()) == ({"text": "yes", "error": None}, False)
    assert cache.get("key") == {"text": "yes", "error": None}

    results = []

    async def fails():
        await asyncio.sleep(0.1)
        return {"error": "busy"}

    def call():
        results.append(asyncio.run(cache.acall("other", fails)))

    threads = [threading.Thread(target=call) for _ in "12"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == [({"error": "busy"}, False)] * 2
    assert cache.get("other") is None


WRITER = """
import asyncio, os, sys
from langgraph_mai.nodes.call_cache import CallCache
cache = CallCache(sys.argv[1])
async def make():
    return {"by": sys.argv[2]}
async def write():
    for number in range(100):
        await cache.acall(f"shared {number}", make)
        await cache.acall(f"{sys.argv[2]} {number}", make)
asyncio.run(write())
print("done", flush=True)
os.kill(os.getpid(), 9)
"""


def test_several_processes_share_a_file_and_a_kill_loses_nothing_done(tmp_path):
    path = str(tmp_path / "calls.sqlite")
    writers = [
        subprocess.Popen([sys.executable, "-c", WRITER, path, str(n)], stdout=subprocess.PIPE)
        for n in range(3)
    ]
    assert [process.communicate()[0] for process in writers] == [b"done\n"] * 3
    cache = CallCache(path)
    for number in range(100):
        assert cache.get(f"shared {number}")["by"] in "012"
        assert all(cache.get(f"{n} {number}") == {"by": str(n)} for n in range(3))
    cache.close()


def test_models_are_told_apart_by_what_changes_their_outputs():
    cache = CallCache()
    one, same, other = (ScriptedModel(script={}, label=label) for label in ("a", "a", "b"))
    assert cache.identity(one) == cache.identity(same) != cache.identity(other)
    assert cache.identity(one.bind(stop=["x"])) != cache.identity(one)
    assert cache.identity(one.bind(stop=["x"])) == cache.identity(same.bind(stop=["x"]))
    assert cache.identity(one.with_fallbacks([other])) != cache.identity(one)
    # Nothing is known of this one: it equals itself alone.
    first, second = object(), object()
    assert cache.identity(first) == cache.identity(first) != cache.identity(second)


def test_weights_and_not_their_place_make_a_model(tmp_path):
    from langgraph_mai import ChatTransformers

    def checkpoint(folder, weights, **settings):
        (tmp_path / folder / "model").mkdir(parents=True)
        (tmp_path / folder / "model" / "model.safetensors").write_bytes(weights)
        return model_identity(ChatTransformers(model=str(tmp_path / folder / "model"), **settings))

    here = checkpoint("here", b"weights")
    assert checkpoint("there", b"weights", timeout=3) == here
    assert checkpoint("changed", b"weightz") != here
    assert checkpoint("hotter", b"weights", temperature=0.5) != here


def test_what_is_no_cache_is_refused():
    with pytest.raises(ConfigError, match="`cache` must be a CallCache"):
        create_mai(*models(), cache="calls.sqlite")
