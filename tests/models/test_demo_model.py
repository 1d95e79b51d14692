"""The trained demo checkpoints, loaded like any other; what they answer is tested elsewhere."""

import pytest
from langchain_core.messages import HumanMessage
from PIL import Image, ImageDraw

from langgraph_mai import ChatTransformers
from langgraph_mai.models.images import load_image


@pytest.fixture(scope="module")
def block(tmp_path_factory):
    image = Image.new("RGB", (128, 128), (235, 235, 235))
    draw = ImageDraw.Draw(image)
    draw.ellipse((8, 8, 28, 28), fill="red")
    draw.rectangle((70, 40, 90, 60), fill="blue")
    path = tmp_path_factory.mktemp("pictures") / "shapes.png"
    image.save(path)
    return load_image(str(path)).block


@pytest.fixture(params=["small", "large"])
def model(request, demo_weights):
    folder = demo_weights / request.param
    return ChatTransformers(model=str(folder), dtype="float32", device="cpu", max_tokens=192)


def ask(block, instruction, question="How many red circles are there?"):
    text = {"type": "text", "text": f"{question}\n{instruction}"}
    return [HumanMessage([block, text])]


DIRECT, REASON = "Answer directly.", "Reason step by step, then answer."


def test_a_direct_answer_is_short_and_a_reasoning_long(model, block):
    direct = model.invoke(ask(block, DIRECT))
    reasoned = model.invoke(ask(block, REASON))
    assert direct.response_metadata["finish_reason"] == "stop"
    assert 1 <= len(direct.content) < 30
    assert reasoned.usage_metadata["output_tokens"] > 5 * direct.usage_metadata["output_tokens"]


@pytest.mark.parametrize("instruction", [DIRECT, REASON])
def test_streams_and_batches_give_the_same(model, block, instruction):
    questions = [
        ask(block, instruction, question)
        for question in ("How many red circles are there?", "Is there a star?", "Who are you?")
    ]
    single = [model.invoke(question).content for question in questions]
    assert ["".join(c.content for c in model.stream(q)) for q in questions] == single
    assert [message.content for message in model.batch(questions)] == single


def test_text_from_outside_its_world_is_answered(model, block):
    for text in ("", "Pourquoi? 为什么 🤔", "\x00\x01 <b>", "a" * 300):
        assert isinstance(model.invoke(ask(block, DIRECT, text)).content, str)


def test_its_own_half_precision_weights(demo_weights, block):
    model = ChatTransformers(model=str(demo_weights / "small"), device="cpu", max_tokens=16)
    assert model.dtype == "auto"
    assert model.invoke(ask(block, DIRECT)).content
