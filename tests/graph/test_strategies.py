import pytest
from fakes import PROMPTS, models

from langgraph_mai import ConfigError, create_strategy
from langgraph_mai.graph import STRATEGIES

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
    "mai": (
        "yes",
        "transferred",
        ["small direct", "large direct", "small reason", "large transfer"],
    ),
}


def test_every_strategy_is_tested():
    assert set(EXPECTED) == set(STRATEGIES)


@pytest.mark.parametrize("name", STRATEGIES)
def test_a_strategy_makes_its_calls_and_returns_the_same_keys(name):
    small, large = models("transferred")
    result = create_strategy(name, small, large, prompts=PROMPTS).invoke({"question": "Is it red?"})
    calls = [f"{call['role']} {call['style']}" for call in result["calls"]]
    assert (result["answer"], result["route"], calls) == EXPECTED[name]
    assert result["fallback"] is None
    assert len(small.calls) + len(large.calls) == len(calls)
    assert set(result) == {"answer", "messages", "route", "fallback", "calls"}


def test_two_stage_reads_its_own_reasoning():
    small, large = models("transferred")
    graph = create_strategy("large_two_stage", small, large, prompts=PROMPTS)
    graph.invoke({"question": "Is it red?"})
    assert large.calls[-1]["prompt"].endswith("TRANSFER [I see red.\nAnswer: yes]")


def test_an_unknown_strategy_is_named():
    with pytest.raises(ConfigError, match="The strategy 'best' is unknown; use one of small_dir"):
        create_strategy("best", *models())
