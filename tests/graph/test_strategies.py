import pytest
from fakes import PROMPTS, QUESTION, models
from langchain_core.language_models import FakeListChatModel

from langgraph_mai import ChatTransformers, ConfigError, create_strategy
from langgraph_mai.graph import STRATEGIES, unavailable
from langgraph_mai.nodes.model_call import accept_rate

EXPECTED = {
    "small_direct": ("no", "direct", ["small direct"]),
    "small_explain": ("yes", "reasoned", ["small explain"]),
    "small_reason": ("no", "reasoned", ["small reason"]),
    "large_direct": ("yes", "direct", ["large direct"]),
    "large_explain": ("yes", "reasoned", ["large explain"]),
    "large_reason": ("yes", "reasoned", ["large reason"]),
    "small_two_stage": ("no", "transferred", ["small reason", "small transfer"]),
    "large_two_stage": ("yes", "transferred", ["large reason", "large transfer"]),
    "full_transfer": ("yes", "transferred", ["small reason", "large transfer"]),
    "speculative": ("yes", "reasoned", ["large reason"]),
    "mai": (
        "yes",
        "transferred",
        ["small direct", "large direct", "small reason", "large transfer"],
    ),
}


@pytest.mark.parametrize("name", STRATEGIES)
def test_a_strategy_makes_its_calls_and_returns_the_same_keys(name):
    small, large = models("transferred")
    result = create_strategy(name, small, large, prompts=PROMPTS).invoke(QUESTION)
    calls = [f"{call['role']} {call['style']}" for call in result["calls"]]
    assert (result["answer"], result["route"], calls) == EXPECTED[name]
    assert result["fallback"] is None
    assert len(small.calls) + len(large.calls) == len(calls)
    if name == "large_two_stage":  # reads its own reasoning
        assert large.calls[-1]["prompt"].endswith("TRANSFER [I see red.\nAnswer: yes]")
    keys = {"answer", "value", "messages", "route", "fallback", "confidence", "gate", "calls"}
    assert set(result) == keys


def test_speculation_is_the_large_models_reasoning_with_the_small_one_as_draft(run):
    small, large = models("transferred")
    wrapped = small.with_config(tags=["small"]), large.bind(stop=["x"]).with_retry()
    graph = create_strategy("speculative", *wrapped, prompts=PROMPTS)
    result = run(graph, QUESTION)
    (call,) = result["calls"]
    assert (call["drafted_tokens"], call["accepted_tokens"]) == (8, 6)
    assert accept_rate(result["calls"]) == 0.75
    (asked,) = large.calls
    assert asked["draft"] is small
    assert small.calls == []
    plain = run(create_strategy("large_reason", small, large, prompts=PROMPTS), QUESTION)
    assert "drafted_tokens" not in plain["calls"][0]
    assert accept_rate(plain["calls"]) is None


def test_models_that_take_no_draft_are_told_so():
    plain = FakeListChatModel(responses=["yes"])
    small, large = models()
    with pytest.raises(ConfigError, match=r"takes a draft, .* FakeListChatModel takes none"):
        create_strategy("speculative", small, plain)
    for name in STRATEGIES:
        assert unavailable(name, small, large) is None
        assert (unavailable(name, small, plain) is not None) == (name == "speculative")
    either = small.with_fallbacks([large])
    with pytest.raises(ConfigError, match="needs one draft, not a model with fallbacks"):
        create_strategy("speculative", either, large)
    local = ChatTransformers(model="demo:large")
    with pytest.raises(ConfigError, match="ScriptedModel cannot draft for 'demo:large'"):
        create_strategy("speculative", small, local)


def test_an_unknown_strategy_is_named():
    with pytest.raises(ConfigError, match="The strategy 'best' is unknown; use one of small_dir"):
        create_strategy("best", *models())
