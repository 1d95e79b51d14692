"""Where two outputs part is found, and how close it was."""

import pytest
from langchain_core.messages import AIMessage

from langgraph_mai.benchmarks.parity import first_difference


def written(*tokens, end=None):
    """A message with log probabilities; each token's rivals are 1 behind."""
    entries = [
        {
            "token": token,
            "logprob": -0.1,
            "top_logprobs": [{"token": token, "logprob": -0.1}, {"token": "?", "logprob": -1.1}],
        }
        for token in [*tokens, *([end] if end else [])]
    ]
    metadata = {"logprobs": {"content": entries}}
    return AIMessage("".join(tokens), response_metadata=metadata)


def test_equal_outputs_have_no_difference():
    assert first_difference(0, written("a", "b"), written("a", "b")) is None


def test_an_end_token_that_only_one_side_lists_is_no_difference():
    assert first_difference(0, written("a", "b"), written("a", "b", end="<|im_end|>")) is None


def test_equal_texts_of_other_tokens_differ():
    assert first_difference(0, written("ab"), written("a", "b")).token == 0


@pytest.mark.parametrize(
    ("ours", "theirs", "token", "reference", "other", "margin"),
    [
        ("abc", "abd", 2, "c", "d", 1.0),
        ("abc", "ab", 2, "c", None, None),
        ("ab", "abc", 2, None, "c", 1.0),
        ("", "a", 0, None, "a", 1.0),
    ],
)
def test_the_first_difference_is_named(ours, theirs, token, reference, other, margin):
    found = first_difference(7, written(*ours), written(*theirs))
    assert (found.prompt, found.token, found.reference, found.other) == (
        7,
        token,
        reference,
        other,
    )
    assert found.margin == (None if margin is None else pytest.approx(margin))
