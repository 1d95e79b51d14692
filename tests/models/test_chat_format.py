"""LangChain messages as turns for a chat template."""

import pytest
from langchain_core.messages import (
    AIMessage,
    ChatMessage,
    HumanMessage,
    RemoveMessage,
    SystemMessage,
    ToolMessage,
)
from PIL import Image

from langgraph_mai.models import ModelError, block_image
from langgraph_mai.models.chat_format import chat_turns


def picture(colour):
    return {"type": "image", "image": Image.new("RGB", (40, 40), colour)}


def text(value):
    return {"type": "text", "text": value}


def turns_of(*messages):
    turns, images = chat_turns(messages, block_image)
    return turns, [image.getpixel((5, 5)) for image in images]


def test_roles_texts_and_pictures_keep_their_order():
    turns, colours = turns_of(
        SystemMessage("Be brief."),
        HumanMessage([picture("red"), "and", picture("blue"), text("?")]),
        AIMessage("Two."),
        HumanMessage("Sure?"),
    )
    assert turns == [
        {"role": "system", "content": [text("Be brief.")]},
        {
            "role": "user",
            "content": [{"type": "image"}, text("and"), {"type": "image"}, text("?")],
        },
        {"role": "assistant", "content": [text("Two.")]},
        {"role": "user", "content": [text("Sure?")]},
    ]
    assert colours == [(255, 0, 0), (0, 0, 255)]


def test_other_roles_are_passed_on_for_the_template_to_judge():
    turns, _ = turns_of(ChatMessage(role="developer", content="x"))
    assert turns == [{"role": "developer", "content": [text("x")]}]


def test_pictures_of_tools_move_to_a_user_message_after_them():
    calls = [{"name": "crop", "args": {"x": 1}, "id": str(number)} for number in range(2)]
    turns, colours = turns_of(
        HumanMessage("Look closer."),
        AIMessage("", tool_calls=calls),
        ToolMessage([text("left"), picture("red")], tool_call_id="0"),
        ToolMessage([picture("blue")], tool_call_id="1"),
        AIMessage("I see."),
    )
    assert [turn["role"] for turn in turns] == [
        "user", "assistant", "tool", "tool", "user", "assistant",
    ]  # fmt: skip
    assert turns[1]["tool_calls"][0] == {
        "type": "function",
        "function": {"name": "crop", "arguments": {"x": 1}},
    }
    assert turns[2]["content"] == [text("left")]
    assert turns[4]["content"] == [{"type": "image"}, {"type": "image"}]
    assert colours == [(255, 0, 0), (0, 0, 255)]


def test_pictures_of_a_last_tool_message_are_not_lost():
    turns, colours = turns_of(ToolMessage([picture("red")], tool_call_id="0"))
    assert [turn["role"] for turn in turns] == ["tool", "user"]
    assert colours == [(255, 0, 0)]


def test_what_a_model_wrote_besides_text_is_left_out():
    blocks = [
        {"type": "reasoning", "reasoning": "hm"},
        {"type": "thinking", "thinking": "hm"},
        {"type": "tool_call", "name": "f", "args": {}, "id": "1"},
        text("yes"),
    ]
    turns, _ = turns_of(AIMessage(blocks))
    assert turns[0]["content"] == [text("yes")]


@pytest.mark.parametrize(
    "block",
    [
        {"type": "audio", "base64": "AA==", "mime_type": "audio/wav"},
        {"type": "video", "url": "x.mp4"},
        {"type": "file", "mime_type": "application/pdf", "base64": "AA=="},
        {"type": "reasoning", "reasoning": "not by a model"},
        {"type": "text"},
        {"nothing": "known"},
    ],
)
def test_other_content_is_refused_by_its_name(block):
    with pytest.raises(ModelError, match="text and images") as raised:
        turns_of(HumanMessage([text("x"), block]))
    assert repr(block.get("type")) in str(raised.value)


def test_no_messages_and_no_real_messages():
    with pytest.raises(ModelError, match="no message"):
        turns_of()
    with pytest.raises(ModelError, match="remove"):
        turns_of(RemoveMessage(id="1"))


@pytest.mark.parametrize("content", ["caf\udce9?", [{"type": "text", "text": "\ud83d"}]])
def test_half_a_character_is_named(content):
    with pytest.raises(ModelError, match="half a character"):
        chat_turns([HumanMessage(content)], load=None)
