"""`batch` and `abatch`: one padded batch, with the answers of single calls."""

import asyncio
import shutil

import pytest
import torch
from asked import ask, picture
from langchain_core.caches import InMemoryCache
from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.messages import HumanMessage, SystemMessage

from langgraph_mai.models import ChatTransformers, ImageError
from langgraph_mai.models.transformers.batching import Gathering

MIXED = [
    ask("What?", picture("red")),
    "No picture here, and a longer text than the others have",
    ask("Which of the two?", picture("blue", (64, 64)), picture("green", (200, 50))),
    [SystemMessage("Be brief."), *ask("Who?", picture("black", (32, 128)))],
    "?",
]


class Passes:
    """Counts the rows of each first step (prefill) that goes through a model."""

    def __init__(self, monkeypatch):
        from transformers import GenerationMixin

        self.rows = []
        original = GenerationMixin.generate

        def counting(this, *args, **kwargs):
            self.rows.append(kwargs["input_ids"].shape[0])
            return original(this, *args, **kwargs)

        monkeypatch.setattr(GenerationMixin, "generate", counting)


@pytest.fixture
def passes(monkeypatch):
    return Passes(monkeypatch)


@pytest.fixture
def model(checkpoint):
    return ChatTransformers(
        model=str(checkpoint), dtype="float32", device="cpu", max_tokens=16, prefix_cache_bytes=0
    )


def contents(messages):
    return [message.content for message in messages]


def assert_same(batched, single):
    assert contents(batched) == contents(single)
    for left, right in zip(batched, single, strict=True):
        assert left.usage_metadata == right.usage_metadata
        assert left.response_metadata["finish_reason"] == right.response_metadata["finish_reason"]


def test_a_batch_is_one_generation_with_the_answers_of_single_calls(model, passes):
    batched = model.batch(MIXED)
    assert passes.rows == [5]
    assert_same(batched, [model.invoke(item) for item in MIXED])


async def test_an_async_batch_too(model, passes):
    batched = await model.abatch(MIXED)
    assert passes.rows == [5]
    assert_same(batched, [model.invoke(item) for item in MIXED])


def test_log_probabilities_are_those_of_single_calls(model):
    for one, item in zip(model.batch(MIXED, logprobs=True), MIXED, strict=True):
        alone = model.invoke(item, logprobs=True).response_metadata["logprobs"]["content"]
        together = one.response_metadata["logprobs"]["content"]
        assert [e["token"] for e in together] == [e["token"] for e in alone]
        assert [e["logprob"] for e in together] == pytest.approx(
            [e["logprob"] for e in alone], abs=1e-3
        )


def test_drawing_is_the_same_alone_and_in_a_batch(model):
    batched = model.batch(MIXED, temperature=1.0, seed=5)
    assert_same(batched, [model.invoke(item, temperature=1.0, seed=5) for item in MIXED])


def test_stop_strings_in_a_batch(model):
    whole = contents(model.batch(MIXED))
    stop = [whole[0][2:4], whole[3][5:8]]
    assert contents(model.batch(MIXED, stop=stop)) == [
        model.invoke(item, stop=stop).content for item in MIXED
    ]


def test_the_size_of_a_batch_is_bounded(model, passes):
    model.batch_size = 2
    assert len(model.batch(MIXED, max_tokens=1)) == 5
    assert passes.rows == [2, 2, 1]


@pytest.mark.parametrize("use_async", [False, True])
def test_max_concurrency_bounds_it_further(model, passes, use_async):
    config = {"max_concurrency": 3}
    if use_async:
        asyncio.run(model.abatch(MIXED, config, max_tokens=1))
    else:
        model.batch(MIXED, config, max_tokens=1)
    assert passes.rows == [3, 2]


def test_one_bad_item_fails_alone(model, passes, tmp_path):
    items = [*MIXED[:2], [HumanMessage([{"type": "image", "url": str(tmp_path / "no.png")}])]]
    results = model.batch(items, return_exceptions=True)
    assert isinstance(results[2], ImageError)
    assert passes.rows == [2]
    assert_same(results[:2], [model.invoke(item) for item in items[:2]])
    with pytest.raises(ImageError, match=r"no\.png"):
        model.batch(items)


async def test_one_bad_item_fails_alone_in_an_async_batch(model, passes, tmp_path):
    items = [[HumanMessage([{"type": "image", "url": str(tmp_path / "no.png")}])], *MIXED[:2]]
    results = await model.abatch(items, return_exceptions=True)
    assert isinstance(results[0], ImageError)
    assert passes.rows == [2]
    with pytest.raises(ImageError, match=r"no\.png"):
        await model.abatch(items)


def test_a_batch_of_bad_items_ends(model):
    results = model.batch([[HumanMessage([{"type": "audio"}])]] * 3, return_exceptions=True)
    assert len(results) == 3
    assert all(isinstance(result, Exception) for result in results)


def test_no_items_and_one_item(model, passes):
    assert model.batch([]) == []
    assert asyncio.run(model.abatch([])) == []
    assert len(model.batch(["x"], max_tokens=1)) == 1
    assert passes.rows == [1]


def test_cached_answers_do_not_hold_up_the_others(model, passes):
    model.cache = InMemoryCache()
    first = model.invoke("x")
    again = model.batch(["x", "y", "z"])
    assert passes.rows == [1, 2]
    assert again[0].content == first.content
    assert contents(model.batch(["y", "x", "z"])) == [again[at].content for at in (1, 0, 2)]
    assert passes.rows == [1, 2]


class Runs(BaseCallbackHandler):
    def __init__(self):
        self.started, self.ended, self.tokens = [], [], {}

    def on_chat_model_start(self, serialized, messages, *, run_id, tags=None, **kwargs):
        self.started.append((run_id, tuple(tags or ())))

    def on_llm_new_token(self, token, *, run_id, **kwargs):
        self.tokens[run_id] = self.tokens.get(run_id, "") + token

    def on_llm_end(self, response, *, run_id, **kwargs):
        self.ended.append(run_id)


def test_every_item_is_a_run_of_its_own(model):
    handler = Runs()
    configs = [{"callbacks": [handler], "tags": [f"item {at}"]} for at in range(5)]
    model.batch(MIXED, configs, max_tokens=1)
    assert sorted(tags for _, tags in handler.started) == [(f"item {at}",) for at in range(5)]
    assert set(handler.ended) == {run for run, _ in handler.started}


def test_a_watched_batch_streams_and_is_still_one_batch(model, passes):
    handler = Runs()
    answers = model.batch(MIXED, {"callbacks": [handler]}, stream=True)
    assert passes.rows == [5]
    assert sorted(handler.tokens.values()) == sorted(contents(answers))


class Asks(BaseCallbackHandler):
    """Calls a model as another call starts."""

    def __init__(self, model, way):
        self.model, self.way, self.answers = model, way, []

    def on_chat_model_start(self, *args, **kwargs):
        settings = {"config": {"callbacks": []}, "timeout": 60}
        if self.way == "stream":
            text = "".join(chunk.text for chunk in self.model.stream("side", **settings))
        else:
            text = self.model.invoke("side", **settings).text
        self.answers.append(text)


@pytest.mark.parametrize("use_async", [False, True])
@pytest.mark.parametrize("way", ["invoke", "stream"])
@pytest.mark.parametrize("same", [False, True])
def test_a_call_in_a_callback_takes_nobodys_place(
    model, qwen_checkpoint, passes, same, way, use_async
):
    other = model if same else model.model_copy(update={"model": str(qwen_checkpoint)})
    expected = contents(map(model.invoke, ["a", "b"]))
    side = other.invoke("side").text
    passes.rows.clear()
    handler = Asks(other, way)
    configs = [{}, {"callbacks": [handler]}]
    if use_async:
        answers = asyncio.run(model.abatch(["a", "b"], configs))
    else:
        answers = model.batch(["a", "b"], configs)
    assert contents(answers) == expected
    assert handler.answers == [side]
    assert sorted(passes.rows) == [1, 2]


def test_a_gathering_gives_every_model_its_own_rows():
    done = []
    gathering = Gathering(3)
    gathering.join("first", lambda rows: done.append(("one", rows)))
    second = lambda rows: done.append(("other", rows))  # noqa: E731
    gathering.join("second", second)
    gathering.join("third", second)
    assert done == [("one", ["first"]), ("other", ["second", "third"])]


def test_a_bound_model_batches_too(model, passes):
    bound = model.bind(stop=["#"])
    assert len(bound.batch(["a", "b", "c"])) == 3
    assert passes.rows == [3]


def test_a_batch_in_half_precision_runs(checkpoint):
    model = ChatTransformers(model=str(checkpoint), dtype="bfloat16", device="cpu", max_tokens=4)
    assert len(model.batch(MIXED)) == 5
    assert torch.get_default_dtype() == torch.float32


@pytest.fixture
def of_another_type(model, checkpoint, tmp_path, monkeypatch):
    """The same model, taken for one whose prefixes cannot be reused."""
    from langgraph_mai.models.transformers import generation

    monkeypatch.setattr(generation, "REUSING", frozenset())
    folder = shutil.copytree(checkpoint, tmp_path / "model")
    return model.model_copy(update={"model": str(folder), "prefix_cache_bytes": None})


def test_models_that_cannot_reuse_prefixes_give_the_same(model, of_another_type, passes):
    batched = of_another_type.batch(MIXED)
    assert passes.rows == [5]
    again = of_another_type.batch(MIXED, temperature=1.0, seed=5)
    assert_same(batched, [model.invoke(item) for item in MIXED])
    assert_same(again, [model.invoke(item, temperature=1.0, seed=5) for item in MIXED])


def test_prompts_that_cannot_be_merged_run_one_by_one(of_another_type, passes, monkeypatch):
    """Some models want the pictures of a batch padded in their own way."""
    from langgraph_mai.models.transformers import generation

    model = of_another_type
    monkeypatch.setattr(generation, "merge_inputs", lambda prompts, pad: None)
    batched = model.batch(MIXED)
    assert passes.rows == [1] * 5
    assert contents(batched) == [model.invoke(item).content for item in MIXED]
