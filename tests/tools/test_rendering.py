"""Tables as people see them: nothing is cut, and intervals stand where there is space."""

import itertools

from langgraph_mai.benchmarks.report.table import Table
from langgraph_mai.benchmarks.statistics import Estimate
from langgraph_mai.tools.rendering import show_tables

SCORE = Estimate(0.76, 0.721, 0.795, 500, 500)


def table(columns: int) -> Table:
    names = [f"a column of many words {number}" for number in range(columns)]
    rows = [("small_direct", *[SCORE] * columns), ("mai:sparse-L3-0.8", *[None] * columns)]
    return Table("scores", "Scores", ("strategy", *names), rows, notes=("A note.",))


def test_intervals_are_beside_their_values_or_below_them(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "20")
    show_tables([table(2)])
    title, *_, first, second, note, _ = capsys.readouterr().out.splitlines()
    assert (title, note) == ("Scores", "A note.")
    assert first.split() == ["small_direct", *["76.0", "(72.1", "to", "79.5)"] * 2]
    assert second.split() == ["mai:sparse-L3-0.8", "-", "-"]
    show_tables([table(12)])
    lines = capsys.readouterr().out.splitlines()
    values, intervals = next(
        pair for pair in itertools.pairwise(lines) if "small_direct" in pair[0]
    )
    assert values.split() == ["small_direct", *["76.0"] * 12]
    assert intervals.split() == ["(72.1", "to", "79.5)"] * 12
