"""What an evaluation keeps in its folder: model calls and results, in one SQLite file."""

import hashlib
import json
import sqlite3
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any, Self

from filelock import Timeout
from typing_extensions import override

from ...configs import ConfigError, PromptsConfig
from ...models.images import ImageError
from ...models.images.sources import read_reference
from ...models.pairs import Pair
from ...nodes.call_cache import CallCache, Value, model_identity
from ..question import Benchmark, BenchmarkQuestion
from ..records import holding
from .results import Result

FILE_NAME = "calls.sqlite"

current_question: ContextVar[str] = ContextVar("current_question", default="")
"""What `question_content` says of the question that a run is about; calls are stored as its."""

_CODE = ("answers", "nodes", "graph")

_TABLES = """
CREATE TABLE IF NOT EXISTS question_calls (key TEXT PRIMARY KEY, question TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS settings (name TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS questions (id TEXT PRIMARY KEY, content TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS results (
    strategy TEXT NOT NULL, key TEXT NOT NULL, result TEXT NOT NULL,
    PRIMARY KEY (strategy, key)
);
SELECT value FROM calls LIMIT 0;
"""

_PROBLEMS = {
    "BUSY": "Another evaluation is running in {folder!r}; wait for it, or name another folder.",
    "FULL": "There is no room left for answers in {folder!r}; free space, and the same command "
    "continues from there.",
    "READONLY": "The answers in {folder!r} may only be read; make the folder and its files "
    "writable, or name another folder.",
    "CANTOPEN": "{path!r} cannot be opened; make the folder and its files writable, or name "
    "another folder.",
    "IOERR": "{path!r} cannot be read or written ({error}); free space or check the disk, and the "
    "same command continues.",
    "": "{path!r} is no store of model calls ({error}); name another folder.",
}
_SAME_PROBLEM = {"LOCKED": "BUSY", "PERM": "READONLY", "AUTH": "READONLY"}


class StoreError(ConfigError):
    """The stored calls cannot be read or written; no more calls are to be made."""


class QuestionCalls(CallCache):
    """A `CallCache` that knows which question each call was made for.

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
        self._database.executescript(_TABLES)

    @override
    def put(self, key: str, value: Value) -> None:
        super().put(key, value)
        with self._lock:
            self._database.execute(
                "INSERT OR IGNORE INTO question_calls VALUES (?, ?)", [key, current_question.get()]
            )

    @override
    async def acall(self, key: str, make: Callable[[], Awaitable[Value]]) -> tuple[Value, bool]:
        made = False

        async def make_once() -> Value:
            nonlocal made
            if key not in self._failed:
                made, value = True, await make()
                if not value.get("error"):
                    return value
                self._failed[key] = value
            return self._failed[key]

        value, cached = await super().acall(key, make_once)
        return value, cached or not made

    def calls_of(self, question: str) -> dict[str, Value]:
        """Return the stored calls of a question, by their keys."""
        with self._lock:
            rows = self._database.execute(
                "SELECT key, value FROM question_calls JOIN calls USING (key) WHERE question = ?",
                [question],
            ).fetchall()
        return {key: json.loads(value) for key, value in rows}

    def take_calls(self, question: str) -> dict[str, Value]:
        """Remove the stored calls of a question, and return them."""
        calls = self.calls_of(question)
        with self._lock:
            self._database.executemany("DELETE FROM calls WHERE key = ?", [[key] for key in calls])
            self._database.execute("DELETE FROM question_calls WHERE question = ?", [question])
        return calls

    def add_calls(self, question: str, calls: Mapping[str, Value]) -> None:
        """Store calls of a question that were made elsewhere."""
        current_question.set(question)
        for key, value in calls.items():
            self.put(key, value)

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
        self._file = folder / FILE_NAME
        with ExitStack() as stack:
            try:
                stack.enter_context(holding(folder, "mai evaluate"))
            except ConfigError as error:
                if isinstance(error.__cause__, Timeout):
                    raise StoreError(_PROBLEMS["BUSY"].format(folder=str(folder))) from error
                raise
            try:
                super().__init__(self._file)
                # May it be written?
                self._database.execute("BEGIN IMMEDIATE").execute("ROLLBACK")
            except sqlite3.Error as error:
                raise _store_error(error, self._file) from error
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
        self._claim_settings(
            {
                "benchmark": benchmark.name,
                **{f"{role} model": identity for role, identity in models.items()},
                "prompts": prompts.model_dump(mode="json"),
            }
        )
        contents = {}
        for question in benchmark.questions:
            try:
                contents[question.id] = question_content(question)
            except ImageError:  # it fails by itself, and is evaluated again once its image is there
                continue
        self._claim_questions(contents)
        return models

    def _claim_settings(self, settings: Mapping[str, Any]) -> None:
        wanted = {name: json.dumps(value, sort_keys=True) for name, value in settings.items()}
        with self._checked(), self._lock:
            held = dict(self._database.execute("SELECT name, value FROM settings"))
            if not held:
                self._database.executemany("INSERT INTO settings VALUES (?, ?)", wanted.items())
                return
        names = [name for name in {**wanted, **held} if held.get(name) != wanted.get(name)]
        if names:
            others = [_difference(name, held.get(name), wanted.get(name)) for name in names]
            raise ConfigError(
                f"This folder holds calls with another {', another '.join(others)}; name another "
                "folder with --out."
            )

    def _claim_questions(self, contents: Mapping[str, str]) -> None:
        with self._checked(), self._lock:
            held = dict(self._database.execute("SELECT id, content FROM questions"))
            others = [name for name in contents if held.get(name, contents[name]) != contents[name]]
            if not others:
                self._database.execute("BEGIN")
                self._database.executemany(
                    "INSERT OR IGNORE INTO questions VALUES (?, ?)", contents.items()
                )
                self._database.execute("COMMIT")
                return
        raise ConfigError(
            f"In this folder {others[0]!r} is the id of another question, with other text, choices "
            f"or images ({len(others)} of {len(contents)} are like that); name another folder "
            "with --out."
        )

    def strategies(self) -> list[str]:
        """Return the strategies that have results here."""
        with self._checked(), self._lock:
            rows = self._database.execute("SELECT DISTINCT strategy FROM results ORDER BY 1")
            return [row[0] for row in rows]

    def result(self, strategy: str, key: str) -> Result | None:
        """Return a strategy's stored result on a question; None if there is none."""
        with self._checked(), self._lock:
            row = self._database.execute(
                "SELECT result FROM results WHERE strategy = ? AND key = ?", (strategy, key)
            ).fetchone()
        found: Result | None = json.loads(row[0]) if row else None
        return found

    def add_result(self, key: str, result: Result) -> None:
        """Store a result under the key of its question."""
        with self._checked(), self._lock:
            self._database.execute(
                "INSERT OR REPLACE INTO results VALUES (?, ?, ?)",
                (result["strategy"], key, json.dumps(result)),
            )

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
            self.problem = _store_error(error, self._file)
            raise self.problem from error


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


def _difference(name: str, held: str | None, wanted: str | None) -> str:
    """Name a setting that differs, with its keys that do, or with both short values."""
    before, now = (json.loads(text) if text else None for text in (held, wanted))
    if isinstance(before, Mapping) and isinstance(now, Mapping):
        return f"{name} ({', '.join(_differing_keys(before, now))})"
    return f"{name} ({_shown(before)}, now {_shown(now)})"


def _differing_keys(
    held: Mapping[str, Any], wanted: Mapping[str, Any], above: str = ""
) -> Iterator[str]:
    for key in dict.fromkeys([*wanted, *held]):
        before, now = held.get(key), wanted.get(key)
        if isinstance(before, Mapping) and isinstance(now, Mapping):
            yield from _differing_keys(before, now, f"{above}{key}.")
        elif before != now:
            yield f"{above}{key}"


def _shown(value: Any) -> str:
    if isinstance(value, Mapping):
        return "some"
    text = "none" if value is None else json.dumps(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def _store_error(error: sqlite3.Error, path: Path) -> StoreError:
    kind = getattr(error, "sqlite_errorname", "").split("_")[1:2]
    name = _SAME_PROBLEM.get(*kind, *kind) if kind else ""
    sentence = _PROBLEMS.get(name, _PROBLEMS[""])
    return StoreError(sentence.format(folder=str(path.parent), path=str(path), error=error))
