"""What one call returns, on tiny random Qwen3-VL and InternVL checkpoints."""

import base64
import io
import math

import pytest
import torch
from asked import ask, picture
from checkpoints import CONTEXT
from langchain_core.messages import AIMessage, ChatMessage, HumanMessage, SystemMessage, ToolMessage
from PIL import Image

from langgraph_mai import ChatTransformers, ModelError
from langgraph_mai.models.images import load_image


def logprobs(model, messages):
    """The log probabilities of an answer: finer than its text in telling answers apart."""
    message = model.invoke(messages, logprobs=True)
    return [entry["logprob"] for entry in message.response_metadata["logprobs"]["content"]]


@pytest.fixture
def model(checkpoint):
    return ChatTransformers(model=str(checkpoint), dtype="float32", device="cpu", max_tokens=12)


def test_the_answer_depends_on_the_picture_and_on_the_text(model):
    answers = {
        model.invoke(ask(text, picture(colour))).content
        for text in ("What?", "Who?")
        for colour in ("red", "blue")
    }
    assert len(answers) == 4


def test_the_answer_is_what_transformers_itself_generates(model, checkpoint):
    from transformers import AutoModelForImageTextToText, AutoProcessor

    image = picture("red")
    processor = AutoProcessor.from_pretrained(checkpoint)
    plain = AutoModelForImageTextToText.from_pretrained(checkpoint, dtype=torch.float32)
    content = [{"type": "image"}, {"type": "text", "text": "What?"}]
    prompt = processor.apply_chat_template(
        [{"role": "user", "content": content}], add_generation_prompt=True
    )
    inputs = processor(text=[prompt], images=[image], return_tensors="pt")
    output = plain.generate(**inputs, max_new_tokens=12, do_sample=False)
    expected = processor.decode(output[0, inputs["input_ids"].shape[1] :], skip_special_tokens=True)
    assert model.invoke(ask("What?", image)).content == expected


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


def test_an_image_costs_tokens(model):
    without, one, two = (
        model.get_num_tokens_from_messages(ask("What?", *[picture("red")] * count))
        for count in range(3)
    )
    assert without < one < two
    assert two - one == one - without
    assert model.invoke(ask("What?", picture("red"))).usage_metadata["input_tokens"] == one


def test_tokens_of_a_text(model):
    assert model.get_num_tokens("abc") == 3


def test_conversations(model):
    history = [
        SystemMessage("Be brief."),
        *ask("What?", picture("red")),
        AIMessage("A ball."),
        HumanMessage("Sure?"),
    ]
    assert model.invoke(history).content
    assert logprobs(model, history) != pytest.approx(logprobs(model, history[1:]))
    assert logprobs(model, "Only text") != pytest.approx(logprobs(model, "Other text"))
    tool = [AIMessage("", tool_calls=[{"name": "f", "args": {}, "id": "1"}])]
    tool += [ToolMessage([{"type": "image", "image": picture("red")}], tool_call_id="1")]
    assert model.invoke([*history, *tool]).content


def test_the_order_of_pictures_matters(model):
    red, blue = picture("red"), picture("blue")
    first = logprobs(model, ask("Which?", red, blue))
    assert first != pytest.approx(logprobs(model, ask("Which?", blue, red)), abs=1e-3)


def test_every_form_of_a_picture_gives_the_same_answer(model, tmp_path):
    image = picture("red")
    path = tmp_path / "a.png"
    image.save(path)
    data = base64.b64encode(path.read_bytes()).decode()
    blocks = [
        {"type": "image", "image": image},
        {"type": "image", "base64": data, "mime_type": "image/png"},
        {"type": "image", "url": path.as_uri()},
        {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{data}"}},
        {"type": "image_url", "image_url": str(path)},
        {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": data}},
    ]
    answers = {model.invoke([HumanMessage([block, "What?"])]).content for block in blocks}
    assert len(answers) == 1


@pytest.mark.parametrize("size", [(1, 1), (16, 16), (332, 27), (1366, 6), (6, 1366), (9000, 1)])
def test_awkward_sizes_are_answered(model, tmp_path, size):
    path = tmp_path / "a.png"
    Image.new("RGB", size, "red").save(path)
    block = {"type": "image", "url": str(path)}
    assert model.invoke([HumanMessage([block, "What?"])], max_tokens=2).content is not None


def test_earlier_pictures_leave_no_trace(model):
    text = logprobs(model, "Only text")
    small, wide = picture("red"), picture("blue", (300, 40))
    alone = logprobs(model, ask("What?", small))
    model.invoke(ask("What?", wide, small))
    assert logprobs(model, ask("What?", small)) == pytest.approx(alone, abs=1e-5)
    model.invoke(ask("What?", wide, small))
    assert logprobs(model, "Only text") == pytest.approx(text, abs=1e-5)


def test_large_pictures_are_shrunk_on_request(qwen_checkpoint):
    image = picture("red", (128, 128))
    plain = ChatTransformers(model=str(qwen_checkpoint), dtype="float32", max_tokens=2)
    shrunk = plain.model_copy(update={"max_pixels": 64 * 64})
    full, small = (
        answering.invoke(ask("What?", image)).usage_metadata["input_tokens"]
        for answering in (plain, shrunk)
    )
    assert full - small == 16 - 4


def test_an_end_token_stops(model):
    # Some draws of a random model end by themselves; the end token leaves no text.
    outputs = [model.invoke("x", temperature=3.0, seed=seed, max_tokens=60) for seed in range(20)]
    ended = [one for one in outputs if one.response_metadata["finish_reason"] == "stop"]
    assert ended
    assert all(one.usage_metadata["output_tokens"] < 60 for one in ended)
    assert all("<|" not in one.content for one in outputs)


def test_stop_strings(model):
    whole = model.invoke(ask("What?", picture("red"))).content
    stop = whole[3:5]
    message = model.invoke(ask("What?", picture("red")), stop=["not there", stop])
    assert message.content == whole[: whole.index(stop)]
    assert message.response_metadata["finish_reason"] == "stop"
    bound = model.model_copy(update={"stop": [stop]})
    assert bound.invoke(ask("What?", picture("red"))).content == message.content
    assert bound.invoke(ask("What?", picture("red")), stop=[]).content == whole


def test_drawing_is_repeatable_with_a_seed(model):
    question = ask("What?", picture("red"))
    state = torch.random.get_rng_state()
    drawn = [model.invoke(question, temperature=1.0, seed=seed).content for seed in (1, 1, 2)]
    assert drawn[0] == drawn[1] != drawn[2]
    assert drawn[0] != model.invoke(question).content
    assert len({model.invoke(question, temperature=1.0).content for _ in range(3)}) > 1
    assert torch.equal(state, torch.random.get_rng_state())


@pytest.mark.parametrize("temperature", [1e-300, 5e-324, 1e-40, 1e-9])
def test_a_tiny_temperature_takes_the_likeliest_tokens(model, temperature):
    question = ask("What?", picture("red"))
    drawn = model.invoke(question, temperature=temperature, seed=3)
    assert drawn.content == model.invoke(question).content


@pytest.mark.parametrize("temperature", [1e9, 1e38, 1e300])
def test_a_huge_temperature_draws_from_all_tokens(model, temperature):
    drawn = [model.invoke("x", temperature=temperature, seed=seed).content for seed in range(3)]
    assert len(set(drawn)) == 3


@pytest.mark.parametrize("temperature", [0.5, 2.0])
def test_a_temperature_sharpens_or_flattens(qwen_checkpoint, temperature):
    """The share of the likeliest first token is that of the softmax at that temperature."""
    model = ChatTransformers(model=str(qwen_checkpoint), dtype="float32", max_tokens=1)
    one, two = (
        [model.invoke("x", temperature=t, seed=seed).content for seed in range(200)]
        for t in (1.0, temperature)
    )
    likeliest = model.invoke("x").content
    assert (two.count(likeliest) > one.count(likeliest)) == (temperature < 1)


def test_drawing_follows_the_models_probabilities(qwen_checkpoint):
    """Of 300 first tokens the likeliest comes about as often as its probability says."""
    model = ChatTransformers(
        model=str(qwen_checkpoint), dtype="float32", max_tokens=1, logprobs=True
    )
    (likeliest,) = logprobs(model, "x")
    drawn = [model.invoke("x", temperature=1.0, seed=seed) for seed in range(300)]
    entries = [one.response_metadata.get("logprobs", {}).get("content") for one in drawn]
    hits = sum(bool(e) and e[0]["logprob"] == pytest.approx(likeliest, abs=1e-4) for e in entries)
    share = math.exp(likeliest)
    assert abs(hits / 300 - share) < 3 * (share * (1 - share) / 300) ** 0.5


def test_log_probabilities(model):
    message = model.invoke(ask("What?", picture("red")), logprobs=True)
    entries = message.response_metadata["logprobs"]["content"]
    assert len(entries) == 12
    assert all(entry["logprob"] <= 0 for entry in entries)
    assert {"token", "bytes", "logprob", "top_logprobs"} == set(entries[0])
    ascii_only = [entry for entry in entries if entry["bytes"]]
    assert all(bytes(entry["bytes"]).decode() == entry["token"] for entry in ascii_only)


@pytest.mark.parametrize(
    "settings",
    [
        {"max_tokens": 0},
        {"temperature": -1},
        {"temperature": math.nan},
        {"temperature": math.inf},
        {"seed": -1},
        {"stop": [""]},
        {"timeout": 0},
        {"tools": []},
        {"max_tokns": 3},
    ],
)
def test_wrong_settings_of_a_call_are_named(model, settings):
    with pytest.raises(
        ValueError, match=next(iter(settings)).replace("stop", "stop string")
    ) as raised:
        model.invoke("x", **settings)
    assert "\n" not in str(raised.value)


def test_a_prompt_longer_than_the_context_is_refused_with_both_numbers(model):
    tokens = model.get_num_tokens_from_messages([HumanMessage("")])
    with pytest.raises(ModelError, match=rf"{CONTEXT + tokens} tokens .* at most {CONTEXT}"):
        model.invoke("x" * CONTEXT)


def test_the_answer_ends_where_the_context_ends(model):
    tokens = model.get_num_tokens_from_messages([HumanMessage("")])
    message = model.invoke("x" * (CONTEXT - tokens - 5), max_tokens=100, temperature=1.0, seed=0)
    assert message.usage_metadata["total_tokens"] <= CONTEXT
    assert message.response_metadata["finish_reason"] in {"length", "stop"}


def test_a_role_that_the_template_refuses(model):
    with pytest.raises(ModelError, match="There is no role critic"):
        model.invoke([ChatMessage(role="critic", content="Bad.")])


def test_the_image_marker_inside_a_text(checkpoint, model):
    from transformers import AutoProcessor

    marker = AutoProcessor.from_pretrained(checkpoint).image_token
    for images in ([], [picture("red")]):
        with pytest.raises(ModelError, match="marker"):
            model.invoke(ask(f"What is {marker}?", *images))


def test_pictures_may_be_loaded_by_the_caller(model, tmp_path):
    path = tmp_path / "a.webp"
    picture("red").save(path, lossless=True)
    loaded = load_image(str(path)).image
    stream = io.BytesIO()
    loaded.save(stream, "PNG")
    assert model.invoke(ask("What?", loaded)).content


def test_tools_are_not_offered(model):
    with pytest.raises(NotImplementedError):
        model.bind_tools([])
