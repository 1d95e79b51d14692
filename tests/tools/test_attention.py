"""`mai attention`: its files, its resume, its table by layer, and what it cannot do."""

import csv
import json
import shutil
import sqlite3
from pathlib import Path

import numpy as np
import pytest
from evaluations import mai

from langgraph_mai import load_pair
from langgraph_mai.benchmarks.datasets import load_benchmark
from langgraph_mai.benchmarks.evaluation.store import EvaluationStore, question_key
from langgraph_mai.nodes.model_call import Agent, agent_request
from langgraph_mai.nodes.prepare import read_task

LIMIT = ("--limit", "4")


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
    every = rows(folder / "attention.csv")
    own = [row for row in every if (row["id"], row["source"]) == (question.id, "small")]
    for row, weights in zip(own, found.weights.astype(float), strict=True):
        held = np.sort(weights)[::-1].cumsum()
        assert float(row["total_attention"]) == pytest.approx(weights.sum(), abs=1e-5)
        assert int(row["tokens"]) == len(weights)
        assert abs(int(row["tokens_needed"]) - (np.searchsorted(held, 0.8 * held[-1]) + 1)) <= 1


def test_run_again_only_what_is_missing_is_made(four, tmp_path):
    folder, done = four
    again = measured(folder)
    assert (done["calls_made"] > 0, again["calls_made"]) == (True, 0)
    assert again["records"] == done["records"]
    shutil.copytree(folder, tmp_path / "half")
    with sqlite3.connect(tmp_path / "half" / "calls.sqlite") as file:
        one_pass = "SELECT min(key) FROM calls WHERE key LIKE '% by head %'"
        assert file.execute(f"DELETE FROM calls WHERE key = ({one_pass})").rowcount == 1
    file.close()
    again = measured(tmp_path / "half")
    assert again["calls_made"] == 1
    values = [one["value"] for one in again["records"]]
    assert values == pytest.approx([one["value"] for one in done["records"]], rel=1e-3)


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
    layers = {name.split(".")[1] for name in added if name.startswith("layers.")}
    assert layers == {"full_transfer", "L2", "L4"}
    assert added["layers.L2.minus_full_transfer"]["questions"] == 4
    assert added["layers.L2.tokens"]["value"] < added["layers.full_transfer.tokens"]["value"]
    assert "Sparse transfer by layer" in (folder / "attention.md").read_text()
    assert [one for one in found["records"] if one["name"][:6] != "layers"] == done["records"]
    shown = mai("attention", "shapes", *LIMIT, "--out", str(folder), *words)
    assert "large + small R" in shown.stdout
    assert "minus full" in shown.stdout
    assert "0 calls and passes made now." in shown.stdout


def test_an_unreadable_image_is_a_line_and_the_others_are_measured(tmp_path, demo_weights):
    (tmp_path / "none.png").write_text("no image")
    there = str(demo_weights.parent / "pictures" / "squares.png")
    asked = {"question": "How many squares can you see in the picture?", "answers": ["4"]}
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


def test_what_cannot_be_measured_is_one_sentence(tmp_path, away):
    for words, message in [
        (["--pair", away], "gives no attention"),
        (["--share", "0"], "--share cannot be"),
        (["--layer", "0"], "--layer counts from 1"),
    ]:
        done = mai("attention", "shapes", *LIMIT, "--out", str(tmp_path / "out"), *words)
        assert done.exit_code == 2
        assert message in done.stderr
        assert len(done.stderr.splitlines()) == 1


def test_the_pairs_selector_gives_the_attention_in_the_large_models_place(tmp_path, write_pair):
    out, pair = tmp_path / "out", write_pair(selector="small")
    words = ("--limit", "1", "--pair", pair, "--out", str(out), "--json", "--no-plots")
    done = mai("attention", "shapes", *words)
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["attention_of"] == "small"
    small = load_pair("demo").small.count_layers()
    assert len({one["layer"] for one in rows(out / "attention.csv")}) == small
