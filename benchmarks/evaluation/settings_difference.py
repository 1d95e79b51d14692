"""In what the settings of two evaluations differ, by the names of what differs."""

import json
from collections.abc import Iterator, Mapping
from typing import Any


def differing_settings(held: Mapping[str, Any], wanted: Mapping[str, Any]) -> list[str]:
    """Each setting that differs, with its keys that do; or with both values, if these are short.

    Args:
        held: The settings of before, by name; JSON values.
        wanted: Those of now.
    """
    return [
        f"{name} ({_difference(held.get(name), wanted.get(name))})"
        for name in dict.fromkeys([*wanted, *held])
        if held.get(name) != wanted.get(name)
    ]


def _difference(held: Any, wanted: Any) -> str:
    if isinstance(held, Mapping) and isinstance(wanted, Mapping):
        return ", ".join(_keys(held, wanted))
    return f"{_shown(held)}, now {_shown(wanted)}"


def _keys(held: Mapping[str, Any], wanted: Mapping[str, Any], above: str = "") -> Iterator[str]:
    for key in dict.fromkeys([*wanted, *held]):
        before, now = held.get(key), wanted.get(key)
        if before == now:
            continue
        if isinstance(before, Mapping) and isinstance(now, Mapping):
            yield from _keys(before, now, f"{above}{key}.")
        else:
            yield f"{above}{key}"


def _shown(value: Any) -> str:
    if isinstance(value, Mapping):
        return "some"
    text = "none" if value is None else json.dumps(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
