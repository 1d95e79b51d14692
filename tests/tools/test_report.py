"""`mai report` as people call it: what it writes, and what it says of what cannot be."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from langgraph_mai.tools.cli import app

from ..benchmarks.report.conftest import cascade_result, reason_result, write_evaluation


def mai(*words):
    return CliRunner().invoke(app, list(words))


@pytest.fixture(scope="module")
def ten(tmp_path_factory) -> Path:
    results = [one(n) for n in range(10) for one in (cascade_result, reason_result)]
    return write_evaluation(tmp_path_factory.mktemp("evaluated") / "ten", results)


def refused(done, *said):
    assert done.exit_code == 2, done.output
    assert len(done.stderr.splitlines()) == 1
    assert "Errno" not in done.stderr
    assert "unexpected" not in done.stderr
    for one in said:
        assert one in done.stderr


def test_what_is_written_is_named_and_reads_well(ten, tmp_path, monkeypatch):
    monkeypatch.chdir(ten)  # the folder's name is not in the argument
    out = tmp_path / "report"
    done = mai("report", ".", "--out", str(out), "--html", str(tmp_path / "page.html"))
    assert done.exit_code == 0, done.output
    assert f"The page is {tmp_path / 'page.html'}." in done.stderr
    files = {file.name for file in out.iterdir()}
    assert {"report.md", "report.json", "ten-disagreements.jsonl", "ten-routes.png"} <= files
    assert all(name in done.stderr for name in files)
    paragraphs = (out / "report.md").read_text().split("\n\n")
    assert paragraphs[0] == "# Evaluation"
    assert paragraphs[1].startswith("**ten, pair p** (`.`): Against large_reason")
    assert paragraphs[2] == "**Mean output tokens by style (Tables 5 and 13)**"
    assert paragraphs[3].startswith("| model")


def test_json_is_all_that_stands_on_standard_output(ten):
    done = mai("report", str(ten), "--json")
    assert set(json.loads(done.stdout)) == {"verdicts", "tables"}


PLACES = [
    ("--out", "file", "is a file; name a folder"),
    ("--out", "file/deeper", "cannot be made"),
    ("--out", "/proc/y", "cannot be made"),
    ("--out", "a\0b", "cannot be made"),
    ("--html", "folder", "is a folder; name a file, such as 'folder/page.html'"),
    ("--html", ".", "is a folder; name a file"),
    ("--html", "/proc/x.html", "cannot be written to"),
    ("--html", "/dev/full", "No space left on device"),
    ("--html", "no/such/page.html", "There is no folder 'no/such' to write 'page.html' into"),
    ("--html", "x" * 300, "cannot be written to"),
]


def test_a_place_that_cannot_be_written_to_is_named(ten, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").write_text("")
    (tmp_path / "folder").mkdir()
    for option, name, message in PLACES:
        refused(mai("report", str(ten), option, name, "--no-plots"), message)
    for full in ("report.md", "economy.csv", "ten-routes.png"):
        out = tmp_path / full.replace(".", "-")
        out.mkdir()
        (out / full).symlink_to("/dev/full")
        done = mai("report", str(ten), "--out", str(out))
        refused(done, "cannot be written into", "No space left on device")


def test_options_that_cannot_be_are_refused(ten, tmp_path):
    refused(mai("report", str(ten), "--protocol", "mine"), "typed, strict, vlmevalkit, lmms")
    refused(mai("report", str(ten), "--predicted", "gone.json"), "There is no file 'gone.json'")
    refused(mai("report", str(tmp_path)), "holds no finished evaluation")
