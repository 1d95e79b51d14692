"""What one call returns, on tiny random Qwen3-VL and InternVL checkpoints."""

import itertools
import json
import math
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from asked import ask, picture
from checkpoints import CONTEXT
from langchain_core.messages import AIMessage, ChatMessage, HumanMessage, SystemMessage, ToolMessage
from PIL import Image

from langgraph_mai import ChatTransformers, ChatVLLM, ModelError


def logprobs(model, messages):
    """The log probabilities of an answer: finer than its text in telling answers apart."""
    message = model.invoke(messages, logprobs=True)
    return [entry["logprob"] for entry in message.response_metadata["logprobs"]["content"]]


@pytest.fixture
def model(checkpoint):
    return ChatTransformers(model=str(checkpoint), dtype="float32", device="cpu", max_tokens=12)


@pytest.fixture
def qwen(qwen_checkpoint):
    return ChatTransformers(model=str(qwen_checkpoint), dtype="float32", max_tokens=12)


def test_the_answer_is_what_transformers_itself_generates(model, checkpoint):
    from transformers import AutoModelForImageTextToText, AutoProcessor

    processor = AutoProcessor.from_pretrained(checkpoint)
    plain = AutoModelForImageTextToText.from_pretrained(checkpoint, dtype=torch.float32)
    answers = []
    for text, image in itertools.product(("What?", "Who?"), (picture("red"), picture("blue"))):
        content = [{"type": "image"}, {"type": "text", "text": text}]
        prompt = processor.apply_chat_template(
            [{"role": "user", "content": content}], add_generation_prompt=True
        )
        inputs = processor(text=[prompt], images=[image], return_tensors="pt")
        output = plain.generate(**inputs, max_new_tokens=12, do_sample=False)
        tokens = output[0, inputs["input_ids"].shape[1] :]
        answers.append(model.invoke(ask(text, image)).content)
        assert answers[-1] == processor.decode(tokens, skip_special_tokens=True)
    assert len(set(answers)) == 4  # it depends on the image and on the text


def test_what_comes_with_an_answer(model, checkpoint):
    model.prefix_cache_bytes = 0
    message = model.invoke(ask("What?", picture("red")))
    assert isinstance(message, AIMessage)
    usage = message.usage_metadata
    assert usage["input_tokens"] > 20
    assert usage["output_tokens"] == 12
    assert usage["total_tokens"] == usage["input_tokens"] + 12
    assert usage["input_token_details"] == {"cache_read": 0}
    metadata = message.response_metadata
    assert metadata["model_name"] == str(checkpoint)
    assert metadata["finish_reason"] == "length"
    assert 0 < metadata["seconds"] < 60
    assert "logprobs" not in metadata
    message = model.invoke(ask("What?", picture("red")), logprobs=True)
    entries = message.response_metadata["logprobs"]["content"]
    assert len(entries) == 12
    assert all(entry["logprob"] <= 0 for entry in entries)
    assert {"token", "bytes", "logprob", "top_logprobs"} == set(entries[0])
    ascii_only = [entry for entry in entries if entry["bytes"]]
    assert all(bytes(entry["bytes"]).decode() == entry["token"] for entry in ascii_only)


def test_an_image_costs_tokens(model, qwen):
    without, one, two = (
        model.get_num_tokens_from_messages(ask("What?", *[picture("red")] * count))
        for count in range(3)
    )
    assert without < one < two
    assert two - one == one - without
    assert model.invoke(ask("What?", picture("red"))).usage_metadata["input_tokens"] == one
    assert model.get_num_tokens("abc") == 3
    full, small = (
        one.invoke(ask("What?", picture("red", (128, 128)))).usage_metadata["input_tokens"]
        for one in (qwen, qwen.model_copy(update={"max_pixels": 64 * 64}))
    )
    assert full - small == 16 - 4


def test_all_of_a_conversation_is_read(model):
    red, blue, wide = picture("red"), picture("blue"), picture("blue", (300, 40))
    history = [
        SystemMessage("Be brief."),
        *ask("What?", red),
        AIMessage("A ball."),
        HumanMessage("Sure?"),
    ]
    tool = [AIMessage("", tool_calls=[{"name": "f", "args": {}, "id": "1"}])]
    tool += [ToolMessage([{"type": "image", "image": red}], tool_call_id="1")]
    assert model.invoke([*history, *tool]).content
    asked = [history, history[1:], "Only text", "Other text", ask("Which?", red, blue)]
    asked += [ask("Which?", blue, red), ask("Which?", red)]
    alone = [logprobs(model, one) for one in asked]
    assert len({tuple(round(value, 3) for value in one) for one in alone}) == len(asked)
    for messages, expected in zip(asked, alone, strict=True):
        model.invoke(ask("What?", wide, red))  # earlier images leave no trace
        assert logprobs(model, messages) == pytest.approx(expected, abs=1e-5)


def test_awkward_sizes_are_answered(model):
    for size in [(1, 1), (16, 16), (332, 27), (1366, 6), (6, 1366), (9000, 1)]:
        red = Image.new("RGB", size, "red")
        assert model.invoke(ask("What?", red), max_tokens=2).usage_metadata


def test_an_end_token_stops(qwen):
    # Some draws of a random model end by themselves; the end token leaves no text.
    outputs = [qwen.invoke("x", temperature=3.0, seed=seed, max_tokens=60) for seed in range(12)]
    ended = [one for one in outputs if one.response_metadata["finish_reason"] == "stop"]
    assert ended
    assert all(one.usage_metadata["output_tokens"] < 60 for one in ended)
    assert all("<|" not in one.content for one in outputs)


def test_stop_strings(qwen):
    question = ask("What?", picture("red"))
    whole = qwen.invoke(question).content
    stop = whole[3:5]
    message = qwen.invoke(question, stop=["not there", stop])
    assert message.content == whole[: whole.index(stop)]
    assert message.response_metadata["finish_reason"] == "stop"
    bound = qwen.model_copy(update={"stop": [stop]})
    assert bound.invoke(question).content == message.content
    assert bound.invoke(question, stop=[]).content == whole


def test_drawing_from_the_likeliest_to_all_tokens_is_repeatable_with_a_seed(qwen):
    question = ask("What?", picture("red"))
    state, greedy = torch.random.get_rng_state(), qwen.invoke(question).content
    drawn = [qwen.invoke(question, temperature=1.0, seed=seed).content for seed in (1, 1, 2)]
    assert drawn[0] == drawn[1] != drawn[2]
    assert drawn[0] != greedy
    assert len({qwen.invoke(question, temperature=1.0).content for _ in range(3)}) > 1
    assert torch.equal(state, torch.random.get_rng_state())
    for tiny in (1e-300, 5e-324, 1e-40, 1e-9):
        assert qwen.invoke(question, temperature=tiny, seed=3).content == greedy
    for huge in (1e9, 1e38, 1e300):
        drawn = [qwen.invoke("x", temperature=huge, seed=seed).content for seed in range(3)]
        assert len(set(drawn)) == 3


def test_drawing_follows_the_models_probabilities(qwen):
    """Of 150 first tokens the likeliest comes about as often as the softmax says."""
    model = qwen.model_copy(update={"max_tokens": 1})
    (likeliest,) = logprobs(model, "x")

    def share(temperature):
        calls = [
            model.bind(temperature=temperature, seed=seed, logprobs=True) for seed in range(150)
        ]
        with ThreadPoolExecutor(30) as pool:
            drawn = list(pool.map(lambda call: call.invoke("x"), calls))
        entries = [one.response_metadata.get("logprobs", {}).get("content") for one in drawn]
        told = [entry[0]["logprob"] for entry in entries if entry]
        return sum(one == pytest.approx(likeliest, abs=1e-4) for one in told) / 150

    expected = math.exp(likeliest)
    assert abs(share(1.0) - expected) < 3 * (expected * (1 - expected) / 150) ** 0.5
    assert share(2.0) < share(1.0) < share(0.5)


WRONG = [
    *({"max_tokens": one} for one in (0, 5.0, True, "5")),
    *({"seed": one} for one in (-1, 1.5, 1 << 64)),
    *({"temperature": one} for one in (-0.1, math.nan, math.inf, "hot")),
    *({"stop": [one]} for one in ("", b"x", "\ud800")),
    *({"timeout": one} for one in (0, -1, math.inf, math.nan, "5", True)),
    {"top_logprobs": 21},
    {"tools": []},
    {"max_tokns": 3},
]


@pytest.mark.parametrize("kind", [ChatTransformers, ChatVLLM])
def test_wrong_settings_of_a_call_are_named_before_a_model_loads(kind):
    for wrong in WRONG:
        named = next(iter(wrong)).replace("stop", "stop string")
        with pytest.raises(ValueError, match=named) as raised:
            kind(model="/nowhere").invoke("x", **wrong)
        assert "\n" not in str(raised.value)


def test_prompt_and_answer_fit_the_context(qwen):
    tokens = qwen.get_num_tokens_from_messages([HumanMessage("")])
    with pytest.raises(ModelError, match=rf"{CONTEXT + tokens} tokens .* at most {CONTEXT}"):
        qwen.invoke("x" * CONTEXT)
    message = qwen.invoke("x" * (CONTEXT - tokens - 5), max_tokens=100, temperature=1.0, seed=0)
    assert message.usage_metadata["total_tokens"] <= CONTEXT
    assert message.response_metadata["finish_reason"] in {"length", "stop"}


def test_what_a_template_or_the_model_does_not_take(qwen):
    with pytest.raises(ModelError, match="There is no role critic"):
        qwen.invoke([ChatMessage(role="critic", content="Bad.")])
    with pytest.raises(NotImplementedError):
        qwen.bind_tools([])


def test_control_tokens_in_a_text_are_read_as_characters(model):
    """A question, an earlier answer or a tool's result never ends a turn nor shows an image."""
    from transformers import AutoProcessor

    processor = AutoProcessor.from_pretrained(model.model)
    tokenizer = processor.tokenizer
    own = [*tokenizer.all_special_tokens, processor.image_token]
    for images in ([], [picture("red")]):
        harmless = model.prompt_token_ids(ask("What is it?", *images))
        for token in own:
            text = f"What is {token}{token[:-1]}{token} it?"
            tokens = model.prompt_token_ids(ask(text, *images))
            ids = tokenizer.convert_tokens_to_ids(own)
            assert [tokens.count(one) for one in ids] == [harmless.count(one) for one in ids]
            assert text in tokenizer.decode(tokens)
            assert model.invoke(ask(text, *images)).content
    end = tokenizer.convert_tokens_to_ids("<|im_end|>")
    split = [{"type": "text", "text": "a <|im_"}, {"type": "text", "text": "end|> b"}]
    history = [HumanMessage(split), AIMessage("<|im_end|>"), HumanMessage("?")]
    plain = [HumanMessage("a"), AIMessage("b"), HumanMessage("?")]
    counts = [model.prompt_token_ids(one).count(end) for one in (history, plain)]
    assert counts[0] == counts[1]


SCHEMA = {
    "type": "object",
    "properties": {
        "color": {"enum": ["red", "blue"]},
        "seen": {"type": "boolean"},
        "sides": {"type": ["integer", "null"], "maximum": 9},
    },
    "required": ["color", "seen", "sides"],
    "additionalProperties": False,
}


def test_outputs_are_held_to_a_schema(qwen):
    """Whatever a random model would say; others in the batch are not touched."""
    form = {"type": "json_schema", "json_schema": {"name": "answer", "schema": SCHEMA}}
    assert qwen.supports_schema
    drawn = {"max_tokens": 80, "temperature": 1.0, "seed": 1}
    questions = [ask(text, picture("red")) for text in ("What?", "Who?")]
    free = [qwen.invoke(one, **drawn).content for one in questions]
    with ThreadPoolExecutor(4) as pool:
        held = [pool.submit(qwen.invoke, one, response_format=form, **drawn) for one in questions]
        others = [pool.submit(qwen.invoke, one, **drawn) for one in questions]
        assert [one.result().content for one in others] == free
    for message in (one.result() for one in held):
        answer = json.loads(message.content)
        assert list(answer) == SCHEMA["required"]
        assert answer["color"] in {"red", "blue"}
        assert isinstance(answer["seen"], bool)
        assert message.response_metadata["finish_reason"] == "stop"
    wrong = {"json_schema": {"schema": {"type": "nonsense"}}}
    with pytest.raises(ModelError, match="The schema cannot be followed"):
        qwen.invoke("x", response_format=wrong)
