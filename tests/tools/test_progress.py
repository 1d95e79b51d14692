"""What people see on a terminal while something runs."""

import itertools

from langgraph_mai.tools.evaluation_progress import EvaluationProgress
from langgraph_mai.tools.rendering import Progress


def test_a_note_is_shown_as_it_is(capsys, monkeypatch):
    """Though square brackets are rich's markup, and log lines are full of them."""
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "200")
    with Progress() as progress:
        progress.start("starting the server")
        progress.note("starting the server", "[/shutdown] loading weights [1/2]")
    assert "[/shutdown] loading weights [1/2]" in capsys.readouterr().err


def test_a_line_in_a_log_says_how_fast_it_goes(capsys, monkeypatch):
    clock = itertools.count(step=31)
    monkeypatch.setattr("time.monotonic", lambda: next(clock))
    with EvaluationProgress("All is kept.") as progress:
        progress.go_on(0)
        progress.update("evaluating", 1, 12, 0.0, None)
        progress.go_on(821)
        progress.update("evaluating", 2, 12, 2.0, 5.0)
    first, second = capsys.readouterr().err.splitlines()
    assert first == "821 calls already stored; going on."
    assert second.startswith("evaluating 2/12 2.0/s, 0:00:05 left, ends at ")
