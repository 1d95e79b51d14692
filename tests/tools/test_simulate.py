import csv
import json
from pathlib import Path

import pytest
from simulated import ROUTES, TOKENS, advised, assert_refused, profiled, run, write_csv

import langgraph_mai


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
    for name in ("table11", "totals", "serving", "break_even"):
        with (tmp_path / f"{name}.csv").open() as file:
            header, *rows = csv.reader(file)
        assert len(set(header)) == len(header)
        assert {row[0] for row in rows} == {"POPE", "MMMU", "MMBench", "ChartQA", "InfoVQA"}
    assert (tmp_path / "economy.png").read_bytes().startswith(b"\x89PNG")
    assert "| POPE | mai | 9000 |" in (tmp_path / "simulate.md").read_text()
    assert (tmp_path / "seconds.png").read_bytes().startswith(b"\x89PNG")


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
    assert values["Charts.advice"].startswith("Charts: mai is the fastest that reaches 90")

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


def test_advice_is_json_too_and_nothing_but_advice():
    shown = run("--advice", "--json")
    values = {record["name"]: record["value"] for record in json.loads(shown.stdout)}
    assert {name.split(".")[1] for name in values} == {"advice"}
    assert values["ChartQA.advice.strategy"] == "mai"
    assert values["ChartQA.advice.score"] >= values["ChartQA.advice.wanted"]


def test_table_10_as_it_is_published_can_be_given(tmp_path):
    """The shipped file has the paper's own columns of scores."""
    shipped = Path(langgraph_mai.__file__).parent / "profiling" / "paper" / "table10_mai.csv"
    values = advised(run("--routes", shipped, "--advice", "--floor", 85.3, "--json"))
    assert values["ChartQA.advice.strategy"] == "mai"
    assert values["ChartQA.advice.score"] == 86.8


PAIRS = [("B", 90), ("C", 88)]


def test_of_several_pairs_the_named_one_counts(tmp_path):
    rows = [ROUTES | {"small": "A", "large": large, "score_mai": score} for large, score in PAIRS]
    routes = write_csv(tmp_path / "routes.csv", rows)
    tokens = write_csv(tmp_path / "tokens.csv", TOKENS)
    files = ("--routes", routes, "--tokens", tokens, "--profile", profiled(tmp_path, "A", "B", "C"))
    shown = run(*files, "--small", "A", "--large", "C", "--advice", "--json")
    assert advised(shown)["Charts.advice.score"] == 88
    assert_refused(run(*files, "--advice"), "holds 3 models (A, B, C); name the two of a pair")
    either = run("--routes", routes, "--tokens", tokens, "--advice")
    assert_refused(either, "lines 2 and 3, are about the same of Charts")


def test_names_count_without_owner_and_another_pair_is_refused(tmp_path):
    pair = {"small": "Small-2B", "large": "Large-8B"}
    routes = write_csv(tmp_path / "routes.csv", [ROUTES | pair])
    tokens = write_csv(tmp_path / "tokens.csv", TOKENS)
    profile = profiled(tmp_path, "owner/Small-2B", "owner/Large-8B", "owner/Other")
    files = ("--routes", routes, "--tokens", tokens, "--profile", profile, "--advice")
    shown = run(*files, "--small", "owner/Small-2B", "--large", "owner/Large-8B")
    assert shown.stdout.startswith("Charts: mai is the fastest")
    other = run(*files, "--small", "owner/Small-2B", "--large", "owner/Other")
    assert_refused(other, f"{str(routes)!r} is about other models than --small and --large name")


def test_any_name_can_be_drawn(tmp_path):
    odd = "$\\frac b$ \u4e2d\u6587"
    routes = write_csv(tmp_path / "routes.csv", [ROUTES | {"benchmark": odd}])
    tokens = write_csv(tmp_path / "tokens.csv", [row | {"benchmark": odd} for row in TOKENS])
    shown = run("--routes", routes, "--tokens", tokens, "--questions", 5, "--out", tmp_path / "out")
    assert shown.exit_code == 0, shown.stderr
    assert not shown.stderr
    assert (tmp_path / "out" / "economy.png").read_bytes().startswith(b"\x89PNG")


NAMED = {"small": "one", "large": "another"}


def test_the_tokens_of_another_pair_of_the_paper_are_named():
    shown = run("--large", "Qwen3-VL-4B", "--questions", 5).stdout
    assert "Tokens: the paper's, of Qwen3-VL-2B and Qwen3-VL-4B." in shown


def test_an_exact_name_counts_before_one_that_is_alike(tmp_path):
    pairs = [("a/m", "a/n", 90), ("b/m", "b/n", 88)]
    rows = [
        ROUTES | {"small": small, "large": large, "score_mai": score}
        for small, large, score in pairs
    ]
    routes = write_csv(tmp_path / "routes.csv", rows)
    names = {"small": "a/m", "large": "a/n"}
    own = [
        {key: value for key, value in row.items() if key != "role"} | {"model": names[row["role"]]}
        for row in TOKENS
    ]
    tokens = write_csv(tmp_path / "tokens.csv", own)
    files = ("--routes", routes, "--tokens", tokens, "--advice", "--json")
    profile = ("--profile", profiled(tmp_path, "a/m", "a/n"))
    assert_refused(run(*files, *profile), "lines 2 and 3, are about the same")
    shown = run(*files, *profile, "--small", "a/m", "--large", "a/n")
    assert advised(shown)["Charts.advice.score"] == 90
    first = write_csv(tmp_path / "first.csv", rows[:1])
    alike = ("--tokens", tokens, "--advice", "--json", *profile)
    assert advised(run("--routes", first, *alike))["Charts.advice.score"] == 90
    assert advised(run("--routes", first, *alike, "--small", "m"))["Charts.advice.score"] == 90


def test_a_folder_holds_what_the_last_simulation_wrote(tmp_path):
    profile = profiled(tmp_path / "out", "A", "B")
    (profile / "run.json").write_text("of the profile")
    run("--questions", 5, "--plan", 1, "--out", tmp_path / "out")
    assert (tmp_path / "out" / "plan.csv").exists()
    run("--profile", profile, "--questions", 5, "--out", tmp_path / "out")
    names = {path.name for path in profile.iterdir()}
    assert not names & {"plan.csv", "table11.csv", "table12.csv"}
    assert (profile / "run.json").read_text() == "of the profile"
    assert json.loads((profile / "simulate-run.json").read_text())["settings"]["questions"] == 5


def test_figures_of_a_profile_that_cannot_be_are_named(tmp_path):
    slow = ("vision", 8000, {"query_tokens": 0})
    shown = run("--profile", profiled(tmp_path, "A", "B", more=[slow]), "--questions", 5).stdout
    assert "A, 256 px: the vision encoder took 8000.0 ms" in shown


def test_it_says_which_pair_and_whose_routes_it_computes_with(tmp_path):
    routes = write_csv(tmp_path / "routes.csv", [ROUTES | {"prompt_tokens": 99, **NAMED}])
    tokens = write_csv(tmp_path / "tokens.csv", TOKENS)
    own = ("--profile", profiled(tmp_path, "quick", "slow"), "--out", tmp_path / "out")
    run(*own, "--routes", routes, "--tokens", tokens, "--questions", 5)
    said = (tmp_path / "out" / "simulate.md").read_text()
    assert f"Latencies: the profile {str(tmp_path)!r}, small quick, large slow." in said
    assert f"Routes and scores: {str(routes)!r}, of one and another." in said
    assert "Charts: prompts have 99 tokens and cost the small model as much as the shortest" in said
    shown = run(*own, "--questions", 5).stdout
    assert "Routes and scores: the paper's, of Qwen3-VL-2B and Qwen3-VL-8B." in shown
    assert "POPE: prompts have 320 tokens, more than were measured of the large model" in shown
    assert (
        "Latencies: the paper's Tables 3 and 4, small Qwen3-VL-2B" in run("--questions", 5).stdout
    )


def test_of_two_models_the_one_that_writes_faster_is_the_small_one(tmp_path):
    words = ("--profile", profiled(tmp_path, "slow", "quick"), "--questions", 5)
    path = tmp_path / "profile.csv"
    path.write_text(path.read_text().replace(",80,", ",90,"))
    assert "small quick, large slow" in run(*words).stdout
    assert "small slow, large quick" in run(*words, "--small", "slow").stdout
    assert "small slow, large quick" in run(*words, "--large", "quick").stdout
    assert_refused(run(*words, "--large", "huge"), "has no measured model 'huge', only slow, quick")


def test_a_call_costs_its_overhead_and_its_picture_made_ready(tmp_path):
    ready = ("preprocess", 5, {"query_tokens": 0})
    routes = write_csv(tmp_path / "routes.csv", [ROUTES | {"prompt_tokens": 128}])
    tokens = write_csv(tmp_path / "tokens.csv", TOKENS)
    totals = []
    for words, more in (((), ()), ((), [ready]), (("--overhead", 2), [ready])):
        profile = ("--profile", profiled(tmp_path, "A", "B", more=more))
        shown = run(*profile, "--routes", routes, "--tokens", tokens, *words, "--json")
        totals.append(advised(shown)["Charts.large_direct.total"])
    # A hundred questions, and a call each.
    assert totals[1] - totals[0] == pytest.approx(100 * 0.005)
    assert totals[2] - totals[1] == pytest.approx(100 * 0.002)


def test_engines_that_do_not_keep_up_are_named():
    shown = run("--rate", 100, "--questions", 50).stdout
    served = shown.split("from arrival to answer")[1].split("From where on")[0].splitlines()
    found = next(line for line in served if line.split()[:2] == ["ChartQA", "large_reason"])
    assert " no " in found
    lightly = run("--rate", 0.01, "--questions", 5).stdout
    served = lightly.split("from arrival to answer")[1].split("From where on")[0]
    assert served.count(" yes ") == 51
    assert " no " not in served


def test_a_validation_is_shown_alone():
    shown = run("--questions", 5, "--validate", 1).stdout
    assert "timed and predicted" in shown
    assert "Table 11" not in shown


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--routes", "missing.csv"], "'missing.csv' cannot be read"),
        (["--small", "Nope"], "no model 'Nope'"),
        (["--profile", "."], "no profile.csv"),
        (["--devices", "3"], "1 or 2 devices"),
        (["--plan", "0"], "above 0"),
        (["--plan", "nan"], "above 0"),
        (["--plan", "inf"], "above 0"),
        (["--rate", "nan"], "above 0"),
        (["--rate", "inf"], "above 0"),
        (["--rate", "-1"], "above 0"),
        (["--spread", "nan"], "from 0 to 10"),
        (["--spread", "inf"], "from 0 to 10"),
        (["--spread", "1e200"], "from 0 to 10"),
        (["--floor", "nan"], "from 0 to 100"),
        (["--floor", "-5"], "from 0 to 100"),
        (["--floor", "1000"], "from 0 to 100"),
        (["--validate", "0"], "At least 1 question"),
        (["--out", "taken"], "taken"),
        (["--out", "taken/below"], "taken"),
        (["--overhead", "nan"], "from 0 on"),
        (["--overhead", "1e308"], "from 0 on"),
        (["--rate", "1e-310"], "above 0"),
        (["--small", "Qwen3-VL-2B", "--large", "Qwen3-VL-2B"], "name two"),
        (["--plan", "1e300"], "of a billion at most"),
        (["--plan", "5", "--devices", "1"], "leave --devices out"),
        (["--backend", "vllm"], "name one with --profile"),
        (["--overhead", "-1"], "from 0 on"),
    ],
)
def test_what_cannot_be_used_is_said_in_one_sentence(words, said, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "taken").write_text("a file")
    assert_refused(run(*words), said)
