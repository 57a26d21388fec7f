"""What is remembered: an SQLite database, in memory or in a file, with bounds on rows, bytes and age.

Choice: SQLite for both, so that filters and pages are questions to one engine, history survives a restart, and what is remembered is no
Python object that the garbage collector walks. Rejected: a deque of reports, which hold payloads of any size.
Half of the room is for reports with a verdict other than pass, half for the others; what one kind does not need, the other may take.
The file is ours alone for as long as it is open (SQLite's lock), made 0600, and not for network file systems. One that is damaged is
moved aside; one of a newer version is refused, since whoever goes back a version does not want to lose it; what the disk refuses while we
run is lost and counted, and the pages go on.
Threads: any; one lock.
"""

from __future__ import annotations

import json
import logging
import os
import sqlite3
import threading
import zlib
from typing import TYPE_CHECKING, Final

from otel_toolcall_eval.model.errors import SettingsError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from otel_toolcall_eval.sidecar.admin.status.rows import ReportRow


_logger = logging.getLogger(__name__)

SCHEMA_VERSION: Final = 1
APPLICATION_ID: Final = 0x07CE_57A7  # tells our files from other databases, which are left alone

_BUSY_SECONDS: Final = 0.2
_FREE_PAGES_KEPT: Final = 256
_VACUUM_PAGES: Final = 512
_ROW_BYTES: Final = 200  # what a row takes beside its texts
_COMPRESSION: Final = 1

FAULTS: Final = (sqlite3.Error, UnicodeDecodeError)
"""What the file or the disk may raise. The second comes of messages that quote a damaged file."""


_TABLES: Final = """
CREATE TABLE reports (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    evaluated_unix_ns INTEGER NOT NULL,
    trace_id BLOB NOT NULL,
    unit BLOB NOT NULL,
    revision INTEGER NOT NULL,
    agent TEXT NOT NULL,
    service TEXT NOT NULL,
    passed INTEGER NOT NULL,
    size INTEGER NOT NULL,
    document BLOB NOT NULL
);
CREATE INDEX reports_trace ON reports (trace_id, unit, number);
CREATE INDEX reports_passed ON reports (passed, number, size);
CREATE TABLE verdicts (
    report INTEGER NOT NULL,
    position INTEGER NOT NULL,
    criteria TEXT NOT NULL,
    evaluator TEXT NOT NULL,
    label TEXT NOT NULL,
    score REAL,
    explanation TEXT NOT NULL,
    PRIMARY KEY (report, position)
) WITHOUT ROWID;
CREATE TRIGGER forgotten AFTER DELETE ON reports BEGIN DELETE FROM verdicts WHERE report = old.number; END;
"""

_PROBES: Final = (
    "SELECT number, evaluated_unix_ns, trace_id, unit, revision, agent, service, passed, size, document FROM reports LIMIT 0",
    "SELECT report, position, criteria, evaluator, label, score, explanation FROM verdicts LIMIT 0",
)

_ADD_REPORT: Final = """
INSERT INTO reports (evaluated_unix_ns, trace_id, unit, revision, agent, service, passed, size, document)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)
"""
_ADD_VERDICT: Final = "INSERT INTO verdicts VALUES (?, ?, ?, ?, ?, ?, ?)"

_FORGET_SAME: Final = "DELETE FROM reports WHERE trace_id = ? AND unit = ? AND revision = ?"
_FORGET_OLD: Final = "DELETE FROM reports WHERE evaluated_unix_ns < ?"
_FORGET_ONE: Final = "DELETE FROM reports WHERE number = ?"
_OLDEST: Final = "SELECT number, size FROM reports WHERE passed = ? ORDER BY number LIMIT 1"
_TOTALS: Final = "SELECT passed, count(*), sum(size) FROM reports GROUP BY passed"


class _DamagedError(Exception):
    """Nothing can be read out of the file."""


class HistoryStore:
    """Reports that are remembered.

    Attributes:
        failures: how often something could not be written or read.
    """

    def __init__(self, path: Path | None, *, traces: int, limit_bytes: int, max_age_ns: int) -> None:
        """Open the file, or make it.

        Args:
            path: of the file; None keeps all in memory.
            traces: most reports.
            limit_bytes: most that they take, texts unpacked or packed as they are kept.
            max_age_ns: how long each is kept.

        Raises:
            SettingsError: the file can't be had: another process has it, it belongs to another program or to a newer version, or the folder
                can't be written.
        """
        self._path = path
        self._traces = traces
        self._limit_bytes = limit_bytes
        self._max_age_ns = max_age_ns
        self.failures = 0
        self._lock = threading.Lock()
        self._closed = False
        # in memory only once it is needed, so that a sidecar that is built and never started has nothing to let go of
        self._connection = None if path is None else self._open(path)

    def add(self, rows: Sequence[ReportRow], *, now_unix_ns: int) -> None:
        """Remember reports, and forget what there is no room for. What the disk refuses is lost and counted; the first is logged."""
        with self._lock:
            connection = self._connected()
            if connection is None:
                return
            try:
                connection.execute("BEGIN IMMEDIATE")
                for row in rows:
                    _insert(connection, row)
                self._forget(connection, now_unix_ns=now_unix_ns)
                connection.execute("COMMIT")
                self._give_back_room(connection)
            except FAULTS as error:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
                self._failed(error)

    def ask(self, question: str, values: Mapping[str, object] | Sequence[object] = ()) -> list[tuple[object, ...]]:
        """Return the rows of a question; none if the file can't be read, which is counted."""
        with self._lock:
            connection = self._connected()
            if connection is None:
                return []
            try:
                return connection.execute(question, values).fetchall()
            except FAULTS as error:
                self._failed(error)
                return []

    def close(self) -> None:
        """Close the file. May be called again."""
        with self._lock:
            self._closed = True
            connection, self._connection = self._connection, None
        if connection is not None:
            try:
                connection.close()
            except FAULTS as error:
                self._failed(error)

    def _failed(self, error: Exception) -> None:
        self.failures += 1
        if self.failures == 1:
            # by its name: the message may quote what the file holds
            reason = getattr(error, "sqlite_errorname", None) or type(error).__qualname__
            _logger.warning("the file of the status page failed; verdicts are missing from it", extra={"reason": reason})

    def _forget(self, connection: sqlite3.Connection, *, now_unix_ns: int) -> None:
        """Remove what is too old, then the oldest of the kind that has more than half, until the rest fits."""
        connection.execute(_FORGET_OLD, (now_unix_ns - self._max_age_ns,))
        counts = {0: (0, 0), 1: (0, 0)} | {passed: (number, size) for passed, number, size in connection.execute(_TOTALS)}
        while sum(number for number, _ in counts.values()) > self._traces or sum(size for _, size in counts.values()) > self._limit_bytes:
            many = sum(number for number, _ in counts.values()) > self._traces
            kind = max(counts, key=lambda passed: counts[passed][0 if many else 1])
            found = connection.execute(_OLDEST, (kind,)).fetchone()
            if found is None:
                return
            number, size = found
            connection.execute(_FORGET_ONE, (number,))
            counts[kind] = (counts[kind][0] - 1, counts[kind][1] - size)

    def _give_back_room(self, connection: sqlite3.Connection) -> None:
        if self._path is not None and connection.execute("PRAGMA freelist_count").fetchone()[0] > _FREE_PAGES_KEPT:
            connection.executescript(f"PRAGMA incremental_vacuum({_VACUUM_PAGES})")  # executed, it would give one page back

    def _connected(self) -> sqlite3.Connection | None:
        """Return the database; None after the end."""
        if self._connection is None and not self._closed:
            self._connection = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
            self._connection.executescript(_TABLES)
        return self._connection

    def _open(self, path: Path) -> sqlite3.Connection:
        try:
            return self._opened(path)
        except _DamagedError as error:
            self._set_aside(path, str(error))
        try:
            return self._opened(path)
        except _DamagedError as error:  # a file that was made a moment ago
            raise _unusable(path, str(error)) from error

    def _opened(self, path: Path) -> sqlite3.Connection:
        try:
            _make(path)
            connection = sqlite3.connect(path, timeout=_BUSY_SECONDS, isolation_level=None, check_same_thread=False)
        except (OSError, sqlite3.Error) as error:
            raise _unusable(path, str(getattr(error, "strerror", None) or error)) from error
        try:
            _prepare(connection, path)
        except BaseException as error:
            connection.close()
            if isinstance(error, sqlite3.OperationalError):
                if "locked" in str(error):
                    fix = "stop it, or give this one a status.path of its own"
                    raise SettingsError(where=str(path), what="another process has this file", fix=fix) from error
                raise _unusable(path, str(error)) from error
            if isinstance(error, FAULTS):
                raise _DamagedError(str(error)) from error
            raise
        return connection

    @staticmethod
    def _set_aside(path: Path, why: str) -> None:
        number = 1
        while (target := path.with_name(f"{path.name}.corrupt-{number}")).exists():
            number += 1
        for suffix in ("", "-wal", "-shm"):
            part = path.with_name(path.name + suffix)
            if part.exists():
                part.rename(target.with_name(target.name + suffix))
        _logger.error(
            "the file of the status page could not be read and was moved aside; an empty one replaces it",
            extra={"moved_to": str(target), "reason": why},
        )


def _insert(connection: sqlite3.Connection, row: ReportRow) -> None:
    """Remember a report, in place of one that says the same again: after a restart, a journal may emit a verdict once more."""
    document = zlib.compress(json.dumps(row.document).encode(), _COMPRESSION)
    texts = sum(len(verdict.criteria) + len(verdict.evaluator) + len(verdict.explanation) + _ROW_BYTES for verdict in row.verdicts)
    values = (
        row.evaluated_unix_ns,
        row.trace_id,
        row.unit,
        row.revision,
        row.agent,
        row.service,
        row.passed,
        len(document) + texts + _ROW_BYTES,
        document,
    )
    connection.execute(_FORGET_SAME, (row.trace_id, row.unit, row.revision))
    number = connection.execute(_ADD_REPORT, values).lastrowid
    connection.executemany(
        _ADD_VERDICT,
        [
            (number, position, verdict.criteria, verdict.evaluator, verdict.label, verdict.score, verdict.explanation)
            for position, verdict in enumerate(row.verdicts)
        ],
    )


def _make(path: Path) -> None:
    """Make the file before SQLite does, which would let others read it; its own two files get the permissions of this one."""
    try:
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
    except FileExistsError:  # nor opened here: closing any descriptor of a file lets go of all locks that this process has on it
        path.chmod(0o600)


def _prepare(connection: sqlite3.Connection, path: Path) -> None:
    def value(pragma: str) -> object:
        (found,) = connection.execute(f"PRAGMA {pragma}").fetchone()
        return found

    connection.execute("PRAGMA locking_mode = EXCLUSIVE")
    empty = not connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()[0]
    if not empty and value("application_id") != APPLICATION_ID:
        raise SettingsError(where=str(path), what="this is the database of another program", fix="choose another status.path")
    version = value("user_version")
    if not empty and isinstance(version, int) and version > SCHEMA_VERSION:
        what = f"it is of format {version}, and this version reads up to format {SCHEMA_VERSION}"
        raise SettingsError(where=str(path), what=what, fix="start the version that wrote it, or choose another status.path")
    if empty:
        connection.execute("PRAGMA auto_vacuum = INCREMENTAL")  # has to come before anything is in the file
    value("journal_mode = WAL")
    connection.execute("PRAGMA synchronous = NORMAL")
    if empty:
        connection.executescript(
            f"BEGIN EXCLUSIVE; {_TABLES} PRAGMA application_id = {APPLICATION_ID}; PRAGMA user_version = {SCHEMA_VERSION}; COMMIT"
        )
        return
    if (found := value("quick_check(1)")) != "ok":
        raise _DamagedError(str(found))
    try:
        for probe in _PROBES:
            connection.execute(probe)
    except sqlite3.OperationalError as error:  # no such table, no such column
        raise _DamagedError(str(error)) from error
    connection.execute("BEGIN EXCLUSIVE")  # takes the lock now, not with the first report
    connection.execute("COMMIT")


def _unusable(path: Path, what: str) -> SettingsError:
    fix = "set status.path to a file in a folder that can be written, on a disk with room"
    return SettingsError(where=str(path), what=f"the file of the status page can't be opened ({what})", fix=fix)
