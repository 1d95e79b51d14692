"""Folders that hold no finished evaluation: one sentence says which file, and which line."""

import json

import pytest

from langgraph_mai import ConfigError
from langgraph_mai.benchmarks.report.evaluated import Evaluated

FILES = (
    "run.json",
    "questions.jsonl",
    "results.jsonl",
    "summary.json",
    "timing.json",
    "timed.jsonl",
)
NEEDED = FILES[:4]


def refusal(folder) -> str:
    with pytest.raises(ConfigError) as caught:
        Evaluated.read(folder)
    said = str(caught.value)
    assert "Errno" not in said
    assert "\n" not in said
    return said


def changed(folder, name, change):
    """The first record of a file, changed."""
    path = folder / name
    if name.endswith(".jsonl"):
        lines = path.read_text().splitlines()
        lines[1] = json.dumps(change(json.loads(lines[1])))
        path.write_text("\n".join(lines) + "\n")
    else:
        path.write_text(json.dumps(change(json.loads(path.read_text()))))


def test_a_folder_that_is_not_there_or_empty(tmp_path):
    assert "There is no folder" in refusal(tmp_path / "nowhere")
    assert "holds no finished evaluation (there is no run.json)" in refusal(tmp_path)


def test_a_file_that_is_missing_or_something_else_is_named(ten):
    for name in FILES:
        whole = (ten / name).read_bytes()
        for text in (b"{}\n", b"3\n", b"null", b"[1]", b"\xff\xfe", b'{"id": '):
            (ten / name).write_bytes(text)
            message = refusal(ten)
            assert "holds no finished evaluation" in message
            assert name in message
        (ten / name).unlink()
        if name in NEEDED:
            assert f"(there is no {name})" in refusal(ten)
        (ten / name).mkdir()
        assert f"({name}: Is a directory)" in refusal(ten)
        (ten / name).rmdir()
        (ten / name).write_bytes(whole)
    Evaluated.read(ten)


def test_a_line_with_something_else_in_it_is_named(ten):
    for name in ("questions.jsonl", "results.jsonl", "timed.jsonl"):
        whole = (ten / name).read_text()
        for text in ("{}", "3", "[]", "", '{"id": "q'):
            lines = whole.splitlines()
            lines[3] = text
            (ten / name).write_text("\n".join(lines))
            assert f"({name}, line 4: " in refusal(ten)
        (ten / name).write_text(whole)


def test_a_file_that_was_cut_anywhere_is_refused_or_whole(ten):
    for name in FILES:
        whole = (ten / name).read_bytes()
        for length in range(0, len(whole) - 1, max(1, len(whole) // 10)):
            (ten / name).write_bytes(whole[:length])
            # A time that is not there is not missed; every result is.
            between_lines = b"\n" in whole[max(0, length - 1) : length + 1]
            if name == "timed.jsonl" and (between_lines or not length):
                Evaluated.read(ten)
            else:
                assert ".json" in refusal(ten)
        (ten / name).write_bytes(whole)


CHANGES = [
    (
        "run.json",
        lambda it: {k: v for k, v in it.items() if k != "pair"},
        "run.json: pair: Field",
    ),
    ("run.json", lambda it: it | {"metric": "mine"}, "the metric 'mine' is unknown"),
    ("run.json", lambda it: it | {"models": {}}, "no large and no small model"),
    ("questions.jsonl", lambda it: it | {"answers": []}, "line 2: no accepted answer"),
    ("questions.jsonl", lambda it: it | {"id": "q0"}, "line 2: a second 'q0'"),
    ("results.jsonl", lambda it: it | {"id": "q99"}, "line 2: no question has the id 'q99'"),
    ("results.jsonl", lambda it: it | {"text": None}, "line 2: neither an output nor an error"),
    ("results.jsonl", lambda it: it | {"route": "best"}, "line 2: route: "),
    ("summary.json", lambda _: [], "summary.json says nothing of mai"),
    (
        "summary.json",
        lambda it: [it[0] | {"questions": 11}, *it[1:]],
        "has 10 of 11 results of",
    ),
    ("summary.json", lambda it: [it[0]], "summary.json says nothing of large_reason"),
    ("timed.jsonl", lambda it: it | {"seconds": -1}, "line 2: seconds: "),
    ("timed.jsonl", lambda it: it | {"seconds": float("nan")}, "line 2: seconds: "),
]


def test_a_record_that_cannot_be_is_named(ten):
    for name, change, message in CHANGES:
        whole = (ten / name).read_bytes()
        changed(ten, name, change)
        assert message in refusal(ten)
        (ten / name).write_bytes(whole)


def test_an_empty_or_shorter_file_is_no_finished_evaluation(ten):
    for name in ("results.jsonl", "questions.jsonl"):
        lines = (ten / name).read_text().splitlines()
        (ten / name).write_text("")
        assert f"({name} is empty)" in refusal(ten)
        (ten / name).write_text("\n".join(lines[:-1]) + "\n")
        missing = "no question has the id 'q9'" if name == "questions.jsonl" else "of 10 results"
        assert missing in refusal(ten)
        (ten / name).write_text("\n".join(lines) + "\n")
