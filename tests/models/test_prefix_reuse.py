"""A prompt that begins like an earlier one computes only the rest, with the same output."""

import asyncio
import functools
from concurrent.futures import ThreadPoolExecutor

import pytest
from asked import ask, picture
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from langchain_core.messages import HumanMessage

from langgraph_mai import ChatTransformers

# Some of one size: only their content tells them apart.
PICTURES = [
    picture("red"),
    picture("blue"),
    picture("red", (64, 64)),
    picture("black", (200, 50)),
    picture("green", (40, 130)),
]
TEXTS = ["What is in the picture", "What is in the pictures?", "Who?", "", "What is in it, then?"]


def cached(message):
    return message.usage_metadata["input_token_details"]["cache_read"]


@pytest.fixture
def model(checkpoint):
    return ChatTransformers(model=str(checkpoint), dtype="float32", device="cpu", max_tokens=10)


@pytest.fixture
def plain(model):
    return model.model_copy(update={"prefix_cache_bytes": 0})


@pytest.fixture
def towers(monkeypatch):
    """Grows with the pictures' patches (or tiles) that a vision tower sees."""
    from transformers import InternVLModel, Qwen3VLModel

    seen = []
    for kind in (InternVLModel, Qwen3VLModel):
        monkeypatch.setattr(kind, "get_image_features", counted(kind.get_image_features, seen))
    return seen


def counted(look, seen):
    # `generate` reads the signature.
    @functools.wraps(look)
    def counting(self, pixel_values, *args, **kwargs):
        seen.append(len(pixel_values))
        return look(self, pixel_values, *args, **kwargs)

    return counting


prompts = st.builds(
    lambda pictures, text, more: ask(text + more, *pictures),
    st.lists(st.sampled_from(PICTURES), max_size=3),
    st.sampled_from(TEXTS),
    st.text("ab ", max_size=6),
)
rounds = st.lists(
    st.tuples(st.lists(prompts, min_size=1, max_size=4), st.sampled_from([None, 60_000])),
    min_size=1,
    max_size=4,
)


@settings(
    max_examples=15,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(rounds)
def test_outputs_are_those_of_prompts_computed_whole(model, plain, asked):
    """Random prompts, pictures and orders; the small bound makes the cache forget in between."""
    for batch, bound in asked:
        reusing = model.model_copy(update={"prefix_cache_bytes": bound})
        for got, expected in zip(reusing.batch(batch), plain.batch(batch), strict=True):
            assert got.content == expected.content
            assert got.usage_metadata["input_tokens"] == expected.usage_metadata["input_tokens"]
            assert cached(expected) == 0


def test_all_tokens_up_to_the_difference_are_reused(model, plain):
    first = model.invoke(ask("Is it a circle? Answer.", PICTURES[4]))
    question = ask("Is it a circle? Reason about it.", PICTURES[4])
    second, expected = (one.invoke(question, logprobs=True) for one in (model, plain))
    # One token a byte, and 13 for the end of the message and the beginning of the answer.
    assert first.usage_metadata["input_tokens"] - cached(second) == len("Answer.") + 13
    assert second.usage_metadata["input_tokens"] - cached(second) == len("Reason about it.") + 13
    got, same = (
        [entry["logprob"] for entry in one.response_metadata["logprobs"]["content"]]
        for one in (second, expected)
    )
    assert got == pytest.approx(same, abs=1e-3)
    *_, again = model.stream(question)
    assert cached(again) == again.usage_metadata["input_tokens"] - 1


def test_the_vision_tower_does_not_see_a_reused_picture(model, towers):
    def compare(*pictures):
        text, *blocks = reversed(ask("Look at these two: ", *pictures)[0].content)
        model.invoke([HumanMessage([text, *blocks])], max_tokens=1)

    one, two, three = map(picture, ("orange", "pink", "brown"))
    compare(one, two)
    (both,) = towers
    compare(one, two)
    assert towers == [both]
    compare(three, two)  # the order is turned round: the second one is new
    assert towers == [both, both // 2]


def test_threads_and_tasks_share_prefixes_that_a_cancelled_call_leaves_whole(model, plain):
    questions = [ask(text, one) for one in PICTURES[:3] for text in TEXTS]
    expected = [plain.invoke(question).content for question in questions]

    async def gather():
        task = asyncio.create_task(model.ainvoke(questions[0], max_tokens=800, temperature=1.0))
        await asyncio.sleep(0.05)
        task.cancel()
        await asyncio.wait([task])
        return await asyncio.gather(*map(model.ainvoke, questions))

    with ThreadPoolExecutor(8) as pool:
        assert [m.content for m in pool.map(model.invoke, questions)] == expected
    assert [message.content for message in asyncio.run(gather())] == expected


def test_other_precisions_and_implementations(model):
    for changes in ({"dtype": "bfloat16"}, {"attn_implementation": "eager"}):
        other = model.model_copy(update=changes)
        other.invoke(ask("What is that over there?", PICTURES[0]))
        assert cached(other.invoke(ask("What is that over here?", PICTURES[0]))) > 0
    plain = other.model_copy(update={"prefix_cache_bytes": 0})
    asked = [ask(text, one) for one in PICTURES[:3] for text in TEXTS[:3]]
    assert [m.content for m in other.batch(asked)] == [m.content for m in plain.batch(asked)]


def test_the_least_recently_used_prefix_is_evicted_within_the_bound(qwen_checkpoint):
    model = ChatTransformers(
        model=str(qwen_checkpoint), dtype="float32", device="cpu", max_tokens=1
    ).load()
    model.clear_prefix_cache()
    texts = [letter * 200 for letter in "abc"]
    first = model.invoke(texts[0])
    tokens = first.usage_metadata["input_tokens"]
    whole = model.invoke(texts[0])
    assert cached(whole) == tokens - 1
    # Keys and values in float32 of 2 layers, 2 heads of 16, and the index: room for two prompts.
    token_bytes = 2 * 2 * 16 * 2 * 4 + 160
    bounded = model.model_copy(update={"prefix_cache_bytes": int(2.5 * tokens * token_bytes)})
    bounded.invoke(texts[1])
    bounded.invoke(texts[0])
    bounded.invoke(texts[2])
    assert cached(bounded.invoke(texts[0])) == tokens - 1
    assert cached(bounded.invoke(texts[1])) < tokens - 1
