from hypothesis import given
from hypothesis import strategies as st

from langgraph_mai import load_prompts
from langgraph_mai.configs import list_prompts
from langgraph_mai.nodes.prompts import (
    build_messages,
    question_text,
    style_instruction,
    transfer_instruction,
)

BLOCK = {"type": "image", "base64": "aW1hZ2U=", "mime_type": "image/png"}
ALL_PROMPTS = [load_prompts(name) for name in list_prompts()]

texts = st.text(min_size=1, max_size=80)
all_prompts = st.sampled_from(ALL_PROMPTS)
answer_types = st.sampled_from(
    ["yes_no", "choice", "number", "short_text", "list", "free_text"],
)


@given(all_prompts, texts, st.lists(texts, max_size=26), answer_types, texts)
def test_all_prompts_of_a_question_share_their_beginning(
    prompts, question, choices, answer_type, reasoning
):
    shared = question_text(prompts, question, choices)
    instructions = [
        *(
            style_instruction(prompts, style, answer_type)
            for style in ("direct", "explain", "reason")
        ),
        transfer_instruction(prompts, reasoning, answer_type),
    ]
    for instruction in instructions:
        *system, human = build_messages(prompts, [BLOCK], shared, instruction)
        assert [message.text for message in system] == [prompts.system][: len(system)]
        assert human.content == [BLOCK, {"type": "text", "text": shared + instruction}]
        assert instruction[0].isalpha()


@given(all_prompts, texts, answer_types)
def test_the_reasoning_is_quoted_as_it_is(prompts, reasoning, answer_type):
    assert reasoning.strip() in transfer_instruction(prompts, reasoning, answer_type)


@given(all_prompts, answer_types)
def test_no_placeholder_is_left(prompts, answer_type):
    for style in ("direct", "explain", "reason"):
        assert "{" not in style_instruction(prompts, style, answer_type)
    assert "{" not in transfer_instruction(prompts, "It is red.", answer_type)


def test_choices_get_letters():
    prompts = load_prompts()
    assert question_text(prompts, " Which? ", ["a cat", "{letter}"]) == (
        "Which?\nA. a cat\nB. {letter}\n"
    )
