"""Objects of typed fields: their schema, what a model's JSON says of each field, agreement.

A schema is an object of scalars, enums, lists of scalars, lists of flat objects, and one level of
nested objects. Nested fields are named with a point: "vendor.name".
"""

import json
import math
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, time
from typing import Annotated, Any, Literal, NotRequired

from pydantic import BaseModel, Field, TypeAdapter, ValidationError
from typing_extensions import TypedDict

from .answer import Answer, Verdict, agree, parse
from .final_answer import declines, without_thinking
from .plain_text import plain
from .questions import AnswerType
from .short_texts import compared_form, read_items

_SCALARS: dict[Any, tuple[AnswerType, Any, str]] = {
    "boolean": ("yes_no", bool, "true or false"),
    "integer": ("number", int, "number"),
    "number": ("number", float, "number"),
    "string": ("short_text", str, "string"),
    "date": ("short_text", date, "YYYY-MM-DD"),
    "time": ("short_text", time, "hh:mm:ss"),
    "date-time": ("short_text", datetime, "YYYY-MM-DDThh:mm:ss"),
}
_LIMITS = {
    "minimum": "ge", "maximum": "le", "exclusiveMinimum": "gt", "exclusiveMaximum": "lt",
    "multipleOf": "multiple_of", "minLength": "min_length", "maxLength": "max_length",
    "pattern": "pattern", "minItems": "min_length", "maxItems": "max_length",
}  # fmt: skip
_KNOWN = {
    "title", "description", "default", "examples", "additionalProperties", "type", "enum", "const",
    "format", "items", "properties", "required", "anyOf", *_LIMITS,
}  # fmt: skip
_OBJECTS_TRIED = 50  # An output with more braces loops.
_ROWS = 100
_PARTS = 5_000
"""How many values a schema may consist of, each reference replaced by what it names."""
_MISSING: Any = object()


class SchemaError(ValueError):
    """A schema that is not supported; the message names what is not."""


class Reading(TypedDict):
    """What a model says of one field.

    Attributes:
        value: JSON data, None for null.
        written: The same as the model wrote it.
        probability: That of the value's tokens; missing where the model tells none.
    """

    value: Any
    written: str
    probability: NotRequired[float]


@dataclass(frozen=True, slots=True)
class SchemaField:
    """One field of a schema.

    Attributes:
        name: Its name; a nested one's has a point.
        kind: How its values compare; "objects" for a list of objects.
        form: What prompts say of it.
        schema: Its JSON schema, without references.
        adapter: Validates a value.
        required: Whether an object must have it.
        nullable: Whether it may be null.
        choices: The values of an enum.
        items: The fields of a list's objects, or the one of its scalars.
    """

    name: str
    kind: AnswerType | Literal["objects"]
    form: str
    schema: dict[str, Any]
    adapter: TypeAdapter[Any]
    required: bool
    nullable: bool
    choices: tuple[Any, ...] = ()
    items: "tuple[SchemaField, ...]" = ()


@dataclass(frozen=True, slots=True)
class Schema:
    """The fields of an object, in order."""

    fields: tuple[SchemaField, ...]

    @classmethod
    def read(cls, schema: Any) -> "Schema":
        """Read a JSON schema or a pydantic model.

        Raises:
            SchemaError: It is neither, or holds what is not supported.
        """
        whole = json_schema(schema)
        try:
            return cls(tuple(_fields(_resolved(whole, whole, iter(range(_PARTS))))))
        except SchemaError:
            raise
        except RecursionError as error:
            raise SchemaError("It refers to itself, or nests too deeply.") from error
        except (AttributeError, LookupError, TypeError, ValueError) as error:
            raise SchemaError(f"It is no valid JSON schema ({error}).") from error

    def only(self, names: Collection[str]) -> "Schema":
        """Return the schema of some fields."""
        return Schema(tuple(one for one in self.fields if one.name in names))

    def forms(self) -> dict[str, str]:
        """Return what prompts say of the fields, by the object's own keys."""
        forms = _nested({one.name: one.form for one in self.fields})
        return {
            key: form if isinstance(form, str) else _braced(form) for key, form in forms.items()
        }

    def json_schema(self) -> dict[str, Any]:
        """Return the JSON schema of these fields, for constrained decoding."""
        whole: dict[str, Any] = _object()
        for one in self.fields:
            first, point, rest = one.name.partition(".")
            into = whole["properties"].setdefault(first, _object()) if point else whole
            into["properties"][rest if point else first] = one.schema
            into["required"] += [rest if point else first] if one.required else []
            if point and first not in whole["required"]:
                whole["required"].append(first)
        return whole

    def read_object(self, text: str) -> dict[str, Reading]:
        """Return what a model's output says of the fields, without those that it lacks.

        The last JSON object with one of the keys counts. If none can be read whole (the output is
        cut off, say), each value that can be is taken.
        """
        visible = without_thinking(text) or ""
        keys = dict.fromkeys(one.name.partition(".")[0] for one in self.fields)
        found = _last_object(visible, keys) or {key: _value_of(visible, key) for key in keys}
        readings: dict[str, Reading] = {}
        for one in self.fields:
            first, point, rest = one.name.partition(".")
            raw = found.get(first, _MISSING)
            if point:
                raw = raw.get(rest, _MISSING) if isinstance(raw, Mapping) else _MISSING
            if raw is not _MISSING and (reading := _read(one, raw)):
                readings[one.name] = reading
        return readings

    def check(self, readings: Any) -> None:
        """Refuse what `read_object` does not return.

        Raises:
            SchemaError: It is something else.
        """
        fields = {one.name: one for one in self.fields}
        for name, reading in TypeAdapter(dict[str, Reading]).validate_python(readings).items():
            raw = _decoder.decode(json.dumps(reading["value"]))
            if name not in fields or _read(fields[name], raw) is None:
                raise SchemaError(f"It has no such field as {name!r:.80}, or not of this value.")

    def build(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """Return the object of some fields' values, its keys in the schema's order."""
        return _nested({one.name: values[one.name] for one in self.fields if one.name in values})


def json_schema(schema: Any) -> dict[str, Any]:
    """Return a pydantic model's JSON schema, or the JSON schema that is one already.

    Raises:
        SchemaError: It is neither.
    """
    if isinstance(schema, type) and issubclass(schema, BaseModel):
        return schema.model_json_schema()
    if isinstance(schema, Mapping) and isinstance(schema.get("properties"), Mapping):
        return dict(schema)
    raise SchemaError(
        "A schema must be a pydantic model or the JSON schema of an object with properties, not "
        f"{schema!r:.80}."
    )


def fields_agree(
    field: SchemaField,
    first: Reading | None,
    second: Reading | None,
    compare: Callable[[Answer, Answer], Verdict] = agree,
) -> Verdict:
    """Return whether two readings of a field say the same; "abstain" where one is missing.

    A field that need not be there may be missing in both. Lists of objects are the same if their
    objects can be paired so that all fields of every pair agree.
    """
    if first is None or second is None:
        return "agree" if first is second and not field.required else "abstain"
    if first["value"] is None or second["value"] is None:
        return "agree" if first["value"] is second["value"] else "disagree"
    if field.kind != "objects":
        return compare(field_answer(field, first), field_answer(field, second))

    def alike(row: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
        return all(
            fields_agree(item, _cell(row, item), _cell(other, item), compare) == "agree"
            for item in field.items
        )

    rows, others = first["value"], second["value"]
    pairs = [[at for at, other in enumerate(others) if alike(row, other)] for row in rows]
    return "agree" if len(rows) == len(others) and _can_pair(pairs) else "disagree"


def field_answer(field: SchemaField, reading: Reading) -> Answer:
    """Return a reading of a scalar or of a list of scalars as the answer that compares."""
    value, written = reading["value"], reading["written"]
    if field.kind == "number":
        read = parse(written, "number")
        return Answer("number", float(value), written, read.unit if read.value == value else "")
    if field.kind == "list":
        return Answer("list", tuple(compared_form(plain(str(one))) for one in value), written)
    if field.kind == "short_text":
        return Answer("short_text", compared_form(plain(written)), written)
    choice = field.kind == "choice"
    return Answer("choice" if choice else "yes_no", str(value) if choice else value, written)


class _Literal(str):
    """A number as JSON writes it."""

    __slots__ = ()


_decoder = json.JSONDecoder(parse_float=_Literal, parse_int=_Literal, strict=False)


def _object() -> dict[str, Any]:
    return {"type": "object", "properties": {}, "required": [], "additionalProperties": False}


def _resolved(node: Any, whole: Mapping[str, Any], left: Iterator[int]) -> Any:
    """Return a part of a schema with what its references name in their places.

    A few lines of them can stand for more than any memory holds: `left` bounds the result.
    """
    if next(left, None) is None:
        raise SchemaError(f"It is too large: it may have {_PARTS} parts, or refers to itself.")
    if isinstance(node, list):
        return [_resolved(one, whole, left) for one in node]
    if not isinstance(node, Mapping):
        return node
    others = {key: one for key, one in node.items() if key not in {"$ref", "$defs"}}
    if not isinstance(node.get("$ref"), str):
        others = {key: one for key, one in node.items() if key != "$defs"}
        return {key: _resolved(one, whole, left) for key, one in others.items()}
    target: Any = whole
    for part in node["$ref"].removeprefix("#/").split("/"):
        target = target[part.replace("~1", "/").replace("~0", "~")]
    return _resolved({**target, **others}, whole, left)


def _fields(node: Mapping[str, Any]) -> Iterator[SchemaField]:
    for name, one, required in _properties(node, "schema"):
        if isinstance(one, Mapping) and one.get("type") == "object" and required:
            for key, inner, needed in _properties(one, name):
                yield _field(f"{name}.{key}", inner, needed)
        else:
            yield _field(name, one, required)


def _properties(node: Mapping[str, Any], name: str) -> list[tuple[str, Any, bool]]:
    properties = node.get("properties")
    if not isinstance(properties, Mapping) or not properties or any("." in k for k in properties):
        raise SchemaError(
            f"The object {name!r} must have properties, with no point in their names."
        )
    return [(key, one, key in (node.get("required") or ())) for key, one in properties.items()]


def _field(name: str, node: Any, required: bool, *, deep: bool = False) -> SchemaField:
    schema = dict(node) if isinstance(node, Mapping) else {}
    options = schema.pop("anyOf", None) or [{}]
    types = schema.get("type")
    types = types if isinstance(types, list) else [types]
    nullable = {"type": "null"} in options or "null" in types
    bare: dict[str, Any] = next((one for one in options if one != {"type": "null"}), {}) | schema
    if isinstance(schema.get("type"), list):
        bare["type"] = next((one for one in types if one != "null"), None)
    several = len(options) + len(types) - 2 * nullable > 2 - nullable
    if unknown := sorted(bare.keys() - _KNOWN):
        raise SchemaError(f"The field {name!r} uses {unknown[0]!r}, which is not supported.")
    kind: AnswerType | Literal["objects"]
    accepted: Any = Any
    items: tuple[SchemaField, ...] = ()
    choices = tuple(bare.get("enum") or ([bare["const"]] if "const" in bare else ()))
    content = bare.get("items") or {}
    scalar = bare.get("format") if bare.get("format") in _SCALARS else bare.get("type")
    if choices and all(isinstance(one, str | int | float) for one in choices):
        kind, form = "choice", " or ".join(json.dumps(one, ensure_ascii=False) for one in choices)
    elif bare.get("type") == "array" and content.get("type") == "object" and not deep:
        kind, accepted, inner = "objects", list[Any], _properties(content, name)
        items = tuple(_field(key, one, needed, deep=True) for key, one, needed in inner)
        form = f"[{_braced({one.name: one.form for one in items})}, ...]"
    elif bare.get("type") == "array" and not deep:
        kind, accepted = "list", list[Any]
        items = (_field(name, content, required=True, deep=True),)
        form = f"[{items[0].form}, ...]"
    elif scalar in _SCALARS and not several:
        kind, accepted, form = _SCALARS[scalar]
    else:
        raise SchemaError(
            f"The field {name!r} is of a type that is not supported ({str(node)[:60]}): use "
            "scalars, enums, lists of those or of flat objects, and required objects of those."
        )
    form += " or null" if nullable else ""
    form += f" ({' '.join(bare['description'].split())})" if bare.get("description") else ""
    limits = {_LIMITS[key]: bare[key] for key in bare.keys() & _LIMITS.keys()}
    try:
        adapter: TypeAdapter[Any] = TypeAdapter(Annotated[accepted, Field(**limits)])
    except Exception as error:
        raise SchemaError(f"The limits of the field {name!r} do not fit its type.") from error
    return SchemaField(name, kind, form, dict(node), adapter, required, nullable, choices, items)


def _nested(flat: Mapping[str, Any]) -> dict[str, Any]:
    made: dict[str, Any] = {}
    for name, value in flat.items():
        first, point, rest = name.partition(".")
        if point:
            made.setdefault(first, {})[rest] = value
        else:
            made[first] = value
    return made


def _braced(forms: Mapping[str, str]) -> str:
    return "{" + ", ".join(f'"{name}": {form}' for name, form in forms.items()) + "}"


def _decoded(text: str, start: int) -> tuple[Any, int]:
    try:
        return _decoder.raw_decode(text, start)
    except (ValueError, RecursionError):
        return _MISSING, start


def _last_object(text: str, keys: Collection[str]) -> dict[str, Any] | None:
    found, position = None, text.find("{")
    for _ in range(_OBJECTS_TRIED):
        value, end = _decoded(text, position) if position >= 0 else (None, 0)
        if isinstance(value, dict) and not value.keys().isdisjoint(keys):
            found = value
        position = text.find("{", max(end, position + 1)) if position >= 0 else -1
    return found


def value_span(text: str, name: str) -> tuple[int, int] | None:
    """Return where the value of a field stands in JSON, as (start, end); None if nowhere."""
    end = 0
    for key in name.split("."):
        found = re.compile(rf'"{re.escape(key)}"\s*:\s*').search(text, end)
        if found is None:
            return None
        end = found.end()
    value, stop = _decoded(text, end)
    return None if value is _MISSING else (end, stop)


def _value_of(text: str, key: str) -> Any:
    """Return the value after a key in JSON that cannot be read whole."""
    start, end = value_span(text, key) or (0, 0)
    # A number that nothing ends may go on.
    return _decoded(text, start)[0] if re.match(r"\s*[,}]", text[end:]) and end else _MISSING


def _read(field: SchemaField, raw: Any) -> Reading | None:
    """Return a field's value; None for what is no such value."""
    if raw is None:
        return Reading(value=None, written="null") if field.nullable else None
    if field.kind in {"list", "objects"}:
        return _read_rows(field, raw)
    if not isinstance(raw, str | bool):
        return None
    value: Any = None
    written = raw.strip() if isinstance(raw, str) else json.dumps(raw)
    if field.kind == "choice":
        value = _chosen(field.choices, written)
    elif field.kind == "yes_no":
        value = raw if isinstance(raw, bool) else parse(raw, "yes_no").value
    elif field.kind == "number":
        number = float(raw) if isinstance(raw, _Literal) else parse(written, "number").value
        if isinstance(number, float) and math.isfinite(number):
            short = field.schema.get("type") == "integer" or written.isdecimal()
            value = int(number) if short and number.is_integer() else number
    elif written and not declines(plain(written)):
        value = written
    return _validated(field, value, written)


def _validated(field: SchemaField, value: Any, written: str) -> Reading | None:
    try:
        field.adapter.validate_python(value)
    except (TypeError, ValidationError):  # also limits of another type
        return None
    return None if value is None else Reading(value=value, written=written)


def _chosen(choices: Sequence[Any], written: str) -> Any:
    texts = [str(one) for one in choices]
    for at, text in enumerate(texts):
        if text.casefold() == written.casefold():
            return choices[at]
    letter = parse(written, "choice", texts).value
    return choices[ord(letter) - ord("A")] if isinstance(letter, str) else None


def _read_rows(field: SchemaField, raw: Any) -> Reading | None:
    """Return a list; None if it or one of its items is none."""
    if isinstance(raw, str) and field.kind == "list":
        raw = list(read_items(plain(raw)) or ())
    if not isinstance(raw, list) or len(raw) > _ROWS:
        return None
    rows: list[Any] = []
    written: list[str] = []
    for one in raw:
        source = one if field.kind == "objects" else {field.items[0].name: one}
        if not isinstance(source, dict):
            return None
        cells = {item.name: _read(item, source.get(item.name)) for item in field.items}
        if any(item.required and not cells[item.name] for item in field.items):
            return None
        values = {name: cell["value"] for name, cell in cells.items() if cell}
        rows.append(values if field.kind == "objects" else values[field.items[0].name])
        written.append(", ".join(cell["written"] for cell in cells.values() if cell))
    return _validated(field, rows, "; ".join(written))


def _cell(row: Mapping[str, Any], item: SchemaField) -> Reading | None:
    if item.name not in row:
        return None
    return Reading(value=row[item.name], written=str(row[item.name]))


def _can_pair(pairs: Sequence[Collection[int]]) -> bool:
    """Return whether each row can have a partner of its own (augmenting paths)."""
    partner: dict[int, int] = {}

    def place(row: int, tried: set[int]) -> bool:
        for other in pairs[row]:
            if other not in tried:
                tried.add(other)
                if other not in partner or place(partner[other], tried):
                    partner[other] = row
                    return True
        return False

    return all(place(row, set()) for row in range(len(pairs)))
