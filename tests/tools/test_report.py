"""`mai report` as people call it: what it writes, and what it says of what cannot be."""

import json
import shutil
from pathlib import Path

import pytest
from evaluations import mai
from PIL import Image

from ..benchmarks.report.conftest import cascade_result, reason_result, write_evaluation


@pytest.fixture(scope="module")
def ten(tmp_path_factory) -> Path:
    results = [one(n) for n in range(10) for one in (cascade_result, reason_result)]
    return write_evaluation(tmp_path_factory.mktemp("evaluated") / "ten", results)


def test_what_is_written_is_named_and_reads_well(ten, tmp_path, monkeypatch):
    monkeypatch.chdir(ten)  # the folder's name is not in the argument
    out, page = tmp_path / "report", tmp_path / "page.html"
    done = mai("report", ".", "--out", str(out), "--html", str(page))
    assert done.exit_code == 0, done.output
    assert f"The page is {page}." in done.stderr
    assert page.read_text().startswith("<!doctype html>")
    files = {file.name for file in out.iterdir()}
    assert {"report.md", "report.json", "ten-disagreements.jsonl", "ten-routes.png"} <= files
    assert {Path(name).suffix for name in files} == {".md", ".json", ".jsonl", ".csv", ".png"}
    assert all(name in done.stderr for name in files)
    paragraphs = (out / "report.md").read_text().split("\n\n")
    assert paragraphs[0] == "# Evaluation"
    assert paragraphs[1].startswith("**ten, pair p** (`.`): Against large_reason")
    assert paragraphs[2] == "**Mean output tokens by style (Tables 5 and 13)**"
    assert paragraphs[3].startswith("| model")
    records = json.loads((out / "report.json").read_text())
    assert {"table", "name", "value", "low", "high", "questions"} <= set(records[0])
    made = json.loads((out / "report-run.json").read_text())
    assert made["settings"]["folders"] == ["."]
    said = json.loads(mai("report", str(ten), "--json").stdout)
    assert set(said) == {"verdicts", "tables"}


REFUSED = [
    ("--out", "file", "'file' cannot be written"),
    ("--out", "file/deeper", "cannot be written"),
    ("--out", "/proc/y", "cannot be written"),
    ("--out", "x" * 300, "cannot be written"),
    ("--html", "folder", "'folder' cannot be written"),
    ("--html", "/proc/x.html", "cannot be written"),
    ("--html", "/dev/full", "No space left on device"),
    ("--html", "no/such/page.html", "cannot be written"),
    ("--protocol", "mine", "typed, strict, vlmevalkit, lmms"),
    ("--predicted", "gone.json", "'gone.json' is no simulate.json"),
    ("--compare", "gone.csv", "There is no file 'gone.csv'"),
]


def test_what_cannot_be_is_one_sentence(ten, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").write_text("")
    (tmp_path / "folder").mkdir()
    for option, value, message in REFUSED:
        done = mai("report", str(ten), option, value, "--no-plots")
        assert done.exit_code == 2, done.output
        assert message in done.stderr
        assert len(done.stderr.splitlines()) == 1
    done = mai("report", str(tmp_path))
    assert (done.exit_code, done.stdout) == (2, "")
    assert "holds no finished evaluation" in done.stderr


def test_a_folder_of_somebody_else_shows_no_files_and_runs_nothing(ten, tmp_path):
    """Its questions name an image of the reader's disk, its names hold HTML and control codes."""
    private = tmp_path / "private.png"
    Image.new("RGB", (64, 64), "blue").save(private)
    folder = tmp_path / "theirs"
    shutil.copytree(ten, folder)
    lines = (folder / "questions.jsonl").read_text().splitlines()
    questions = [json.loads(line) | {"images": [str(private)]} for line in lines]
    (folder / "questions.jsonl").write_text("".join(f"{json.dumps(one)}\n" for one in questions))
    record = json.loads((folder / "run.json").read_text())
    pair = "<script>alert(1)</script>\x1b]0;owned\x07\u202e\n\n![x](https://example.org/seen.png)"
    record |= {"pair": pair}
    (folder / "run.json").write_text(json.dumps(record))
    page, out = tmp_path / "page.html", tmp_path / "out"
    done = mai("report", str(folder), "--html", str(page), "--out", str(out), "--no-plots")
    assert done.exit_code == 0, done.output
    assert "data:image/jpeg" not in page.read_text()
    for text in (page.read_text(), (out / "report.md").read_text()):
        assert "<script>" not in text
    assert "![x](" not in (out / "report.md").read_text()
    assert not {"\x1b", "\x07", "\u202e"} & set(done.output)
