"""Tables in the paper's form, of ten questions about two images with known results."""

import csv
import io
import json
from html import unescape

import pytest

from langgraph_mai.benchmarks.report.economy import economy, economy_csv, routes_csv
from langgraph_mai.benchmarks.report.evaluated import Evaluated
from langgraph_mai.benchmarks.report.page import disagreement_records, page, route_examples
from langgraph_mai.benchmarks.report.table import Table, shown
from langgraph_mai.benchmarks.report.tables import tables
from langgraph_mai.benchmarks.statistics import Estimate

from .conftest import both, call, cascade_result, result, staged_results, write_evaluation


def direct(number, text):
    return result(number, "large_direct", "direct", [call("large", "direct", text, 1)], text)


def table_of(run, name, protocol="typed"):
    (table,) = (one for one in made(run, protocol) if one.name == name)
    return table


def made(run, protocol="typed"):
    return tables([run], economy([run], protocol), protocol)


def rows(run, name, protocol="typed"):
    table = table_of(run, name, protocol)
    return [dict(zip(table.columns, row, strict=True)) for row in table.rows]


def test_the_cascade_and_the_tables_in_the_papers_form(ten):
    run = Evaluated.read(ten)
    figures = ("share", "accuracy", "agreement wrong", "helped", "harmed")
    found = {
        row["route"]: [row[name] and row[name].value for name in figures]
        for row in rows(run, "routes")
    }
    assert found == {
        "direct": [0.6, pytest.approx(5 / 6), pytest.approx(1 / 6), None, None],
        "reasoned": [0.2, 1.0, 0.0, None, None],
        "transferred": [0.2, 0.5, None, 0.5, 0.5],
    }
    (gap,) = rows(run, "differences")
    assert gap["strategy"] == "large_reason"
    assert (gap["accuracy"].value, gap["time"].value) == pytest.approx((-0.1, 0.25))
    (row,) = rows(run, "mai")
    assert row["pair"] == "S-2B + L-8B"
    counts = ("questions", "verified direct", "verified by reasoning", "reasoning transfer")
    assert [row[name] for name in counts] == [10, 6, 2, 2]
    assert (row["MAI"].value, row["full transfer"].value) == (pytest.approx(0.8), None)
    small, large = rows(run, "output_tokens")
    assert (small["S"].value, large["S"].value, large["R"].value) == (1, 1, 80)
    # The cascade's reasonings are those of disagreeing questions: no mean of all.
    assert small["R"].value is None
    assert rows(run, "times")[0]["total"].value == 10


def test_the_token_economy_counts_every_call_of_a_question(ten):
    run = Evaluated.read(ten)
    large, cascade = economy([run])
    assert (large.model, large.role, large.style) == ("L-8B", "large", "R")
    assert (large.tokens.value, large.large_tokens.value) == (80, 80)
    assert large.score.value == pytest.approx(0.9)
    assert (cascade.model, cascade.style) == ("S-2B + L-8B", "MAI")
    # Two direct answers of a token each; four reasonings of 40 tokens; two transfers of one.
    assert cascade.tokens.value == pytest.approx(2 + 4 * 40 / 10 + 2 / 10)
    assert cascade.large_tokens.value == pytest.approx(1 + 2 / 10)
    assert rows(run, "token_economy")[1]["score"].value == pytest.approx(80)
    lines = list(csv.DictReader(io.StringIO(economy_csv([large, cascade]))))
    assert [(row["style"], float(row["score"])) for row in lines] == [("R", 90), ("MAI", 80)]
    (routes,) = csv.DictReader(io.StringIO(routes_csv([run], [large, cascade])))
    counts = ("questions", "verified_direct", "verified_by_reasoning", "reasoning_transfer")
    assert [int(routes[name]) for name in counts] == [10, 6, 2, 2]
    assert float(routes["reason_tokens_transferred"]) == 40
    assert (float(routes["prompt_tokens"]), float(routes["score_mai"])) == (100, 80)
    assert (routes["small"], routes["large"], routes["accept_rate"]) == ("S-2B", "L-8B", "")


def test_unknown_tokens_are_no_tokens(tmp_path):
    results = [cascade_result(number) for number in range(10)]
    for one in results:
        one["calls"] = [call | {"output_tokens": None} for call in one["calls"]]
    run = Evaluated.read(write_evaluation(tmp_path / "untold", results))
    assert economy([run]) == []
    (routes,) = csv.DictReader(io.StringIO(routes_csv([run], [])))
    assert routes["reason_tokens_reasoned"] == routes["reason_tokens_transferred"] == ""
    assert rows(run, "outputs")[0]["output tokens"].value is None


def test_table_12_holds_speculation_beside_the_cascade(ten, tmp_path):
    assert "decoding" not in [one.name for one in made(Evaluated.read(ten))]
    drafts = {"drafted_tokens": 10, "accepted_tokens": 9}
    results = both()
    for one in [one for one in results if one["strategy"] == "large_reason"]:
        calls = [call | drafts for call in one["calls"]]
        results.append({**one, "strategy": "speculative", "calls": calls})
    run = Evaluated.read(write_evaluation(tmp_path / "drafted", results))
    found = {row["method"]: row for row in rows(run, "decoding")}
    assert list(found) == ["large_reason", "speculative", "mai"]
    assert found["speculative"]["accept rate"].value == pytest.approx(90)
    assert found["mai"]["accept rate"].value is None
    assert found["mai"]["speedup"].value == pytest.approx(4)
    assert found["large_reason"]["speedup"].value == pytest.approx(1)
    assert found["speculative"]["total"].value is None  # it was not timed
    assert found["speculative"]["score"].value == found["large_reason"]["score"].value
    points = economy([run])
    (routes,) = csv.DictReader(io.StringIO(routes_csv([run], points)))
    assert float(routes["accept_rate"]) == 0.9
    assert routes["score_speculative"] == routes["score_large_reason"] == "90"
    (point,) = (point for point in points if point.strategy == "speculative")
    assert (point.style, point.role) == ("speculative", "pair")


def test_table_15_verifies_disagreeing_questions_by_the_two_stage_answer(tmp_path):
    # Two-stage says yes: it verifies q6, q7 and q9, whose large direct answers are yes.
    run = Evaluated.read(write_evaluation(tmp_path / "staged", staged_results(), timed=False))
    (row,) = rows(run, "two_stage_verification")
    assert (row["R verified"], row["R transfer"]) == (2, 2)
    assert row["R score"].value == pytest.approx(0.8)
    assert (row["two-stage verified"], row["two-stage transfer"]) == (3, 1)
    assert row["two-stage score"].value == pytest.approx(0.9)


def test_table_9_has_sparse_transfer_between_none_and_a_full_one(tmp_path):
    results = [direct(n, "yes") for n in range(10)]
    selection = {"kept_tokens": 10, "reasoning_tokens": 40, "reached": 0.85, "layer": 3}
    for n in range(10):
        transfer = call("large", "transfer", "yes" if n else "no", 1)
        results.append(result(n, "full_transfer", "transferred", [transfer], "yes"))
        calls = [transfer | {"selection": selection}]
        name = "full_transfer:sparse-L3-0.8"
        results.append(result(n, name, "transferred", calls, transfer["text"]))
    run = Evaluated.read(write_evaluation(tmp_path / "sparse", results, timed=False))
    nothing, sparse, full = rows(run, "sparse_transfer")
    assert (nothing["kept"], sparse["kept"], full["kept"]) == ("nothing", "80%", "full")
    assert (sparse["layer"], sparse["by"]) == ("L3", "attention")
    figures = [sparse[name].value for name in ("tokens", "% of all", "attention", "score")]
    assert figures == pytest.approx([10, 25, 85, 90])
    assert (full["tokens"].value, full["score"].value) == (40, 100)


def test_scores_under_every_protocol_and_of_every_part(tmp_path):
    """The large model's direct outputs are "Yes, yes" half of the time."""
    results = both() + [direct(n, "Yes, yes" if n % 2 else "yes") for n in range(10)]
    folder = write_evaluation(
        tmp_path / "parts",
        results,
        groups=lambda n: {"kind": "odd" if n % 2 else "even"} | ({"first": "yes"} if n < 3 else {}),
    )
    run = Evaluated.read(folder)
    found = {row["strategy"]: row for row in rows(run, "protocols")}
    assert found["large_direct"]["typed"].value == 1
    assert found["large_direct"]["strict"].value == 0.5
    assert found["large_reason"]["strict"].value == 0
    assert found["mai"]["lmms"].value is None
    (note,) = table_of(run, "protocols").notes
    assert note.startswith("ten: strict compares the whole output")
    assert note.endswith("(large_reason).")
    # Below the scores it stands only if those are strict.
    assert table_of(run, "scores", "strict").notes == [note]
    assert table_of(run, "scores", "typed").notes == []
    # A protocol that wants the bare answer disagrees with direct outputs only.
    named = {(one["strategy"], one["id"]) for one in disagreement_records(run)}
    assert named == {("large_direct", f"q{n}") for n in range(1, 10, 2)}
    even, odd, first = rows(run, "parts")
    assert [(row["part"], row["questions"]) for row in (even, odd, first)] == [
        ("kind: even", 5),
        ("kind: odd", 5),
        ("first: yes", 3),
    ]
    # q0 is the wrong agreement, q9 the transfer that harmed, q1 the wrong reasoning.
    assert (even["MAI"].value, odd["MAI"].value) == (0.8, 0.8)
    assert (even["large R"].value, odd["large R"].value) == (1.0, 0.8)
    assert first["MAI"].value == pytest.approx(2 / 3)
    assert (first["MAI"].questions, first["small S"].value) == (3, None)


def test_a_benchmark_with_a_script_of_its_own_disagrees_at_length_too(tmp_path):
    text = "I see no star. There is one on the right.\nAnswer: yes"
    calls = [call("large", "reason", text, 9)]
    results = [result(n, "large_reason", "reasoned", calls, text) for n in range(10)]
    run = Evaluated.read(write_evaluation(tmp_path / "p", results, timed=False, metric="pope"))
    assert len(disagreement_records(run)) == 10
    assert table_of(run, "protocols").notes == []


def test_many_unread_outputs_are_noted_and_failed_ones_are_in_no_score(tmp_path):
    for lost, noted in ((1, False), (2, True)):
        results = [direct(n, "I cannot tell" if n < lost else "yes") for n in range(10)]
        results += [
            one | {"strategy": "mai", "error": "Gone." if n else None}
            for n, one in enumerate(results)
        ]
        run = Evaluated.read(write_evaluation(tmp_path / str(lost), results, timed=False))
        assert rows(run, "outputs")[0]["unread"].value == 10 * lost
        notes = table_of(run, "scores").notes
        assert any(f"{10 * lost}% of large_direct" in note for note in notes) == noted
        assert run.failed == {"mai": 9}
        assert rows(run, "mai")[0]["questions"] == run.score("mai", "typed").questions == 1
    results = [one | {"error": "Gone."} for one in both()]
    run = Evaluated.read(write_evaluation(tmp_path / "none", results, timed=False))
    assert (made(run), run.failed) == ([], {"mai": 10, "large_reason": 10})


@pytest.mark.parametrize("stranger", [{"id": "q99"}, {"strategy": "full_transfer"}])
def test_what_was_timed_beyond_the_results_is_named_and_in_no_ratio(ten, stranger):
    lines = [json.loads(line) for line in (ten / "timed.jsonl").read_text().splitlines()]
    lines += [{**one, **stranger, "seconds": 99.0} for one in lines if one["id"] == "q0"]
    (ten / "timed.jsonl").write_text("".join(json.dumps(one) + "\n" for one in lines))
    run = Evaluated.read(ten)
    assert rows(run, "differences")[0]["time"].value == pytest.approx(0.25)
    table = table_of(run, "times")
    (note,) = table.notes
    assert ("1 of the timed questions" if "id" in stranger else "full_transfer") in note
    assert note in table.markdown()
    assert note in unescape(page([run], [table], [{}]))


def test_examples_show_every_route_and_wrong_answers_first(ten):
    found = route_examples(Evaluated.read(ten), 2)
    routes = [one["route"] for one in found]
    assert routes == ["direct"] * 2 + ["reasoned"] * 2 + ["transferred"] * 2
    assert found[0]["question"].id == "q0"
    assert found[-1]["verdicts"][0].startswith("direct answers do not agree")


def test_cells_as_text_and_as_records():
    assert shown(Estimate(0.8649, 0.5, 0.9, 3)) == "86.5 (50.0 to 90.0)"
    assert shown(Estimate(0.7, 0.4, 0.9, 10, 3)) == "70.0 (40.0 to 90.0, 3 images)"
    assert shown(Estimate(0.7, 0.6, 0.8, 100, 20)) == "70.0 (60.0 to 80.0)"
    assert shown(Estimate(None, None, None, 0)) == shown(None) == "-"
    table = Table("t", "A title", ("a|b", "c", "d"), (("x|y", 3, Estimate(0.5, None, None, 4)),))
    assert table.markdown().splitlines()[-1] == "| x\\|y | 3 | 50.0 |"
    count, half = table.records()
    assert (count["table"], count["a|b"], count["name"], count["value"]) == ("t", "x|y", "c", 3)
    assert (half["name"], half["value"], half["questions"]) == ("d", 0.5, 4)
