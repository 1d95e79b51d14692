"""What vLLM's own speculative decoding does with the demo pair, by engine options."""

import pytest
from langchain_core.messages import HumanMessage

from langgraph_mai import ConfigError, ModelError, create_strategy
from langgraph_mai.demo.held_out import held_out
from langgraph_mai.models import image_block


def speculating(chat, **config):
    options = {"speculative_config": {"num_speculative_tokens": 5, **config}}
    return chat.model_copy(update={"engine": chat.engine | options})


def asked(item):
    text = f"{item.question.text}\nReason step by step, then answer."
    return [HumanMessage([image_block(item.image), {"type": "text", "text": text}])]


def test_guesses_from_the_prompt_change_no_output(vllm_pair, tmp_path):
    ngram = {"method": "ngram", "prompt_lookup_max": 4, "prompt_lookup_min": 2}
    model = speculating(vllm_pair.large, **ngram)
    questions = [asked(item) for item in held_out(tmp_path, count=11, seed=616)]
    try:
        guessed = model.batch(questions, max_tokens=64)
    finally:
        model.unload()
    plain = vllm_pair.large.batch(questions, max_tokens=64)
    assert [one.text for one in guessed] == [one.text for one in plain]
    assert [one.usage_metadata["output_tokens"] for one in guessed] == [
        one.usage_metadata["output_tokens"] for one in plain
    ]


def test_the_small_model_as_a_draft_is_refused_with_a_way_out(vllm_pair, demo_weights):
    model = speculating(vllm_pair.large, method="draft_model", model=str(demo_weights / "small"))
    with pytest.raises(ModelError, match=r"no place for a vision-language draft .* method ngram"):
        model.load()


def test_so_the_strategy_is_refused_too(vllm_pair):
    with pytest.raises(ConfigError, match="ChatVLLM takes none, because vLLM shows drafts no pict"):
        create_strategy("speculative", vllm_pair.small, vllm_pair.large)
