"""Model calls and results on disk, in one SQLite file that a crash at any point leaves whole."""

import json
import sqlite3
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from ...configs import ConfigError
from ...configs.files import writing
from .settings_difference import differing_settings
from .store_faults import StoreError, store_error

FILE_NAME = "calls.sqlite"

_TABLES = """
CREATE TABLE IF NOT EXISTS settings (name TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS questions (id TEXT PRIMARY KEY, content TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS calls (
    key TEXT PRIMARY KEY, role TEXT NOT NULL, style TEXT NOT NULL,
    message TEXT NOT NULL, seconds REAL NOT NULL
);
CREATE TABLE IF NOT EXISTS failed_calls (
    key TEXT PRIMARY KEY, role TEXT NOT NULL, style TEXT NOT NULL,
    error TEXT NOT NULL, tries INTEGER NOT NULL
);
CREATE TABLE IF NOT EXISTS results (
    strategy TEXT NOT NULL, key TEXT NOT NULL, result TEXT NOT NULL,
    PRIMARY KEY (strategy, key)
);
"""


class CallStore:
    """Calls and results of one evaluation, in its folder.

    Each is committed by itself, so a process that is killed loses nothing that it was given; a
    machine that loses power may lose the last few, and the file stays whole. One process at a time
    holds the file.

    Attributes:
        fault: Why nothing can be stored any more; None while all is well. All methods raise it
            then, so that no call is made whose answer would be lost.
    """

    def __init__(self, folder: Path) -> None:
        """Open the store of a folder, or make both.

        Raises:
            ConfigError: Another process holds it, it cannot be written, or the file is none of
                this kind.
        """
        self.fault: StoreError | None = None
        self._lock = threading.Lock()
        self._path = folder / FILE_NAME
        with writing(folder):
            folder.mkdir(parents=True, exist_ok=True)
        try:
            # Under the lock above, any thread may use the connection.
            self._file = sqlite3.connect(self._path, check_same_thread=False, timeout=1.0)
        except sqlite3.Error as error:
            raise store_error(error, self._path) from error
        try:
            # Held exclusively, the log needs no shared memory, which network drives do not have.
            self._file.execute("PRAGMA locking_mode=EXCLUSIVE")
            self._file.execute("PRAGMA journal_mode=WAL")
            self._file.execute("PRAGMA synchronous=NORMAL")
            self._file.executescript(_TABLES)
            self._file.execute("BEGIN IMMEDIATE").execute("ROLLBACK")  # may it be written?
        except sqlite3.Error as error:
            self._file.close()
            raise store_error(error, self._path) from error

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the file; another process may open it then."""
        with self._lock:
            self._file.close()

    def claim(self, settings: Mapping[str, Any]) -> None:
        """Note what is evaluated here, or make sure that it is the same as before.

        Args:
            settings: What every call and result depends on, by name; JSON values.

        Raises:
            ConfigError: The store belongs to other settings; those that differ are named.
        """
        wanted = {name: json.dumps(value, sort_keys=True) for name, value in settings.items()}
        with self._using() as file:
            held = dict(file.execute("SELECT name, value FROM settings"))
            if not held:
                file.executemany("INSERT INTO settings VALUES (?, ?)", wanted.items())
                return
        others = differing_settings(
            {name: json.loads(value) for name, value in held.items()},
            {name: json.loads(value) for name, value in wanted.items()},
        )
        if others:
            raise ConfigError(
                f"This folder holds calls with another {', another '.join(others)}; name another "
                "folder with --out."
            )

    def claim_questions(self, contents: Mapping[str, str]) -> None:
        """Note what is asked under each id, or make sure that it is the same as before.

        Args:
            contents: What a question's answer depends on, hashed, by its id.

        Raises:
            ConfigError: An id was another question's before.
        """
        with self._using() as file:
            held = dict(file.execute("SELECT id, content FROM questions"))
            others = [name for name in contents if held.get(name, contents[name]) != contents[name]]
            if not others:
                file.executemany("INSERT OR IGNORE INTO questions VALUES (?, ?)", contents.items())
                return
        raise ConfigError(
            f"In this folder {others[0]!r} is the id of another question, with other text, choices "
            f"or pictures ({len(others)} of {len(contents)} are like that); name another folder "
            "with --out."
        )

    def call(self, key: str) -> tuple[dict[str, Any], float] | None:
        """A stored call: its message as JSON and the seconds that it took; None if there is none.

        Args:
            key: What the call's answer depends on, hashed.
        """
        with self._using() as file:
            row = file.execute(
                "SELECT message, seconds FROM calls WHERE key = ?", (key,)
            ).fetchone()
        return None if row is None else (json.loads(row[0]), row[1])

    def add_call(
        self, key: str, role: str, style: str, message: Mapping[str, Any], seconds: float
    ) -> None:
        """Store a call that succeeded; it is no failed one any more."""
        with self._using() as file:
            file.execute(
                "INSERT OR REPLACE INTO calls VALUES (?, ?, ?, ?, ?)",
                (key, role, style, json.dumps(message), seconds),
            )
            file.execute("DELETE FROM failed_calls WHERE key = ?", (key,))

    def add_failure(self, key: str, role: str, style: str, error: str) -> None:
        """Note a call that failed; it is no answer, and will be made again."""
        with self._using() as file:
            file.execute(
                "INSERT INTO failed_calls VALUES (?, ?, ?, ?, 1) ON CONFLICT (key) DO UPDATE "
                "SET error = excluded.error, tries = tries + 1",
                (key, role, style, error),
            )

    def failures(self) -> list[dict[str, Any]]:
        """The calls that failed and have not succeeded since: role, style, error, tries."""
        with self._using() as file:
            rows = file.execute(
                "SELECT role, style, error, tries FROM failed_calls ORDER BY rowid"
            ).fetchall()
        return [dict(zip(("role", "style", "error", "tries"), row, strict=True)) for row in rows]

    def count_calls(self) -> dict[str, int]:
        """How many distinct calls are stored, by role and style ("small direct")."""
        with self._using() as file:
            rows = file.execute(
                "SELECT role || ' ' || style, count(*) FROM calls GROUP BY 1 ORDER BY 1"
            ).fetchall()
        return dict(rows)

    def strategies(self) -> list[str]:
        """Strategies that have results here."""
        with self._using() as file:
            rows = file.execute("SELECT DISTINCT strategy FROM results ORDER BY 1").fetchall()
        return [row[0] for row in rows]

    def result(self, strategy: str, key: str) -> dict[str, Any] | None:
        """A strategy's stored result of a question; None if there is none."""
        with self._using() as file:
            row = file.execute(
                "SELECT result FROM results WHERE strategy = ? AND key = ?", (strategy, key)
            ).fetchone()
        return None if row is None else json.loads(row[0])

    def add_result(self, strategy: str, key: str, result: Mapping[str, Any]) -> None:
        """Store a strategy's result of a question."""
        with self._using() as file:
            file.execute(
                "INSERT OR REPLACE INTO results VALUES (?, ?, ?)",
                (strategy, key, json.dumps(result)),
            )

    @contextmanager
    def _using(self) -> Iterator[sqlite3.Connection]:
        """The file, for one transaction.

        Raises:
            StoreError: It cannot be read or written, or could not be before.
        """
        with self._lock:
            if self.fault is not None:
                raise self.fault
            try:
                with self._file:
                    yield self._file
            except sqlite3.ProgrammingError:  # it was closed meanwhile
                raise
            except sqlite3.Error as error:
                self.fault = store_error(error, self._path)
                raise self.fault from error
