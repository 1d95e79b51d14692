"""Published figures beside ours: what is shown, what is warned of, what is refused."""

import json
import re
from pathlib import Path

import pytest

from langgraph_mai import ConfigError
from langgraph_mai.benchmarks.report.compared import read_predictions, with_published
from langgraph_mai.benchmarks.report.evaluated import Evaluated
from langgraph_mai.benchmarks.report.tables import tables

from .conftest import both, write_evaluation

DOCS = Path(__file__).parents[3] / "docs" / "evaluation.md"


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return Evaluated.read(write_evaluation(tmp_path_factory.mktemp("e") / "ten", both()))


@pytest.fixture(scope="module")
def ours(run):
    return tables([run], [])


@pytest.fixture
def compare(ours, tmp_path):
    """What comes of a file with this text."""

    def compared(text: str, name: str = "given.csv"):
        file = tmp_path / name
        file.write_text(text)
        return with_published(ours, [str(file)])

    return compared


def rows(compared, name):
    (table,) = (one for one in compared[0] if one.name == name)
    return [dict(zip(table.columns, row, strict=True)) for row in table.rows]


def test_figures_by_style_or_by_benchmark_stand_below_ours(compare):
    columns = {"S": "S", "direct": "S", "explain": "E", "reason": "R", "R_two_stage": "two-stage"}
    for style, column in columns.items():
        seen = compare(f"model,benchmark,style,score\nX,ten,{style},50\n")
        assert rows(seen, "scores")[-1][column] == "50.0"
    seen = compare("model,benchmark,style,f1\nX-2B,Ten,S,88.6\nX-2B,Ten,R,88\n", "paper.csv")
    *_, own, row = rows(seen, "scores")
    assert (row["model"], row["benchmark"], row["metric"]) == ("X-2B", "Ten (paper.csv)", "f1")
    assert (row["S"], row["E"], row["R"]) == ("88.6", None, "88.0")
    assert (own["model"], seen[1]) == ("L-8B", [])
    # A score is one of our metric, and empty cells stay empty.
    row = rows(compare("model,benchmark,style,score\nX,ten,S,95\nX,ten,E,\n"), "scores")[-1]
    assert (row["metric"], row["S"], row["E"]) == ("accuracy", "95.0", None)
    row = rows(compare("benchmark,questions,verified_direct,mai_score\nTEN,9000,8507,89\n"), "mai")
    assert [row[-1][key] for key in ("questions", "verified direct", "MAI")] == [
        "9000",
        "8507",
        "89.0",
    ]


UNKNOWN_ROWS = [
    (
        "model,benchmark,style,score\nX,ten,S,1\nX,other,S,1\nX,ten,loud,1\nX,other,R,1\n",
        "3 of 4 rows of .* here: no benchmark 'other'; no style 'loud'\\.",
    ),
    ("benchmark,mai_score\nPOPE,89\n", "1 of 1 rows .*: no benchmark 'POPE'"),
    ("benchmark,R_score\nten,89\n", "1 of 1 rows .*: the report has no such table"),
    ("model,benchmark,style,tokens\nX,ten,R_two_stage,9\n", "no style 'R_two_stage'"),
]
REFUSED = [
    ("name,value\nx,1\n", "in no form .* its columns are name, value"),
    ("", "cannot be read as CSV"),
    ("model,benchmark,style,score\n", "in no form"),
    ("model,benchmark,style,score\nX,ten,S,abc\n", "row 1: score is 'abc', no number"),
    ("model,benchmark,style,score,score\nX,ten,S,1,2\n", "in no form .* score, score"),
    ("model,benchmark,style,f1,score\nX,ten,S,1,2\n", "in no form .* and one figure"),
    ("model,benchmark,style\nX,ten,S\n", "in no form"),
    ("benchmark,style,score\nten,S,1\n", "in no form"),
    ("questions,mai_score\n9,1\n", "in no form"),
    ("benchmark,mai_score,mine\nten,1,2\n", "in no form .* some of questions, verified_direct"),
    ("benchmark,mai_score,R_score\nten,1,2\n", "in no form"),
    ("benchmark,mai_score\nten,high\n", "row 1: mai_score is 'high'"),
    ('model,benchmark,style,score\n"X,ten,S,1\n', "cannot be read as CSV"),
]


def test_rows_without_a_counterpart_are_warned_of(compare):
    for text, message in UNKNOWN_ROWS:
        (warning,) = compare(text)[1]
        assert re.search(message, warning)


def test_a_file_that_is_not_in_form_is_refused_with_its_row_or_columns(compare, ours, tmp_path):
    for text, message in REFUSED:
        with pytest.raises(ConfigError, match=message):
            compare(text)
    (tmp_path / "bytes.csv").write_bytes(b"\xff\xfe\n1\n")
    for name, message in (("gone", "There is no file"), ("bytes", "cannot be read as CSV")):
        with pytest.raises(ConfigError, match=message):
            with_published(ours, [str(tmp_path / f"{name}.csv")])


def test_the_examples_of_the_documentation_are_in_form(compare):
    examples = re.findall(r"```csv\n(.*?)```", DOCS.read_text(), re.DOTALL)
    assert len(examples) == 1
    for text in examples:
        assert len(text.splitlines()) == 4
        (warning,) = compare(text)[1]  # they are of other benchmarks than ours
        assert "3 of 3 rows" in warning


def test_predictions_stand_beside_the_timed_seconds(run, tmp_path):
    file = tmp_path / "simulate.json"
    records = [
        {"name": "TEN.mai.total", "value": 3.0, "unit": "s", "questions": 2},
        {"name": "TEN.mai.speedup", "value": 9.0, "unit": "ratio"},
        {"name": "input.0", "value": "words", "unit": "text"},
    ]
    file.write_text(json.dumps(records))
    predicted = read_predictions(str(file))
    assert predicted == {("ten", "mai"): 1.5}
    times = rows((tables([run], [], predicted=predicted), []), "times")
    found = {row["strategy"]: row["predicted / timed"] for row in times}
    assert (found["mai"].value, found["large_reason"]) == (1.5, None)
    for text in ("", "{}", "[1]", '[{"name": "a.b.total", "value": 1, "questions": 0}]', None):
        file.unlink() if text is None else file.write_text(text)
        with pytest.raises(ConfigError, match=r"is no simulate\.json|holds no totals"):
            read_predictions(str(file))
