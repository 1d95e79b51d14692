"""Settings of one run, sparse transfer among them, from a context of any kind."""

import json
import re
from dataclasses import dataclass, field
from importlib.util import module_from_spec, spec_from_file_location
from types import SimpleNamespace
from typing import Any, get_args

import pytest
from fakes import PROMPTS, QUESTION, AttentiveModel, models
from langchain_core.messages import HumanMessage
from langgraph.graph import START, StateGraph
from pages import ROOT
from pydantic import BaseModel

from langgraph_mai import (
    CallCache,
    ChatMAI,
    Judge,
    MAIContext,
    MAIInputError,
    MAIState,
    SparseTransfer,
    create_mai,
    create_strategy,
    create_vision_tool,
)
from langgraph_mai.graph import STRATEGIES

LIMITS = MAIContext(max_tokens_direct=7, max_tokens_reason=8, max_tokens_transfer=9)
THREAD = {"configurable": {"thread_id": "1"}}


def made(transfer="full", **options):
    small, large = models("transferred", AttentiveModel)
    small.script["reason"] = "A red dot.\nA blue dot.\nAnswer: no"
    return small, large, create_mai(small, large, prompts=PROMPTS, transfer=transfer, **options)


def limits(*asked):
    return {call["style"]: call["max_tokens"] for model in asked for call in model.calls}


def selections(result):
    found = [call["selection"] for call in result["calls"] if "selection" in call]
    return [(one["keep"], one["layer"], one["share"]) for one in found]


@pytest.mark.parametrize("context", [LIMITS, LIMITS.model_dump(exclude_none=True)], ids=type)
def test_limits_of_one_run(run, context):
    small, large, graph = made()
    run(graph, QUESTION, context=context)
    assert limits(small, large) == {"direct": 7, "reason": 8, "transfer": 9}
    small.calls.clear()
    large.calls.clear()
    run(graph, QUESTION)
    assert limits(small, large) == {"direct": 4, "reason": 64, "transfer": 5}


def test_a_timeout_of_one_run():
    small, large = models("direct")
    large.delay = 5
    graph = create_mai(small, large, prompts=PROMPTS)
    result = graph.invoke(QUESTION, context=MAIContext(timeout=0.2))
    assert result["fallback"] == "small_direct"
    assert "no answer within 0.2 s" in result["calls"][1]["error"]


def test_a_prompt_set_and_an_answer_type_of_one_run():
    small, large, graph = made()
    seen = []
    for model in (small, large):
        model.script["transfer"] = lambda prompt: seen.append(prompt) or "yes"
    graph.invoke(QUESTION, context=MAIContext(prompts="demo"))
    assert seen == ["Is it red?\nAnswer directly."] * 2
    context = MAIContext(answer_type="short_text")  # for inputs that name none
    for given, kind in ((None, "short_text"), ("auto", "short_text"), ("yes_no", "yes_no")):
        asked = QUESTION | ({"answer_type": given} if given else {})
        assert made()[2].invoke(asked, context=context)["calls"][0]["kind"] == kind


def test_a_threshold_of_one_run_is_for_the_rules_of_a_judge_too():
    given = {**QUESTION, "question": "Describe it.", "answer_type": "free_text"}
    judge = models()[0]
    judge.script["judge"] = "yes"
    small, large = models("direct")
    small.script["direct"] = "a big red dog runs on the green grass"
    large.script["direct"] = "a red dog runs on the grass"
    small.script["reason"] = "Answer: a big red dog runs on the green grass"
    for verifier, routes in ((None, ["direct", "transferred"]), (Judge(judge), ["direct"] * 2)):
        graph = create_mai(small, large, prompts=PROMPTS, verifier=verifier)
        contexts = [MAIContext(free_text_overlap=share) for share in (0.5, 1.0)]
        assert [graph.invoke(given, context=one)["route"] for one in contexts] == routes
    assert judge.styles == ["judge"]


def test_every_strategy_takes_them():
    for name in STRATEGIES:
        small, large = models("transferred", AttentiveModel)
        context = MAIContext(**LIMITS.model_dump() | {"transfer": "sparse"})
        graph = create_strategy(name, small, large, prompts=PROMPTS)
        result = graph.invoke(QUESTION, context=context)
        expected = {"direct": 7, "reason": 8, "transfer": 9, "explain": 32}
        assert limits(small, large).items() <= expected.items()
        transfers = [call for call in result["calls"] if call["style"] == "transfer"]
        assert len(selections(result)) == len(transfers)


def test_runs_with_other_settings_share_no_cached_call():
    small, _, graph = made(cache=CallCache())
    for context in (None, LIMITS, LIMITS, None):
        graph.invoke(QUESTION, context=context)
    assert [call["max_tokens"] for call in small.calls] == [4, 64, 7, 8]


@pytest.mark.parametrize(
    ("transfer", "context", "expected"),
    [
        ("full", {}, []),
        ("full", {"transfer": "sparse"}, [("attention", 2, 0.8)]),
        ("full", {"transfer": "sparse", "sparse_layer": 3, "sparse_share": 0.5},
         [("attention", 3, 0.5)]),
        ("sparse", {}, [("attention", 2, 0.8)]),
        ("sparse", {"sparse_share": 1}, [("attention", 2, 1.0)]),
        ("sparse", {"transfer": "full"}, []),
        (SparseTransfer(layer=1, keep="last"), {}, [("last", 1, 0.8)]),
        (SparseTransfer(layer=1, keep="last"), {"transfer": "sparse"}, [("last", 1, 0.8)]),
        (SparseTransfer(layer=1, keep="last"), {"sparse_layer": 4}, [("last", 4, 0.8)]),
        (str.upper, {}, []),
        (str.upper, {"transfer": "sparse"}, [("attention", 2, 0.8)]),
    ],
)  # fmt: skip
def test_a_run_can_change_the_transfer(transfer, context, expected):
    _, large, graph = made(transfer)
    assert selections(graph.invoke(QUESTION, context=MAIContext(**context))) == expected
    assert selections(graph.invoke(QUESTION, context=context)) == expected
    upper = transfer is str.upper and not context
    assert ("A RED DOT" in large.calls[-1]["prompt"]) == upper


def test_a_graph_without_attention_refuses_before_any_call():
    small, large, _ = made()
    blind = models("transferred")[1]
    graph = create_mai(small, blind, prompts=PROMPTS)
    sparse = MAIContext(transfer="sparse")
    with pytest.raises(MAIInputError, match=r"'transfer' cannot be 'sparse' in this graph: .*give"):
        graph.invoke(QUESTION, context=sparse)
    assert small.calls == blind.calls == []
    selected = create_mai(small, blind, prompts=PROMPTS, selector=large)
    assert len(selections(selected.invoke(QUESTION, context=sparse))) == 1


@pytest.mark.parametrize(
    "context", [{"sparse_layer": 1}, {"transfer": "full", "sparse_share": 0.5}]
)
@pytest.mark.parametrize("transfer", ["full", str.upper])
def test_settings_without_sparse_transfer_are_refused_before_any_call(context, transfer):
    small, large, graph = made(transfer)
    with pytest.raises(MAIInputError, match=r"The setting 'sparse_\w+' is for sparse transfer"):
        graph.invoke(QUESTION, context=MAIContext(**context))
    assert small.calls == large.calls == []


def test_a_resumed_run_keeps_its_settings(checkpointer):
    _, large, graph = made(checkpointer=checkpointer)
    context = MAIContext(
        transfer="sparse", sparse_layer=3, max_tokens_transfer=9, max_tokens_reason=2**31 - 1
    )
    graph.invoke(QUESTION, THREAD, context=context, interrupt_before=["reasoning_transfer"])
    assert selections(graph.invoke(None, THREAD)) == [("attention", 3, 0.8)]
    assert limits(large)["transfer"] == 9
    kept = graph.get_state(THREAD).values["task"]["settings"]
    assert kept["max_tokens_reason"] == 2**31 - 1


# A parent's context


@dataclass
class Plain:
    max_tokens_direct: int = 7
    other: str = "x"


class WithField(BaseModel):
    mai: Any = None
    timeout: str = "the parent's own, with another meaning"


@dataclass
class Wrapping:
    mai: MAIContext = field(default_factory=lambda: MAIContext(max_tokens_direct=7))


CONTEXTS = [
    (None, 4),
    (MAIContext(max_tokens_direct=7), 7),
    ({"max_tokens_direct": 7, "other": 1}, 7),
    (Plain(), 7),
    (SimpleNamespace(other=1), 4),
    (WithField(mai={"max_tokens_direct": 7}), 7),
    (WithField(mai=MAIContext()), 4),
    (Wrapping(), 7),
]


def under(node, **options):
    graph = StateGraph(MAIState, **options)
    graph.add_node("mai", node)
    graph.add_edge(START, "mai")
    return graph.compile()


def wrapper_of(inner, **own):
    def wrapper(state: MAIState) -> MAIState:
        given = {name: state[name] for name in QUESTION}
        return {"answer": inner.invoke(given, **own)["answer"]}

    return wrapper


@pytest.mark.parametrize(("context", "limit"), CONTEXTS, ids=lambda value: type(value).__name__)
def test_a_parents_context_of_any_kind(context, limit):
    """The subgraph gets the parent's own object (langgraph #5700)."""
    schema = None if context is None or isinstance(context, dict) else type(context)
    for form in (lambda inner: inner, wrapper_of):
        small, _, inner = made()
        graph = under(form(inner), context_schema=schema)
        assert graph.invoke(QUESTION, context=context)["answer"] == "yes"
        assert limits(small)["direct"] == limit


@pytest.mark.parametrize(
    ("own", "limit"), [(MAIContext(max_tokens_direct=9), 9), (MAIContext(), 4), ({}, 4)]
)
def test_8406_a_wrappers_own_context_counts_in_it(own, limit):
    small, _, inner = made()
    graph = under(wrapper_of(inner, context=own), context_schema=MAIContext)
    graph.invoke(QUESTION, context=MAIContext(max_tokens_direct=7))
    assert limits(small)["direct"] == limit


@pytest.mark.parametrize(
    "context",
    [
        SimpleNamespace(timeout="soon"),
        SimpleNamespace(mai={"timeouts": 3}),
        {"mai": {"timeout": 0}},
    ],
)
def test_a_parents_field_that_is_no_setting_is_named(context):
    with pytest.raises(MAIInputError, match=r"The setting 'timeouts?' cannot.* a field `mai`"):
        under(made()[2]).invoke(QUESTION, context=context)


# What is refused


NUMBERS = [
    name
    for name, field in MAIContext.model_fields.items()
    if {int, float} & set(get_args(field.annotation))
]
WRONG = [
    {"timeout": 0},
    {"max_tokens_reason": -1},
    {"free_text_overlap": 2},
    {"prompts": "/etc/hostname"},
    {"transfer": "half"},
    {"sparse_layer": 0},
    {"sparse_layer": 2**31},
    {"sparse_share": 0},
    {"sparse_share": float("nan")},
    {"answer_type": "essay"},
    {"max_token_reason": 5},
    {"max_tokens_direct": 10**40},
    *({name: value} for name in NUMBERS for value in (True, False)),
]


@pytest.mark.parametrize("form", [dict, MAIContext])
def test_wrong_settings_are_refused_in_one_sentence(form):
    *_, graph = made()
    for wrong in WRONG:
        with pytest.raises(MAIInputError) as refused:
            graph.invoke(QUESTION, context=form(**wrong))
        ((name, value),) = wrong.items()
        reason = r"must be a number, not true or false" if type(value) is bool else r".+"
        sentence = rf"The setting '{name}' cannot be used \({reason}\); correct it or leave it out"
        assert re.match(sentence, str(refused.value))
        assert "\n" not in str(refused.value)


def test_the_settings_are_described_for_a_form():
    schema = made()[2].get_context_jsonschema()
    assert set(schema["properties"]) == set(MAIContext.model_fields)
    assert all(entry["description"] for entry in schema["properties"].values())
    assert json.dumps(schema)
    # Fields of a form that nobody filled in come as empty texts.
    assert MAIContext(prompts="", timeout="", answer_type="") == MAIContext()


# What is built on the graph


def test_a_chat_model_and_a_tool_select_too():
    *_, graph = made()
    message = HumanMessage([{"type": "image", "image": QUESTION["images"][0]}, "Is it red?"])
    model = ChatMAI(mai=graph)
    assert selections(model.invoke([message]).response_metadata) == []
    said = model.invoke([message], transfer="sparse", sparse_share=0.5)
    assert selections(said.response_metadata) == [("attention", 2, 0.5)]
    calls = said.response_metadata["calls"]
    read = sum(call["input_tokens"] for call in calls) + calls[-1]["selection"]["input_tokens"]
    assert said.usage_metadata["input_tokens"] == read
    always = ChatMAI(mai=graph, context=MAIContext(transfer="sparse"))
    assert len(selections(always.invoke([message]).response_metadata)) == 1
    tool = create_vision_tool(made("sparse")[2])
    call = {"name": tool.name, "args": QUESTION, "id": "1", "type": "tool_call"}
    artifact = tool.invoke(call).artifact
    assert (len(selections(artifact)), artifact["route"]) == (1, "transferred")


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
    monkeypatch.setenv("LANGGRAPH_MAI_IMAGE_ROOT", str(ROOT / "demo" / "pictures"))
    monkeypatch.delenv("LANGGRAPH_MAI_TRANSFER", raising=False)
    if wanted:
        monkeypatch.setenv("LANGGRAPH_MAI_TRANSFER", wanted)
    spec = spec_from_file_location("langgraph_mai.graph.studio_again", studio.__file__)
    again = module_from_spec(spec)
    spec.loader.exec_module(again)
    squares = str(ROOT / "demo" / "pictures" / "squares.png")
    asked = {"question": "How many squares can you see in the picture?", "images": [squares]}
    assert selections(again.mai.invoke(asked)) == expected
