"""`ChatVLLM` on the demo weights: answers, streams, limits, batches, and clear errors."""

import asyncio
import threading

import pytest
from langchain_core.messages import AIMessageChunk, HumanMessage, SystemMessage
from PIL import Image

from langgraph_mai import ChatTransformers, ChatVLLM, ModelError
from langgraph_mai.demo.held_out import held_out
from langgraph_mai.models import image_block, image_reference
from langgraph_mai.models.errors import ContextLengthError

pytestmark = pytest.mark.shares_vllm


@pytest.fixture(scope="module")
def items(tmp_path_factory):
    return held_out(tmp_path_factory.mktemp("held-out"), count=22, seed=515)


@pytest.fixture
def small(vllm_pair):
    return vllm_pair.small


def asked(item, instruction="Reason step by step, then answer."):
    text = f"{item.question.text}\n{instruction}"
    return [HumanMessage([image_block(item.image), {"type": "text", "text": text}])]


def test_it_writes_what_transformers_writes(vllm_pair, items, demo_weights):
    for role in ("small", "large"):
        reference = ChatTransformers(
            model=str(demo_weights / role), dtype="float32", device="cpu", max_tokens=192
        )
        ours = getattr(vllm_pair, role).batch([asked(item) for item in items], max_tokens=192)
        theirs = reference.batch([asked(item) for item in items])
        assert [one.content for one in ours] == [two.content for two in theirs]
        assert [one.usage_metadata["input_tokens"] for one in ours] == [
            two.usage_metadata["input_tokens"] for two in theirs
        ]
        assert [one.usage_metadata["output_tokens"] for one in ours] == [
            two.usage_metadata["output_tokens"] for two in theirs
        ]


def test_log_probabilities_are_those_of_transformers(small, items, demo_weights):
    reference = ChatTransformers(
        model=str(demo_weights / "small"), dtype="float32", device="cpu", logprobs=True
    )
    (ours, theirs) = (
        model.invoke(asked(items[0]), logprobs=True).response_metadata["logprobs"]["content"]
        for model in (small, reference)
    )
    assert [one["token"] for one in ours] == [two["token"] for two in theirs]
    assert [one["bytes"] for one in ours] == [two["bytes"] for two in theirs]
    assert [one["logprob"] for one in ours] == pytest.approx(
        [two["logprob"] for two in theirs], abs=1e-3
    )


def test_the_likeliest_tokens_are_listed_in_order(small, items):
    message = small.invoke(asked(items[0]), logprobs=True, top_logprobs=3)
    for entry in message.response_metadata["logprobs"]["content"]:
        top = [one["logprob"] for one in entry["top_logprobs"]]
        assert len(top) == 3
        assert top == sorted(top, reverse=True)
        assert entry["token"] == entry["top_logprobs"][0]["token"]  # it is the likeliest: greedy


async def test_streams_add_up_to_the_answer(small, items):
    whole = small.invoke(asked(items[1]))
    chunks = list(small.stream(asked(items[1])))
    async_chunks = [chunk async for chunk in small.astream(asked(items[1]))]
    for pieces in (chunks, async_chunks):
        assert len(pieces) > 5
        total = sum(pieces[1:], pieces[0])
        assert isinstance(total, AIMessageChunk)
        assert total.content == whole.content
        assert total.usage_metadata["output_tokens"] == whole.usage_metadata["output_tokens"]
        assert total.response_metadata["finish_reason"] == "stop"


def test_a_second_prompt_about_a_picture_reuses_the_first_part(small, tmp_path):
    # A picture that no other test asks about.
    reference = image_reference(Image.new("RGB", (160, 160), (1, 2, 3)))
    question = {"type": "text", "text": "How many red shapes are there in the picture?\nAnswer"}
    direct = [HumanMessage([image_block(reference), question])]
    first, second = small.invoke(direct), small.invoke(direct)
    assert first.usage_metadata["input_token_details"]["cache_read"] == 0
    assert second.usage_metadata["input_token_details"]["cache_read"] >= 32


def test_limits_and_stop_strings(small, items):
    prompt = asked(items[2])
    whole = small.invoke(prompt)
    cut = small.invoke(prompt, max_tokens=3)
    assert cut.usage_metadata["output_tokens"] == 3
    assert cut.response_metadata["finish_reason"] == "length"
    assert whole.content.startswith(cut.content)
    stopped = small.invoke(prompt, stop=["Answer:"])
    assert stopped.content == whole.content.partition("Answer:")[0]
    assert stopped.response_metadata["finish_reason"] == "stop"


def test_drawing_is_repeatable_with_a_seed(small, items):
    prompt = asked(items[3])
    drawn = [small.invoke(prompt, temperature=2.0, seed=seed).content for seed in (1, 1, 2, 3, 4)]
    assert drawn[0] == drawn[1]
    assert len(set(drawn)) > 1


async def test_many_calls_at_once_from_loops_and_threads(small, items):
    prompts = [asked(item) for item in items]
    expected = [small.invoke(prompt).content for prompt in prompts]
    gathered = await asyncio.gather(*(small.ainvoke(prompt) for prompt in prompts))
    assert [message.content for message in gathered] == expected
    found = {}

    def ask(number):
        found[number] = small.invoke(prompts[number]).content

    threads = [threading.Thread(target=ask, args=(n,)) for n in range(len(prompts))]
    for thread in threads:
        thread.start()
    for thread in threads:
        await asyncio.to_thread(thread.join)
    assert [found[n] for n in range(len(prompts))] == expected


async def test_a_cancelled_call_leaves_its_neighbours_alone(small, items):
    prompts = [asked(item) for item in items[:8]]
    expected = [small.invoke(prompt).content for prompt in prompts]
    calls = [asyncio.ensure_future(small.ainvoke(prompt)) for prompt in prompts]
    await asyncio.sleep(0.01)
    for call in calls[::2]:
        call.cancel()
    done = await asyncio.gather(*calls, return_exceptions=True)
    assert [message.content for message in done[1::2]] == expected[1::2]
    assert small.invoke(prompts[0]).content == expected[0]


def test_a_stream_may_be_left(small, items):
    stream = small.stream(asked(items[4]))
    next(stream)
    stream.close()
    assert small.invoke(asked(items[4])).content


def test_out_of_time_is_a_timeout_that_says_so(small, items):
    with pytest.raises(TimeoutError, match=r"within its timeout of 0\.001 seconds"):
        small.invoke(asked(items[5]), timeout=0.001)
    assert small.invoke(asked(items[5]), timeout=120).content


def test_a_prompt_that_is_too_long_names_the_limit(small):
    with pytest.raises(ContextLengthError, match="takes at most 2048") as caught:
        small.invoke("word " * 4000)
    assert caught.value.limit == 2048
    assert caught.value.length > 2048


def test_too_many_pictures_name_the_setting(small, items):
    block = image_block(items[0].image)
    with pytest.raises(ModelError, match="raise max_images"):
        small.invoke([HumanMessage([block] * 9)])


def test_one_bad_prompt_of_a_batch_fails_alone(small, items):
    inputs = [asked(items[0]), "word " * 4000, asked(items[1])]
    first, second, third = small.batch(inputs, return_exceptions=True)
    assert first.content
    assert isinstance(second, ContextLengthError)
    assert third.content


def test_tokens_are_counted_as_the_engine_counts_them(small, items):
    prompt = [SystemMessage("You answer."), *asked(items[6])]
    counted = small.get_num_tokens_from_messages(prompt)
    assert counted == small.invoke(prompt).usage_metadata["input_tokens"]
    assert small.get_token_ids("red blue") == small.get_token_ids("red blue")


def test_instances_that_ask_for_the_same_share_the_engine(vllm_pair, items):
    twin = vllm_pair.small.model_copy()
    assert twin.load().invoke(asked(items[0])).content


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"engine": {"max_model_length": 10}}, r"no engine option 'max_model_length'; did you"),
        ({"engine": {"dtype": "float32"}}, "set by the model's own 'dtype'"),
        ({"engine": {"max_model_len": 10**9}}, "max_model_len"),
        ({"device": "cuda:3"}, "The device 'cuda:3' of .* cannot be had"),
        ({"model": "/nowhere/at/all"}, "/nowhere/at/all"),
    ],
)
def test_what_cannot_start_says_why_in_one_sentence(vllm_pair, settings, sentence):
    model = ChatVLLM(**{"model": vllm_pair.small.model, "memory": 0.1} | settings)
    with pytest.raises(ModelError, match=sentence) as caught:
        model.load()
    assert "\n" not in str(caught.value)


def test_unknown_settings_are_refused_by_name():
    with pytest.raises(TypeError, match="ChatVLLM has no setting 'memorry'"):
        ChatVLLM(model="x", memorry=1)
    with pytest.raises(ValueError, match="does not know 'top_k'"):
        ChatVLLM(model="x").invoke("Hi", top_k=1)


def test_a_setting_of_the_wrong_kind_does_no_harm_to_others(small, items):
    for wrong in ({"max_tokens": 5.0}, {"seed": 1.5}, {"stop": [b"x"]}, {"seed": 1 << 64}):
        with pytest.raises(ValueError, match="must be"):
            small.invoke(asked(items[0]), **wrong)
    assert small.invoke(asked(items[0]), max_tokens=10**30, timeout=120).content
    with pytest.raises(ModelError, match="temperature"):
        small.invoke(asked(items[0]), temperature=2.5)


async def test_calls_under_way_at_an_unload_fail_with_a_sentence(small, items):
    prompt = asked(items[7])
    awaited = [asyncio.ensure_future(small.ainvoke(prompt)) for _ in range(8)]
    sync = [asyncio.to_thread(small.invoke, prompt) for _ in range(4)]
    calls = [*awaited, *map(asyncio.ensure_future, sync)]
    await asyncio.sleep(0.02)
    await asyncio.to_thread(small.unload)
    async with asyncio.timeout(60):
        done = await asyncio.gather(*calls, return_exceptions=True)
    for one in done:
        # Some may have been answered in time, or have started the engine anew.
        if isinstance(one, BaseException):
            assert isinstance(one, ModelError)
            assert "was unloaded" in str(one)
    assert small.invoke(prompt).content
