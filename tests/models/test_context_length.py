"""What servers say of prompts that are too long, as they word it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from langgraph_mai.models.context_length import Overflow, read_overflow

SENTENCES = {
    "vLLM": "This model's maximum context length is {limit} tokens. However, your prompt contains "
    "{length} input tokens, which exceeds this limit even without any output tokens.",
    "vLLM, pictures": "The decoder prompt (length {length}) is longer than the maximum model "
    "length of {limit}. Make sure that `max_model_len` is no smaller than the number of text "
    "tokens plus multimodal tokens.",
    "vLLM, a full context": "The decoder prompt (length {length}) plus the number of requested "
    "output tokens (at least 1) is longer than the maximum model length of {limit}.",
    "vLLM, before": "Input length ({length}) exceeds model's maximum context length ({limit}).",
    "vLLM, long before": "This model's maximum context length is {limit} tokens. However, you "
    "requested 99 tokens ({length} in the messages, 7 in the completion).",
    "SGLang": "The input ({length} tokens) is longer than the model's context length ({limit} "
    "tokens).",
    "SGLang, both": "Requested token count exceeds the model's maximum context length of {limit} "
    "tokens. You requested a total of 9 tokens: {length} tokens from the input messages and 5 "
    "tokens for the completion.",
    "llama.cpp": "request ({length} tokens) exceeds the available context size ({limit} tokens), "
    "try increasing it",
    "OpenAI": "This model's maximum context length is {limit} tokens. However, your messages "
    "resulted in {length} tokens. Please reduce the length of the messages.",
}


@pytest.mark.parametrize("sentence", SENTENCES.values(), ids=SENTENCES)
@given(limit=st.integers(1, 10**6), length=st.integers(1, 10**6))
def test_both_numbers_are_read(sentence, limit, length):
    assert read_overflow(sentence.format(limit=limit, length=length)) == Overflow(limit, length)


BEGINNING = "This model's maximum context length is 400 tokens. However, your prompt contains "


@pytest.mark.parametrize(
    "sentence",
    [
        BEGINNING + "at least 401 input tokens, which exceeds this limit.",
        BEGINNING + "63050 characters (more than 6400, the upper bound for 400 input tokens).",
        "max_completion_tokens=100000 cannot be greater than max_model_len=400.",
    ],
)
def test_a_length_that_the_server_does_not_know_is_not_made_up(sentence):
    assert read_overflow(sentence) == Overflow(400, None)


@pytest.mark.parametrize(
    "sentence",
    [
        "The model `nope` does not exist.",
        "temperature must be non-negative, got -4.0.",
        "At most 2 image(s) may be provided in one prompt.",
        "max_tokens must be at least 1, got 0.",
        "Failed to load image: cannot identify image file",
        "",
    ],
)
def test_other_errors_are_no_overflow(sentence):
    assert read_overflow(sentence) is None


@given(
    limit=st.none() | st.integers(1, 10**6),
    length=st.none() | st.integers(1, 10**6),
    asked=st.none() | st.integers(1, 10**6),
)
def test_the_room_is_less_than_was_asked_for_and_fits(limit, length, asked):
    room = Overflow(limit, length).shorter(asked)
    if room is not None:
        assert 0 < room < asked
        assert room + (length or 0) <= limit
    elif limit is not None and asked is not None and (length or 0) < limit:
        assert (length or 0) + asked <= limit
