"""Attention passes in a store: made once, for all layers of a sweep, and the same when read."""

import asyncio

import numpy as np
import pytest
from fakes import AttentiveModel
from langchain_core.messages import HumanMessage

from langgraph_mai import ModelError
from langgraph_mai.benchmarks.evaluation.call_store import CallStore
from langgraph_mai.benchmarks.evaluation.shared_calls import SharedCalls
from langgraph_mai.benchmarks.evaluation.stored_attention import StoredAttention
from langgraph_mai.models.capabilities import SupportsAttention

PROMPT = [HumanMessage("What is it? one two three")]
SPAN = (12, 25)


def attentive(**settings) -> AttentiveModel:
    given = {"attends": lambda word, layer: len(word) / layer} | settings
    return AttentiveModel(label="large", script={}, **given)


def stored(model, store, **settings) -> StoredAttention:
    return StoredAttention(model, SharedCalls(store), "large", {"model": "fake"}, **settings)


def same(first, second) -> bool:
    names = ("token_ids", "spans", "special", "layers", "query", "input_tokens", "seconds")
    return all(getattr(first, name) == getattr(second, name) for name in names) and np.array_equal(
        first.weights, second.weights
    )


async def test_what_is_read_from_the_store_is_what_was_measured(tmp_path):
    model = attentive()
    with CallStore(tmp_path) as store:
        first = stored(model, store)
        assert isinstance(first, SupportsAttention)
        measured = await first.aattention(PROMPT, SPAN, layers="all")
        assert same(measured, await model.aattention(PROMPT, SPAN, layers="all"))
    with CallStore(tmp_path) as store:
        again = stored(model, store)
        read = await again.aattention(PROMPT, SPAN, layers="all")
        assert (again.made, first.made) == (0, 1)
        assert same(read, measured)
        assert read.weights.dtype == measured.weights.dtype


async def test_one_pass_serves_all_layers_of_a_sweep(tmp_path):
    model = attentive()
    with CallStore(tmp_path) as store:
        sweep = stored(model, store, layers=(1, 2, 4))
        found = await asyncio.gather(
            *(sweep.aattention(PROMPT, SPAN, layers=[layer]) for layer in (4, 1, 2, 4))
        )
    assert [one.layers for one in found] == [(4,), (1,), (2,), (4,)]
    assert len(model.passes) == sweep.made == 1
    for one in found:
        alone = attentive().attention(PROMPT, SPAN, layers=list(one.layers))
        assert np.array_equal(one.weights, alone.weights)


@pytest.mark.parametrize(
    "changed",
    [
        {"messages": [HumanMessage("What is it? one two THREE")]},
        {"span": (12, 24)},
        {"query": -2},
        {"layers": [3]},
    ],
)
async def test_another_pass_is_not_the_stored_one(tmp_path, changed):
    model = attentive()
    asked = {"messages": PROMPT, "span": SPAN, "layers": [2], "query": -1}
    with CallStore(tmp_path) as store:
        passes = stored(model, store)
        await passes.aattention(**asked)
        await passes.aattention(**asked | changed)
        assert passes.made == 2


async def test_a_failed_pass_is_noted_and_made_again(tmp_path):
    model = attentive(attends=ModelError("It broke."))
    with CallStore(tmp_path) as store:
        passes = stored(model, store)
        with pytest.raises(ModelError, match="It broke"):
            await passes.aattention(PROMPT, SPAN, layers=[2])
        assert [one["error"] for one in store.failures()] == ["It broke."]
        model.attends = lambda *_: 1.0
        await passes.aattention(PROMPT, SPAN, layers=[2])
        assert store.failures() == []


async def test_who_waits_for_a_pass_gets_it_when_another_gives_up(tmp_path):
    model = attentive(pause=0.05)
    with CallStore(tmp_path) as store:
        passes = stored(model, store)
        first, second = (
            asyncio.create_task(passes.aattention(PROMPT, SPAN, layers=[2])) for _ in range(2)
        )
        await asyncio.sleep(0.01)
        first.cancel()
        assert (await second).layers == (2,)
    assert len(model.passes) == 1
