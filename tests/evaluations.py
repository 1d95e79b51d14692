"""Evaluations of the built-in questions by `mai evaluate`, and what they leave in a folder."""

import json
from pathlib import Path

from typer.testing import CliRunner

from langgraph_mai.benchmarks.evaluation.store import EvaluationStore
from langgraph_mai.tools.cli import app

FAST = ("--strategy", "mai", "--strategy", "large_direct")


def mai(*words: str):
    """The command in this process."""
    return CliRunner().invoke(app, [*words])


def evaluated(folder: Path, *words: str) -> dict:
    """What an evaluation into a folder says."""
    done = mai("evaluate", "shapes", "--out", str(folder), "--json", *words)
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout)


def stored_calls(folder: Path) -> int:
    with EvaluationStore(folder) as store:
        return store.count()


def results(folder: Path) -> list[dict]:
    """All results, without what differs from run to run: seconds, reused tokens, last digits."""
    lines = [json.loads(line) for line in (folder / "results.jsonl").read_text().splitlines()]
    for line in lines:
        for call in line["calls"]:
            call["seconds"] = call["cached_tokens"] = 0
            call["probability"] = call["probability"] is not None
    return lines
