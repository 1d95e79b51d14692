"""What an evaluation keeps in its folder: model calls and results, in one SQLite file."""

import hashlib
import json
import re
import sqlite3
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any, Self, cast

from pydantic import TypeAdapter, ValidationError
from typing_extensions import override

from ...configs import ConfigError, PromptsConfig
from ...models.images import ImageError
from ...models.images.sources import read_reference
from ...models.pairs import Pair
from ...nodes.call_cache import CallCache, Value, model_identity, stored_value
from ...nodes.confidence import load_calibration
from ..question import Benchmark, BenchmarkQuestion
from ..records import holding
from .results import GATED, Result

FILE_NAME = "calls.sqlite"

current_question: ContextVar[str] = ContextVar("current_question", default="")
"""What `question_content` says of the question that a run is about."""

_CODE = ("answers", "nodes", "graph")
_SHOWN = 60

_FAILED = re.compile(
    r"(?P<error>The (?P<role>\w+) model's (?P<style>\w+) call failed: .*)", re.DOTALL
)

_TABLES = """
CREATE TABLE IF NOT EXISTS settings (name TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS questions (id TEXT PRIMARY KEY, content TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS results (
    strategy TEXT NOT NULL, key TEXT NOT NULL, result TEXT NOT NULL,
    PRIMARY KEY (strategy, key)
);
SELECT value FROM calls LIMIT 0;
"""


_RESULT = TypeAdapter(Result)


class StoreError(ConfigError):
    """The stored calls cannot be read or written; no more calls are to be made."""


class QuestionCalls(CallCache):
    """A `CallCache` whose keys begin with the question that a call is made for.

    A call that failed is not made again as long as the object lives, so that all strategies of an
    evaluation see the same.
    """

    def __init__(self, path: Path | None = None) -> None:
        """Open or create the file; None keeps the calls in memory.

        Raises:
            sqlite3.Error: The file is none of this kind, or cannot be written.
        """
        super().__init__(path)
        self._failed: dict[str, Value] = {}

    @override
    def key_of(self, model: Any, content: Any) -> str:
        return f"{current_question.get()}/{super().key_of(model, content)}"

    @override
    async def acall(
        self, key: str, make: Callable[[], Awaitable[Value]], *, in_loop: bool = True
    ) -> tuple[Value, bool]:
        made = False

        async def make_once() -> Value:
            nonlocal made
            if key not in self._failed:
                made, value = True, await make()
                if not value.get("error"):
                    return value
                self._failed[key] = value
            return self._failed[key]

        value, cached = await super().acall(key, make_once, in_loop=in_loop)
        return value, cached or not made

    def calls_of(self, question: str) -> dict[str, Value]:
        """Return the stored calls of a question, by their keys."""
        with self._lock:
            rows = self._database.execute(
                "SELECT key, value FROM calls WHERE key GLOB ?", [f"{question}/*"]
            ).fetchall()
        read = ((key, stored_value(value)) for key, value in rows)
        return {key: value for key, value in read if value is not None}

    def take_calls(self, question: str) -> dict[str, Value]:
        """Remove the stored calls of a question, and return them with all failed ones."""
        calls = self.calls_of(question)
        with self._lock:
            self._database.execute("DELETE FROM calls WHERE key GLOB ?", [f"{question}/*"])
        return calls | self._failed

    def add_calls(self, calls: Mapping[str, Value]) -> None:
        """Store calls that were made elsewhere, failed ones included."""
        for key, value in calls.items():
            if value.get("error"):
                self._failed[key] = value
            else:
                self.put(key, value)

    def failed_calls(self) -> list[dict[str, str]]:
        """Return role, style and error of the calls that failed, once each."""
        found = (_FAILED.match(value["error"]) for value in self._failed.values())
        return [one.groupdict() for one in found if one]

    def count(self) -> int:
        """Return the number of stored calls."""
        with self._lock:
            found: int = self._database.execute("SELECT count(*) FROM calls").fetchone()[0]
        return found


class EvaluationStore(QuestionCalls):
    """Calls and results of one evaluation, in its folder, which one process at a time holds.

    Each is committed by itself, so a process that is killed loses only what was under way; a
    machine that loses power may lose the last few, and the file stays whole.

    Attributes:
        problem: Why nothing can be stored any more; None while all is well. All methods raise it
            then, so that no call is made whose answer would be lost.
    """

    def __init__(self, folder: Path) -> None:
        """Open the store of a folder, or make both.

        Raises:
            ConfigError: Another process holds it, it cannot be written, or the file is none of
                this kind.
        """
        self.problem: StoreError | None = None
        self._gate = ""
        with ExitStack() as stack:
            stack.enter_context(holding(folder, "mai evaluate"))
            self.path = folder / FILE_NAME
            with self._checked():
                super().__init__(self.path)
                self._database.executescript(_TABLES)
                # May it be written?
                self._database.execute("BEGIN IMMEDIATE").execute("ROLLBACK")
            self._held = stack.pop_all()
        self._count_before = self.count()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @override
    def close(self) -> None:
        super().close()
        self._held.close()

    @override
    def get(self, key: str) -> Value | None:
        with self._checked():
            return super().get(key)

    @override
    def put(self, key: str, value: Value) -> None:
        with self._checked():
            super().put(key, value)

    @property
    def stored(self) -> int:
        """Number of calls that were stored since the store was opened."""
        return self.count() - self._count_before

    def claim(
        self, benchmark: Benchmark, pair: Pair, prompts: PromptsConfig
    ) -> dict[str, dict[str, Any]]:
        """Note what is evaluated here, or make sure that it is the same as before.

        Returns:
            What tells the models from others, by role.

        Raises:
            ConfigError: The store belongs to other settings, which are named, or an id was another
                question's before.
            ModelError: A model's weights cannot be found.
        """
        models = {role: model_identity(model) for role, model in pair.models().items()}
        if pair.gate is not None:
            self._gate = _hashed(load_calibration(pair.gate).model_dump(mode="json"))
        settings = {
            "benchmark": benchmark.name,
            **{f"{role} model": identity for role, identity in models.items()},
            "prompts": prompts.model_dump(mode="json"),
        }
        wanted = dict(_leaves(settings))
        held = dict(self._execute("SELECT name, value FROM settings"))
        others = [name for name in {**wanted, **held} if held.get(name) != wanted.get(name)]
        if held and others:
            named = (f"another {name} ({held.get(name, 'none')[:_SHOWN]})" for name in others)
            raise ConfigError(
                f"This folder holds calls with {', '.join(named)}; name another folder with --out."
            )
        for setting in wanted.items():
            self._execute("INSERT OR IGNORE INTO settings VALUES (?, ?)", *setting)
        self._claim_questions(benchmark)
        return models

    def _claim_questions(self, benchmark: Benchmark) -> None:
        contents = {}
        for question in benchmark.questions:
            try:
                contents[question.id] = question_content(question)
            except ImageError:  # it fails by itself, and is evaluated again once its image is there
                continue
        held = dict(self._execute("SELECT id, content FROM questions"))
        others = [name for name in contents if held.get(name, contents[name]) != contents[name]]
        if others:
            raise ConfigError(
                f"In this folder {others[0]!r} is the id of another question, with other text, "
                f"choices or images ({len(others)} of {len(contents)} are like that); name another "
                "folder with --out."
            )
        for content in contents.items():
            self._execute("INSERT OR IGNORE INTO questions VALUES (?, ?)", *content)

    def questions_hash(self) -> str:
        """Return a SHA-256 of all questions that were claimed here, with their images' bytes."""
        return _hashed([[*row] for row in self._execute("SELECT * FROM questions ORDER BY id")])

    def strategies(self) -> list[str]:
        """Return the strategies that have results here."""
        return [row[0] for row in self._execute("SELECT DISTINCT strategy FROM results ORDER BY 1")]

    def result(self, strategy: str, key: str) -> Result | None:
        """Return a strategy's stored result on a question; None if there is none."""
        rows = self._execute(
            "SELECT result FROM results WHERE strategy = ? AND key = ?",
            strategy,
            self._own(strategy, key),
        )
        return _result(rows[0][0]) if rows else None

    def add_result(self, key: str, result: Result) -> None:
        """Store a result under the key of its question."""
        name = result["strategy"]
        values = (name, self._own(name, key), json.dumps(result))
        self._execute("INSERT OR REPLACE INTO results VALUES (?, ?, ?)", *values)

    def _own(self, strategy: str, key: str) -> str:
        """Return the key of a result; behind a gate, that depends on its calibration."""
        return f"{key} {self._gate}" if strategy == GATED else key

    def _execute(self, statement: str, *values: str) -> list[Any]:
        with self._checked(), self._lock:
            return self._database.execute(statement, values).fetchall()

    @contextmanager
    def _checked(self) -> Iterator[None]:
        """Raise what SQLite raises as a sentence, and the same from then on."""
        if self.problem is not None:
            raise self.problem
        try:
            yield
        except sqlite3.ProgrammingError:  # it was closed meanwhile
            raise
        except sqlite3.Error as error:
            self.problem = StoreError(
                f"The answers cannot be stored in {str(self.path)!r} ({error}): free space, make "
                "it writable, or name another folder; the same command continues from there."
            )
            raise self.problem from error


def _result(text: str) -> Result | None:
    """Read a stored result; one that is damaged is as if it was not there, and made again."""
    found: Any = stored_value(text)
    try:
        calls = [{**call, "cached": False} for call in found["calls"]]
        _RESULT.validate_python({**found, "calls": calls})
    except (KeyError, TypeError, ValidationError):
        return None
    return cast("Result", found)


def question_key(question: BenchmarkQuestion) -> str:
    """Return what a result depends on beside the settings of the evaluation, hashed.

    Two questions with the same text, choices and images have the same results. So does code that
    reads answers in the same way: after a change of it, results are made anew from stored calls.

    Raises:
        ImageError: An image cannot be read.
    """
    return _hashed([question_content(question), question.answer_type, _code_hash()])


def question_content(question: BenchmarkQuestion) -> str:
    """Return a hash of what models see of a question: text, choices and images.

    Raises:
        ImageError: An image cannot be read.
    """
    images = [_content_hash(one) for one in question.images]
    return _hashed([question.question, question.choices, images])


def _hashed(content: Any) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


@cache
def _content_hash(reference: str) -> str:
    return hashlib.sha256(read_reference(reference, allow_fetch=False)).hexdigest()


@cache
def _code_hash() -> str:
    root = Path(str(files(__package__.split(".", maxsplit=1)[0])))
    digest = hashlib.sha256()
    for room in _CODE:
        for path in sorted((root / room).glob("*.py")):
            digest.update(path.read_bytes())
    return digest.hexdigest()


def _leaves(settings: Mapping[str, Any], above: str = "") -> Iterator[tuple[str, str]]:
    """Yield each single setting by the path of its keys, as JSON."""
    for name, value in settings.items():
        if isinstance(value, Mapping):
            yield from _leaves(value, f"{above}{name}.")
        else:
            yield f"{above}{name}", json.dumps(value, sort_keys=True)
