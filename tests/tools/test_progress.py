"""What people see on a terminal while something runs."""

from langgraph_mai.tools.rendering import Progress


def test_a_note_is_shown_as_it_is(capsys, monkeypatch):
    """Though square brackets are rich's markup, and log lines are full of them."""
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "200")
    with Progress() as progress:
        progress.start("starting the server")
        progress.note("starting the server", "[/shutdown] loading weights [1/2]")
    assert "[/shutdown] loading weights [1/2]" in capsys.readouterr().err
