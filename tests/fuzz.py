"""Throw malformed input at every door: `python tests/fuzz.py [KIND ...] [--count N] [--seed N]`.

Every case must end in an answer or in one of the documented errors, within seconds. An audit hook
watches what each opens: no file outside the folder for images (beyond what Python imports), no
connection beyond loopback, no process. Prints one line a kind; exits with 1 if anything was wrong.
"""

import argparse
import base64
import gc
import io
import json
import logging
import os
import random
import signal
import socket
import sys
import tempfile
import threading
import time
import traceback
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil

sys.path.insert(0, str(Path(__file__).parent))

from benchmarks.report.conftest import cascade_result, reason_result, write_evaluation
from fakes import PROMPTS, ScriptedModel
from langchain_core.messages import AIMessage, HumanMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command
from PIL import Image
from starlette.testclient import TestClient

import langgraph_mai
from langgraph_mai import ConfigError, MAIError, MAIInputError, Pair, create_mai
from langgraph_mai.benchmarks.datasets import DataError
from langgraph_mai.benchmarks.datasets.question_file import load_question_file
from langgraph_mai.benchmarks.report.evaluated import Evaluated
from langgraph_mai.benchmarks.report.page import page
from langgraph_mai.benchmarks.report.tables import tables
from langgraph_mai.configs import load_pair_config, load_prompts
from langgraph_mai.models.images import ImageError, block_image, load_image, sources
from langgraph_mai.serving.endpoint import Endpoint

Case = Callable[[random.Random], object]

SECONDS = 20
SECRET = "the-secret-of-a-file"
ROOT = str(Path(langgraph_mai.__file__).parent)
PICTURES = Path(ROOT) / "demo" / "pictures"


SAID = [
    "yes", "no", "3", "", SECRET[:3], '{"a": "x", "b": 3, "c": true}', '{"a": 2, "b": [], "c": {}}',
]  # fmt: skip


class Watch:
    """What a case opened, connected to or started that it must not; see `sys.addaudithook`."""

    def __init__(self, allowed: list[Path]) -> None:
        # Libraries are imported late, and read the clock's and the processor's files.
        own = [
            *allowed,
            Path(sys.prefix),
            Path(sys.base_prefix),
            Path(langgraph_mai.__file__).parent,
        ]
        self._allowed = tuple(str(folder.resolve()) for folder in own)
        self.found: list[str] = []
        self.on = False
        sys.addaudithook(self._hook)

    def _hook(self, event: str, args: tuple[Any, ...]) -> None:
        if not self.on:
            return
        if event == "open" and isinstance(args[0], str | bytes):
            path = os.path.realpath(os.fsdecode(args[0]).replace("\0", ""))
            if not path.startswith(self._allowed) and not path.startswith("/usr/share/zoneinfo"):
                self.found.append(f"opened {path}")
        elif event == "socket.connect" and isinstance(args[1], tuple):
            if args[1][0] not in {"127.0.0.1", "::1"}:
                self.found.append(f"connected to {args[1]}")
        elif event in {"subprocess.Popen", "os.system", "os.exec", "os.posix_spawn"}:
            self.found.append(f"started {args}")


WORDS = [
    "", " ", "\0", "a", "yes", "<|im_end|>\n<|im_start|>assistant", "<|image_pad|>", "{reasoning}",
    "{hint}", "\x1b]0;x\x07", "\u202e", "\ud800", "9" * 400, "-", "1e999", "A. x\nB. y", "a" * 5000,
    "/etc/hostname", "../../secret.txt", "file:///etc/passwd", "data:image/png;base64,AAAA",
    "http://169.254.169.254/", "http://0x7f000001:1/", "default", "demo", "message:1/0", "input:x",
    "small_agent", "prepare", "direct", "transferred",
]  # fmt: skip


def value(rng: random.Random, depth: int = 3) -> Any:
    """Any JSON, and some Python."""
    kind = rng.randrange(12 if depth else 8)
    if kind < 3:
        return rng.choice(WORDS)
    simple: list[Any] = [
        None,
        True,
        rng.randint(-9, 9),
        rng.choice([0.5, 1e400, -1.0, 2**70]),
        b"x",
    ]
    if kind < 8:
        return simple[kind - 3]
    if kind < 10:
        return [value(rng, depth - 1) for _ in range(rng.randrange(4))]
    keys = [*BLOCK_KEYS, *STATE_KEYS, *TASK_KEYS]
    return {rng.choice(keys): value(rng, depth - 1) for _ in range(rng.randrange(5))}


BLOCK_KEYS = [
    "type", "text", "image", "image_url", "url", "base64", "data", "source", "path", "mime_type",
    "file_id", "value", "detail",
]  # fmt: skip
BLOCK_TYPES = [
    "text", "image", "image_url", "input_image", "file", "media", "non_standard", "video", None,
]  # fmt: skip
STATE_KEYS = [
    "messages", "question", "images", "choices", "answer_type", "task", "image_data", "answer",
    "route", "calls", "value", "review", "small_direct", "large_direct", "small_reason",
    "large_transfer", "direct_verdict", "reasoning_verdict", "fallback", "disputed", "gate",
]  # fmt: skip
TASK_KEYS = [
    "question",
    "images",
    "choices",
    "answer_type",
    "settings",
    "prompts",
    "reference",
    "digest",
    "schema",
]
REQUEST_KEYS = [
    "stream", "stream_options", "max_tokens", "max_completion_tokens", "temperature", "seed",
    "stop", "mai", "n", "tools", "user", "messages", "response_format", "model",
]  # fmt: skip
NODES = [
    "prepare", "small_agent", "large_agent", "verification", "small_reasoning",
    "reasoning_verification", "reasoning_transfer", "respond", "nowhere",
]  # fmt: skip


def block(rng: random.Random) -> Any:
    """A content block, more or less."""
    if rng.random() < 0.2:
        return value(rng)
    made = {key: value(rng, 2) for key in rng.sample(BLOCK_KEYS, rng.randrange(4))}
    return made | {"type": rng.choice(BLOCK_TYPES) if rng.random() < 0.8 else value(rng, 1)}


SCHEMA_WORDS = [
    "properties", "type", "enum", "items", "anyOf", "$ref", "$defs", "required", "description",
    "pattern", "minimum", "const", "format", "a", "b", "object", "string", "integer", "array",
    "boolean", "#/$defs/a", "#/properties/a", "#", "(a+)+$", "date",
]  # fmt: skip


def schema(rng: random.Random, depth: int = 4) -> Any:
    """A JSON schema, more or less."""
    kind = rng.randrange(10)
    if depth < 4 and kind < 2:
        return value(rng, 1)
    if not depth or (depth < 4 and kind < 5):
        return {"type": rng.choice(["string", "integer", "boolean", "number"])}
    if depth < 4 and kind == 5:
        return rng.choice(SCHEMA_WORDS)
    made: dict[str, Any] = {
        rng.choice(SCHEMA_WORDS): rng.choice([schema, value])(rng, depth - 1)
        for _ in range(rng.randrange(3))
    }
    if rng.random() < 0.8:
        names = rng.sample(["a", "b", "c", "__class__"], rng.randrange(1, 4))
        made |= {"properties": {name: schema(rng, depth - 1) for name in names}}
        made |= {"required": names, "type": "object"} if rng.random() < 0.8 else {}
    return made


class Doors:
    """The kinds of cases; each method makes one and throws it."""

    def __init__(self, folder: Path) -> None:
        self.root = folder / "images"
        self.root.mkdir()
        (folder / "secret.txt").write_text(SECRET)
        (self.root / "link.png").symlink_to(folder / "secret.txt")
        self.files = [path for path in PICTURES.iterdir() if path.suffix in {".png", ".jpg"}]
        self.images = list(_real_files(self.root))
        self.folder = folder
        script = {
            style: (lambda prompt: SAID[len(prompt) % len(SAID)])
            for style in ("direct", "reason", "transfer", "explain", "judge")
        }
        models = [ScriptedModel(script=script, label=name) for name in ("small", "large")]
        self.mai = create_mai(
            *models, prompts=PROMPTS, image_root=self.root, checkpointer=InMemorySaver()
        )
        self.thread = 0
        results = [one(number) for number in range(10) for one in (cascade_result, reason_result)]
        made = write_evaluation(self.root / "evaluation", results)
        self.evaluation = {one.name: one.read_text() for one in made.glob("*.json*")}
        self.server = _misbehaving_server()
        app = Endpoint(Pair("scripted", *models, PROMPTS))
        self.client = TestClient(app)

    def graph_input(self, rng: random.Random) -> object:
        given = {key: value(rng) for key in rng.sample(STATE_KEYS[:6], rng.randrange(1, 4))}
        if rng.random() < 0.5:
            given |= {"question": rng.choice(WORDS), "images": [self._reference(rng)]}
        if rng.random() < 0.5:
            content = [block(rng) for _ in range(rng.randrange(4))]
            with suppress(ValueError):  # LangChain refuses some
                given["messages"] = [HumanMessage(content), AIMessage("x")][: rng.randrange(3)]
        if rng.random() < 0.3:
            given["schema"] = schema(rng)
        return self._run(given)

    def state(self, rng: random.Random) -> object:
        update = {key: value(rng) for key in rng.sample(STATE_KEYS, rng.randrange(4))}
        update["task"] = {
            "question": "?",
            "images": [],
            "choices": [],
            "answer_type": "yes_no",
            **{key: value(rng) for key in rng.sample(TASK_KEYS, rng.randrange(4))},
        }
        if rng.random() < 0.5:
            update["task"]["settings"] = {"prompts": rng.choice(WORDS)}
        if rng.random() < 0.5:
            update["task"] |= {"schema": schema(rng), "answer_type": "free_text"}
            update |= {key: _call(rng) for key in CALLS if rng.random() < 0.7}
            update |= {"disputed": {"direct": ["a"]}} if rng.random() < 0.5 else {}
        if rng.random() < 0.5:
            return self._run(Command(goto=rng.choice(NODES), update=update))
        config = self._config()
        self.mai.update_state(config, update, as_node=rng.choice(NODES))
        return self.mai.invoke(None, config)

    def blocks(self, rng: random.Random) -> object:
        made = block(rng)
        if rng.random() < 0.5:
            made = {"type": rng.choice(BLOCK_TYPES), rng.choice(BLOCK_KEYS): self._reference(rng)}
        return block_image(made, image_root=self.root)

    def image_bytes(self, rng: random.Random) -> object:
        data = bytearray(rng.choice(self.images))
        for _ in range(rng.randrange(1, 4)):
            at = int(len(data) * rng.random() ** 2)
            match rng.randrange(4):
                case 0:
                    data[at : at + 1] = bytes([rng.randrange(256)])
                case 1:
                    del data[at : at + rng.randrange(1, 64)]
                case 2:
                    data[at:at] = rng.randbytes(rng.randrange(1, 16))
                case _:
                    data[at : at + 4] = rng.choice([b"\xff\xff\xff\xff", bytes(4), b"\0\1\0\0"])
        return block_image({"image": bytes(data)})

    def urls(self, rng: random.Random) -> object:
        paths = ["png", "redirect", "loop", "elsewhere", "garbage", "1xx", "huge", "slow", "reset"]
        url = f"http://127.0.0.1:{self.server}/{rng.choice(paths)}?token={SECRET}"
        if rng.random() < 0.4:
            at = rng.randrange(len(url))
            url = url[:at] + rng.choice(["@", "#", "[", "%00", "\n", "\u3002", "0x"]) + url[at:]
        return load_image(url, allow_fetch=True)

    def configs(self, rng: random.Random) -> object:
        read, name = rng.choice(
            [(load_pair_config, "pairs/demo"), (load_prompts, "prompts/default")]
        )
        here = Path(langgraph_mai.__file__).parent / "configs" / f"{name}.yaml"
        return read(self._file("mine.yaml", _mutated_text(here.read_text(), rng)))

    def question_files(self, rng: random.Random) -> object:
        rows = [
            {"question": "Is it?", "answer": "yes", "images": ["a.png"], "choices": ["x", "y"]},
            {"question": value(rng), "answer": value(rng), "images": value(rng)},
        ]
        text = "\n".join(json.dumps(row, default=str) for row in rows)
        path = self._file("mine.jsonl", _mutated_text(text, rng) if rng.random() < 0.7 else text)
        return load_question_file(path, None, self.root)

    def evaluations(self, rng: random.Random) -> object:
        name = rng.choice(list(self.evaluation))
        folder = self.root / "evaluation"
        for file, text in self.evaluation.items():
            changed = _mutated_text(text, rng) if file == name else text
            self._file(f"evaluation/{file}", changed)
        run = Evaluated.read(folder)
        return page([run], tables([run], []), [{}])

    def requests(self, rng: random.Random) -> object:
        image = base64.b64encode(rng.choice(self.images)).decode()
        uri = f"data:image/png;base64,{image}" if rng.random() < 0.8 else self._reference(rng)
        part = {"type": "image_url", "image_url": {"url": uri}}
        content = [part, {"type": "text", "text": rng.choice(WORDS)}]
        if rng.random() < 0.3:
            content[rng.randrange(2)] = block(rng)
        form = {"type": "json_schema", "json_schema": {"name": "a", "schema": schema(rng)}}
        body = {"model": rng.choice(["mai", "small_direct", "large_reason"])}
        body |= {"messages": [{"role": "user", "content": content}]}
        body |= {"response_format": form} if rng.random() < 0.3 else {}
        body |= {name: value(rng) for name in REQUEST_KEYS if rng.random() < 0.1}
        text = json.dumps(body, default=str)
        text = _mutated_text(text, rng) if rng.random() < 0.3 else text
        kind = {"Content-Type": "application/json"}
        data = text.encode(errors="surrogatepass")
        reply = self.client.post("/v1/chat/completions", content=data, headers=kind)
        if reply.status_code != 200:
            raise MAIInputError(reply.text)
        return reply

    def _reference(self, rng: random.Random) -> Any:
        """An image of the folder, mostly, in one of its forms."""
        path = self.root / f"{rng.randrange(len(self.images))}.png"
        data = base64.b64encode(path.read_bytes()).decode()
        forms = [str(path), path.as_uri(), data, f"data:image/png;base64,{data}", path.read_bytes()]
        return rng.choice(
            [*forms, str(self.root / "link.png"), str(self.root.parent / "secret.txt")]
        )

    def _file(self, name: str, text: str) -> Path:
        path = self.root / name
        path.write_text(text, encoding="utf-8", errors="surrogatepass")
        return path

    def _config(self) -> Any:
        self.thread += 1
        return {"configurable": {"thread_id": str(self.thread)}}

    def _run(self, given: Any) -> object:
        return self.mai.invoke(given, self._config())


DOCUMENTED: tuple[type[Exception], ...] = (
    MAIInputError,
    MAIError,
    ImageError,
    ConfigError,
    DataError,
)


CALLS = ["small_direct", "large_direct", "small_reason", "large_transfer"]


def _call(rng: random.Random) -> dict[str, Any]:
    """A model call with readings of a schema, more or less."""
    readings = {
        name: {"value": value(rng, 1), "written": rng.choice(WORDS)}
        for name in rng.sample(["a", "b", "c", "x"], rng.randrange(4))
    }
    numbers = dict.fromkeys(["images", "input_tokens", "output_tokens", "cached_tokens"], 1)
    texts = dict.fromkeys(["text", "reasoning", "unit"], "") | {"answer": "{}", "seconds": 0.5}
    others = dict.fromkeys(["finish_reason", "cut", "probability", "error"]) | {"cached": False}
    named = {"role": "small", "style": "direct", "kind": "free_text"}
    return {**numbers, **texts, **others, **named, "value": readings}


def _mutated_text(text: str, rng: random.Random) -> str:
    for _ in range(rng.randrange(1, 6)):
        at = rng.randrange(len(text))
        text = (
            text[:at]
            + rng.choice([*WORDS, ": ", "\n", "- ", "*a", "&a ", "!!python/name:os"])
            + (text[at + rng.randrange(12) :])
        )
    return text


def _real_files(root: Path) -> list[bytes]:
    """Twenty files of every format, small enough to be mutated often."""
    seen = Image.open(next(PICTURES.glob("*.png"))).convert("RGB").resize((96, 64))
    made = []
    for kind, options in [
        ("PNG", {}), ("PNG", {"compress_level": 0}), ("JPEG", {}), ("JPEG", {"progressive": True}),
        ("GIF", {}), ("WEBP", {}), ("WEBP", {"lossless": True}), ("BMP", {}), ("TIFF", {}),
        ("TIFF", {"compression": "tiff_lzw"}), ("AVIF", {}), ("ICO", {}), ("PPM", {}), ("TGA", {}),
        ("JPEG2000", {}),
    ]:  # fmt: skip
        stream = io.BytesIO()
        seen.save(stream, kind, **options)
        made.append(stream.getvalue())
    for mode in ("L", "1", "P", "RGBA", "I;16"):
        stream = io.BytesIO()
        (
            seen.convert("L").convert("I").convert(mode) if mode == "I;16" else seen.convert(mode)
        ).save(stream, "PNG")
        made.append(stream.getvalue())
    for number, data in enumerate(made):
        (root / f"{number}.png").write_bytes(data)
    return made


def _misbehaving_server() -> int:
    """A server on loopback that answers as no server should; returns its port."""
    listener = socket.create_server(("127.0.0.1", 0))
    png = base64.b64decode(
        "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
    )

    def answer(connection: socket.socket) -> None:
        with suppress(OSError), connection:
            path = connection.recv(4096).split(b" ")[1].partition(b"?")[0]
            ok = b"HTTP/1.1 200 OK\r\n"
            replies = {
                b"/png": ok + b"Content-Length: %d\r\n\r\n" % len(png) + png,
                b"/redirect": b"HTTP/1.1 302 X\r\nLocation: /png\r\nContent-Length: 0\r\n\r\n",
                b"/loop": b"HTTP/1.1 302 X\r\nLocation: /loop\r\nContent-Length: 0\r\n\r\n",
                b"/elsewhere": b"HTTP/1.1 302 X\r\nLocation: http://10.0.0.1/\r\n\r\n",
                b"/garbage": SECRET.encode() + b"\r\n\r\n",
                b"/huge": ok + b"X: " + b"a" * 200_000 + b"\r\n\r\n",
            }
            if path == b"/1xx":
                connection.sendall(b"HTTP/1.1 103 Hints\r\n\r\n" * 20)
            if path == b"/slow":
                connection.sendall(ok + b"\r\n")
                time.sleep(0.3)
            connection.sendall(replies.get(path, b""))

    def serve() -> None:
        while True:
            connection, _ = listener.accept()
            threading.Thread(target=answer, args=(connection,), daemon=True).start()

    threading.Thread(target=serve, daemon=True).start()
    return int(listener.getsockname()[1])


class _HangError(Exception):
    """A case that took more than `SECONDS`."""


def _hangs(*_: object) -> None:
    raise _HangError


def run(kind: str, doors: Doors, watch: Watch, count: int, seed: int) -> list[str]:
    """Throw so many cases of a kind; return what was wrong, each with its number."""
    wrong: list[str] = []
    ends: Counter[str] = Counter()
    slowest = 0.0
    for number in range(count):
        rng = random.Random(f"{seed} {kind} {number}")
        watch.found.clear()
        if not number % 50:
            gc.collect()
        start = time.monotonic()
        signal.alarm(SECONDS)
        watch.on = True
        try:
            getattr(doors, kind)(rng)
            ends["answered"] += 1
        except DOCUMENTED as error:
            ends[type(error).__name__] += 1
            if SECRET in str(error):
                wrong.append(f"{kind} {number}: quotes the secret: {error}")
        except Exception as error:  # noqa: BLE001  what this program looks for
            frames = traceback.extract_tb(error.__traceback__)
            files = {frame.filename for frame in frames if "/tests/" not in frame.filename}
            ours = any(file.startswith(ROOT) for file in files)
            if not ours and not isinstance(error, _HangError):
                ends["refused by LangGraph"] += 1
                continue
            last = frames[-1]
            name = f"{type(error).__name__} at {Path(last.filename).name}:{last.lineno}"
            ends[name] += 1
            wrong.append(f"{kind} {number}: {name}: {str(error)[:200]}")
        finally:
            watch.on = False
            signal.alarm(0)
        slowest = max(slowest, time.monotonic() - start)
        wrong += [f"{kind} {number}: {what}" for what in watch.found]
    peak = psutil.Process().memory_info().rss >> 20
    print(f"{kind}: {count} cases, slowest {slowest:.1f} s, {peak} MiB, {dict(ends)}", flush=True)
    return wrong


def main() -> None:
    """Run the kinds that are named, or all."""
    kinds = [name for name in vars(Doors) if not name.startswith("_")]
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("kinds", nargs="*", default=kinds, metavar="KIND")
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    signal.signal(signal.SIGALRM, _hangs)
    logging.disable()  # LangGraph writes of each run that fails
    # Where a run cannot begin, LangGraph leaves its executor to the garbage collector. Python 3.11
    # hangs if that runs while a thread starts, once in some ten thousand cases.
    gc.disable()
    with tempfile.TemporaryDirectory() as name:
        doors = Doors(Path(name))
        watch = Watch([doors.root])
        sources.is_public = lambda address: address == "127.0.0.1"  # the server above
        wrong = [
            one
            for kind in options.kinds
            for one in run(kind, doors, watch, options.count, options.seed)
        ]
    for one in wrong[:50]:
        print(one)
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
