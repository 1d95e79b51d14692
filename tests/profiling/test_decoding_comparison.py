import json

import pytest
from typer.testing import CliRunner

from langgraph_mai.profiling.decoding_comparison import METHODS, compare_decoding, decoding_table
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


def test_the_command_adds_the_comparison(tmp_path):
    words = ["--image-side", "64", "--query-tokens", "8", "--output-tokens", "2", "--repeats", "1"]
    shown = CliRunner().invoke(
        app, ["profile", *words, "--decoding", "2", "--json", "--out", str(tmp_path)]
    )
    values = {record["name"]: record["value"] for record in json.loads(shown.stdout)}
    assert values["decoding.speculative.equal_to_plain"] == 2
    assert values["decoding.mai.total"] > 0
    assert "(Table 12)" in (tmp_path / "profile.md").read_text()
    assert (tmp_path / "decoding.csv").read_text().startswith("method,backend,batch,accept rate")
    assert "Time to first token" in (tmp_path / "profile.md").read_text()


def test_the_comparison_is_to_be_had_alone():
    shown = CliRunner().invoke(app, ["profile", "--decoding", "1", "--json"])
    names = {record["name"].split(".")[0] for record in json.loads(shown.stdout)}
    assert names == {"decoding"}
