"""Sparse transfer in the graph: who gives the attention."""

import pytest
from fakes import PROMPTS, AttentiveModel
from langchain_core.runnables import RunnableLambda
from sparse_runs import QUESTION, attentive, blind, selection_of

from langgraph_mai import ConfigError, SparseTransfer, create_mai, create_strategy
from langgraph_mai.graph import STRATEGIES


@pytest.mark.parametrize(
    "wrap",
    [
        lambda model: model,
        lambda model: model.bind(stop=["x"]),
        lambda model: model.with_config(tags=["t"]).bind(stop=["x"]),
        lambda model: model.with_retry(stop_after_attempt=2),
        lambda model: model.with_fallbacks([blind()[1]]),
        lambda model: model.bind(stop=["x"]).with_fallbacks([blind()[1]]).with_config(tags=["t"]),
    ],
)
@pytest.mark.parametrize("given_as", ["large", "selector"])
def test_it_is_found_in_wrappers(run, wrap, given_as):
    (small, large), (_, giver) = blind(), attentive()
    wrapped = wrap(giver)
    options = {"large": wrapped} if given_as == "large" else {"large": large, "selector": wrapped}
    result = run(create_mai(small, prompts=PROMPTS, transfer="sparse", **options), QUESTION)
    assert result["calls"][-1]["error"] is None
    assert selection_of(result)["text"] == "Answer: no"
    assert len(giver.passes) == 1


def test_a_selector_goes_before_the_model_itself(run):
    small, large = attentive()
    other = attentive()[1]
    run(create_mai(small, large, prompts=PROMPTS, transfer="sparse", selector=other), QUESTION)
    assert (len(large.passes), len(other.passes)) == (0, 1)


def test_the_small_model_can_be_the_selector(run):
    small, _ = attentive()
    _, large = blind()
    result = run(
        create_mai(small, large, prompts=PROMPTS, transfer="sparse", selector=small), QUESTION
    )
    assert selection_of(result)["kept_tokens"] == 2
    assert len(small.passes) == 1


@pytest.mark.parametrize("transfer", ["sparse", SparseTransfer(share=0.5)])
@pytest.mark.parametrize("strategy", ["mai", "large_two_stage", "full_transfer"])
def test_without_attention_the_graph_is_not_made(strategy, transfer):
    small, _ = attentive()
    _, large = blind()
    with pytest.raises(ConfigError, match=r"the large model \(ScriptedModel\) does not give"):
        create_strategy(strategy, small, large, prompts=PROMPTS, transfer=transfer)


def test_a_fallback_that_gives_attention_is_another_model():
    small, large = blind()
    with pytest.raises(ConfigError, match="Sparse transfer needs attention"):
        create_mai(small, large.with_fallbacks([attentive()[1]]), transfer="sparse")


def test_small_attention_needs_a_small_model_that_gives_it():
    small, _ = blind()
    _, large = attentive()
    with pytest.raises(ConfigError, match='keep="small" needs the attention of the small model'):
        create_mai(small, large, prompts=PROMPTS, transfer=SparseTransfer(keep="small"))


@pytest.mark.parametrize("name", [name for name in STRATEGIES if name.endswith("direct")])
def test_strategies_without_a_transfer_do_without(run, name):
    graph = create_strategy(name, *blind(), prompts=PROMPTS, transfer="sparse")
    assert run(graph, QUESTION)["fallback"] is None


@pytest.mark.parametrize(
    ("selector", "named"),
    [
        (blind()[1], "not ScriptedModel"),
        (AttentiveModel, "not the class AttentiveModel"),
        ("demo", "not str"),
        (RunnableLambda(len), "not RunnableLambda"),
    ],
)
@pytest.mark.parametrize("strategy", ["mai", "small_direct"])
def test_a_selector_that_gives_no_attention_is_refused(strategy, selector, named):
    with pytest.raises(ConfigError, match="`selector` must be a model that gives") as refused:
        create_strategy(strategy, *blind(), prompts=PROMPTS, selector=selector)
    assert named in str(refused.value)
