"""Errors in the middle of a batch, and the bound on its tokens."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from langgraph_mai.models import ChatTransformers, ModelError
from langgraph_mai.models.completion import Settings
from langgraph_mai.models.transformers import generation, sampling
from langgraph_mai.models.transformers.prefix_cache import PrefixCache
from langgraph_mai.models.transformers.rows import Row, Sharing
from langgraph_mai.models.transformers.waiting import WaitingRows

PROMPTS = ["hello " + str(at) + " and" * at for at in range(4)]
DRAWN = {"logprobs": True, "temperature": 2.0, "seed": 5}


@pytest.fixture(
    params=[("qwen", "reusing"), ("qwen", "plain"), ("internvl", "plain")], ids="-".join
)
def model(request, monkeypatch):
    family, way = request.param
    if way == "plain":
        monkeypatch.setattr(generation, "REUSING", frozenset())
    folder = request.getfixturevalue(f"{family}_checkpoint")
    model = ChatTransformers(model=str(folder), dtype="float32", device="cpu", max_tokens=12)
    model.unload()
    yield model
    model.unload()


@pytest.fixture
def qwen(qwen_checkpoint):
    return ChatTransformers(
        model=str(qwen_checkpoint), dtype="float32", device="cpu", max_tokens=12
    )


def failing_once(function, at, error):
    calls = []

    def call(*args, **kwargs):
        calls.append(1)
        if len(calls) == at:
            raise error
        return function(*args, **kwargs)

    return call


def told(message):
    return message.content, message.usage_metadata["output_tokens"]


@pytest.mark.parametrize("at", [1, 6, 7])
@pytest.mark.parametrize("name", ["log_softmax", "noise"])
def test_memory_that_runs_out_between_tokens_changes_no_output(model, monkeypatch, at, name):
    expected = [told(model.invoke(prompt, **DRAWN)) for prompt in PROMPTS]
    out_of_memory = torch.OutOfMemoryError("out of memory")
    if name == "noise":
        # Where noise is drawn, after some rows have drawn theirs.
        original, step = sampling.Sampler.__call__, failing_once(lambda: None, at, out_of_memory)

        def drawing(self, input_ids, scores):
            noisy = original(self, input_ids, scores)
            if len(scores) > 1:
                step()
            return noisy

        monkeypatch.setattr(sampling.Sampler, "__call__", drawing)
    else:
        monkeypatch.setattr(torch, name, failing_once(torch.log_softmax, at, out_of_memory))
    assert [told(message) for message in model.batch(PROMPTS, **DRAWN)] == expected


def test_a_row_that_cannot_take_its_token_fails_alone(model, monkeypatch):
    expected = [told(model.invoke(prompt, **DRAWN)) for prompt in PROMPTS]
    monkeypatch.setattr(Row, "accept", failing_once(Row.accept, 6, RuntimeError("no text")))
    results = model.batch(PROMPTS, return_exceptions=True, **DRAWN)
    (failed,) = [at for at, result in enumerate(results) if isinstance(result, Exception)]
    assert isinstance(results[failed], ModelError)
    assert "no text" in str(results[failed])
    others = [at for at in range(4) if at != failed]
    assert [told(results[at]) for at in others] == [expected[at] for at in others]


def test_an_error_where_a_row_begins_is_told(qwen, monkeypatch):
    expected = qwen.invoke("hello").content
    monkeypatch.setattr(PrefixCache, "find", failing_once(PrefixCache.find, 1, MemoryError("x")))
    with pytest.raises(ModelError, match="ran out of memory"):
        qwen.invoke("hello", timeout=60)
    assert qwen.invoke("hello", timeout=60).content == expected


def test_an_error_where_a_row_begins_leaves_its_neighbours(qwen, monkeypatch):
    expected = [qwen.invoke(prompt).content for prompt in PROMPTS]
    find = PrefixCache.find
    bad = []

    def failing(self, chain):
        bad.append(tuple(chain)) if not bad else None
        if tuple(chain) == bad[0]:
            raise RuntimeError("damaged")
        return find(self, chain)

    monkeypatch.setattr(PrefixCache, "find", failing)
    results = qwen.batch(PROMPTS, return_exceptions=True, timeout=60)
    (failed,) = [at for at, result in enumerate(results) if isinstance(result, Exception)]
    assert "damaged" in str(results[failed])
    others = [at for at in range(4) if at != failed]
    assert [results[at].content for at in others] == [expected[at] for at in others]


def test_an_error_while_rows_are_taken_is_told_to_all_of_them(qwen, monkeypatch):
    expected = qwen.invoke("hello").content
    qwen.clear_prefix_cache()  # the model's thread has nothing left to do then
    take = failing_once(WaitingRows.take, 1, RuntimeError("unforeseen"))
    monkeypatch.setattr(WaitingRows, "take", take)
    results = qwen.batch(PROMPTS, return_exceptions=True, timeout=60)
    assert all("unforeseen" in str(result) for result in results)
    assert qwen.invoke("hello", timeout=60).content == expected


class Prompt:
    chain = ()

    def __init__(self, length, known):
        self.length, self.known = length, min(known, length - 1)


prompts = st.builds(Prompt, st.integers(1, 60), st.integers(0, 60))


@given(st.lists(st.tuples(prompts, st.integers(1, 20)), min_size=1), st.integers(30, 400))
def test_padding_counts_where_known_and_new_tokens_lie_apart(given_rows, bound):
    waiting = WaitingRows(lambda row: row.prompt.length - row.prompt.known)
    waiting.put(
        [
            Row(
                prompt,
                limit=limit,
                settings=Settings(limit),
                sharing=Sharing(99, bound),
                decode=str,
            )
            for prompt, limit in given_rows
        ]
    )
    while taken := waiting.take([]):
        known = max(row.prompt.known for row in taken)
        new = max(row.prompt.length - row.prompt.known for row in taken)
        width = known + new + max(row.limit for row in taken)
        assert len(taken) == 1 or len(taken) * width <= bound


def test_a_batch_with_reused_prefixes_stays_within_its_tokens(qwen, monkeypatch):
    seen, lay_out = [], generation.lay_out

    def seeing(sequences, pad):
        layout = lay_out(sequences, pad)
        seen.append(len(sequences) * layout.width)
        return layout

    monkeypatch.setattr(generation, "lay_out", seeing)
    narrow = qwen.model_copy(update={"batch_tokens": 1500, "max_tokens": 2})
    known, new = "q" * 600, "w" * 600
    narrow.clear_prefix_cache()
    narrow.invoke(known)
    seen.clear()
    narrow.batch([known + "!", new])
    assert max(seen) <= 1500
