"""Sparse transfer asked for by a run's context, and through what is built on the graph."""

import asyncio
from dataclasses import dataclass
from importlib.util import module_from_spec, spec_from_file_location
from types import SimpleNamespace

import pytest
from fakes import PROMPTS, AttentiveModel, models
from langchain_core.messages import HumanMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, StateGraph
from pages import ROOT

from langgraph_mai import (
    ChatMAI,
    MAIContext,
    MAIInputError,
    MAIState,
    SparseTransfer,
    create_mai,
    create_strategy,
    create_vision_tool,
)
from langgraph_mai.graph import STRATEGIES

QUESTION = {"question": "Is it red?"}
SPARSE = MAIContext(transfer="sparse")


@pytest.fixture(params=["invoke", "ainvoke"])
def run(request):
    def go(graph, context, given=QUESTION):
        if request.param == "invoke":
            return graph.invoke(given, context=context)
        return asyncio.run(graph.ainvoke(given, context=context))

    return go


def pair(kind=AttentiveModel):
    small, large = models("transferred", kind)
    small.script["reason"] = "A red dot.\nA blue dot.\nAnswer: no"
    return small, large


def selections(result):
    return [call["selection"] for call in result["calls"] if "selection" in call]


def settings_of(result):
    return [(s["keep"], s["layer"], s["share"]) for s in selections(result)]


@pytest.mark.parametrize(
    ("transfer", "context", "expected"),
    [
        ("full", {}, []),
        ("full", {"transfer": "sparse"}, [("attention", 2, 0.8)]),
        (
            "full",
            {"transfer": "sparse", "sparse_layer": 3, "sparse_share": 0.5},
            [("attention", 3, 0.5)],
        ),
        ("sparse", {}, [("attention", 2, 0.8)]),
        ("sparse", {"sparse_share": 1}, [("attention", 2, 1.0)]),
        ("sparse", {"transfer": "full"}, []),
        (SparseTransfer(layer=1, keep="last"), {}, [("last", 1, 0.8)]),
        (SparseTransfer(layer=1, keep="last"), {"transfer": "sparse"}, [("last", 1, 0.8)]),
        (SparseTransfer(layer=1, keep="last"), {"sparse_layer": 4}, [("last", 4, 0.8)]),
        (str.upper, {}, []),
        (str.upper, {"transfer": "sparse"}, [("attention", 2, 0.8)]),
    ],
)
def test_a_run_can_change_the_transfer(run, transfer, context, expected):
    graph = create_mai(*pair(), prompts=PROMPTS, transfer=transfer)
    assert settings_of(run(graph, MAIContext(**context))) == expected
    assert settings_of(run(graph, context)) == expected


def test_a_graph_without_attention_refuses_before_any_call(run):
    small, large = pair()
    _, blind = models("transferred")
    graph = create_mai(small, blind, prompts=PROMPTS)
    with pytest.raises(MAIInputError, match=r"'transfer' cannot be 'sparse' in this graph: .*give"):
        run(graph, SPARSE)
    assert small.calls == blind.calls == []
    selected = create_mai(small, blind, prompts=PROMPTS, selector=large)
    assert len(selections(run(selected, SPARSE))) == 1


@pytest.mark.parametrize(
    "context",
    [
        {"sparse_layer": 1},
        {"sparse_share": 0.5},
        {"transfer": "full", "sparse_share": 0.5},
    ],
)
@pytest.mark.parametrize("transfer", ["full", str.upper])
def test_settings_without_sparse_transfer_are_refused_before_any_call(run, context, transfer):
    small, large = pair()
    graph = create_mai(small, large, prompts=PROMPTS, transfer=transfer)
    with pytest.raises(MAIInputError, match=r"The setting 'sparse_\w+' is for sparse transfer"):
        run(graph, MAIContext(**context))
    assert small.calls == large.calls == []


@pytest.mark.parametrize("name", STRATEGIES)
def test_every_strategy_takes_it(run, name):
    small, large = pair()
    small.script["direct"] = "no"
    result = run(create_strategy(name, small, large, prompts=PROMPTS), SPARSE)
    transfers = [call for call in result["calls"] if call["style"] == "transfer"]
    assert len(selections(result)) == len(transfers)
    assert result["fallback"] is None


def test_a_resumed_run_keeps_its_settings():
    small, large = pair()
    graph = create_mai(small, large, prompts=PROMPTS, checkpointer=InMemorySaver())
    thread = {"configurable": {"thread_id": "1"}}
    context = MAIContext(transfer="sparse", sparse_layer=3)
    graph.invoke(QUESTION, thread, context=context, interrupt_before=["reasoning_transfer"])
    assert settings_of(graph.invoke(None, thread)) == [("attention", 3, 0.8)]


@dataclass
class Parent:
    transfer: str = "sparse"
    sparse_share: float = 0.5
    other: str = "x"


@pytest.mark.parametrize(
    "context",
    [
        Parent(),
        SimpleNamespace(mai={"transfer": "sparse", "sparse_share": 0.5}, sparse_share="other"),
        SimpleNamespace(mai=MAIContext(transfer="sparse", sparse_share=0.5)),
        {"transfer": "sparse", "sparse_share": 0.5},
    ],
)
def test_a_parents_context_of_any_kind(run, context):
    schema = type(context) if not isinstance(context, dict) else None
    graph = StateGraph(MAIState, context_schema=schema)
    graph.add_node("mai", create_mai(*pair(), prompts=PROMPTS))
    graph.add_edge(START, "mai")
    assert settings_of(run(graph.compile(), context)) == [("attention", 2, 0.5)]


def test_a_parents_field_that_is_no_setting_is_named(run):
    graph = StateGraph(MAIState)
    graph.add_node("mai", create_mai(*pair(), prompts=PROMPTS))
    graph.add_edge(START, "mai")
    with pytest.raises(MAIInputError, match=r"The setting 'sparse_layer' cannot.* a field `mai`"):
        run(graph.compile(), SimpleNamespace(sparse_layer="the thinnest"))


def test_a_chat_model_selects_too():
    model = ChatMAI(mai=create_mai(*pair(), prompts=PROMPTS))
    asked = [HumanMessage("Is it red?")]
    assert selections(model.invoke(asked).response_metadata) == []
    said = model.invoke(asked, transfer="sparse", sparse_share=0.5)
    assert settings_of(said.response_metadata) == [("attention", 2, 0.5)]
    calls = said.response_metadata["calls"]
    read = sum(call["input_tokens"] for call in calls) + calls[-1]["selection"]["input_tokens"]
    assert said.usage_metadata["input_tokens"] == read
    always = ChatMAI(mai=model.mai, context=SPARSE)
    assert len(selections(always.invoke(asked).response_metadata)) == 1


def test_a_tool_hands_on_what_was_selected():
    tool = create_vision_tool(create_mai(*pair(), prompts=PROMPTS, transfer="sparse"))
    call = {"name": tool.name, "args": QUESTION, "id": "1", "type": "tool_call"}
    message = tool.invoke(call)
    assert len(selections(message.artifact)) == 1
    assert message.artifact["confidence"] == "medium"


def test_the_servers_form_offers_it():
    graph = create_mai(*pair(), prompts=PROMPTS)
    fields = graph.get_context_jsonschema()["properties"]
    assert {"transfer", "sparse_layer", "sparse_share"} <= set(fields)
    assert "sparse" in str(fields["transfer"])


@pytest.mark.parametrize(
    ("wanted", "expected"), [(None, []), ("full", []), ("sparse", [("last", 1, 0.5)])]
)
def test_the_servers_graph_transfers_as_its_environment_says(
    wanted, expected, monkeypatch, tmp_path
):
    from langgraph_mai.graph import studio

    (tmp_path / "pair.yaml").write_text(
        "small: {model: 'demo:small'}\nlarge: {model: 'demo:large'}\nprompts: demo\n"
        "sparse: {layer: 1, share: 0.5, keep: last}\n"
    )
    monkeypatch.setenv("LANGGRAPH_MAI_PAIR", str(tmp_path / "pair.yaml"))
    monkeypatch.delenv("LANGGRAPH_MAI_TRANSFER", raising=False)
    if wanted:
        monkeypatch.setenv("LANGGRAPH_MAI_TRANSFER", wanted)
    spec = spec_from_file_location("langgraph_mai.graph.studio_again", studio.__file__)
    again = module_from_spec(spec)
    spec.loader.exec_module(again)
    squares = str(ROOT / "demo" / "pictures" / "squares.png")
    asked = {"question": "How many squares can you see in the top row?", "images": [squares]}
    assert settings_of(again.mai.invoke(asked)) == expected
