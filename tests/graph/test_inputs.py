import base64
import math

import pytest
from fakes import PROMPTS, block, models, png
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage

from langgraph_mai import MAIInputError, create_mai

LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"


class Array:
    """Compares like those of NumPy: item by item, and the result is neither true nor false."""

    def __eq__(self, other):
        return self

    __hash__ = object.__hash__

    def __bool__(self):
        raise ValueError("ambiguous")

    def __len__(self):
        return 4


DATA = base64.b64encode(png()).decode()
PICTURE = block()
TEXT = {"type": "text", "text": "Is it red?"}


def ask(**given):
    graph = create_mai(*models(), prompts=PROMPTS, require_images=False)
    return graph.invoke(given)


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"question": "  "}, "The question is empty: write what is to be answered."),
        ({"question": 7}, "`question` must be a text, not int."),
        ({"messages": [HumanMessage("")]}, "The question is empty: write what is to be answered."),
        ({"messages": [SystemMessage("You answer.")]}, "There is nothing to ask"),
        ({"messages": []}, "There is nothing to ask"),
        ({"query": "Is it red?"}, "a parent graph passes only the keys"),
        ({"question": "Is it?", "answer_type": "essay"}, "The answer type 'essay' is unknown"),
        (
            {"question": "Which?", "choices": ["x"] * 2},
            "The choice 'x' is given twice; remove one.",
        ),
        (
            {"question": "Which?", "choices": [str(number) for number in range(27)]},
            "There are 27 choices; at most 26 have letters.",
        ),
        ({"question": "Which?", "choices": "cat, dog"}, "`choices` must be a list of texts"),
        ({"question": "Which?", "choices": ["cat", 3]}, "Every choice must be a text"),
        ({"question": "?" * 200_001}, "The question is too long: 200,000 characters at most"),
        ({"question": "?", "choices": ["a" * 199_999, "bb"]}, "The choices are too long"),
        ({"question": "?", "schema": {"properties": {"a" * 50_000: {}}}}, "50,000 characters"),
        ({"question": "?", "schema": {"properties": {"a": math.inf, "b": {1}}}}, "cannot hold it"),
        ({"question": "?", "answer_type": "a" * 9999}, "is unknown; use one of auto"),
        ({"question": "Is it?", "images": ["/nowhere/red.png"]}, "/nowhere/red.png"),
        ({"question": "Is it?", "images": ["https://example.com/red.png"]}, "https://example.com"),
        ({"question": "Is it?", "images": [b"no picture"]}, "image"),
        (
            {
                "question": "Which?\n"
                + "\n".join(f"{mark}. option {mark}" for mark in LETTERS + "A")
            },
            "There are 27 choices; at most 26 have letters.",
        ),
        ({"question": "Which?\nA. yes\nB. yes"}, "The choice 'yes' is given twice; remove one."),
        ({"question": "Which?", "choices": ["a\nb", "a b"]}, "The choice 'a b' is given twice"),
        ({"question": "Is it?", "images": [7]}, "not int"),
        ({"question": "Is it?", "images": 7}, "not int"),
        ({"question": "Is it?", "images": Array()}, "not Array"),
        ({"question": "Is it?", "images": (path for path in ["a.png"])}, "not generator"),
        ({"question": "Is it?", "images": bytearray(b"no picture")}, "image"),
    ],
)
def test_what_cannot_be_asked_is_said_in_one_sentence(given, sentence):
    with pytest.raises(MAIInputError) as error:
        ask(**given)
    assert sentence in str(error.value)
    assert "\n" not in str(error.value)
    assert len(str(error.value)) < 500


def test_a_broken_image_in_a_message_is_named(tmp_path):
    path = tmp_path / "broken.png"
    path.write_bytes(b"\x89PNG\r\n\x1a\n and no more")
    block = {"type": "image_url", "image_url": {"url": str(path)}}
    with pytest.raises(MAIInputError, match=r"broken\.png"):
        ask(messages=[HumanMessage([{"type": "text", "text": "Is it red?"}, block])])


@pytest.mark.parametrize(
    ("given", "kind"),
    [
        ({"question": "Is it red?"}, "yes_no"),
        ({"question": "How many dots are there?"}, "number"),
        ({"question": "Which one?", "choices": ["cat", "dog"]}, "choice"),
        ({"question": "Is it red?", "answer_type": "short_text"}, "short_text"),
    ],
)
def test_the_answer_type_is_found_out_unless_it_is_given(given, kind):
    assert ask(**given)["calls"][0]["kind"] == kind


def test_messages_may_end_with_something_else():
    result = ask(messages=[HumanMessage("Is it red?"), AIMessage("Let me ask.")])
    assert result["answer"] == "yes"


@pytest.mark.parametrize(
    "block",
    [
        {"type": "video", "url": "https://example.com/a.mp4"},
        {"type": "video_url", "video_url": {"url": "a.mp4"}},
        {"type": "audio", "base64": DATA, "mime_type": "audio/wav"},
        {"type": "input_audio", "input_audio": {"data": DATA, "format": "wav"}},
        {"type": "file", "base64": DATA, "mime_type": "application/pdf"},
        {"type": "media", "data": DATA, "mime_type": "video/mp4"},
        {"type": "document", "source": {"type": "text", "data": "Is it?"}},
        {"type": "text-plain", "text": "a document", "mime_type": "text/plain"},
        {"type": "non_standard", "value": {"type": "video", "url": "a.mp4"}},
        {"document": {"format": "pdf"}},
        {"type": "text", "text": None},
        {},
    ],
)
def test_what_no_agent_would_see_is_refused(block):
    inner = block.get("value", block)
    named = inner.get("type") or next(iter(inner), "empty")
    for beside in ({}, {"question": "Is it red?"}):
        with pytest.raises(MAIInputError, match=f"cannot be asked about .*{named}"):
            ask(messages=[HumanMessage([TEXT, block])], **beside)


@pytest.mark.parametrize(
    ("blocks", "question"),
    [
        ([TEXT, PICTURE], "Is it red?"),
        ([{"type": "text", "text": "Is it"}, PICTURE, {"text": "red?"}], "Is it\nred?"),
        ([{"type": "text", "text": "Is it "}, PICTURE, "red?"], "Is it red?"),
        (["", "Is it red?", {"type": "text", "text": ""}], "Is it red?"),
        ([{"type": "input_text", "text": "Is it red?"}], "Is it red?"),
        ([{"type": "non_standard", "value": {"text": "Is it red?"}}], "Is it red?"),
        ([TEXT, "A. yes", "B. no"], "Is it red?\nA. yes\nB. no"),
    ],
)
def test_the_texts_of_a_message_are_its_question(blocks, question):
    small, large = models()
    create_mai(small, large, prompts=PROMPTS, require_images=False).invoke(
        {"messages": [HumanMessage(blocks)]}
    )
    assert small.calls[0]["prompt"] == f"{question}\nDIRECT"
    assert small.calls[0]["images"] == blocks.count(PICTURE)


def test_an_image_may_be_a_path_or_bytes_and_needs_no_list(tmp_path):
    path = tmp_path / "red.png"
    path.write_bytes(png())
    for image in (str(path), png(), bytearray(png()), memoryview(png())):
        for given in (image, [image]):
            result = ask(question="Is it red?", images=given)
            assert {call["images"] for call in result["calls"]} == {1}


@pytest.mark.parametrize("mark", ["\n", "\r\n", "\u2028", "\x85", "\v", "\n  "])
def test_a_choice_has_one_line(mark):
    small, large = models()
    small.script["direct"] = large.script["direct"] = "A"
    graph = create_mai(small, large, prompts=PROMPTS, require_images=False)
    graph.invoke({"question": "Which?", "choices": [f" a{mark}B. b ", "c"]})
    assert small.calls[0]["prompt"] == "Which?\nA. a B. b\nB. c\nDIRECT"
