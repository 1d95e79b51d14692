import csv
import json

import pytest
from typer.testing import CliRunner

from langgraph_mai.tools.cli import app

ROUTES = {
    "benchmark": "Charts",
    "questions": 100,
    "verified_direct": 70,
    "verified_by_reasoning": 10,
    "reasoning_transfer": 20,
    "reason_tokens_reasoned": 80,
    "reason_tokens_transferred": 120,
    "prompt_tokens": 300,
    "score_mai": 90,
    "score_large_direct": 85,
}
TOKENS = [
    {"role": role, "benchmark": "Charts", "style": style, "mean_output_tokens": count}
    for role, style, count in [("small", "S", 2), ("small", "R", 60), ("large", "S", 2)]
]


def run(*words):
    return CliRunner().invoke(app, ["simulate", *map(str, words)])


def write_csv(path, rows):
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    return path


def test_everything_is_written(tmp_path):
    assert run("--questions", 50, "--out", tmp_path).exit_code == 0
    records = json.loads((tmp_path / "simulate.json").read_text())
    values = {record["name"]: record["value"] for record in records}
    assert len(values) == len(records)
    assert all({"name", "value", "unit"} <= record.keys() for record in records)
    assert values["table11.POPE.speedup.predicted"] == pytest.approx(8.05, rel=0.01)
    assert values["POPE.full_transfer.total"] / values["POPE.mai.total"] == pytest.approx(
        8.05, rel=0.01
    )
    made = json.loads((tmp_path / "run.json").read_text())
    assert made["settings"]["questions"] == 50
    assert made["versions"]["simpy"]
    with (tmp_path / "totals.csv").open() as file:
        assert {row["benchmark"] for row in csv.DictReader(file)} >= {"POPE", "MMMU"}
    assert (tmp_path / "economy.png").read_bytes().startswith(b"\x89PNG")
    assert "| POPE | mai | 9000 |" in (tmp_path / "simulate.md").read_text()
    assert (tmp_path / "speedup.png").read_bytes().startswith(b"\x89PNG")


def test_json_is_all_that_standard_output_holds():
    shown = run("--questions", 20, "--json", "--plan", 5)
    values = {record["name"]: record["value"] for record in json.loads(shown.stdout)}
    assert values["POPE.mai.small_engines"] >= 1
    assert values["POPE.break_even.disputed"] < 1


def test_routes_and_tokens_of_ones_own(tmp_path):
    routes = write_csv(tmp_path / "routes.csv", [ROUTES])
    tokens = write_csv(tmp_path / "tokens.csv", TOKENS)
    shown = run("--routes", routes, "--tokens", tokens, "--questions", 20, "--json")
    values = {record["name"]: record["value"] for record in json.loads(shown.stdout)}
    assert "large_reason" not in " ".join(values)  # its tokens are not known
    assert not any(name.startswith("table11") for name in values)
    assert values["advice.0"].startswith("Charts: mai is the fastest that reaches 90")

    flat = {key: value for key, value in ROUTES.items() if "tokens_" not in key}
    shorter = write_csv(tmp_path / "flat.csv", [flat])
    shown = run("--routes", shorter, "--tokens", tokens, "--questions", 20, "--json")
    means = {record["name"]: record["value"] for record in json.loads(shown.stdout)}
    # 10 reasonings of 80 instead of 60 tokens, 20 of 120, at 61.8 tokens a second; the large model
    # reads the longer ones within the shortest time of a call.
    more = values["Charts.mai.total"] - means["Charts.mai.total"]
    assert more == pytest.approx((10 * 20 + 20 * 60) / 61.8, abs=0.01)


def test_the_demo_pair_is_timed_beside_its_prediction():
    shown = run("--questions", 20, "--json", "--validate", 1)
    values = {record["name"]: record["value"] for record in json.loads(shown.stdout)}
    off = values["demo.mai.predicted"] / values["demo.mai.measured"] - 1
    assert values["demo.mai.error"] == pytest.approx(off, abs=0.01)


def test_advice_is_one_line_a_benchmark():
    shown = run("--advice", "--floor", 86, "--questions", 20)
    lines = shown.stdout.splitlines()
    assert [line.split(":")[0] for line in lines] == [
        "POPE",
        "MMMU",
        "MMBench",
        "ChartQA",
        "InfoVQA",
    ]
    assert "ChartQA: mai is the fastest that reaches 86 " in shown.stdout


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--routes", "missing.csv"], "'missing.csv' cannot be read"),
        (["--small", "Nope"], "no model 'Nope'"),
        (["--profile", "."], "no profile.csv"),
        (["--devices", "3"], "1 or 2 devices"),
        (["--plan", "0"], "above 0"),
        (["--validate", "0"], "At least 1 question"),
    ],
)
def test_what_cannot_be_used_is_said_in_one_sentence(words, said, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    shown = run(*words)
    assert shown.exit_code == 2
    assert said in shown.stderr
    assert len(shown.stderr.strip().splitlines()) == 1


def test_a_file_with_the_wrong_columns_is_named(tmp_path):
    routes = write_csv(tmp_path / "routes.csv", [{"name": "Charts"}])
    shown = run("--routes", routes)
    assert shown.exit_code == 2
    assert "'benchmark' is missing" in shown.stderr
