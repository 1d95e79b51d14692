import json
from dataclasses import replace

import pytest
from typer.testing import CliRunner

from langgraph_mai.profiling.decoding_comparison import compare_decoding
from langgraph_mai.profiling.decoding_results import (
    METHODS,
    Method,
    decoding_records,
    decoding_table,
    read_decoding,
    write_decoding,
)
from langgraph_mai.profiling.errors import ProfilingInputError
from langgraph_mai.profiling.profile_rows import ProfileFile, ProfileRow
from langgraph_mai.tools.cli import app


@pytest.fixture(scope="module")
def methods(tmp_path_factory):
    return compare_decoding(3, tmp_path_factory.mktemp("decoding"))


def test_three_ways_to_answer_are_compared_on_the_demo_pair(methods):
    plain, speculative, mai = methods
    assert [method.strategy for method in methods] == list(METHODS)
    assert speculative.equal == speculative.questions == 3
    assert 0 < speculative.accept_rate <= 1
    assert plain.accept_rate is mai.accept_rate is None
    assert speculative.accuracy == plain.accuracy
    assert min(plain.seconds, speculative.seconds, mai.seconds) > 0


def test_the_table_has_the_papers_form(methods):
    table = decoding_table(methods)
    assert "(Table 12)" in table.title
    cells = [dict(zip(table.header, row, strict=True)) for row in table.rows]
    assert cells[0]["speedup"] == "1.00"
    assert [row["accept rate"] != "" for row in cells] == [False, True, False]
    assert cells[1]["equal to plain greedy"] == "3 of 3"


def test_every_cell_and_figure_is_that_of_its_method():
    made = [
        Method("large_reason", 40, seconds=12.0, accuracy=0.9),
        Method("speculative", 40, seconds=8.0, accuracy=0.875, accept_rate=0.625, equal=39),
    ]
    assert [list(row) for row in decoding_table(made).rows] == [
        ["large R", "transformers", "1", "", "12.00", "0.300", "1.00", "90.0%", ""],
        [
            "speculative, large R with small as draft",
            *("transformers", "1", "62.5%", "8.00", "0.200", "1.50", "87.5%", "39 of 40"),
        ],
    ]
    figures = {record.name: (record.value, record.unit) for record in decoding_records(made)}
    assert figures == {
        "decoding.large_reason.total": (12.0, "s"),
        "decoding.large_reason.accuracy": (0.9, "share"),
        "decoding.speculative.total": (8.0, "s"),
        "decoding.speculative.accuracy": (0.875, "share"),
        "decoding.speculative.accept_rate": (0.625, "share"),
        "decoding.speculative.equal_to_plain": (39, "questions"),
    }
    assert all(record.questions == 40 for record in decoding_records(made))


def test_results_are_kept(methods, tmp_path):
    assert read_decoding(tmp_path) == []
    write_decoding(methods, tmp_path)
    assert read_decoding(tmp_path) == methods


@pytest.mark.parametrize(
    "text",
    ["", "no JSON", "{}", '[{"strategy": "mai"}]', "[3]"]
    + [
        json.dumps([{"strategy": "mai", "questions": 2, "seconds": 1.0, "accuracy": 1.0} | wrong])
        for wrong in ({"strategy": "guess"}, {"questions": 0}, {"seconds": 0}, {"accuracy": 2})
    ],
)
def test_a_file_of_another_kind_is_refused_by_name(tmp_path, text):
    (tmp_path / "decoding.json").write_text(text)
    with pytest.raises(ProfilingInputError, match=r"decoding\.json.*no results of --decoding"):
        read_decoding(tmp_path)
    shown = CliRunner().invoke(app, ["profile", "--decoding", "1", "--out", str(tmp_path)])
    assert shown.exit_code == 2
    assert (tmp_path / "decoding.json").read_text() == text


def assert_in_all_files(folder, methods):
    """The folder's tables and figures have both the comparison and the components."""
    text = (folder / "profile.md").read_text()
    names = {record["name"] for record in json.loads((folder / "profile.json").read_text())}
    assert decoding_table(methods).markdown() in text
    assert "## Time to first token" in text
    assert {record.name for record in decoding_records(methods)} <= names
    assert any(".ttft." in name for name in names)
    assert (folder / "decoding.csv").read_text().startswith("method,backend,batch,accept rate")


def test_a_profile_keeps_an_earlier_comparison(methods, tmp_path):
    write_decoding(methods, tmp_path)
    words = ["--image-side", "64", "--query-tokens", "8", "--output-tokens", "2", "--repeats", "1"]
    shown = CliRunner().invoke(app, ["profile", *words, "--json", "--out", str(tmp_path)])
    assert shown.exit_code == 0
    assert json.loads(shown.stdout) == json.loads((tmp_path / "profile.json").read_text())
    assert_in_all_files(tmp_path, methods)


def test_a_comparison_keeps_an_earlier_profile_and_takes_the_place_of_another(methods, tmp_path):
    row = ProfileRow("m", "transformers", "float32", "cpu", "sdpa", "real", "ttft")
    ProfileFile(tmp_path).add(replace(row, median_ms=2.0, low_ms=1.0, high_ms=3.0, floor_ms=1.0))
    write_decoding(methods, tmp_path)
    shown = CliRunner().invoke(
        app, ["profile", "--decoding", "2", "--json", "--out", str(tmp_path)]
    )
    assert shown.exit_code == 0
    assert json.loads(shown.stdout) == json.loads((tmp_path / "profile.json").read_text())
    made = read_decoding(tmp_path)
    assert {method.questions for method in made} == {2}
    assert_in_all_files(tmp_path, made)


def test_both_are_to_be_had_in_one_run(tmp_path):
    words = ["--image-side", "64", "--query-tokens", "8", "--output-tokens", "2", "--repeats", "1"]
    shown = CliRunner().invoke(app, ["profile", *words, "--decoding", "1", "--out", str(tmp_path)])
    assert shown.exit_code == 0
    assert_in_all_files(tmp_path, read_decoding(tmp_path))


def test_the_comparison_is_to_be_had_alone():
    shown = CliRunner().invoke(app, ["profile", "--decoding", "1", "--json"])
    names = {record["name"].split(".")[0] for record in json.loads(shown.stdout)}
    assert names == {"decoding"}
