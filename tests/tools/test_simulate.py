"""`mai simulate`: what it writes, how it reads files, and what it refuses in a sentence."""

import csv
import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

import langgraph_mai
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


def profiled(folder, *models, more=()):
    """A folder as `mai profile` leaves it, with round figures; each model is slower than the last.

    Args:
        folder: Where.
        models: Their names.
        more: Rows beside the time to first token and decoding.
    """
    common = {"backend": "transformers", "dtype": "float32", "device": "cpu", "attention": "sdpa"}
    common |= {"weights": "real", "batch": 1, "image_side": 256, "query_tokens": 64}
    rows = [
        common | {"model": model, "component": component, "median_ms": milliseconds} | sizes
        for index, model in enumerate(models)
        for component, milliseconds, sizes in (
            ("ttft", 20, {"input_tokens": 128, "output_tokens": 1}),
            ("decode", 80 + index, {"input_tokens": 128, "output_tokens": 8}),
            *more,
        )
    ]
    folder.mkdir(exist_ok=True)
    columns = list(dict.fromkeys(key for row in rows for key in row))
    write_csv(folder / "profile.csv", [dict.fromkeys(columns, "") | row for row in rows])
    return folder


def advised(shown):
    assert shown.exit_code == 0, shown.stderr
    return {record["name"]: record["value"] for record in json.loads(shown.stdout)}


def assert_refused(shown, said):
    assert shown.exit_code == 2
    assert said in shown.stderr
    assert len(shown.stderr.strip().splitlines()) == 1
    assert not shown.stdout


@pytest.fixture
def given(tmp_path):
    """Writes routes and tokens, and returns the words that name them."""

    def write(routes=ROUTES, tokens=TOKENS):
        rows = routes if isinstance(routes, list) else [routes]
        words = ("--routes", write_csv(tmp_path / "routes.csv", rows))
        return (*words, "--tokens", write_csv(tmp_path / "tokens.csv", tokens))

    return write


def test_everything_is_written(tmp_path):
    assert run("--questions", 50, "--out", tmp_path).exit_code == 0
    records = json.loads((tmp_path / "simulate.json").read_text())
    values = {record["name"]: record["value"] for record in records}
    assert len(values) == len(records)
    assert all({"name", "value", "unit"} <= record.keys() for record in records)
    assert values["table11.POPE.speedup.predicted"] == pytest.approx(8.05, rel=0.01)
    speedup = values["POPE.full_transfer.total"] / values["POPE.mai.total"]
    assert speedup == pytest.approx(8.05, rel=0.01)
    made = json.loads((tmp_path / "run.json").read_text())
    assert made["settings"]["questions"] == 50
    assert made["versions"]["simpy"]
    for name in ("table11", "totals", "serving"):
        with (tmp_path / f"{name}.csv").open() as file:
            header, *rows = csv.reader(file)
        assert len(set(header)) == len(header)
        assert {row[0] for row in rows} == {"POPE", "MMMU", "MMBench", "ChartQA", "InfoVQA"}
    for name in ("economy", "seconds"):
        assert (tmp_path / f"{name}.png").read_bytes().startswith(b"\x89PNG")
    assert "| POPE | mai | 9000 |" in (tmp_path / "simulate.md").read_text()


def test_routes_and_tokens_from_files(given):
    values = advised(run(*given(), "--questions", 20, "--json", "--plan", 5))
    assert "large_reason" not in " ".join(values)  # its tokens are not known
    assert not any(name.startswith("table11") for name in values)
    assert values["Charts.advice"].startswith("Charts: mai is the fastest that reaches 90")
    assert values["Charts.mai.small_engines"] >= 1
    flat = {key: value for key, value in ROUTES.items() if "tokens_" not in key}
    means = advised(run(*given(flat), "--questions", 20, "--json"))
    # 10 reasonings of 80 instead of 60 tokens, 20 of 120, at 61.8 tokens a second; the large model
    # reads the longer ones within the lower bound of a call.
    more = values["Charts.mai.total"] - means["Charts.mai.total"]
    assert more == pytest.approx((10 * 20 + 20 * 60) / 61.8, abs=0.01)


def test_advice_is_one_line_a_benchmark():
    shown = run("--advice", "--floor", 86, "--questions", 20)
    benchmarks = ["POPE", "MMMU", "MMBench", "ChartQA", "InfoVQA"]
    assert [line.split(":")[0] for line in shown.stdout.splitlines()] == benchmarks
    assert "ChartQA: mai is the fastest that reaches 86 " in shown.stdout
    values = advised(run("--advice", "--json"))
    assert {name.split(".")[1] for name in values} == {"advice"}
    assert values["ChartQA.advice.strategy"] == "mai"
    assert values["ChartQA.advice.score"] >= values["ChartQA.advice.wanted"]
    # Table 10 as it is published, with the paper's own columns of scores, can be given.
    shipped = Path(langgraph_mai.__file__).parent / "profiling" / "paper" / "table10_mai.csv"
    values = advised(run("--routes", shipped, "--advice", "--floor", 85.3, "--json"))
    assert values["ChartQA.advice.strategy"] == "mai"
    assert values["ChartQA.advice.score"] == 86.8


def test_of_several_pairs_the_named_one_counts(tmp_path, given):
    pairs = [("B", 90), ("C", 88)]
    rows = [ROUTES | {"small": "A", "large": large, "score_mai": score} for large, score in pairs]
    files = (*given(rows), "--profile", profiled(tmp_path, "A", "B", "C"))
    shown = run(*files, "--small", "A", "--large", "C", "--advice", "--json")
    assert advised(shown)["Charts.advice.score"] == 88
    assert_refused(run(*files, "--advice"), "holds 3 models (A, B, C); name the two of a pair")
    assert_refused(run(*given(rows), "--advice"), "lines 2 and 3, are about the same of Charts")


def test_names_count_without_owner_and_another_pair_is_refused(tmp_path, given):
    files = given(ROUTES | {"small": "Small-2B", "large": "Large-8B"})
    profile = profiled(tmp_path, "owner/Small-2B", "owner/Large-8B", "owner/Other")
    words = (*files, "--profile", profile, "--advice", "--small", "owner/Small-2B", "--large")
    assert run(*words, "owner/Large-8B").stdout.startswith("Charts: mai is the fastest")
    refused = run(*words, "owner/Other")
    assert_refused(refused, "routes.csv' has no row of this pair")


def test_an_exact_name_counts_before_one_that_is_alike(tmp_path, given):
    pairs = [("a/m", "a/n", 90), ("b/m", "b/n", 88)]
    rows = [
        ROUTES | {"small": small, "large": large, "score_mai": score}
        for small, large, score in pairs
    ]
    names = {"small": "a/m", "large": "a/n"}
    own = [
        {key: value for key, value in row.items() if key != "role"} | {"model": names[row["role"]]}
        for row in TOKENS
    ]
    end = ("--advice", "--json", "--profile", profiled(tmp_path, "a/m", "a/n"))
    assert_refused(run(*given(rows, own), *end), "lines 2 and 3, are about the same")
    for routes, more in [(rows, ("--small", "a/m", "--large", "a/n")), (rows[:1], ()),
                         (rows[:1], ("--small", "m"))]:  # fmt: skip
        assert advised(run(*given(routes, own), *end, *more))["Charts.advice.score"] == 90


def test_any_name_can_be_drawn(tmp_path, given):
    odd = {"benchmark": "$\\frac b$ \u4e2d\u6587"}
    files = given(ROUTES | odd, [row | odd for row in TOKENS])
    shown = run(*files, "--questions", 5, "--out", tmp_path / "out")
    assert (shown.exit_code, shown.stderr) == (0, "")
    assert (tmp_path / "out" / "economy.png").read_bytes().startswith(b"\x89PNG")


def test_a_folder_holds_what_the_last_simulation_wrote(tmp_path, given):
    profile, earlier = profiled(tmp_path / "out", "A", "B"), {"table11.csv", "table12.csv"}
    for name in ("run.json", "plan.csv", *earlier):
        (profile / name).write_text("of the profile, or of an earlier simulation")
    words = ("--profile", profile, *given(), "--questions", 5, "--out", profile)
    run(*words, "--plan", 1)
    assert not {path.name for path in profile.iterdir()} & earlier
    assert (profile / "plan.csv").read_text().startswith("benchmark,strategy")
    assert (profile / "run.json").read_text().startswith("of the profile")
    assert json.loads((profile / "simulate-run.json").read_text())["settings"]["questions"] == 5
    run(*words)
    assert not (profile / "plan.csv").exists()


def test_it_says_which_pair_and_whose_routes_it_computes_with(tmp_path, given):
    files = given(ROUTES | {"prompt_tokens": 99, "small": "one", "large": "another"})
    slow = ("vision", 8000, {"query_tokens": 0})
    own = ("--profile", profiled(tmp_path, "quick", "slow", more=[slow]), "--questions", 5)
    run(*own, *files, "--out", tmp_path / "out")
    text = (tmp_path / "out" / "simulate.md").read_text()
    assert f"Latencies: the profile {str(tmp_path)!r}, small quick, large slow." in text
    assert "routes.csv', of one and another." in text
    assert "Charts: prompts have 99 tokens and cost the small model as much as the shortest" in text
    shown = run(*own).stdout
    assert "Routes and scores: the paper's, of Qwen3-VL-2B and Qwen3-VL-8B." in shown
    assert "POPE: prompts have 320 tokens, more than were measured of the large model" in shown
    assert "quick, 256 px: the vision encoder took 8000.0 ms" in shown  # which cannot be
    paper = run("--large", "Qwen3-VL-4B", "--questions", 5).stdout
    assert "Latencies: the paper's Tables 3 and 4, small Qwen3-VL-2B" in paper
    assert "Tokens: the paper's, of Qwen3-VL-2B and Qwen3-VL-4B." in paper


def test_of_two_models_the_one_that_decodes_faster_is_the_small_one(tmp_path):
    words = ("--profile", profiled(tmp_path, "slow", "quick"), "--questions", 5)
    path = tmp_path / "profile.csv"
    path.write_text(path.read_text().replace(",80,", ",90,"))
    assert "small quick, large slow" in run(*words).stdout
    assert "small slow, large quick" in run(*words, "--small", "slow").stdout
    assert "small slow, large quick" in run(*words, "--large", "quick").stdout
    assert_refused(run(*words, "--large", "huge"), "has no measured model 'huge', only slow")


def test_a_call_costs_its_overhead_and_its_preprocessing(tmp_path, given):
    ready = ("preprocess", 5, {"query_tokens": 0})
    files, totals = given(ROUTES | {"prompt_tokens": 128}), []
    for words, more in (((), ()), ((), [ready]), (("--overhead", 2), [ready])):
        shown = run("--profile", profiled(tmp_path, "A", "B", more=more), *files, *words, "--json")
        totals.append(advised(shown)["Charts.large_direct.total"])
    # A hundred questions, and a call each.
    assert totals[1] - totals[0] == pytest.approx(100 * 0.005)
    assert totals[2] - totals[1] == pytest.approx(100 * 0.002)


def test_engines_that_do_not_keep_up_are_named():
    shown = run("--rate", 100, "--questions", 50).stdout
    served = shown.split("from arrival to answer")[1].splitlines()
    found = next(line for line in served if line.split()[:2] == ["ChartQA", "large_reason"])
    assert " no " in found
    lightly = run("--rate", 0.01, "--questions", 5).stdout
    served = lightly.split("from arrival to answer")[1].split("Advice")[0]
    assert served.count(" yes ") == 51
    assert " no " not in served


REFUSED = {
    "'missing.csv' cannot be read": ["--routes missing.csv"],
    "no model 'Nope'": ["--small Nope"],
    "no profile.csv": ["--profile ."],
    "'devices' should be 1 or 2, and is '3'": ["--devices 3"],
    "'plan' should be": ["--plan 0", "--plan nan", "--plan inf", "--plan 1e300"],
    "'rate' should be": ["--rate nan", "--rate inf", "--rate -1", "--rate 1e-310"],
    "'spread' should be": ["--spread nan", "--spread inf", "--spread 1e200"],
    "'skipped' should be less than or equal to 1": ["--skip 2"],
    "cannot skip 90.0% of the questions of 'MMMU'": ["--skip 0.9"],
    "from 0 to 100": ["--floor nan", "--floor -5", "--floor 1000"],
    "from 0 on": ["--overhead nan", "--overhead 1e308", "--overhead -1"],
    "taken": ["--out taken", "--out taken/below"],
    "name two": ["--small Qwen3-VL-2B --large Qwen3-VL-2B"],
    "leave --devices out": ["--plan 5 --devices 1"],
    "name one with --profile": ["--backend vllm"],
}


def test_what_cannot_be_used_is_refused_in_one_sentence(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "taken").write_text("a file")
    for sentence, commands in REFUSED.items():
        for words in commands:
            assert_refused(run(*words.split()), sentence)


WRONG_ROUTES = [
    ({"score_mai": "500"}, "line 2: 'score_mai' should be less than or equal to 100, and is '500'"),
    ({"score_mai": "-3"}, "line 2: 'score_mai' should be greater than or equal to 0"),
    ({"score_mai": "nan"}, "line 2: 'score_mai' should be a finite number"),
    ({"mai_score": "abc"}, "line 2: 'mai_score' should be a valid number"),
    ({"score_bogus": "50"}, "the column 'score_bogus' names no strategy"),
    ({"promt_tokens": "50"}, "has a column 'promt_tokens'; call it 'prompt_tokens' if that"),
    ({"questions": "1" * 401}, "'questions' should be"),
    ({"prompt_tokens": "1e308"}, "'prompt_tokens' should be less than or equal to"),
    ({"prompt_tokens": "-40"}, "'prompt_tokens' should be greater than 0"),
    ({"prompt_tokens": "inf"}, "'prompt_tokens' should be a finite number, and is 'inf'"),
    ({"questions": "many"}, "'questions' should be a valid integer"),
    ({"questions": ""}, "the column 'questions' is empty"),
    ({"verified_direct": "-1"}, "'verified_direct' should be greater than or equal to 0"),
    ({"verified_direct": "90"}, "the routes add up to 120, which is more than the 100"),
    ({"accept_rate": "1.5"}, "'accept_rate' should be less than or equal to 1"),
    ({"ahead": "0"}, "'ahead' should be greater than or equal to 1"),
]
WRONG_TOKENS = [
    ({"mean_output_tokens": "inf"}, "line 2: 'mean_output_tokens' should be a finite number"),
    ({"mean_output_tokens": "-2"}, "should be greater than or equal to 0"),
    ({"role": ""}, "says neither which 'model' nor which 'role'"),
    ({"style": "r"}, "lines 2 and 3, are about the same of Charts"),
    ({"benchmark": "Maps"}, "has no tokens of small_direct on Charts; add rows for these"),
]


def test_a_wrong_figure_is_named_with_its_file_and_line(given):
    for changed, sentence in WRONG_ROUTES:
        kept = dict(ROUTES)
        if "promt_tokens" in changed:
            del kept["prompt_tokens"]
        shown = run(*given(kept | changed), "--advice")
        assert_refused(shown, sentence)
        assert "routes.csv" in shown.stderr
    for changed, sentence in WRONG_TOKENS:
        shown = run(*given(ROUTES, [TOKENS[0] | changed, *TOKENS[1:]]))
        assert_refused(shown, sentence)
        assert "tokens.csv" in shown.stderr


def test_a_file_that_is_no_table_of_routes_is_refused(tmp_path):
    routes = tmp_path / "routes.csv"
    for content, sentence in (
        (b"name\nCharts\n", "line 2: the column 'benchmark' is missing"),
        *((text, "has no row of this pair below its header") for text in (b"", b"\n")),
        (",".join(ROUTES).encode() + b"\n", "has no row of this pair below its header"),
        (b"benchmark,questions\nCharts,1,2\n", "line 2 has more cells than the header"),
        (b"benchmark\n\xff\xfe\n", "is no text in UTF-8"),
        (b'benchmark\n"Charts\n', "is no CSV file"),
    ):
        routes.write_bytes(content)
        assert_refused(run("--routes", routes, "--advice"), sentence)


def test_a_file_as_spreadsheets_save_it_is_read(tmp_path, given):
    """With a byte order mark, an index without a name, a comma at the end."""
    files = given({"": 0} | ROUTES)
    routes = tmp_path / "routes.csv"
    header, *rows = routes.read_text().splitlines()
    routes.write_text("\n".join([header, *(f"{row}," for row in rows), ""]))
    routes.write_bytes(b"\xef\xbb\xbf" + routes.read_bytes().replace(b"\n", b"\r\n"))
    assert run(*files, "--advice").stdout.startswith("Charts: mai is the fastest")


def test_the_last_row_of_a_profile_counts_if_it_is_whole(tmp_path):
    path = profiled(tmp_path, "A", "B") / "profile.csv"
    whole = path.read_bytes()
    for content in (
        whole.rstrip(),
        *(whole + end for end in (b'm,"needs 5 GB, an', "m,\u4e2d".encode()[:-1], b"m,tra", b"")),
    ):
        path.write_bytes(content)
        assert run("--profile", tmp_path, "--advice").exit_code == 0
    for wrong in ("nan", "-1", "fast"):
        path.write_text(whole.decode().replace(",80", f",{wrong}", 1))
        assert_refused(run("--profile", tmp_path), "line 3: 'median_ms' should be")
