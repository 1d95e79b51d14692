"""The demo pair on its held-out questions: the same outputs with reused prefixes and without."""

import pytest

from langgraph_mai import load_pair
from langgraph_mai.demo.held_out import held_out
from langgraph_mai.nodes.model_call import Agent, agent_request
from langgraph_mai.nodes.prepare import read_task

CALLS = [
    ("small", "direct"),
    ("large", "direct"),
    ("small", "reason"),
    ("large", "reason"),
    ("large", "transfer"),
    ("small", "transfer"),
]


def outputs(pair, items, together):
    """Text and cached tokens of six calls a question."""
    found, reasonings = [], [""] * len(items)
    for role, style in CALLS:
        model = getattr(pair, role)
        agent = Agent(role, model, pair.prompts)
        prompts = [
            agent_request(agent, style, task(item), reasoning).messages
            for item, reasoning in zip(items, reasonings, strict=True)
        ]
        limit = getattr(pair.prompts, style).max_tokens
        if together:
            replies = model.batch(prompts, max_tokens=limit)
        else:
            replies = [model.invoke(prompt, max_tokens=limit) for prompt in prompts]
        if (role, style) == ("small", "reason"):
            reasonings = [reply.content for reply in replies]
        found += [
            (reply.content, reply.usage_metadata["input_token_details"]["cache_read"])
            for reply in replies
        ]
    return found


def task(item):
    return read_task(
        {
            "question": item.question.text,
            "images": [item.image],
            "choices": list(item.question.choices),
            "answer_type": item.question.answer_type,
        }
    )


@pytest.fixture(scope="module")
def items(tmp_path_factory):
    return held_out(tmp_path_factory.mktemp("held-out"), 12, seed=90_909)


@pytest.fixture(scope="module")
def expected(items):
    """Without reuse, one call after the other."""
    plain = load_pair("demo")
    for model in (plain.small, plain.large):
        model.prefix_cache_bytes = 0
    return outputs(plain, items, together=False)


@pytest.mark.parametrize("together", [False, True])
def test_the_same_outputs(items, expected, together):
    reusing = load_pair("demo")
    for model in (reusing.small, reusing.large):
        model.clear_prefix_cache()
    got = outputs(reusing, items, together)
    assert len(got) == 6 * 12
    assert [text for text, _ in got] == [text for text, _ in expected]
    # All but the first call of each model.
    assert sum(cached > 0 for _, cached in got) >= 4 * 12
