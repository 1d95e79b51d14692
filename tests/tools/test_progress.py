"""What people see on a terminal while something runs."""

import itertools

from langgraph_mai.benchmarks.evaluation.runner import Pace
from langgraph_mai.tools.progress import EvaluationProgress, Progress


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
