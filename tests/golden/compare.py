"""Compare what the code gives with recorded results, or record them anew.

Usage, from the repository root:
    python tests/golden/compare.py check [--golden FOLDER] [--limit N]
    python tests/golden/compare.py record [--golden FOLDER] [--limit N]

A golden folder holds `shapes-N.jsonl.gz` (every call, answer, route and fallback of N demo
questions under all strategies), `face.json` (public names, schemas, drawing, keys of `--json`)
and `prompts.json` (the texts of every prompt style). Without --golden, it is this one.
"""

import argparse
import gzip
import json
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from typer.testing import CliRunner

import langgraph_mai
from langgraph_mai import MAIContext, create_mai, load_pair
from langgraph_mai.configs import list_prompts
from langgraph_mai.graph import create_strategy
from langgraph_mai.tools.cli import app

HERE = Path(__file__).parent
IMAGE = Path(langgraph_mai.__file__).parent / "demo" / "pictures" / "chart.png"
QUESTIONS: list[dict[str, Any]] = [
    {"question": "Is there a red circle?", "answer_type": "yes_no"},
    {"question": "  How many circles are there in this image\n"},
    {"question": "Which one is there?", "choices": ["a red circle", "a  blue square"]},
    {"question": "Was ist das?\nA) rot\nB) blau", "answer_type": "choice"},
    {"question": "Describe it.", "answer_type": "free_text"},
    {"question": "Which ones?", "answer_type": "list"},
    {"question": "Which bar is the highest?", "answer_type": "short_text"},
]
STYLES = ("small_direct", "small_explain", "small_reason", "full_transfer")


class Recorder(BaseChatModel):
    """Keep each prompt, and answer with the same reasoning."""

    prompts: list[list[BaseMessage]]

    @property
    def _llm_type(self) -> str:
        return "recorder"

    def _generate(self, messages: list[BaseMessage], *_: Any, **__: Any) -> ChatResult:
        self.prompts.append(messages)
        message = AIMessage("Row 1: one.\nRow 2: two.\nAnswer: 3")
        return ChatResult(generations=[ChatGeneration(message=message)])


def prompts() -> dict[str, list[list[list[str]]]]:
    """Return the prompts of each set and style as [role, text or "<image>", ...]."""
    found: dict[str, list[list[list[str]]]] = {}
    for name in list_prompts():
        for style in STYLES:
            recorder = Recorder(prompts=[])
            graph = create_strategy(style, recorder, recorder, prompts=name)
            for question in QUESTIONS:
                graph.invoke({"images": [str(IMAGE), str(IMAGE)], **question})
            found[f"{name} {style}"] = [
                [[message.type, *_parts(message)] for message in prompt]
                for prompt in recorder.prompts
            ]
    return found


def _parts(message: BaseMessage) -> Iterator[str]:
    for block in [message.content] if isinstance(message.content, str) else message.content:
        if isinstance(block, str):
            yield block
        else:
            yield str(block["text"]) if block.get("type") == "text" else "<image>"


def face() -> dict[str, Any]:
    """Return what others build on: names, schemas, the drawing, keys of JSON outputs."""
    pair = load_pair("demo")
    graph = create_mai(pair.small, pair.large, prompts=pair.prompts)
    asked = _json("ask", str(IMAGE), "Which bar is the highest?", "--json")
    return {
        "names": sorted(langgraph_mai.__all__),
        "input": _own_keys(graph.get_input_jsonschema()),
        "output": _own_keys(graph.get_output_jsonschema()),
        "context": _without_descriptions(MAIContext.model_json_schema()),
        "drawing": graph.get_graph().draw_mermaid(),
        "ask": sorted(asked),
        "ask.calls": sorted(asked["calls"][0]),
        "pairs": sorted(_json("pairs", "--json")[0]),
    }


def _own_keys(schema: dict[str, Any]) -> dict[str, Any]:
    """Leave out what LangChain defines: the forms of its messages differ between releases."""
    messages = {"messages": sorted(schema["properties"]["messages"])}
    own = _without_descriptions(schema["properties"])
    return {"required": schema.get("required"), **own, **messages}


def _without_descriptions(schema: Any) -> Any:
    if isinstance(schema, list):
        return [_without_descriptions(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    return {key: _without_descriptions(schema[key]) for key in schema if key != "description"}


def _json(*arguments: str) -> Any:
    done = CliRunner().invoke(app, list(arguments), catch_exceptions=False)
    return json.loads(done.stdout)


def results(limit: int) -> list[dict[str, Any]]:
    """Return every result of `mai evaluate shapes --strategy all --limit N`, in short form."""
    with tempfile.TemporaryDirectory() as folder:
        command = ["evaluate", "shapes", "--strategy", "all", "--limit", str(limit)]
        done = CliRunner().invoke(app, [*command, "--out", folder], catch_exceptions=False)
        assert done.exit_code == 0, done.output
        with (Path(folder) / "results.jsonl").open(encoding="utf-8") as file:
            rows = [json.loads(line) for line in file]
    short = [
        {
            **{key: row[key] for key in ("id", "strategy", "answer", "route", "fallback")},
            "calls": [
                [
                    call[key]
                    for key in ("role", "style", "text", "answer", "input_tokens", "output_tokens")
                ]
                for call in row["calls"]
            ],
        }
        for row in rows
    ]
    return sorted(short, key=lambda row: (row["id"], row["strategy"]))


def recorded(folder: Path, limit: int) -> list[dict[str, Any]]:
    """Return the results that a golden folder holds, sorted as `results` sorts them."""
    with gzip.open(folder / f"shapes-{limit}.jsonl.gz", "rt", encoding="utf-8") as file:
        rows = [json.loads(line) for line in file]
    return sorted(rows, key=lambda row: (row["id"], row["strategy"]))


def differences(old: Any, new: Any, path: str = "") -> Iterator[str]:
    """Yield where two JSON values differ, one line each."""
    if isinstance(old, dict) and isinstance(new, dict):
        for key in sorted(old.keys() | new.keys()):
            yield from differences(old.get(key), new.get(key), f"{path}/{key}")
    elif isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        for number, (one, other) in enumerate(zip(old, new, strict=True)):
            yield from differences(one, other, f"{path}/{number}")
    elif old != new:
        yield f"{path}: {json.dumps(old)[:200]} -> {json.dumps(new)[:200]}"


def _check(folder: Path, limit: int) -> int:
    pairs = {"results": (recorded(folder, limit), results(limit))}
    for name, make in (("face", face), ("prompts", prompts)):
        if (file := folder / f"{name}.json").exists():
            pairs[name] = (json.loads(file.read_text(encoding="utf-8")), make())
    found = 0
    for name, (old, new) in pairs.items():
        lines = list(differences(old, new))
        found += len(lines)
        print(f"{name}: {len(lines)} differences" + "".join(f"\n  {one}" for one in lines[:40]))
    equal = sum(a == b for a, b in zip(*pairs["results"], strict=False))
    print(f"{equal} of {len(pairs['results'][0])} results equal")
    return 1 if found else 0


def _record(folder: Path, limit: int) -> int:
    folder.mkdir(parents=True, exist_ok=True)
    for name, make in (("face", face), ("prompts", prompts)):
        text = json.dumps(make(), indent=1, ensure_ascii=False, sort_keys=True)
        (folder / f"{name}.json").write_text(text + "\n", encoding="utf-8")
    lines = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in results(limit))
    # Without a time stamp, the same results are the same file.
    (folder / f"shapes-{limit}.jsonl.gz").write_bytes(gzip.compress(lines.encode(), mtime=0))
    return 0


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Compare results with recorded ones.")
    parser.add_argument("action", choices=["check", "record"])
    parser.add_argument("--golden", type=Path, default=HERE)
    parser.add_argument("--limit", type=int, default=30)
    given = parser.parse_args()
    act = _check if given.action == "check" else _record
    sys.exit(act(given.golden, given.limit))
