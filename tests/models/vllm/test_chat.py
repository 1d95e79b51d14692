"""`ChatVLLM` on the demo weights: answers, streams, limits, batches, and clear errors."""

import asyncio
import threading

import pytest
from langchain_core.messages import AIMessageChunk, HumanMessage, SystemMessage
from PIL import Image

from langgraph_mai import ChatTransformers, ChatVLLM, ConfigError, ModelError, create_strategy
from langgraph_mai.demo.held_out import held_out
from langgraph_mai.models.errors import ContextLengthError
from langgraph_mai.models.images import load_image

pytestmark = pytest.mark.shares_vllm


@pytest.fixture(scope="module")
def items(tmp_path_factory):
    return held_out(tmp_path_factory.mktemp("held-out"), count=22, seed=515)


@pytest.fixture
def small(vllm_pair):
    return vllm_pair.small


def prompt(item, instruction="Reason step by step, then answer."):
    text = f"{item.question.text}\n{instruction}"
    return [HumanMessage([load_image(item.image).block, {"type": "text", "text": text}])]


def test_outputs_are_those_of_transformers(vllm_pair, items, demo_weights):
    for role in ("small", "large"):
        reference = ChatTransformers(
            model=str(demo_weights / role), dtype="float32", device="cpu", max_tokens=192
        )
        ours = getattr(vllm_pair, role).batch([prompt(item) for item in items], max_tokens=192)
        theirs = reference.batch([prompt(item) for item in items])
        assert [one.content for one in ours] == [two.content for two in theirs]
        for key in ("input_tokens", "output_tokens"):
            assert [one.usage_metadata[key] for one in ours] == [
                two.usage_metadata[key] for two in theirs
            ]
    logprobs = [
        model.invoke(prompt(items[0]), logprobs=True, top_logprobs=3).response_metadata["logprobs"]
        for model in (vllm_pair.large, reference)
    ]
    for one, two in zip(*(entries["content"] for entries in logprobs), strict=True):
        assert [one[key] for key in ("token", "bytes")] == [two[key] for key in ("token", "bytes")]
        assert one["logprob"] == pytest.approx(two["logprob"], abs=1e-3)
        top = [other["logprob"] for other in one["top_logprobs"]]
        assert len(top) == 3
        assert top == sorted(top, reverse=True)
        assert one["token"] == one["top_logprobs"][0]["token"]  # the likeliest: greedy


async def test_streams_add_up_to_the_answer(small, items):
    whole = small.invoke(prompt(items[1]))
    chunks = list(small.stream(prompt(items[1])))
    async_chunks = [chunk async for chunk in small.astream(prompt(items[1]))]
    for pieces in (chunks, async_chunks):
        assert len(pieces) > 5
        total = sum(pieces[1:], pieces[0])
        assert isinstance(total, AIMessageChunk)
        assert total.content == whole.content
        assert total.usage_metadata["output_tokens"] == whole.usage_metadata["output_tokens"]
        assert total.response_metadata["finish_reason"] == "stop"
    left = small.stream(prompt(items[4]))
    next(left)
    left.close()
    assert small.invoke(prompt(items[4])).content


def test_a_second_prompt_about_an_image_reuses_the_prefix(small):
    # An image that no other test asks about.
    image = {"type": "image", "image": Image.new("RGB", (160, 160), (1, 2, 3))}
    question = {"type": "text", "text": "How many red shapes are there in the picture?\nAnswer"}
    direct = [HumanMessage([image, question])]

    def cached() -> int:
        return small.invoke(direct).usage_metadata["input_token_details"]["cache_read"]

    assert cached() == 0
    assert cached() >= 32
    small.clear_prefix_cache()
    assert cached() == 0


def test_an_image_that_the_engine_no_longer_has_is_sent_again(small, items, monkeypatch):
    """vLLM ends such a call with no token, for its client to make again."""

    async def reset(llm):
        await llm.engine_core.reset_mm_cache_async()

    before = small.invoke(prompt(items[0])).content
    monkeypatch.setattr("vllm.v1.engine.async_llm.AsyncLLM.reset_mm_cache", reset)
    small.clear_prefix_cache()
    assert before
    assert small.invoke(prompt(items[0])).content == before


def test_limits_stop_strings_and_seeds(small, items):
    whole = small.invoke(prompt(items[2]))
    cut = small.invoke(prompt(items[2]), max_tokens=3)
    assert cut.usage_metadata["output_tokens"] == 3
    assert cut.response_metadata["finish_reason"] == "length"
    assert whole.content.startswith(cut.content)
    stopped = small.invoke(prompt(items[2]), stop=["Answer:"])
    assert stopped.content == whole.content.partition("Answer:")[0]
    assert stopped.response_metadata["finish_reason"] == "stop"
    drawn = [
        small.invoke(prompt(items[3]), temperature=2.0, seed=seed).content for seed in (1, 1, 2)
    ]
    assert drawn[0] == drawn[1]
    assert len(set(drawn)) > 1


async def test_concurrent_calls_from_loops_and_threads(small, items):
    prompts = [prompt(item) for item in items]
    expected = [small.invoke(one).content for one in prompts]
    gathered = await asyncio.gather(*(small.ainvoke(one) for one in prompts))
    assert [message.content for message in gathered] == expected
    found = {}

    def call(number):
        found[number] = small.invoke(prompts[number]).content

    threads = [threading.Thread(target=call, args=(n,)) for n in range(len(prompts))]
    for thread in threads:
        thread.start()
    for thread in threads:
        await asyncio.to_thread(thread.join)
    assert [found[n] for n in range(len(prompts))] == expected
    # A cancelled call leaves its neighbours alone.
    calls = [asyncio.ensure_future(small.ainvoke(one)) for one in prompts[:8]]
    await asyncio.sleep(0.01)
    for call in calls[::2]:
        call.cancel()
    done = await asyncio.gather(*calls, return_exceptions=True)
    assert [message.content for message in done[1::2]] == expected[1:8:2]


def test_refused_calls_harm_no_others(small, items):
    one = prompt(items[5])
    with pytest.raises(TimeoutError, match=r"within its timeout of 0\.001 seconds"):
        small.invoke(one, timeout=0.001)
    with pytest.raises(ContextLengthError, match="takes at most 2048") as caught:
        small.invoke("word " * 4000)
    assert caught.value.limit == 2048
    assert caught.value.length > 2048
    with pytest.raises(ModelError, match="raise max_images"):
        small.invoke([HumanMessage([load_image(items[0].image).block] * 9)])
    with pytest.raises(ValueError, match="does not know 'top_k'"):
        small.invoke("Hi", top_k=1)
    for wrong in ({"max_tokens": 5.0}, {"seed": 1.5}, {"stop": [b"x"]}, {"seed": 1 << 64}):
        with pytest.raises(ValueError, match="must be"):
            small.invoke(one, **wrong)
    with pytest.raises(ModelError, match="temperature"):
        small.invoke(one, temperature=2.5)
    assert small.invoke(one, max_tokens=10**30, timeout=120).content
    first, second, third = small.batch([one, "word " * 4000, one], return_exceptions=True)
    assert first.content == third.content
    assert isinstance(second, ContextLengthError)


def test_tokens_are_counted_as_the_engine_counts_them(small, items):
    messages = [SystemMessage("You answer."), *prompt(items[6])]
    counted = small.get_num_tokens_from_messages(messages)
    assert counted == small.invoke(messages).usage_metadata["input_tokens"]
    assert small.get_token_ids("red blue") == small.get_token_ids("red blue")
    twin = small.model_copy()  # shares the engine
    assert twin.load().invoke(messages).content


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"engine": {"max_model_length": 10}}, r"no engine option 'max_model_length'; did you"),
        ({"engine": {"dtype": "float32"}}, "set by the model's own 'dtype'"),
        ({"engine": {"hf_token": "secret"}}, "HF_TOKEN in the environment"),
        ({"engine": {"max_model_len": 10**9}}, "max_model_len"),
        ({"device": "cuda:3"}, "The device 'cuda:3' of .* cannot be had"),
        ({"model": "/nowhere/at/all"}, "/nowhere/at/all"),
    ],
)
def test_what_cannot_start_is_one_sentence(vllm_pair, settings, sentence):
    model = ChatVLLM(**{"model": vllm_pair.small.model, "memory": 0.1} | settings)
    with pytest.raises(ModelError, match=sentence) as caught:
        model.load()
    assert "\n" not in str(caught.value)
    assert "secret" not in str(caught.value)
    with pytest.raises(TypeError, match="ChatVLLM has no setting 'memorry'"):
        ChatVLLM(model="x", memorry=1)


def test_speculative_decoding_of_vllm(vllm_pair, demo_weights, items):
    """N-grams change no output; a draft that sees no images is refused, with the log's end."""

    def speculating(**config):
        options = {"speculative_config": {"num_speculative_tokens": 5, **config}}
        return vllm_pair.large.model_copy(update={"engine": vllm_pair.large.engine | options})

    model = speculating(method="ngram", prompt_lookup_max=4, prompt_lookup_min=2)
    questions = [prompt(item) for item in items[:11]]
    try:
        guessed = model.batch(questions, max_tokens=64)
    finally:
        model.unload()
    plain = vllm_pair.large.batch(questions, max_tokens=64)
    assert [one.text for one in guessed] == [one.text for one in plain]
    drafted = speculating(method="draft_model", model=str(demo_weights / "small"))
    with pytest.raises(ModelError, match="see its log") as caught:
        drafted.load()
    (note,) = caught.value.__notes__
    assert "does not support M-RoPE" in note
    assert len(note.splitlines()) <= 21
    with pytest.raises(ConfigError, match="ChatVLLM takes none, because vLLM shows drafts no "):
        create_strategy("speculative", vllm_pair.small, vllm_pair.large)


async def test_calls_in_progress_at_an_unload_fail_with_a_sentence(small, items):
    one = prompt(items[7])
    awaited = [asyncio.ensure_future(small.ainvoke(one)) for _ in range(8)]
    sync = [asyncio.to_thread(small.invoke, one) for _ in range(4)]
    calls = [*awaited, *map(asyncio.ensure_future, sync)]
    await asyncio.sleep(0.02)
    await asyncio.to_thread(small.unload)
    async with asyncio.timeout(600):
        done = await asyncio.gather(*calls, return_exceptions=True)
    for result in done:
        # Some may have been answered in time, or have started the engine anew.
        if isinstance(result, BaseException):
            assert isinstance(result, ModelError)
            assert "was unloaded" in str(result)
    assert small.invoke(one).content
