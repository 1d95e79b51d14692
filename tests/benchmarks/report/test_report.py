import csv
import io
import json
import re
from dataclasses import replace
from html import unescape

import pytest

from langgraph_mai.benchmarks.estimates import Estimate
from langgraph_mai.benchmarks.report.cascade import cascade
from langgraph_mai.benchmarks.report.decoding import decoding
from langgraph_mai.benchmarks.report.economy import economy, economy_csv, routes_csv
from langgraph_mai.benchmarks.report.evaluated import Evaluated
from langgraph_mai.benchmarks.report.examples import route_examples
from langgraph_mai.benchmarks.report.page import page
from langgraph_mai.benchmarks.report.plots import economy_plot, plots
from langgraph_mai.benchmarks.report.table import Table, shown
from langgraph_mai.benchmarks.report.tables import tables
from langgraph_mai.benchmarks.report.verdict import verdict

from .conftest import call, cascade_result, reason_result, result, write_evaluation


def found(name: str, made: list[Table]) -> list[dict]:
    (table,) = (table for table in made if table.name == name)
    return [dict(zip(table.columns, row, strict=True)) for row in table.rows]


def test_the_cascade_in_numbers(ten):
    seen = cascade(Evaluated.read(ten))
    shares = {one.route: (one.share.value, one.accuracy.value) for one in seen.routes}
    assert shares == {
        "direct": (0.6, pytest.approx(5 / 6)),
        "reasoned": (0.2, 1.0),
        "transferred": (0.2, 0.5),
    }
    assert seen.agreement_wrong.value == pytest.approx(1 / 6)
    assert seen.reasoned_wrong.value == 0
    assert (seen.help.value, seen.harm.value) == (0.5, 0.5)
    assert seen.differences["large_reason"].value == pytest.approx(-0.1)
    assert seen.times["large_reason"].value == pytest.approx(0.25)


def test_tables_in_the_papers_form(ten):
    made = tables([Evaluated.read(ten)])
    (row,) = found("mai", made)
    assert row["pair"] == "S-2B + L-8B"
    counts = ("questions", "verified direct", "verified by reasoning", "reasoning transfer")
    assert [row[name] for name in counts] == [10, 6, 2, 2]
    assert row["MAI"].value == pytest.approx(0.8)
    assert row["full transfer"].value is None
    small, large = found("output_tokens", made)
    assert (small["S"].value, large["S"].value, large["R"].value) == (1, 1, 80)
    # The cascade's reasonings are those of disputed questions: no mean of all.
    assert small["R"].value is None
    assert found("times", made)[0]["total"].value == 10


def test_the_token_economy_counts_every_call_of_a_question(ten):
    large, cascade_point = economy([Evaluated.read(ten)])
    assert (large.model, large.role, large.style) == ("L-8B", "large", "R")
    assert (large.tokens.value, large.large_tokens.value) == (80, 80)
    assert large.score.value == pytest.approx(0.9)
    assert (cascade_point.model, cascade_point.style) == ("S-2B + L-8B", "MAI")
    # Two direct answers of a token each; four reasonings of 40 tokens; two transfers of one.
    assert cascade_point.tokens.value == pytest.approx(2 + 4 * 40 / 10 + 2 / 10)
    assert cascade_point.large_tokens.value == pytest.approx(1 + 2 / 10)
    _, row = found("token_economy", tables([Evaluated.read(ten)]))
    assert row["score"].value == pytest.approx(80)


def test_the_token_economy_and_the_routes_as_csv(ten):
    runs = [Evaluated.read(ten)]
    rows = list(csv.DictReader(io.StringIO(economy_csv(economy(runs)))))
    assert [(row["style"], float(row["score"])) for row in rows] == [("R", 90), ("MAI", 80)]
    (routes,) = csv.DictReader(io.StringIO(routes_csv(runs)))
    counts = ("questions", "verified_direct", "verified_by_reasoning", "reasoning_transfer")
    assert [int(routes[name]) for name in counts] == [10, 6, 2, 2]
    assert float(routes["reason_tokens_transferred"]) == 40
    assert float(routes["prompt_tokens"]) == 100
    assert float(routes["score_mai"]) == 80
    assert (routes["small"], routes["large"], routes["accept_rate"]) == ("S-2B", "L-8B", "")


def test_tokens_that_are_not_known_are_no_tokens(ten, tmp_path):
    results = [cascade_result(number) for number in range(10)]
    for one in results:
        one["calls"] = [call | {"output_tokens": None} for call in one["calls"]]
    run = Evaluated.read(write_evaluation(tmp_path / "untold", results))
    assert economy([run]) == []
    (routes,) = csv.DictReader(io.StringIO(routes_csv([run])))
    assert routes["reason_tokens_reasoned"] == routes["reason_tokens_transferred"] == ""


def test_the_token_economy_of_several_benchmarks_is_one_picture(ten):
    points = economy([Evaluated.read(ten)])
    other = [replace(point, benchmark="other") for point in points]
    for drawn in (points, [*points, *other]):
        assert economy_plot(drawn).startswith(b"\x89PNG")
    assert economy_plot([]) is None


def test_table_12_holds_speculation_beside_the_cascade(ten, tmp_path):
    run = Evaluated.read(ten)
    assert decoding([run], "typed").rows == ()  # nothing was decoded with a draft
    drafts = {"drafted_tokens": 10, "accepted_tokens": 9}
    results = [one(n) for n in range(10) for one in (cascade_result, reason_result)]
    for one in [one for one in results if one["strategy"] == "large_reason"]:
        calls = [call | drafts for call in one["calls"]]
        results.append({**one, "strategy": "speculative", "calls": calls})
    run = Evaluated.read(write_evaluation(tmp_path / "drafted", results))
    table = decoding([run], "typed")
    rows = {row[1]: dict(zip(table.columns, row, strict=True)) for row in table.rows}
    assert list(rows) == ["large_reason", "speculative", "mai"]
    assert rows["speculative"]["accept rate"].value == pytest.approx(90)
    assert rows["mai"]["accept rate"].value is None
    assert rows["mai"]["speedup"].value == pytest.approx(4)
    assert rows["large_reason"]["speedup"].value == pytest.approx(1)
    assert rows["speculative"]["total"].value is None  # it was not timed
    assert rows["speculative"]["score"].value == rows["large_reason"]["score"].value
    assert "decoding" in [one.name for one in tables([run])]
    (routes,) = csv.DictReader(io.StringIO(routes_csv([run])))
    assert float(routes["accept_rate"]) == 0.9
    assert routes["score_speculative"] == routes["score_large_reason"] == "90"
    drawn = {point.strategy: point for point in economy([run])}
    assert drawn["speculative"].style == "speculative"
    assert drawn["speculative"].role == "pair"


def test_table_15_verifies_disputed_questions_by_the_two_stage_answer(tmp_path):
    results = [cascade_result(number) for number in range(10)]
    for number in range(10):
        # Two-stage says yes: it verifies q6, q7 and q9, whose large direct answers are yes.
        calls = [call("small", "reason", "Answer: no", 40), call("small", "transfer", "yes", 1)]
        results.append(result(number, "small_two_stage", "transferred", calls, "yes"))
        calls = [call("small", "reason", "Answer: no", 40), call("large", "transfer", "yes", 1)]
        results.append(result(number, "full_transfer", "transferred", calls, "yes"))
    run = Evaluated.read(write_evaluation(tmp_path / "staged", results, timed=False))
    (row,) = found("two_stage_verification", tables([run]))
    assert (row["R verified"], row["R transfer"]) == (2, 2)
    assert row["R score"].value == pytest.approx(0.8)
    assert (row["two-stage verified"], row["two-stage transfer"]) == (3, 1)
    assert row["two-stage score"].value == pytest.approx(0.9)


def test_the_page_holds_everything_and_runs_nothing(ten):
    run = Evaluated.read(ten)
    html = page([run], tables([run]), [plots(run)], economy_plot(economy([run])))
    assert "Is number 9 &lt;red&gt;?" in html
    assert "&lt;b&gt;I looked&lt;/b&gt;" in html
    assert "<script" not in html
    # No reference to anything outside the page.
    assert set(re.findall(r'(?:src|href)="([a-z]+:[a-z/]+)', html)) == {
        "data:image/png",
        "data:image/jpeg",
    }
    for route in ("direct", "reasoned", "transferred"):
        assert f"Route {route}" in html
    assert verdict(cascade(run)).sentence in html.replace("&#39;", "'")


def test_examples_show_every_route_and_wrong_answers_first_of_all(ten):
    shown_examples = route_examples(Evaluated.read(ten), 2)
    by_route: dict[str, list[str]] = {}
    for one in shown_examples:
        by_route.setdefault(one.result["route"], []).append(one.question.id)
    assert by_route["direct"][0] == "q0"
    assert {route: len(ids) for route, ids in by_route.items()} == {
        "direct": 2,
        "reasoned": 2,
        "transferred": 2,
    }
    assert shown_examples[-1].verdicts[0].startswith("direct answers do not agree")


def test_failed_results_are_counted_and_in_no_score(tmp_path):
    results = [cascade_result(number) for number in range(10)]
    results[0] |= {"error": "The large model's direct call failed: gone."}
    run = Evaluated.read(write_evaluation(tmp_path / "part", results, timed=False))
    assert run.failed == {"mai": 1}
    assert found("mai", tables([run]))[0]["questions"] == 9
    assert run.score("mai", "typed").questions == 9


def test_cells_as_text():
    assert shown(Estimate(0.8649, 0.5, 0.9, 3)) == "86.5 (50.0 to 90.0)"
    assert shown(Estimate(0.7, 0.4, 0.9, 10, 3)) == "70.0 (40.0 to 90.0, 3 pictures)"
    assert shown(Estimate(0.7, 0.6, 0.8, 100, 20)) == "70.0 (60.0 to 80.0)"
    assert shown(Estimate(None, None, None, 0)) == shown(None) == "-"
    table = Table("t", "A title", ("a|b", "c"), (("x|y", 3),))
    assert table.markdown().splitlines()[-1] == "| x\\|y | 3 |"


@pytest.mark.parametrize("stranger", [{"id": "q99"}, {"strategy": "full_transfer"}])
def test_what_was_timed_beyond_the_results_is_named_and_in_no_ratio(ten, stranger):
    lines = [json.loads(line) for line in (ten / "timed.jsonl").read_text().splitlines()]
    lines += [{**one, **stranger, "seconds": 99.0} for one in lines if one["id"] == "q0"]
    (ten / "timed.jsonl").write_text("".join(json.dumps(one) + "\n" for one in lines))
    run = Evaluated.read(ten)
    assert cascade(run).times["large_reason"].value == pytest.approx(0.25)
    (table,) = (one for one in tables([run]) if one.name == "times")
    (note,) = table.notes
    assert ("1 of the timed questions" if "id" in stranger else "full_transfer") in note
    assert note in table.markdown()
    assert note in unescape(page([run], [table], [{}]))
