"""Scores under every protocol and of every part, with what has to be said of them."""

import pytest

from langgraph_mai.benchmarks.report.evaluated import Evaluated
from langgraph_mai.benchmarks.report.examples import disagreements
from langgraph_mai.benchmarks.report.tables import tables

from .conftest import call, cascade_result, reason_result, result, write_evaluation


def rows(run, name, protocol="typed"):
    (table,) = (one for one in tables([run], protocol) if one.name == name)
    return table, [dict(zip(table.columns, row, strict=True)) for row in table.rows]


def direct(number, text):
    return result(number, "large_direct", "direct", [call("large", "direct", text, 1)], text)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """The large model's direct outputs are "Yes, yes" half of the time."""
    results = [one(n) for n in range(10) for one in (cascade_result, reason_result)]
    results += [direct(n, "Yes, yes" if n % 2 else "yes") for n in range(10)]
    return write_evaluation(
        tmp_path_factory.mktemp("parts") / "ten",
        results,
        groups=lambda n: {"kind": "odd" if n % 2 else "even"} | ({"first": "yes"} if n < 3 else {}),
    )


def test_a_score_under_every_protocol_and_a_note_where_it_is_0_by_rule(folder):
    table, found = rows(Evaluated.read(folder), "protocols")
    by_name = {row["strategy"]: row for row in found}
    assert by_name["large_direct"]["typed"].value == 1
    assert by_name["large_direct"]["strict"].value == 0.5
    assert by_name["large_reason"]["strict"].value == 0
    assert by_name["mai"]["lmms"].value is None
    (note,) = table.notes
    assert note.startswith("ten: strict compares the whole output")
    assert note.endswith("(large_reason).")
    # Below the scores it stands only if those are strict.
    assert rows(Evaluated.read(folder), "scores", "strict")[0].notes == (note,)
    assert rows(Evaluated.read(folder), "scores", "typed")[0].notes == ()


def test_a_protocol_that_wants_the_bare_answer_disagrees_with_direct_outputs_only(folder):
    named = set(disagreements(Evaluated.read(folder)))
    assert named == {("large_direct", f"q{n}") for n in range(1, 10, 2)}


def test_a_benchmark_with_a_script_of_its_own_disagrees_at_length_too(tmp_path):
    text = "I see no star. There is one on the right.\nAnswer: yes"
    results = [
        result(n, "large_reason", "reasoned", [call("large", "reason", text, 9)], text)
        for n in range(10)
    ]
    run = Evaluated.read(write_evaluation(tmp_path / "p", results, timed=False, metric="pope"))
    assert len(list(disagreements(run))) == 10
    assert rows(run, "protocols")[0].notes == ()


def test_every_part_has_its_scores(folder):
    run = Evaluated.read(folder)
    _, found = rows(run, "parts")
    assert [(row["part"], row["questions"]) for row in found] == [
        ("kind: even", 5),
        ("kind: odd", 5),
        ("first: yes", 3),
    ]
    even, odd, first = found
    # q0 is the wrong agreement, q9 the transfer that harmed, q1 the wrong reasoning.
    assert (even["MAI"].value, odd["MAI"].value) == (0.8, 0.8)
    assert (even["large R"].value, odd["large R"].value) == (1.0, 0.8)
    assert first["MAI"].value == pytest.approx(2 / 3)
    assert first["MAI"].questions == 3
    assert first["small S"].value is None
    # Together they are the whole.
    whole = run.score("mai", "typed")
    assert whole.value == pytest.approx((even["MAI"].value + odd["MAI"].value) / 2)


def test_a_benchmark_without_parts_has_no_table_of_them(ten):
    assert "parts" not in {table.name for table in tables([Evaluated.read(ten)])}


@pytest.mark.parametrize(("lost", "noted"), [(0, False), (1, False), (2, True), (10, True)])
def test_many_unread_outputs_are_said_below_the_scores(tmp_path, lost, noted):
    results = [direct(n, "I cannot tell" if n < lost else "yes") for n in range(10)]
    run = Evaluated.read(write_evaluation(tmp_path / "lost", results, timed=False))
    assert run.unread("large_direct").value == lost / 10
    notes = rows(run, "scores")[0].notes
    assert bool(notes) == noted
    assert all(f"{10 * lost}% of large_direct" in note for note in notes)
