"""Folders that hold no finished evaluation: one sentence says which file, and which line."""

import json

import pytest

from langgraph_mai import ConfigError
from langgraph_mai.benchmarks.report.evaluated import Evaluated

NEEDED = ("run.json", "questions.jsonl", "results.jsonl", "summary.json")
FILES = (*NEEDED, "timing.json", "timed.jsonl")


def refusal(folder) -> str:
    with pytest.raises(ConfigError) as caught:
        Evaluated.read(folder)
    said = str(caught.value)
    assert "Errno" not in said
    assert "\n" not in said
    return said


def changed(folder, name, change):
    """The second line of a file, or all of it, changed."""
    path = folder / name
    if name.endswith(".jsonl"):
        lines = path.read_text().splitlines()
        lines[1] = json.dumps(change(json.loads(lines[1])))
        path.write_text("\n".join(lines) + "\n")
    else:
        path.write_text(json.dumps(change(json.loads(path.read_text()))))


def test_a_file_that_is_missing_or_something_else_is_named(ten):
    assert "There is no folder" in refusal(ten / "nowhere")
    for name in FILES:
        whole = (ten / name).read_bytes()
        for text in (b"{}\n", b"3\n", b"null", b"[1]", b"\xff\xfe", b'{"id": '):
            (ten / name).write_bytes(text)
            assert name in refusal(ten)
        (ten / name).unlink()
        if name in NEEDED:
            assert f"({name}: No such file" in refusal(ten)
        (ten / name).mkdir()
        assert f"({name}: Is a directory)" in refusal(ten)
        (ten / name).rmdir()
        (ten / name).write_bytes(whole)
    Evaluated.read(ten)


def test_a_file_that_was_cut_anywhere_is_refused_or_whole(ten):
    for name in FILES:
        whole = (ten / name).read_bytes()
        for length in range(0, len(whole) - 1, max(1, len(whole) // 5)):
            (ten / name).write_bytes(whole[:length])
            # A time that is not there is not missed; every result is.
            between_lines = b"\n" in whole[max(0, length - 1) : length + 1]
            if name == "timed.jsonl" and (between_lines or not length):
                Evaluated.read(ten)
            else:
                assert ".json" in refusal(ten)
        (ten / name).write_bytes(whole)


CHANGES = [
    ("run.json", lambda it: {k: v for k, v in it.items() if k != "pair"}, "run.json: pair: Field"),
    ("run.json", lambda it: it | {"metric": "mine"}, "the metric 'mine' is unknown"),
    ("run.json", lambda it: it | {"models": {}}, "run.json: models.small: Field"),
    ("questions.jsonl", lambda it: it | {"answers": 3}, "questions.jsonl, line 2: answers: "),
    ("results.jsonl", lambda it: it | {"id": "q99"}, "questions.jsonl lacks the question 'q99'"),
    ("results.jsonl", lambda it: it | {"route": "best"}, "results.jsonl, line 2: route: "),
    ("summary.json", lambda _: [], "has 10 results of mai, summary.json none"),
    ("summary.json", lambda it: [it[0] | {"questions": 11}, *it[1:]], "summary.json 11"),
    ("timed.jsonl", lambda it: it | {"seconds": -1}, "timed.jsonl, line 2: seconds: "),
    ("timed.jsonl", lambda it: it | {"seconds": float("nan")}, "line 2: seconds: "),
]


def test_a_record_that_cannot_be_is_named(ten):
    for name, change, message in CHANGES:
        whole = (ten / name).read_bytes()
        changed(ten, name, change)
        assert message in refusal(ten)
        (ten / name).write_bytes(whole)
