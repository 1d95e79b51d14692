import asyncio
import json
import re
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, get_args

import pytest
from fakes import PROMPTS, models
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import START, StateGraph
from pydantic import BaseModel

from langgraph_mai import (
    CallCache,
    MAIContext,
    MAIInputError,
    MAIState,
    create_mai,
    create_strategy,
)
from langgraph_mai.graph import STRATEGIES

QUESTION = {"question": "Is it red?"}
LIMITS = MAIContext(max_tokens_direct=7, max_tokens_reason=8, max_tokens_transfer=9)


def limits(*asked):
    return {call["style"]: call["max_tokens"] for model in asked for call in model.calls}


def made():
    small, large = models("transferred")
    return small, large, create_mai(small, large, prompts=PROMPTS)


@pytest.mark.parametrize("way", ["invoke", "ainvoke"])
@pytest.mark.parametrize("form", ["object", "dict"])
def test_limits_of_one_run(way, form):
    small, large, graph = made()
    context = LIMITS if form == "object" else LIMITS.model_dump(exclude_none=True)
    if way == "invoke":
        graph.invoke(QUESTION, context=context)
    else:
        asyncio.run(graph.ainvoke(QUESTION, context=context))
    assert limits(small, large) == {"direct": 7, "reason": 8, "transfer": 9}
    small.calls.clear()
    large.calls.clear()
    graph.invoke(QUESTION)
    assert limits(small, large) == {"direct": 4, "reason": 64, "transfer": 5}


def test_a_timeout_of_one_run():
    small, large = models("direct", delay=5)
    graph = create_mai(small, large, prompts=PROMPTS)
    small.delay = 0
    result = graph.invoke(QUESTION, context=MAIContext(timeout=0.2))
    assert result["fallback"] == "small_direct"
    assert "no answer within 0.2 s" in result["calls"][1]["error"]


def test_a_prompt_set_of_one_run():
    small, large = models("direct")
    seen = []
    small.script["direct"] = large.script["direct"] = "yes"
    small.script["transfer"] = large.script["transfer"] = lambda p: seen.append(p) or "yes"
    graph = create_mai(small, large, prompts=PROMPTS)
    graph.invoke(QUESTION, context=MAIContext(prompts="demo"))
    assert seen == ["Is it red?\nAnswer directly."] * 2


def test_an_answer_type_of_one_run_is_for_inputs_that_name_none():
    *_, graph = made()
    context = MAIContext(answer_type="short_text")
    kinds = []
    for given in ({}, {"answer_type": "auto"}, {"answer_type": "yes_no"}):
        result = graph.invoke({**QUESTION, **given}, context=context)
        kinds.append(result["calls"][0]["kind"])
    assert kinds == ["short_text", "short_text", "yes_no"]


def test_a_transfer_of_one_run():
    small, large = models("transferred")
    graph = create_mai(small, large, prompts=PROMPTS, transfer=lambda text: text.upper())
    graph.invoke(QUESTION)
    graph.invoke(QUESTION, context=MAIContext(transfer="full"))
    handed = [call["prompt"] for call in large.calls if call["style"] == "transfer"]
    assert ["HM." in text for text in handed] == [True, False]


def test_a_threshold_of_one_run():
    small, large = models("direct")
    small.script["direct"] = "a big red dog runs on the green grass"
    large.script["direct"] = "a red dog runs on the grass"
    small.script["reason"] = "Answer: a big red dog runs on the green grass"
    graph = create_mai(small, large, prompts=PROMPTS)
    given = {"question": "Describe it.", "answer_type": "free_text"}
    routes = [
        graph.invoke(given, context=MAIContext(free_text_overlap=share))["route"]
        for share in (0.5, 1.0)
    ]
    assert routes == ["direct", "transferred"]


def test_the_threshold_is_what_the_rules_of_a_judge_use_too():
    from langgraph_mai import Judge

    small, large = models("direct")
    small.script["direct"] = "a big red dog runs on the green grass"
    large.script["direct"] = "a red dog runs on the grass"
    judge, _ = models()
    judge.script["judge"] = "yes"
    graph = create_mai(small, large, prompts=PROMPTS, verifier=Judge(judge))
    given = {"question": "Describe it.", "answer_type": "free_text"}
    graph.invoke(given, context=MAIContext(free_text_overlap=0.5))
    assert judge.styles == []
    graph.invoke(given, context=MAIContext(free_text_overlap=1.0))
    assert judge.styles == ["judge"]


@pytest.mark.parametrize("name", STRATEGIES)
def test_every_strategy_takes_it(name):
    small, large = models("transferred")
    graph = create_strategy(name, small, large, prompts=PROMPTS)
    graph.invoke(QUESTION, context=LIMITS)
    expected = {"direct": 7, "reason": 8, "transfer": 9, "explain": 32}
    assert limits(small, large).items() <= expected.items()


def test_runs_with_other_settings_share_no_cached_call():
    small, large = models("direct")
    graph = create_mai(small, large, prompts=PROMPTS, cache=CallCache())
    for context in (None, LIMITS, LIMITS, None):
        graph.invoke(QUESTION, context=context)
    assert [call["max_tokens"] for call in small.calls] == [4, 7]


def test_a_resumed_run_keeps_its_settings():
    small, large = models("transferred")
    graph = create_mai(small, large, prompts=PROMPTS, checkpointer=InMemorySaver())
    thread = {"configurable": {"thread_id": "1"}}
    graph.invoke(QUESTION, thread, context=LIMITS, interrupt_before=["reasoning_transfer"])
    graph.invoke(None, thread)
    assert limits(large)["transfer"] == 9


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


@pytest.mark.parametrize(("context", "limit"), CONTEXTS, ids=lambda value: type(value).__name__)
@pytest.mark.parametrize("form", ["node", "wrapper"])
def test_a_parents_context_of_any_kind(context, limit, form):
    """The subgraph gets the parent's own object (langgraph #5700)."""
    small, _, inner = made()
    schema = type(context) if context is not None else None
    graph = StateGraph(MAIState, context_schema=schema if schema is not dict else None)

    def wrapper(state: MAIState) -> MAIState:
        return {"answer": inner.invoke({"question": state["question"]})["answer"]}

    graph.add_node("mai", inner if form == "node" else wrapper)
    graph.add_edge(START, "mai")
    assert graph.compile().invoke(QUESTION, context=context)["answer"] == "yes"
    assert limits(small)["direct"] == limit


def test_a_wrappers_own_context_counts_in_it():
    small, _, inner = made()

    def wrapper(state: MAIState) -> MAIState:
        own = MAIContext(max_tokens_direct=9)
        return {"answer": inner.invoke({"question": state["question"]}, context=own)["answer"]}

    graph = StateGraph(MAIState, context_schema=MAIContext)
    graph.add_node("mai", wrapper)
    graph.add_edge(START, "mai")
    graph.compile().invoke(QUESTION, context=MAIContext(max_tokens_direct=7))
    assert limits(small)["direct"] == 9


@pytest.mark.parametrize(
    "context",
    [
        SimpleNamespace(timeout="soon"),
        SimpleNamespace(mai={"timeouts": 3}),
        {"mai": {"timeout": 0}},
    ],
)
def test_a_parents_field_that_is_no_setting_is_named(context):
    inner = made()[2]
    graph = StateGraph(MAIState)
    graph.add_node("mai", inner)
    graph.add_edge(START, "mai")
    with pytest.raises(MAIInputError, match=r"The setting 'timeouts?' cannot.* a field `mai`"):
        graph.compile().invoke(QUESTION, context=context)


@pytest.mark.parametrize(
    "wrong",
    [
        {"timeout": 0},
        {"max_tokens_reason": -1},
        {"free_text_overlap": 2},
        {"prompts": "/etc/hostname"},
        {"transfer": "half"},
        {"sparse_layer": 0},
        {"sparse_layer": 2**31},
        {"sparse_share": 0},
        {"sparse_share": 1.5},
        {"sparse_share": float("nan")},
        {"answer_type": "essay"},
        {"max_token_reason": 5},
        {"max_tokens_direct": 10**40},
        {"max_tokens_transfer": 2**31},
    ],
)
@pytest.mark.parametrize("form", ["object", "dict"])
def test_wrong_settings_are_refused_in_one_sentence(wrong, form):
    graph = made()[2]
    with pytest.raises(MAIInputError) as refused:
        graph.invoke(QUESTION, context=wrong if form == "dict" else MAIContext(**wrong))
    said = str(refused.value)
    assert said.startswith(f"The setting {next(iter(wrong))!r} cannot be used (")
    assert "\n" not in said


NUMBERS = [
    name
    for name, field in MAIContext.model_fields.items()
    if {int, float} & set(get_args(field.annotation))
]


@pytest.mark.parametrize("name", NUMBERS)
@pytest.mark.parametrize("value", [True, False])
@pytest.mark.parametrize("form", ["object", "dict"])
def test_true_and_false_are_no_numbers(name, value, form):
    graph = made()[2]
    sentence = (
        f"The setting '{name}' cannot be used (must be a number, not true or false); "
        "correct it or leave it out."
    )
    with pytest.raises(MAIInputError, match=f"^{re.escape(sentence)}"):
        graph.invoke(
            QUESTION, context={name: value} if form == "dict" else MAIContext(**{name: value})
        )


def test_the_highest_limit_can_be_kept_by_a_checkpointer(tmp_path):
    small, large = models("transferred")
    with SqliteSaver.from_conn_string(str(tmp_path / "threads.sqlite")) as saver:
        graph = create_mai(small, large, prompts=PROMPTS, checkpointer=saver)
        thread = {"configurable": {"thread_id": "1"}}
        graph.invoke(QUESTION, thread, context=MAIContext(max_tokens_reason=2**31 - 1))
        kept = graph.get_state(thread).values["task"]["settings"]
    assert kept == {"max_tokens_reason": 2**31 - 1}


def test_fields_of_a_form_that_nobody_filled_in_are_not_given():
    assert MAIContext.model_validate({"prompts": "", "timeout": "", "answer_type": ""}) == (
        MAIContext()
    )


def test_the_settings_are_described_for_a_form():
    schema = made()[2].get_context_jsonschema()
    assert set(schema["properties"]) == set(MAIContext.model_fields)
    assert all(entry["description"] for entry in schema["properties"].values())
    assert json.dumps(schema)
