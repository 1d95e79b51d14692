"""`mai attention`: its files, its resume, its table by layer, and what it cannot do."""

import csv
import json
import shutil
import sqlite3
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from langgraph_mai import load_pair
from langgraph_mai.benchmarks.datasets import load_benchmark
from langgraph_mai.benchmarks.evaluation.store import EvaluationStore, question_key
from langgraph_mai.nodes.model_call import Agent, agent_request
from langgraph_mai.nodes.prepare import read_task
from langgraph_mai.tools.cli import app

ROOT = Path(__file__).parents[2]
LIMIT = ("--limit", "4")


def mai(*words: str):
    return CliRunner().invoke(app, [*words])


def measured(folder: Path, *words: str) -> dict:
    done = mai("attention", "shapes", *LIMIT, "--out", str(folder), "--json", *words)
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout)


def rows(path: Path) -> list[dict]:
    return list(csv.DictReader(path.read_text().splitlines()))


@pytest.fixture(scope="module")
def four(tmp_path_factory):
    """Four questions, measured, and what the command said."""
    folder = tmp_path_factory.mktemp("four")
    return folder, measured(folder)


def test_it_leaves_its_files(four):
    folder, done = four
    assert done["failures"] == []
    assert {*done["files"], "attention-run.json"} <= {path.name for path in folder.iterdir()}
    assert len(rows(folder / "attention.csv")) == 4 * 2 * 4
    assert len(rows(folder / "attention_heads.csv")) == 2 * 4 * 5
    assert len(rows(folder / "top_tokens.csv")) <= 2 * 4 * 15
    assert "(Table 16)" in (folder / "attention.md").read_text()
    for name in ("heads", "sparsity", "tokens"):
        assert (folder / f"attention-{name}.png").read_bytes().startswith(b"\x89PNG")
    record = json.loads((folder / "attention-run.json").read_text())
    assert (record["share"], record["attention_of"]) == (0.8, "large")
    assert json.loads((folder / "attention.json").read_text()) == done["records"]


def test_the_figures_are_those_of_the_models_own_attention(four):
    folder, _ = four
    pair = load_pair("demo")
    question = load_benchmark("shapes", limit=4, folder=folder).questions[0]
    with EvaluationStore(folder) as store:
        result = store.result("small_reason", question_key(question))
    reasoning = result["calls"][-1]["text"]
    task = read_task({"question": question.question, "images": list(question.images)})
    task["answer_type"] = question.answer_type
    prompt = agent_request(Agent("large", pair.large, pair.prompts), "transfer", task, reasoning)
    found = pair.large.attention(prompt.messages, prompt.span, layers="all", heads=True)
    own = [
        row
        for row in rows(folder / "attention.csv")
        if (row["id"], row["source"]) == (question.id, "small")
    ]
    for row, weights in zip(own, found.weights.astype(float), strict=True):
        held = np.sort(weights)[::-1].cumsum()
        assert float(row["total_attention"]) == pytest.approx(weights.sum(), abs=1e-5)
        assert int(row["tokens"]) == len(weights)
        assert abs(int(row["tokens_needed"]) - (np.searchsorted(held, 0.8 * held[-1]) + 1)) <= 1


def test_run_again_it_makes_no_call_and_says_the_same(four):
    folder, done = four
    again = measured(folder)
    assert (done["calls_made"] > 0, again["calls_made"]) == (True, 0)
    assert again["records"] == done["records"]


def test_without_its_passes_only_those_are_made_again(four, tmp_path):
    shutil.copytree(four[0], tmp_path / "half")
    with sqlite3.connect(tmp_path / "half" / "calls.sqlite") as file:
        file.execute(
            "DELETE FROM calls WHERE key = (SELECT min(key) FROM calls WHERE key LIKE 'attention%')"
        )
    file.close()
    again = measured(tmp_path / "half")
    assert again["calls_made"] == 1
    assert [one["value"] for one in again["records"]] == pytest.approx(
        [one["value"] for one in four[1]["records"]], rel=1e-3
    )


def test_another_share_needs_passes_of_its_own_and_more_tokens(four):
    folder, done = four
    more = measured(folder, "--share", "0.95", "--no-plots", "--layer", "3")
    assert more["calls_made"] > 0
    for before, after in zip(done["records"], more["records"], strict=True):
        assert before["name"] == after["name"]
        if before["name"].endswith("tokens_needed"):
            assert after["value"] >= before["value"]


def test_scores_by_layer_are_a_table_of_their_own(four):
    folder, done = four
    words = ("--scores", "--layer", "2", "--layer", "4", "--no-plots")
    found = measured(folder, *words)
    added = {one["name"]: one for one in found["records"]}
    assert {name.split(".")[1] for name in added if name.startswith("layers.")} == {
        "full_transfer",
        "L2",
        "L4",
    }
    assert added["layers.L2.minus_full_transfer"]["questions"] == 4
    assert added["layers.L2.tokens"]["value"] < added["layers.full_transfer.tokens"]["value"]
    assert "Sparse transfer by layer" in (folder / "attention.md").read_text()
    assert measured(folder, *words)["calls_made"] == 0
    assert [one for one in found["records"] if one["name"][:6] != "layers"] == done["records"]


def test_people_get_tables(four):
    shown = mai("attention", "shapes", *LIMIT, "--out", str(four[0]), "--scores", "--layer", "2")
    assert shown.exit_code == 0, shown.output
    assert "large + small R" in shown.stdout
    assert "minus full transfer" in shown.stdout


def test_a_layer_that_is_not_there_is_named(four):
    done = mai("attention", "shapes", *LIMIT, "--out", str(four[0]), "--layer", "9")
    assert done.exit_code != 0
    assert "no layer 9" in done.stderr


def test_an_unreadable_image_is_a_line_and_the_others_are_measured(tmp_path, demo_weights):
    (tmp_path / "none.png").write_text("no image")
    there = str(demo_weights.parent / "pictures" / "squares.png")
    asked = {"question": "How many squares can you see in the top row?", "answers": ["4"]}
    lines = [
        {"id": "here", **asked, "images": [there]},
        {"id": "gone", **asked, "images": [str(tmp_path / "none.png")]},
    ]
    file = tmp_path / "own.jsonl"
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    out = str(tmp_path / "out")
    done = mai("attention", "own", "--data", str(file), "--out", out, "--json", "--no-plots")
    assert done.exit_code == 1
    said = [line for line in done.stderr.splitlines() if line.startswith("failed")]
    # Both models reason at the same time, and either may be the first to fail.
    assert sorted(line.split(":")[0] for line in said) == [
        f"failed gone, {source}_reason" for source in ("large", "small")
    ]
    found = json.loads(done.stdout)
    assert {one["id"] for one in found["failures"]} == {"gone"}
    assert [one["questions"] for one in found["records"] if one["name"] == "small.tokens"] == [1]


def test_a_pair_without_attention_is_one_sentence(tmp_path):
    served = {"backend": "server", "model": "m", "base_url": "http://127.0.0.1:9/v1"}
    pair = tmp_path / "served.yaml"
    pair.write_text(json.dumps({"small": served, "large": served}))
    done = mai("attention", "shapes", *LIMIT, "--pair", str(pair), "--out", str(tmp_path / "out"))
    assert done.exit_code == 2
    assert "gives no attention" in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1


def test_values_that_cannot_be_are_refused(tmp_path):
    cases = [(["--share", "0"], "--share cannot be"), (["--layer", "0"], "--layer counts from 1")]
    for words, message in cases:
        done = mai("attention", "shapes", "--out", str(tmp_path), *words)
        assert done.exit_code == 2
        assert message in done.stderr


def test_the_pairs_selector_gives_the_attention_in_the_large_models_place(tmp_path, four):
    pair = tmp_path / "selecting.yaml"
    pair.write_text((ROOT / "configs/pairs/demo.yaml").read_text() + "\nselector: small\n")
    out = str(tmp_path / "out")
    done = mai(
        "attention", "shapes", "--limit", "1", "--pair", str(pair), "--out", out, "--json",
        "--no-plots",
    )  # fmt: skip
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)
    assert (four[1]["attention_of"], found["attention_of"]) == ("large", "small")
    layers = {one["layer"] for one in rows(tmp_path / "out" / "attention.csv")}
    assert len(layers) == _layers("small")


def _layers(role: str) -> int:
    config = json.loads((ROOT / f"demo/weights/{role}/config.json").read_text())
    return config["text_config"]["num_hidden_layers"]
