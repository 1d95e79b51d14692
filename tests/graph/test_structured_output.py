"""Answers in a schema: agreed field by field, and only disputed fields go further."""

import asyncio
import json
from pathlib import Path
from typing import Literal

import langchain_tests.integration_tests
import pytest
from fakes import PROMPTS, QUESTION, ScriptedModel, block
from langchain.agents import create_agent
from langchain_core.messages import HumanMessage
from langchain_tests.unit_tests.chat_models import ChatModelTests
from langgraph.checkpoint.memory import InMemorySaver
from pydantic import BaseModel
from typing_extensions import TypedDict

from langgraph_mai import (
    ChatMAI,
    MAIError,
    MAIInputError,
    create_mai,
    create_strategy,
    create_vision_tool,
)


class Shop(BaseModel):
    name: str
    city: str | None


class Receipt(BaseModel):
    total: float
    currency: Literal["EUR", "USD"]
    paid: bool
    shop: Shop


SMALL = {"total": 12, "currency": "EUR", "paid": True, "shop": {"name": "Tea & Co", "city": None}}
LARGE = {**SMALL, "total": 72, "shop": {"name": "tea & co.", "city": None}}
NAMES = ["total", "currency", "paid", "shop.name", "shop.city"]
ASKED = QUESTION | {"schema": Receipt}


def output(**changes):
    return json.dumps({**SMALL, **changes})


def pair(small, large, **options):
    """A graph over scripted models, and the two."""
    agents = [
        ScriptedModel(script=dict(script), label=label)
        for label, script in (("small", small), ("large", large))
    ]
    return create_mai(*agents, prompts=PROMPTS, **options), *agents


def run(graph, asked=ASKED, **options):
    result = graph.invoke(asked, **options)
    again = asyncio.run(graph.ainvoke(asked, **options))
    assert again["value"] == result["value"]
    assert again["fields"] == result["fields"]
    return result


def routes(result):
    assert list(result["fields"]) == NAMES
    return [one["route"] for one in result["fields"].values()]


REASON = 'The total is 72.\nAnswer: {"total": %s}'


@pytest.mark.parametrize(
    ("reasoned", "total", "route"), [("72", 72, "reasoned"), ("12", 99, "transferred")]
)
def test_only_the_disputed_field_is_reasoned_about_and_transferred(reasoned, total, route):
    graph, small, large = pair(
        {"direct": output(), "reason": REASON % reasoned},
        {"direct": json.dumps(LARGE), "transfer": '{"total": 99.0, "paid": false}'},
    )
    result = run(graph)
    assert result["value"] == {**LARGE, "total": total}
    assert result["answer"] == json.dumps(result["value"])
    assert Receipt.model_validate(result["value"])
    assert routes(result) == [route, *["direct"] * 4]
    assert result["route"] == route
    assert result["fallback"] is None
    assert result["fields"]["total"]["written"] == ("72" if route == "reasoned" else "99.0")
    for call in (one for one in small.calls + large.calls if one["style"] != "direct"):
        line = next(line for line in call["prompt"].splitlines() if "JSON" in line)
        assert line.endswith('Answer with JSON: {"total": number}')
    # What the models said is withheld from the reasoning.
    assert not any(text in small.calls[1]["prompt"] for text in ("12", "72", "EUR"))
    assert '"shop": {"name": string, "city": string or null}' in small.calls[0]["prompt"]


def test_models_that_agree_answer_directly():
    graph, small, _ = pair({"direct": output(paid="yes")}, {"direct": f"It is:\n{output()}"})
    result = run(graph)
    assert routes(result) == ["direct"] * 5
    assert set(small.styles) == {"direct"}
    assert result["fields"]["paid"] == {
        "value": True, "written": "true", "route": "direct", "fallback": None, "probability": None,
    }  # fmt: skip


def test_a_broken_output_costs_the_fields_that_it_lacks():
    cut = output()[: output().index('"shop"')]
    graph, small, _ = pair(
        {"direct": cut, "reason": 'Answer: {"shop": {"name": "Tea & Co", "city": null}}'},
        {"direct": output()},
    )
    result = run(graph)
    assert routes(result) == ["direct"] * 3 + ["reasoned"] * 2
    assert '{"shop": {"name": string, "city": string or null}}' in small.calls[1]["prompt"]
    assert "total" not in small.calls[1]["prompt"]


def test_a_field_falls_back_to_the_next_best_call():
    graph, *_ = pair(
        {"direct": output(), "reason": REASON % 12},
        {"direct": json.dumps(LARGE), "transfer": "I cannot tell."},
    )
    result = run(graph)
    assert result["value"]["total"] == 72
    assert result["fields"]["total"]["fallback"] == result["fallback"] == "large_direct"
    assert [one["fallback"] for one in result["fields"].values()][1:] == [None] * 4


def test_a_model_that_fails_leaves_the_form_to_the_other_one():
    graph, *_ = pair({"direct": output()}, {"direct": RuntimeError("down")})
    result = run(graph)
    assert result["value"] == SMALL
    assert {one["fallback"] for one in result["fields"].values()} == {"small_direct"}


NOTHING = {"direct": "none", "reason": "Answer: none", "transfer": "none"}


def test_a_field_that_nobody_fills_is_null_with_its_reason_or_the_run_fails():
    schema = {"properties": {"a": {"type": ["integer", "null"]}, "b": {"type": "string"}}}
    half = {**NOTHING, "direct": '{"b": "x"}'}
    graph, *_ = pair(half, half)
    result = run(graph, QUESTION | {"schema": schema})
    assert result["value"] == {"a": None, "b": "x"}
    assert result["fields"]["a"]["reason"] == "No model gave a value that the schema allows."
    graph, *_ = pair(NOTHING, NOTHING)
    assert run(graph, QUESTION | {"schema": schema})["value"] == {"a": None}
    optional = {"properties": {"b": {"type": "string"}}}
    result = run(graph, QUESTION | {"schema": optional})
    assert (result["value"], result["answer"], result["route"]) == ({}, "{}", "direct")
    with pytest.raises(MAIError, match=r"No model filled total, currency, paid, shop\.name, and"):
        graph.invoke(ASKED)


def test_a_verifier_of_ones_own_compares_fields():
    asked = []

    def verifier(first, second):
        asked.append((first.text, second.text))
        return "agree"

    graph, *_ = pair({"direct": output()}, {"direct": json.dumps(LARGE)}, verifier=verifier)
    assert routes(run(graph)) == ["direct"] * 5
    assert set(asked) == {("12", "72")}


def test_a_person_fills_what_is_disputed():
    graph, *_ = pair(
        {"direct": output(), "reason": REASON % 12},
        {"direct": json.dumps(LARGE)},
        review=True,
        checkpointer=InMemorySaver(),
    )
    from langgraph.types import Command

    config = {"configurable": {"thread_id": "1"}}
    graph.invoke(QUESTION | {"schema": Receipt.model_json_schema()}, config)
    result = graph.invoke(Command(resume='{"total": 50, "paid": false}'), config)
    assert result["value"] == {**LARGE, "total": 50}
    assert result["fields"]["total"]["fallback"] == result["fallback"] == "review"
    plain = graph.invoke(QUESTION | {"question": "Is it red?"}, config)
    assert plain.get("fields") is None


def test_strategies_fill_a_form_too():
    small = ScriptedModel(script={"direct": "no", "reason": REASON % 5})
    large = ScriptedModel(script={"direct": output()})
    graph = create_strategy("large_direct", small, large, prompts=PROMPTS)
    assert run(graph)["value"] == SMALL
    total = {"properties": {"total": {"type": "integer"}}}
    graph = create_strategy("small_reason", small, large, prompts=PROMPTS)
    assert run(graph, QUESTION | {"schema": total})["value"] == {"total": 5}


def test_what_is_no_schema_is_refused_in_a_sentence():
    graph, *_ = pair({"direct": output()}, {"direct": output()})
    for schema in (7, {"properties": {"a": {"oneOf": []}}}, {"properties": {}}):
        with pytest.raises(MAIInputError, match=r"^The schema cannot be used\. "):
            graph.invoke(QUESTION | {"schema": schema})


class Paid(TypedDict):
    paid: bool


def chat(small=None, large=None):
    return ChatMAI(mai=pair({"direct": small or output()}, {"direct": large or output()})[0])


PICTURE = str(Path(__file__).parents[2] / "demo" / "pictures" / "shapes.png")
MESSAGES = [HumanMessage([block(), {"type": "text", "text": "What does the receipt say?"}])]


def test_a_chat_model_returns_the_object_and_an_agent_the_response():
    model = chat()
    assert model.with_structured_output(Receipt).invoke(MESSAGES) == Receipt(**SMALL)
    found = model.with_structured_output(Receipt, include_raw=True).invoke(MESSAGES)
    assert found["parsed"] == Receipt(**SMALL)
    assert found["parsing_error"] is None
    assert found["raw"].response_metadata["fields"]["total"]["route"] == "direct"
    as_dict = model.with_structured_output(Receipt.model_json_schema())
    assert asyncio.run(as_dict.ainvoke(MESSAGES)) == SMALL
    assert model.with_structured_output(Paid).invoke(MESSAGES) == {"paid": True}
    agent = create_agent(model, response_format=Receipt)
    assert agent.invoke({"messages": MESSAGES})["structured_response"] == Receipt(**SMALL)
    with pytest.raises(NotImplementedError, match="calls no tools"):
        model.bind_tools([Receipt])


def test_the_tool_answers_in_a_schema():
    graph = pair({"direct": output()}, {"direct": output()})[0]
    tool = create_vision_tool(graph, schema=Receipt)
    asked = {"question": "What?", "images": [PICTURE]}
    call = {"name": tool.name, "args": asked, "id": "1", "type": "tool_call"}
    message = tool.invoke(call)
    assert f"answer: {json.dumps(SMALL)}" in message.content
    assert message.artifact["value"] == SMALL
    assert set(message.artifact["fields"]) == set(NAMES)


SUITE = langchain_tests.integration_tests.ChatModelIntegrationTests


class TestStructuredOutput(ChatModelTests):
    """LangChain's own tests; those that count one model's calls do not apply to a cascade."""

    has_structured_output = True
    test_structured_output_pydantic_2_v1 = SUITE.test_structured_output_pydantic_2_v1
    test_structured_output_optional_param = SUITE.test_structured_output_optional_param

    @property
    def chat_model_class(self):
        return ChatMAI

    @property
    def standard_chat_model_params(self):
        return {}

    @property
    def chat_model_params(self):
        joke = json.dumps({"setup": "Why?", "punchline": "Because."})
        return {"mai": pair({"direct": joke}, {"direct": joke}, require_images=False)[0]}
