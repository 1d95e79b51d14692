import json
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from langgraph_mai import ConfigError
from langgraph_mai.benchmarks.estimates import Estimate, mean, quantile, ratio, share
from langgraph_mai.benchmarks.metrics import score
from langgraph_mai.benchmarks.question import Benchmark, BenchmarkQuestion
from langgraph_mai.benchmarks.report.by_image import f1_by_image
from langgraph_mai.benchmarks.report.cascade import Cascade, cascade, verdict
from langgraph_mai.benchmarks.report.decoding import decoding
from langgraph_mai.benchmarks.report.evaluated import Evaluated
from langgraph_mai.benchmarks.report.examples import disagreements, route_examples
from langgraph_mai.benchmarks.report.given import with_given
from langgraph_mai.benchmarks.report.page import page
from langgraph_mai.benchmarks.report.plots import plots
from langgraph_mai.benchmarks.report.table import Table, shown
from langgraph_mai.benchmarks.report.tables import tables

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
    assert row["R accuracy"].value == pytest.approx(0.8)
    assert (row["two-stage verified"], row["two-stage transfer"]) == (3, 1)
    assert row["two-stage accuracy"].value == pytest.approx(0.9)


@pytest.mark.parametrize(
    ("gap", "time", "said"),
    [
        ((0.0, -0.005, 0.005), (0.3, 0.2, 0.4), "It pays"),
        ((-0.05, -0.08, -0.02), (0.3, 0.2, 0.4), "pays where that loss is worth the time"),
        ((-0.02, -0.08, 0.02), (0.3, 0.2, 0.4), "so few questions do not tell"),
        ((0.0, 0.0, 0.0), (1.5, 1.2, 1.8), "It does not pay: it is no faster"),
        ((0.0, 0.0, 0.0), (1.0, 0.8, 1.2), "Whether it is faster, so few questions"),
        ((0.0, 0.0, 0.0), None, "time both with --timed"),
        (None, None, "was not evaluated beside it"),
    ],
)
def test_whether_it_pays(gap, time, said):
    nothing = Estimate(None, None, None, 0)
    seen = Cascade(
        routes=(),
        agreement_wrong=nothing,
        reasoned_wrong=nothing,
        help=nothing,
        harm=nothing,
        differences={} if gap is None else {"large_reason": Estimate(*gap, 100)},
        times={} if time is None else {"large_reason": Estimate(*time, 100)},
    )
    assert said in verdict(seen)


def test_the_page_holds_everything_and_runs_nothing(ten):
    run = Evaluated.read(ten)
    html = page([run], tables([run]), [plots(run)])
    assert "Is number 9 &lt;red&gt;?" in html
    assert "&lt;b&gt;It seems&lt;/b&gt;" in html
    assert "<script" not in html
    # No reference to anything outside the page.
    assert set(re.findall(r'(?:src|href)="([a-z]+:[a-z/]+)', html)) == {
        "data:image/png",
        "data:image/jpeg",
    }
    for route in ("direct", "reasoned", "transferred"):
        assert f"Route {route}" in html
    assert verdict(cascade(run)) in html.replace("&#39;", "'")


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


def test_outputs_that_protocols_grade_differently_are_all_named(ten):
    # Under the strict protocol only the bare word counts.
    named = list(disagreements(Evaluated.read(ten)))
    assert named == [("large_reason", f"q{n}") for n in range(10) if n != 1]


def test_plots_are_pictures(ten):
    made = plots(Evaluated.read(ten))
    assert set(made) == {"cost", "routes"}
    assert all(png.startswith(b"\x89PNG") for png in made.values())


def test_failed_results_are_counted_and_in_no_score(tmp_path):
    results = [cascade_result(number) for number in range(10)]
    results[0] |= {"error": "The large model's direct call failed: gone."}
    run = Evaluated.read(write_evaluation(tmp_path / "part", results, timed=False))
    assert run.failed == {"mai": 1}
    assert found("mai", tables([run]))[0]["questions"] == 9
    assert run.score("mai", "typed").questions == 9


def test_published_figures_stand_below_ours(ten, tmp_path):
    styles = tmp_path / "styles.csv"
    styles.write_text("model,benchmark,style,f1\nX-2B,Ten,S,88.6\nX-2B,Ten,R,88.4\nX,Other,S,1\n")
    wide = tmp_path / "wide.csv"
    wide.write_text("benchmark,questions,verified_direct,mai_score\nTEN,9000,8507,89.4\n")
    made = with_given(tables([Evaluated.read(ten)]), [str(styles), str(wide)])
    row = found("scores", made)[-1]
    assert (row["model"], row["benchmark"], row["metric"]) == ("X-2B", "Ten (given)", "f1")
    assert (row["S"], row["E"], row["R"]) == ("88.6", None, "88.4")
    assert len(found("scores", made)) == 3
    row = found("mai", made)[-1]
    assert (row["questions"], row["verified direct"], row["MAI"]) == ("9000", "8507", "89.4")


def test_published_figures_in_another_form_are_refused(ten, tmp_path):
    other = tmp_path / "other.csv"
    other.write_text("name,value\nx,1\n")
    with pytest.raises(ConfigError, match="its columns are name, value"):
        with_given(tables([Evaluated.read(ten)]), [str(other)])
    with pytest.raises(ConfigError, match="There is no file"):
        with_given([], [str(tmp_path / "gone.csv")])


def test_no_difference_on_few_questions_proves_little(tmp_path):
    results = [cascade_result(number) for number in range(10)]
    results += [{**one, "strategy": "large_reason"} for one in results]
    run = Evaluated.read(write_evaluation(tmp_path / "same", results, timed=False))
    gap = cascade(run).differences["large_reason"]
    assert gap.value == 0
    assert gap.low == -gap.high < -0.2


def test_a_folder_without_results_is_named(tmp_path):
    with pytest.raises(ConfigError, match="There is no folder"):
        Evaluated.read(tmp_path / "nowhere")
    with pytest.raises(ConfigError, match="holds no finished evaluation"):
        Evaluated.read(tmp_path)
    (tmp_path / "run.json").write_text(json.dumps([1]))
    with pytest.raises(ConfigError, match="holds no finished evaluation"):
        Evaluated.read(tmp_path)


def test_intervals_are_wider_where_questions_share_a_picture():
    values = [1.0, 0.0] * 100
    alone = mean(values)
    together = mean(values, [number % 20 for number in range(200)])
    assert alone.value == together.value == 0.5
    assert alone.low < 0.5 < alone.high
    assert together.high - together.low > 2 * (alone.high - alone.low)
    assert mean(values) == alone
    assert alone.questions == 200


def test_scores_of_questions_that_share_pictures_are_drawn_by_picture(ten):
    run = Evaluated.read(ten)  # ten questions about two pictures
    by_question = next(
        one
        for one in run.summary
        if (one["strategy"], one["protocol"], one["metric"])
        == ("large_reason", "typed", "accuracy")
    )
    drawn = run.score("large_reason", "typed")
    assert drawn.value == by_question["value"]
    assert (drawn.low, drawn.high) == (0.8, 1.0) != (by_question["low"], by_question["high"])


@pytest.mark.parametrize("protocol", ["typed", "strict", "vlmevalkit", "lmms"])
def test_f1_drawn_by_picture_is_the_f1_of_the_metrics(protocol):
    said = ["yes", "no", "Yes, it is.", "maybe", "no", "yes", "", "No."]
    questions = tuple(
        BenchmarkQuestion(
            id=str(number),
            question="Is there a star?",
            images=(f"{number % 3}.png",),
            answers=("yes" if number % 2 else "no",),
            answer_type="yes_no",
        )
        for number in range(40)
    )
    texts = {one.id: said[int(one.id) * 3 % len(said)] for one in questions}
    benchmark = Benchmark(name="pope", questions=questions, prompts="pope", metric="pope")
    expected = next(
        one for one in score(benchmark, texts) if (one.protocol, one.metric) == (protocol, "f1")
    )
    drawn = f1_by_image(questions, texts, protocol, [one.images for one in questions])
    assert drawn.value == pytest.approx(expected.value)
    assert drawn.low < drawn.value < drawn.high


def test_estimates_of_nothing_and_of_one_question():
    assert mean([]) == ratio([1.0], [0.0]).__class__(None, None, None, 0)
    assert ratio([1.0], [0.0]).value is None
    assert mean([0.5]) == Estimate(0.5, None, None, 1)
    assert share([]).value is None
    assert quantile([], 0.5) is None
    assert quantile([1, 2, 3, 4], 0.5) == 2.5


def test_paired_ratios_are_narrower_than_their_parts():
    below = [float(1 + number % 7) for number in range(70)]
    double = ratio([2 * value for value in below], below)
    assert (double.value, double.low, double.high) == (2.0, 2.0, 2.0)


def test_cells_as_text():
    assert shown(Estimate(0.8649, 0.5, 0.9, 3)) == "86.5 (50.0 to 90.0)"
    assert shown(Estimate(None, None, None, 0)) == shown(None) == "-"
    table = Table("t", "A title", ("a|b", "c"), (("x|y", 3),))
    assert table.markdown().splitlines()[-1] == "| x\\|y | 3 |"


@settings(deadline=None)
@given(st.lists(st.tuples(st.booleans(), st.integers(0, 5)), min_size=1, max_size=40))
def test_an_interval_lies_within_what_was_seen(graded):
    values = [float(right) for right, _ in graded]
    seen = mean(values, [image for _, image in graded])
    assert seen.value == pytest.approx(sum(values) / len(values))
    if seen.low is None:
        assert len({image for _, image in graded}) == 1
    else:
        assert min(values) <= seen.low <= seen.high <= max(values)
