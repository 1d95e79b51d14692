"""Answers in a schema: every field is verified by itself, and only disputed ones go further.

Two models fill the form. Fields in which they agree are never changed; the prompts of the reasoning
and of the transfer name the others, without what anybody answered.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from typing import Any, cast, get_args

from ..answers import Answer
from ..answers.schemas import (
    Reading,
    Schema,
    SchemaError,
    SchemaField,
    field_answer,
    fields_agree,
    json_schema,
    value_span,
)
from .confidence import Tokens, span_probability
from .state import (
    FALLBACKS,
    MAX_SCHEMA,
    CallKey,
    Disputed,
    Fallback,
    FieldAnswer,
    MAIError,
    MAIInputError,
    ModelCall,
    Route,
    Task,
)

_ROUTES: tuple[Route, ...] = get_args(Route)
_TOKENS = 32
"""Tokens of output that a field may take, its name included; a list of objects takes eight times
as many."""


def checked_schema(schema: Any) -> dict[str, Any]:
    """Return an input's schema as plain data.

    Raises:
        MAIInputError: It is none, or holds what is not supported.
    """
    try:
        plain = json_schema(schema)
        text = json.dumps(plain)
        if len(text) > MAX_SCHEMA:
            raise SchemaError(f"It has more than {MAX_SCHEMA:,} characters.")
        _schema(text)
    except SchemaError as error:
        raise MAIInputError(f"The schema cannot be used. {error}") from error
    except (RecursionError, TypeError, ValueError) as error:
        raise MAIInputError("The schema cannot be used: JSON cannot hold it.") from error
    return plain


def check_readings(task: Task, calls: Iterable[ModelCall]) -> None:
    """Refuse calls that hold other than readings of the task's schema.

    Raises:
        ValueError: One does, or the task's schema is none.
    """
    schema = _schema(json.dumps(checked_schema(task["schema"])))
    for call in calls:
        schema.check(readings_of(call))


def wanted_schema(task: Task, disputed: Disputed | None) -> Schema:
    """Return the schema of the fields that the next call is about."""
    whole = _schema(json.dumps(task["schema"]))
    return whole.only([*disputed.values()][-1]) if disputed else whole


def most_tokens(schema: Schema) -> int:
    """Return how many tokens an output in a schema may have."""
    return sum(_TOKENS * (8 if one.kind == "objects" else 1) for one in schema.fields)


def read_fields(
    task: Task, text: str, tokens: Tokens | None
) -> tuple[str | None, dict[str, Reading] | None]:
    """Return an output as JSON text and as readings by field; None if it fills no field.

    Args:
        task: The question.
        text: The output.
        tokens: Its tokens with their log-probabilities, if the model gave any.
    """
    schema = _schema(json.dumps(task["schema"]))
    if not (readings := schema.read_object(text)):
        return None, None
    for name, reading in readings.items() if tokens else ():
        if span := value_span(text, name):
            reading["probability"] = span_probability(text, span, tokens or ())
    return _text(schema, readings), readings


def disputed_fields(
    schema: Schema, small: ModelCall, large: ModelCall
) -> Iterator[tuple[SchemaField, tuple[Answer, Answer] | None]]:
    """Yield the fields in which two calls differ by rule, with both answers where there are two."""
    first, second = readings_of(small), readings_of(large)
    for one in schema.fields:
        a, b = first.get(one.name), second.get(one.name)
        if fields_agree(one, a, b) != "agree":
            pair = None
            if one.kind != "objects" and a and b and None not in (a["value"], b["value"]):
                pair = field_answer(one, a), field_answer(one, b)
            yield one, pair


def readings_of(call: ModelCall) -> dict[str, Reading]:
    """Return the readings of a call by field."""
    return cast("dict[str, Reading]", call["value"] or {})


def fill(
    task: Task,
    disputed: Disputed | None,
    calls: Mapping[CallKey, ModelCall],
    standing: tuple[Route, CallKey],
    reviewed: str | None,
) -> dict[str, Any]:
    """Return what a run in a schema answers: each field from the call that decides it.

    Args:
        task: The question.
        disputed: The disputed fields by stage; None where nothing was verified.
        calls: The run's calls.
        standing: The run's route, and the call that answers on it.
        reviewed: What a person answered.

    Raises:
        MAIError: A field that must have a value has none.
    """
    schema = _schema(json.dumps(task["schema"]))
    person = schema.read_object(reviewed or "")
    fields: dict[str, FieldAnswer] = {}
    for one in schema.fields:
        route, key = standing
        stages = [stage for stage, names in (disputed or {}).items() if one.name in names]
        if disputed is not None and len(stages) < len(disputed):
            route, key = ("reasoned" if stages else "direct"), "large_direct"
        if one.name in person and stages:
            fields[one.name] = _answered(person[one.name], route, "review")
            continue
        agreed = disputed is not None and not stages
        sources = [key] if agreed else [key, *(other for other in FALLBACKS if other != key)]
        found = ((at, readings_of(calls[at]).get(one.name)) for at in sources if at in calls)
        source, reading = next((pair for pair in found if pair[1]), (None, None))
        if reading:
            fields[one.name] = _answered(reading, route, None if source == key else source)
        elif one.required or one.nullable:
            none: Reading = {"value": None, "written": ""}
            fields[one.name] = _answered(none, route, None)
            fields[one.name]["reason"] = "No model gave a value that the schema allows."
    lacking = [one.name for one in schema.fields if "reason" in fields.get(one.name, {})]
    if names := [one.name for one in schema.only(lacking).fields if not one.nullable]:
        raise MAIError(f"No model filled {', '.join(names)}, and the schema forbids null.")
    return {
        "answer": _text(schema, fields),
        "value": schema.build({name: one["value"] for name, one in fields.items()}),
        "route": max(
            (one["route"] for one in fields.values()), key=_ROUTES.index, default=standing[0]
        ),
        "fallback": next((one["fallback"] for one in fields.values() if one["fallback"]), None),
        "fields": fields,
    }


def _answered(reading: Reading, route: Route, fallback: Fallback | None) -> FieldAnswer:
    return FieldAnswer(
        value=reading["value"],
        written=reading["written"],
        route=route,
        fallback=fallback,
        probability=reading.get("probability"),
    )


def _text(schema: Schema, readings: Mapping[str, Any]) -> str:
    values = schema.build({name: one["value"] for name, one in readings.items()})
    return json.dumps(values, ensure_ascii=False)


@lru_cache(maxsize=64)
def _schema(text: str) -> Schema:
    return Schema.read(json.loads(text))
