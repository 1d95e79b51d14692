"""What people see on a terminal while something runs."""

import itertools

import pytest
import typer

from langgraph_mai import ModelError
from langgraph_mai.benchmarks.evaluation.runner import Pace
from langgraph_mai.nodes.state import ModelCall
from langgraph_mai.tools.errors import reports_errors
from langgraph_mai.tools.progress import EvaluationProgress, Progress
from langgraph_mai.tools.rendering import show_result


def test_a_note_is_shown_as_it_is(capsys, monkeypatch):
    """Though square brackets are rich's markup, and log lines are full of them."""
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "200")
    with Progress() as progress:
        progress.start("starting the server")
        progress.note("starting the server", "[/shutdown] loading weights [1/2]")
    assert "[/shutdown] loading weights [1/2]" in capsys.readouterr().err


def test_a_line_in_a_log_tells_the_pace_and_what_failed(capsys, monkeypatch):
    clock = itertools.count(step=31)
    monkeypatch.setattr("time.monotonic", lambda: next(clock))
    pace = Pace(12)
    with EvaluationProgress("All is kept.") as progress:
        progress.resume(0)
        pace.advance()
        progress.update("evaluating", pace)
        progress.resume(821)
        pace.advance()
        progress.show("evaluating", pace, "7, mai", "The model\nis [away].")
    first, second, third = capsys.readouterr().err.splitlines()
    assert first == "821 calls already stored; resuming."
    assert second.startswith("evaluating 2/12 0.0/s, 0:")
    assert " left, ends at " in second
    assert third == "failed 7, mai: The model is [away]."


HOSTILE = "yes\x1b]0;owned\x07\x1b[2J\x9b31m\u202eno\u2066\r\b"


def test_what_others_say_moves_no_cursor_and_turns_no_line(capsys):
    """Models, servers and files may say it: in an answer, an error, a note."""
    call = dict.fromkeys(ModelCall.__required_keys__) | {
        "role": "small", "style": "reason", "text": HOSTILE, "answer": HOSTILE, "error": HOSTILE,
        "seconds": 1.0, "cached": False, "images": 1,
    }  # fmt: skip
    result = {
        "answer": HOSTILE,
        "images": [],
        "route": "direct",
        "fallback": None,
        "calls": [call],
        "confidence": None,
        "gate": None,
    }
    show_result(result, [HOSTILE], show_reasoning=True)

    @reports_errors
    def fail():
        error = ModelError(HOSTILE)
        error.add_note(HOSTILE)
        raise error

    with pytest.raises(typer.Exit):
        fail()
    shown = capsys.readouterr()
    for text in (shown.out, shown.err):
        assert "yes" in text
        assert not set("\x1b\x07\x9b\u202e\u2066\r\b") & set(text)
