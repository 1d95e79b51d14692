"""What README.md shows is what happens."""

import json
import re
import shlex
from pathlib import Path

import pytest
from typer.testing import CliRunner

from langgraph_mai.tools.cli import app

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
COMMANDS = re.findall(r"^mai ask (.+?)  # (direct|reasoned|transferred)$", README, re.MULTILINE)


def block(language, word):
    """The first code block of a language that holds a word."""
    blocks = re.findall(rf"```{language}\n(.*?)```", README, re.DOTALL)
    return next(text for text in blocks if word in text)


def test_every_route_has_its_command():
    assert [route for _, route in COMMANDS] == ["direct", "reasoned", "transferred"]


@pytest.mark.parametrize(("arguments", "route"), COMMANDS)
def test_a_shown_command_takes_the_shown_route(arguments, route, monkeypatch):
    monkeypatch.chdir(ROOT)
    done = CliRunner().invoke(app, ["ask", *shlex.split(arguments), "--json"])
    assert done.exit_code == 0
    result = json.loads(done.stdout)
    assert result["route"] == route
    assert result["fallback"] is None
    assert set(result["calls"][0]) >= {
        "role",
        "style",
        "text",
        "answer",
        "input_tokens",
        "output_tokens",
        "cached_tokens",
        "seconds",
    }


def test_the_install_command_asks_a_shown_question():
    install = block("bash", "venv .venv")
    asked = re.search(r"mai ask (.+)", install)
    assert asked
    assert asked.group(1) in [arguments for arguments, _ in COMMANDS]


def test_the_graph_is_embedded_in_six_lines(monkeypatch):
    monkeypatch.chdir(ROOT)
    code = block("python", "graph.invoke")
    assert len([line for line in code.splitlines() if line]) <= 6
    names = {}
    exec(code, names)
    assert names["out"]["route"] == "direct"
    assert names["out"]["answer"]


def test_links_lead_somewhere():
    for link in re.findall(r"\]\((?!https?:)([^)#]+)\)", README):
        assert (ROOT / link).exists(), link


def test_options_and_pairs_that_are_named_exist():
    shown = CliRunner().invoke(app, ["ask", "--help"], env={"COLUMNS": "200"}).stdout
    for option in set(re.findall(r"`(--[a-z-]+)", README)):
        assert option in shown
    listed = CliRunner().invoke(app, ["pairs", "--json"]).stdout
    known = {pair["name"] for pair in json.loads(listed)}
    assert known <= set(re.findall(r"`([a-z0-9.-]+)`", README))
