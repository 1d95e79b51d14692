"""Readings of single outputs and verdicts on pairs of them, as data in `cases/`.

A case is a line: `check` is "parse" (`text` has this `value`, `unit` and `shown`) or "agree" (`a`
and `b` have this `verdict`, in either order); `or` names "unread" where an abstention is as good.
`source` is the public report that a case re-enacts, `about` what it stands for.
"""

import json
from pathlib import Path

import pytest

from langgraph_mai.answers import agree, parse

FILES = sorted((Path(__file__).parent / "cases").glob("*.jsonl"))


def fault(case):
    """What is wrong with the reading of a case; None if nothing is."""
    given = case["answer_type"], case.get("choices", ()), case.get("question", "")
    if case["check"] == "agree":
        a, b = (parse(case[side], *given) for side in "ab")
        verdict = agree(a, b)
        assert verdict == agree(b, a), case
        wanted = [case["verdict"], *(["abstain"] if case["verdict"] == "disagree" else [])]
        return None if verdict in wanted else (verdict, a.value, a.unit, b.value, b.unit)
    answer = parse(case["text"], *given)
    if answer.value is None and "unread" in case.get("or", ()):
        return None
    value = list(answer.value) if isinstance(answer.value, tuple) else answer.value
    wanted = case["value"]
    if isinstance(wanted, float):
        wanted = pytest.approx(wanted, rel=1e-12)
    same = value == wanted and isinstance(value, bool) == isinstance(case["value"], bool)
    expected = {key: case[key] for key in ("unit", "shown") if key in case}
    if same and all(getattr(answer, key) == said for key, said in expected.items()):
        return None
    return (answer.value, answer.unit, answer.shown)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_outputs_are_read_as_they_were_meant(path):
    cases = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    faults = [f"{case}\n  -> {found}" for case in cases if (found := fault(case))]
    assert not faults, "\n".join(faults)
