"""Schemas: what is supported, what outputs say of each field, and which fields agree."""

import json
import random
from datetime import date
from functools import reduce
from typing import Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel, Field

from langgraph_mai.answers.schemas import Schema, SchemaError, fields_agree


class Vendor(BaseModel):
    name: str
    tax_id: str | None = None


class Item(BaseModel):
    name: str
    price: float = Field(ge=0)


class Receipt(BaseModel):
    total: float = Field(description="with tax")
    day: date
    currency: Literal["EUR", "USD"]
    paid: bool
    tags: list[str]
    vendor: Vendor
    items: list[Item]


SCHEMA = Schema.read(Receipt)
NAMES = [one.name for one in SCHEMA.fields]
WHOLE = {
    "total": 12.5,
    "day": "2024-01-02",
    "currency": "EUR",
    "paid": True,
    "tags": ["a", "b"],
    "vendor": {"name": "Corner Shop", "tax_id": None},
    "items": [{"name": "milk", "price": 1.5}, {"name": "tea", "price": 11.0}],
}


def read(output):
    return SCHEMA.read_object(output if isinstance(output, str) else json.dumps(output))


def verdicts(first, second):
    a, b = read(first), read(second)
    found = {}
    for field in SCHEMA.fields:
        pair = a.get(field.name), b.get(field.name)
        found[field.name] = fields_agree(field, *pair)
        assert fields_agree(field, *reversed(pair)) == found[field.name]
    return found


def values(output):
    return SCHEMA.build({name: one["value"] for name, one in read(output).items()})


def test_what_prompts_and_constrained_decoding_are_told():
    assert SCHEMA.forms() == {
        "total": "number (with tax)",
        "day": "YYYY-MM-DD",
        "currency": '"EUR" or "USD"',
        "paid": "true or false",
        "tags": "[string, ...]",
        "vendor": '{"name": string, "tax_id": string or null}',
        "items": '[{"name": string, "price": number}, ...]',
    }
    part = SCHEMA.only(["vendor.tax_id", "items"]).json_schema()
    assert list(part["properties"]) == ["vendor", "items"]
    assert list(part["properties"]["vendor"]["properties"]) == ["tax_id"]
    assert "$ref" not in json.dumps(part)


NESTED = reduce(lambda inner, _: {"items": inner}, range(3000), {})
DOUBLED = {"0": {"type": "string"}} | {
    str(number): {"enum": [{"$ref": f"#/$defs/{number - 1}"}] * 2} for number in range(1, 31)
}
"""A few lines that stand for a billion."""


@pytest.mark.parametrize(
    ("schema", "named"),
    [
        (7, "not 7"),
        ({"type": "string"}, "an object with properties"),
        ({"properties": {}}, "must have properties"),
        ({"properties": {"a.b": {"type": "string"}}}, "no point in their names"),
        ({"properties": {"a": {"oneOf": []}}}, "'a' uses 'oneOf'"),
        ({"properties": {"a": {"type": ["integer", "string"]}}}, "'a' is of a type"),
        ({"properties": {"a": {"anyOf": [{"type": "number"}, {"type": "string"}]}}}, "'a' is of"),
        ({"properties": {"a": True}}, "'a' is of a type"),
        ({"properties": {"a": {"$ref": "#/$defs/none"}}}, "no valid JSON schema"),
        ({"properties": {"a": {"$ref": "file:///etc/hostname"}}}, "no valid JSON schema"),
        ({"properties": {"a": {"$ref": "#/properties/a"}}}, "refers to itself"),
        ({"properties": {"a": NESTED}}, "nests too deeply"),
        ({"properties": {"a": {"$ref": "#/$defs/30"}}, "$defs": DOUBLED}, "It is too large"),
        ({"properties": {str(n): {"type": "string"} for n in range(9000)}}, "It is too large"),
        ({"properties": {"a": {"type": "string", "description": 5}}}, "no valid JSON schema"),
        ({"properties": {"a": {"type": "array", "items": [1]}}}, "no valid JSON schema"),
        ({"properties": {"a": {"type": "string", "pattern": "("}}}, "limits of the field 'a'"),
        ({"properties": {"a": {"type": "object", "properties": {}}}}, "'a' is of a type"),
        (
            {"properties": {"a": {"type": "array", "items": {"type": "array"}}}},
            "'a' is of a type",
        ),
        (
            {
                "required": ["a"],
                "properties": {
                    "a": {
                        "type": "object",
                        "properties": {"b": {"type": "object", "properties": {"c": {}}}},
                    }
                },
            },
            "'a.b' is of a type",
        ),
    ],
)
def test_what_is_not_supported_is_refused_by_name(schema, named):
    with pytest.raises(SchemaError) as raised:
        Schema.read(schema)
    assert named in str(raised.value)
    assert "\n" not in str(raised.value)


def test_values_are_read_in_the_forms_that_models_write():
    output = WHOLE | {"total": "$12.50", "currency": "eur", "paid": "yes", "tags": "a, b"}
    dressed = f"<think>{{}}</think>The form:\n```json\n{json.dumps(output, indent=1)}\n```"
    readings = read(dressed)
    assert values(dressed) == WHOLE
    assert readings["total"]["written"] == "$12.50"
    assert set(verdicts(dressed, WHOLE).values()) == {"agree"}


@pytest.mark.parametrize(
    ("change", "lacking"),
    [
        ({"total": "none"}, ["total"]),
        ({"total": True}, ["total"]),
        ({"total": None}, ["total"]),
        ({"day": "2 January"}, ["day"]),
        ({"currency": "GBP"}, ["currency"]),
        ({"tags": [["a"]]}, ["tags"]),
        ({"vendor": "Corner Shop"}, ["vendor.name", "vendor.tax_id"]),
        ({"vendor": {"name": "I cannot tell", "tax_id": None}}, ["vendor.name"]),
        ({"items": [{"name": "milk", "price": -1}]}, ["items"]),
        ({"items": [{"name": "milk"}]}, ["items"]),
    ],
)
def test_what_does_not_validate_is_lacking_and_the_rest_stays(change, lacking):
    readings = read(WHOLE | change)
    assert [name for name in NAMES if name not in readings] == lacking


@pytest.mark.parametrize(
    ("change", "differing"),
    [
        ({"total": 12.50}, []),
        ({"total": "12.5 EUR", "tags": ["b", "a"]}, []),
        ({"items": WHOLE["items"][::-1]}, []),
        ({"items": WHOLE["items"][:1]}, ["items"]),
        ({"items": [WHOLE["items"][0]] * 2}, ["items"]),
        ({"total": 14}, ["total"]),
        ({"vendor": {"name": "corner shop.", "tax_id": "7"}}, ["vendor.tax_id"]),
        ({"currency": "USD", "paid": False}, ["currency", "paid"]),
    ],
)
def test_fields_agree_by_their_types(change, differing):
    found = verdicts(WHOLE, WHOLE | change)
    assert [name for name in NAMES if found[name] == "disagree"] == differing
    assert "abstain" not in found.values()


def test_a_cut_output_costs_the_fields_that_it_lacks():
    text = json.dumps(WHOLE)
    for end in range(len(text)):
        found = values(text[:end])
        assert found == {name: WHOLE[name] for name in found}
    assert len(read(text[: text.index('"tags"')])) == 4


PIECES = ['{"', '"}', "{", "}", "[", "]", ",", ":", '"', "null", "1e999", "NaN", "\\", "\x00", "é"]


def test_no_mutated_output_raises_and_what_is_read_validates():
    draw = random.Random(0)
    text = json.dumps(WHOLE)
    for _ in range(10_000):
        mutated = list(text)
        for _ in range(draw.randint(1, 6)):
            at = draw.randrange(len(mutated))
            mutated[at : at + draw.randint(0, 5)] = draw.choice(PIECES)
        found = values("".join(mutated))
        lacking = [name for name in WHOLE if name not in found]
        parts = found | {name: WHOLE[name] for name in lacking}
        parts["vendor"] = {"name": "x"} | parts["vendor"]
        assert Receipt.model_validate(parts)


receipts = st.builds(
    Receipt,
    total=st.decimals(-(10**6), 10**6, places=2).map(float),
    day=st.dates(),
    currency=st.sampled_from(["EUR", "USD"]),
    paid=st.booleans(),
    tags=st.lists(st.sampled_from(["food", "drink", "red car", "A7"]), max_size=3),
    vendor=st.builds(
        Vendor,
        name=st.sampled_from(["Shop", "Corner Shop"]),
        tax_id=st.sampled_from([None, "007", "DE-12"]),
    ),
    items=st.lists(
        st.builds(Item, name=st.sampled_from(["tea", "milk"]), price=st.integers(0, 99).map(float)),
        max_size=4,
    ),
).map(lambda one: one.model_dump(mode="json"))


@settings(max_examples=200)
@given(receipts, receipts, st.randoms())
def test_objects_survive_and_agree_with_themselves_alone(one, other, chance):
    assert values(one) == one
    assert list(values(dict(reversed(one.items())))) == list(one)
    shuffled = {**one, "items": chance.sample(one["items"], len(one["items"]))}
    assert set(verdicts(one, shuffled).values()) == {"agree"}
    found = verdicts(one, other)
    assert (found["total"] == "agree") >= (one["total"] == other["total"])
    assert (found["paid"] == "agree") == (one["paid"] == other["paid"])
    assert (found["day"] == "agree") == (one["day"] == other["day"])
