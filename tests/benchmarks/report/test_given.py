"""Published figures beside ours: what is shown, what is warned of, what is refused."""

import re
from pathlib import Path

import pytest

from langgraph_mai import ConfigError
from langgraph_mai.benchmarks.report.evaluated import Evaluated
from langgraph_mai.benchmarks.report.given import with_given
from langgraph_mai.benchmarks.report.tables import tables

DOCS = Path(__file__).parents[3] / "docs" / "evaluation.md"


@pytest.fixture(scope="module")
def ours(tmp_path_factory):
    from .conftest import cascade_result, reason_result, write_evaluation

    results = [one(n) for n in range(10) for one in (cascade_result, reason_result)]
    return tables([Evaluated.read(write_evaluation(tmp_path_factory.mktemp("e") / "ten", results))])


@pytest.fixture
def compare(ours, tmp_path):
    """What comes of a file with this text."""

    def compared(text: str, name: str = "given.csv"):
        file = tmp_path / name
        file.write_text(text)
        return with_given(ours, [str(file)])

    return compared


def rows(compared, name):
    (table,) = (one for one in compared.tables if one.name == name)
    return [dict(zip(table.columns, row, strict=True)) for row in table.rows]


def test_figures_by_style_stand_below_ours(compare):
    seen = compare("model,benchmark,style,f1\nX-2B,Ten,S,88.6\nX-2B,Ten,R,88\n", "paper.csv")
    row = rows(seen, "scores")[-1]
    assert (row["model"], row["benchmark"], row["metric"]) == ("X-2B", "Ten (paper.csv)", "f1")
    assert (row["S"], row["E"], row["R"]) == ("88.6", None, "88.0")
    assert len(rows(seen, "scores")) == 3
    assert seen.warnings == []


def test_a_score_is_one_of_our_metric_and_empty_cells_stay_empty(compare):
    seen = compare("model,benchmark,style,score\nX,ten,S,95\nX,ten,E,\n")
    row = rows(seen, "scores")[-1]
    assert (row["metric"], row["S"], row["E"]) == ("accuracy", "95.0", None)


@pytest.mark.parametrize(
    ("style", "column"),
    [("S", "S"), ("direct", "S"), ("explain", "E"), ("reason", "R"), ("R_two_stage", "two-stage")],
)
def test_styles_by_their_letters_and_their_names(compare, style, column):
    seen = compare(f"model,benchmark,style,score\nX,ten,{style},50\n")
    assert rows(seen, "scores")[-1][column] == "50.0"


def test_figures_by_benchmark_stand_below_ours_with_whole_counts(compare):
    seen = compare("benchmark,questions,verified_direct,mai_score\nTEN,9000,8507,89\n")
    row = rows(seen, "mai")[-1]
    assert (row["questions"], row["verified direct"], row["MAI"]) == ("9000", "8507", "89.0")
    assert rows(compare("benchmark,mai_score\nTEN,89\n"), "mai")[-1]["MAI"] == "89.0"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "model,benchmark,style,score\nX,ten,S,1\nX,other,S,1\nX,ten,loud,1\nX,other,R,1\n",
            "3 of 4 rows of .* here: line 3: no benchmark 'other'; line 4: no style 'loud'\\.",
        ),
        ("benchmark,mai_score\nPOPE,89\n", "1 of 1 rows .*: line 2: no benchmark 'POPE'"),
        ("benchmark,R_score\nten,89\n", "1 of 1 rows .*: line 2: the report has no such table"),
        ("model,benchmark,style,tokens\nX,ten,R_two_stage,9\n", "no style 'R_two_stage'"),
    ],
)
def test_rows_without_a_counterpart_are_warned_of(compare, text, said):
    (warning,) = compare(text).warnings
    assert re.search(said, warning)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("name,value\nx,1\n", "in no form .* its columns are name, value, instead of model"),
        ("", "is empty"),
        ("model,benchmark,style,score\n", "has a header and no rows"),
        ("model,benchmark,style,score\nX,ten,S,1,2\n", "line 2: 5 cells, but .* 4 columns"),
        ("model,benchmark,style,score\nX,ten\n", "line 2: 2 cells, but"),
        (
            "model,benchmark,style,score\nX,ten,S,abc\n",
            "line 2: score is 'abc', which is no number",
        ),
        ("model,benchmark,style,score\nX,ten,S,nan\n", "score is 'nan', which is no number"),
        ("model,benchmark,style,score,score\nX,ten,S,1,2\n", "has the column 'score' twice"),
        (
            "model,benchmark,style,f1,score\nX,ten,S,1,2\n",
            "one column of figures .* not 2: f1, score",
        ),
        ("model,benchmark,style\nX,ten,S\n", "one column of figures .* not 0"),
        ("model,benchmark,score\nX,ten,1\n", "has no column style"),
        ("benchmark,style,score\nten,S,1\n", "has no column model"),
        ("model,style,score\nX,S,1\n", "has no column benchmark"),
        ("questions,mai_score\n9,1\n", "has no column benchmark"),
        ("benchmark,mai_score,mine\nten,1,2\n", "has a column 'mine'; beside benchmark it takes"),
        ("benchmark,mai_score,R_score\nten,1,2\n", "has a column 'R_score'"),
        ("benchmark,mai_score\nten,high\n", "line 2: mai_score is 'high'"),
        ('model,benchmark,style,score\n"X,ten,S,1\n', "cannot be read as CSV"),
    ],
)
def test_a_file_that_is_not_in_form_is_refused_with_its_line_or_column(compare, text, said):
    with pytest.raises(ConfigError, match=said):
        compare(text)


def test_a_file_that_is_not_there_or_no_text(compare, ours, tmp_path):
    with pytest.raises(ConfigError, match="There is no file"):
        with_given(ours, [str(tmp_path / "gone.csv")])
    (tmp_path / "bytes.csv").write_bytes(b"\xff\xfe\n1\n")
    with pytest.raises(ConfigError, match="cannot be read as CSV"):
        with_given(ours, [str(tmp_path / "bytes.csv")])


def test_the_examples_of_the_documentation_are_in_form(compare):
    examples = re.findall(r"```csv\n(.*?)```", DOCS.read_text(), re.DOTALL)
    assert len(examples) == 3
    for text in examples:
        assert len(text.splitlines()) == 4
        (warning,) = compare(text).warnings  # they are of other benchmarks than ours
        assert "3 of 3 rows" in warning
