"""docs/architecture.md against the package: every module has its line, and imports go one way."""

import ast
import re
from itertools import chain
from pathlib import Path

import pytest

import langgraph_mai
from langgraph_mai import create_mai, load_pair

ROOT = Path(langgraph_mai.__file__).parent
BELOW = {
    "answers": set(),
    "configs": {"answers"},
    "models": {"configs", "answers"},
    "nodes": {"models", "configs", "answers"},
    "graph": {"nodes", "models", "configs", "answers"},
}
"""What each room may import."""
MEASURING = {"graph", "nodes", "models", "configs", "answers", "demo"}
BELOW |= {"benchmarks": MEASURING, "profiling": MEASURING | {"benchmarks"}}
BELOW["serving"] = BELOW["graph"] | {"graph"}
BELOW["tools"] = set(BELOW) | {"demo"}

MODULES = sorted(
    path.relative_to(ROOT)
    for room in BELOW
    for path in (ROOT / room).rglob("*.py")
    if path.name != "__init__.py"
)


def rooms_imported(module: Path) -> set[str]:
    """Rooms that a module imports anywhere in it, its own left out."""
    found = set()
    for node in ast.walk(ast.parse((ROOT / module).read_text(encoding="utf-8"))):
        if not isinstance(node, ast.ImportFrom) or not node.level:
            continue
        inside = module.parts[: len(module.parts) - node.level]
        named = [*inside, *(node.module or "").split(".")]
        rooms = [part for part in named if part]
        found |= {rooms[0]} if rooms else {alias.name for alias in node.names}
    return (found & set(BELOW) | found & {"demo"}) - {module.parts[0]}


@pytest.mark.parametrize("room", BELOW)
def test_imports_go_one_way(room):
    own = [module for module in MODULES if module.parts[0] == room]
    assert own
    beyond = {str(module): rooms_imported(module) - BELOW[room] for module in own}
    assert {name: rooms for name, rooms in beyond.items() if rooms} == {}


def test_every_module_has_its_line_and_every_line_its_module():
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    listed = page.split("## One question, file by file")[0]
    named = chain.from_iterable(line.split("`")[1::2] for line in listed.splitlines())
    known = {name.rpartition("/")[2] for name in named}
    assert [str(module) for module in MODULES if module.name not in known] == []
    demo = {path.name for path in (ROOT / "demo").rglob("*.py")}
    there = demo | {module.name for module in MODULES} | {"__init__.py", "__main__.py"}
    told = {name for name in known if name.endswith(".py")}
    assert told - there == set()


def test_the_drawn_graph_is_the_graph():
    pair = load_pair("demo")
    drawn = create_mai(pair.small, pair.large, prompts=pair.prompts).get_graph().draw_mermaid()
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    edges = re.compile(r"^\s*(\w+) (-->|-\.->) (\w+);$", re.MULTILINE)
    assert sorted(edges.findall(page)) == sorted(edges.findall(drawn))
