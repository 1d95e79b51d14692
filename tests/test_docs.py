"""Every code block of README.md and docs/ runs; what a page says is printed is printed."""

import csv
import json
import re
import shlex
from importlib.util import find_spec
from pathlib import Path

import pytest
import yaml
from pages import ROOT, blocks, run_python

from langgraph_mai.configs import load_pair_config

PAGES = ["README.md", *sorted(f"docs/{path.name}" for path in (ROOT / "docs").glob("*.md"))]
# What installs, starts a server or runs these tests; the rest of the test suite, or CI, runs it.
ELSEWHERE = re.compile(r"(.+ )?(pip install|-m venv|pytest|ruff|\.ci/types|langgraph dev)\b")
FOREIGN = {"curl", "export", "source", "vllm"}


def test_there_is_a_page_for_each_way_to_use_it():
    named = {"embedding", "agents", "studio", "streaming", "persistence"}
    assert named < {Path(page).stem for page in PAGES}


@pytest.mark.parametrize("page", [page for page in PAGES if page != "docs/studio.md"])
def test_its_python_runs(page, monkeypatch):
    monkeypatch.chdir(ROOT)
    run_python(page)


@pytest.mark.parametrize("page", PAGES)
def test_its_other_blocks_are_known(page):
    for language, text in blocks(page):
        if language == "yaml":
            assert yaml.safe_load(text)
        elif language == "json":
            assert json.loads(text)
        elif language == "jsonl":
            assert all(json.loads(line) for line in text.splitlines())
        elif language == "csv":
            assert len({len(row) for row in csv.reader(text.splitlines())}) == 1
        else:
            assert language in {"python", "bash", "text", "mermaid", ""}


def test_the_pair_file_that_is_shown_can_be_used(tmp_path):
    (shown,) = [text for language, text in blocks("README.md") if language == "yaml"]
    path = tmp_path / "pair.yaml"
    path.write_text(shown)
    assert load_pair_config(path).small.max_pixels


def is_known(words):
    if words[:2] == ["python", "-m"]:
        return find_spec(words[2]) is not None
    command = Path(words[0]).name
    return command == "mai" or command in FOREIGN or (ROOT / words[1]).is_file()


@pytest.mark.parametrize("page", PAGES)
def test_its_commands_exist(page):
    for language, text in blocks(page):
        for line in text.replace("\\\n", " ").splitlines() if language == "bash" else []:
            if ELSEWHERE.match(line):
                continue
            words = shlex.split(line, comments=True)
            assert not words or is_known(words), line


@pytest.mark.parametrize("page", PAGES)
def test_its_links_lead_somewhere(page):
    text = (ROOT / page).read_text(encoding="utf-8")
    for link, anchor in re.findall(r"\]\((?!https?:)([^)#]*)(#[^)]+)?\)", text):
        target = (ROOT / page).parent / link if link else ROOT / page
        assert target.exists(), link
        if anchor:
            titles = re.findall(r"^#+ (.+)$", target.read_text(encoding="utf-8"), re.MULTILINE)
            slugs = {re.sub(r"[^\w -]", "", title).lower().replace(" ", "-") for title in titles}
            assert anchor[1:] in slugs, anchor


def test_the_examples_that_are_named_are_there_and_all_are_named():
    text = "".join((ROOT / page).read_text(encoding="utf-8") for page in PAGES)
    named = set(re.findall(r"examples/([a-z_]+)\.py", text))
    assert named == {path.stem for path in (ROOT / "examples").glob("*.py")}
