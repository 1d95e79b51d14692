"""The demo pair on its held-out questions: the same outputs with reused prefixes and without."""

import pytest

from langgraph_mai import load_pair
from langgraph_mai.demo.held_out import held_out
from langgraph_mai.nodes.model_call import Agent, task_messages

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
            task_messages(agent, style, task(item), reasoning)
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
    return {
        "question": item.question.text,
        "images": [item.image],
        "choices": list(item.question.choices),
        "answer_type": item.question.answer_type,
        "digests": [],
    }


def compare(count, folder, together):
    """Calls, calls that differ, and calls that reused a prefix."""
    reusing = load_pair("demo")
    plain = load_pair("demo")
    for model in (plain.small, plain.large):
        model.prefix_cache_bytes = 0
    for model in (reusing.small, reusing.large):
        model.forget_prefixes()
    items = held_out(folder, count, seed=90_909)
    got, expected = outputs(reusing, items, together), outputs(plain, items, False)
    differing = sum(a[0] != b[0] for a, b in zip(got, expected, strict=True))
    return len(got), differing, sum(cached > 0 for _, cached in got)


@pytest.mark.parametrize("together", [False, True])
def test_the_same_outputs(tmp_path, together):
    calls, differing, reusing = compare(24, tmp_path, together)
    assert (calls, differing) == (6 * 24, 0)
    assert reusing >= 4 * 24  # all but the first call of each model
