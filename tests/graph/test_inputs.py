import pytest
from fakes import PROMPTS, models
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage
from PIL import Image

from langgraph_mai import MAIInputError, create_mai


def ask(**given):
    small, large = models()
    return create_mai(small, large, prompts=PROMPTS).invoke(given)


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"question": "  "}, "The question is empty: write what is to be answered."),
        ({"question": 7}, "`question` must be a text, not int."),
        ({"messages": [HumanMessage("")]}, "The question is empty: write what is to be answered."),
        ({"messages": [SystemMessage("You answer.")]}, "There is nothing to ask"),
        ({"messages": []}, "There is nothing to ask"),
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
        ({"question": "Which?", "choices": ["cat", ""]}, "Every choice must be a text"),
        ({"question": "Which?", "choices": ["cat", 3]}, "Every choice must be a text"),
        ({"question": "Is it?", "images": ["/nowhere/red.png"]}, "/nowhere/red.png"),
        ({"question": "Is it?", "images": ["https://example.com/red.png"]}, "https://example.com"),
        ({"question": "Is it?", "images": [b"no picture"]}, "image"),
        ({"question": "Is it?", "images": [7]}, "not int"),
    ],
)
def test_what_cannot_be_asked_is_said_in_one_sentence(given, sentence):
    with pytest.raises(MAIInputError) as error:
        ask(**given)
    assert sentence in str(error.value)
    assert "\n" not in str(error.value)


def test_keys_that_a_parent_does_not_share_are_missed_aloud():
    small, large = models()
    with pytest.raises(MAIInputError, match="a parent graph hands over only the keys"):
        create_mai(small, large, prompts=PROMPTS).invoke({"query": "Is it red?"})


def test_a_broken_image_in_a_message_is_named(tmp_path):
    path = tmp_path / "broken.png"
    path.write_bytes(b"\x89PNG\r\n\x1a\n and no more")
    block = {"type": "image_url", "image_url": {"url": str(path)}}
    with pytest.raises(MAIInputError, match=r"broken\.png"):
        ask(messages=[HumanMessage([{"type": "text", "text": "Is it red?"}, block])])


@pytest.mark.parametrize("single", [True, False])
def test_one_image_needs_no_list(tmp_path, single):
    path = tmp_path / "red.png"
    Image.new("RGB", (40, 40), "red").save(path)
    result = ask(question="Is it red?", images=str(path) if single else [str(path)])
    assert result["answer"] == "yes"


@pytest.mark.parametrize(
    ("question", "choices", "kind"),
    [
        ("Is it red?", [], "yes_no"),
        ("How many dots are there?", [], "number"),
        ("Which one?", ["cat", "dog"], "choice"),
    ],
)
def test_the_answer_type_is_found_out(question, choices, kind):
    assert ask(question=question, choices=choices)["calls"][0]["kind"] == kind


def test_a_given_answer_type_is_used():
    result = ask(question="Is it red?", answer_type="short_text")
    assert result["calls"][0]["kind"] == "short_text"


def test_messages_may_end_with_something_else():
    result = ask(messages=[HumanMessage("Is it red?"), AIMessage("Let me ask.")])
    assert result["answer"] == "yes"
