"""The file: an SQLite database in WAL mode that one process has for itself. Knows rows and numbers, and nothing of what they mean.

Choice: SQLite, since it is there, cuts a torn tail by itself, gives freed room back, and tells a full disk from a damaged file.
Rejected: a log of our own, which would have to learn all that.
The lock is SQLite's own, held for as long as the file is open, and gone with the process however it ends. Not for network file systems.
Threads: one at a time, but for ``sync``, which any may call.
"""

from __future__ import annotations

import logging
import os
import sqlite3
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from otel_toolcall_eval.model.errors import SettingsError
from otel_toolcall_eval.sidecar.journal import statements as sql
from otel_toolcall_eval.sidecar.journal.entries import Row

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

_logger = logging.getLogger(__name__)

FORMAT_VERSION = 1
APPLICATION_ID = 0x07CE_7A1E  # tells our files from other databases, which are left alone

_PAGE_BYTES = 4096
_WAL_PAGES = 4000  # written back to the file in pieces of 16 MiB, 30 ms each
_LEAST_WAL_PAGES = 32
_WAL_SHARE = 4  # of the room on the disk at the start: a log that fills its disk leaves no room to write it back into, and stays
_VACUUM_PAGES = 2000
_FREE_PAGES_KEPT = 1000
_BUSY_SECONDS = 0.2


class Sync(StrEnum):
    """When what was written is on the disk itself, not only with the operating system."""

    NONE = "none"
    INTERVAL = "interval"
    ACK = "ack"


_SYNCHRONOUS = {Sync.NONE: "OFF", Sync.INTERVAL: "NORMAL", Sync.ACK: "FULL"}


FAULTS = (sqlite3.Error, UnicodeDecodeError)
"""What the file or the disk may raise. The second comes of messages that quote a damaged file."""


class UnusableFileError(Exception):
    """The file is no journal that we can read."""


class JournalStore:
    """An open file. Every method but ``close`` and ``sync`` raises one of FAULTS if the disk or the file fails.

    Attributes:
        path: of the file.
        discarded: how many files were moved aside, since nothing could be read out of them.
    """

    def __init__(self, path: Path, sync: Sync) -> None:
        """Open a file, or make it; one that can't be read is moved aside.

        Raises:
            SettingsError: it can't be had: another process has it, it belongs to another program, or the folder can't be written.
        """
        self.path = path
        self.discarded = 0
        self._sync = sync
        self._wal: int | None = None
        self._connection = self._open()

    def _open(self) -> sqlite3.Connection:
        try:
            return self._opened()
        except UnusableFileError as error:
            self._set_aside(str(error))
        try:
            return self._opened()
        except UnusableFileError as error:  # a file that was made a moment ago
            raise self._unusable(str(error)) from error

    def _opened(self) -> sqlite3.Connection:
        try:
            self._make()
            connection = sqlite3.connect(self.path, timeout=_BUSY_SECONDS, isolation_level=None, check_same_thread=False)
        except (OSError, sqlite3.Error) as error:
            raise self._unusable(str(getattr(error, "strerror", None) or error)) from error
        try:
            self._prepare(connection)
        except BaseException as error:
            connection.close()
            if not isinstance(error, FAULTS):
                raise
            if isinstance(error, sqlite3.OperationalError):
                if "locked" in str(error):
                    fix = "stop it, or give this one a journal.path of its own"
                    raise SettingsError(where=str(self.path), what="another process has this journal", fix=fix) from error
                raise self._unusable(str(error)) from error
            raise UnusableFileError(str(error)) from error
        for part in (self.path, self.path.with_name(f"{self.path.name}-wal")):
            if part.exists():
                part.chmod(0o600)  # by name; see _make
        self._hold_wal()
        return connection

    def _make(self) -> None:
        """Make the file before SQLite does, which would let others read it; its own two files get the permissions of this one."""
        try:
            os.close(os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
        except FileExistsError:
            return  # nor opened here: closing any descriptor of a file lets go of all locks that this process has on it

    def _prepare(self, connection: sqlite3.Connection) -> None:
        def value(pragma: str) -> Any:  # noqa: ANN401 - numbers and words
            (found,) = connection.execute(f"PRAGMA {pragma}").fetchone()
            return found

        connection.text_factory = bytes  # nothing is text, but for what a damaged file takes for it
        connection.execute("PRAGMA locking_mode = EXCLUSIVE")
        empty = not value("page_count") or not connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()[0]
        if not empty and value("application_id") != APPLICATION_ID:
            fix = "choose another journal.path"
            raise SettingsError(where=str(self.path), what="this is the database of another program", fix=fix)
        if not empty and value("user_version") != FORMAT_VERSION:
            why = f"it is of format {value('user_version')}, and this version reads format {FORMAT_VERSION}"
            raise UnusableFileError(why)
        if empty:
            connection.execute("PRAGMA auto_vacuum = INCREMENTAL")  # has to come before anything is in the file
        value("journal_mode = WAL")
        connection.execute(f"PRAGMA synchronous = {_SYNCHRONOUS[self._sync]}")
        wal_pages = max(_LEAST_WAL_PAGES, min(_WAL_PAGES, self._room_bytes() // _WAL_SHARE // _PAGE_BYTES))
        connection.execute(f"PRAGMA wal_autocheckpoint = {wal_pages}").fetchall()
        connection.execute(f"PRAGMA journal_size_limit = {wal_pages * _PAGE_BYTES}").fetchall()
        if empty:
            connection.executescript(
                f"BEGIN EXCLUSIVE; {sql.TABLES} PRAGMA application_id = {APPLICATION_ID}; PRAGMA user_version = {FORMAT_VERSION}; COMMIT"
            )
        elif (found := value("quick_check(1)")) != b"ok":
            raise UnusableFileError(repr(found))
        else:
            self._check_tables(connection)

    def _room_bytes(self) -> int:
        """Return the room that the disk has for us, what we have taken of it included."""
        disk = os.statvfs(self.path.parent)
        return disk.f_bavail * disk.f_frsize + self.file_bytes

    @staticmethod
    def _check_tables(connection: sqlite3.Connection) -> None:
        try:
            connection.execute(f"{sql.ROWS} LIMIT 0")
            connection.execute(f"{sql.DECIDED} LIMIT 0")
            connection.execute("SELECT number FROM delivered")
        except sqlite3.OperationalError as error:  # no such table, no such column
            raise UnusableFileError(str(error)) from error

    def _unusable(self, what: str) -> SettingsError:
        fix = "set journal.path to a file in a folder that can be written, on a disk with room"
        return SettingsError(where=str(self.path), what=f"the journal can't be opened ({what})", fix=fix)

    def _set_aside(self, why: str) -> None:
        """Move the file and what belongs to it out of the way, under a name that is free."""
        number = 1
        while (target := self.path.with_name(f"{self.path.name}.corrupt-{number}")).exists():
            number += 1
        parts = [suffix for suffix in ("", "-wal", "-shm") if self.path.with_name(self.path.name + suffix).exists()]
        for suffix in parts:
            self.path.with_name(self.path.name + suffix).rename(target.with_name(target.name + suffix))
        self.discarded += bool(parts)
        _logger.error("the journal could not be read and was moved aside; it begins anew", extra={"moved_to": str(target), "reason": why})

    def reset(self, why: str) -> None:
        """Move a file aside that turned out to be damaged, and go on with an empty one; raises OSError if there can't be one."""
        self.close()
        self._set_aside(why)
        try:
            self._connection = self._opened()
        except (SettingsError, UnusableFileError) as error:
            raise OSError(str(error)) from error

    def _hold_wal(self) -> None:
        if self._sync is Sync.INTERVAL:  # SQLite has no call that syncs its log without writing it back
            self._wal = os.open(self.path.with_name(f"{self.path.name}-wal"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)

    @property
    def used_bytes(self) -> int:
        """Return the room that rows take in the file."""
        (pages,), (free,), (size,) = (self._run(f"PRAGMA {name}")[0] for name in ("page_count", "freelist_count", "page_size"))
        used: int = (pages - free) * size
        return used

    @property
    def file_bytes(self) -> int:
        """Return the size of the file, with the log that SQLite writes ahead; 0 if it is gone."""
        size = 0
        for suffix in ("", "-wal"):
            try:
                size += os.stat(f"{self.path}{suffix}").st_size  # noqa: PTH116 - as text, since any path will do
            except OSError:
                continue
        return size

    def last_number(self) -> int:
        """Return a number that no later row may have."""
        number: int = self._run("SELECT coalesce(max(number), 0) FROM entries")[0][0]
        return max(number, self.delivered())

    def last_decided(self) -> int:
        """Return the number of the last decision that is only remembered."""
        number: int = self._run("SELECT coalesce(max(number), 0) FROM decided")[0][0]
        return number

    def delivered(self) -> int:
        """Return the number up to which decisions have reached whoever listens."""
        number: int = self._run("SELECT coalesce(max(number), 0) FROM delivered")[0][0]
        return number

    def rows(self) -> Iterator[Row]:
        """Yield all rows in order."""
        for number, trace_id, kind, head, check, body in self._connection.execute(sql.ROWS):
            yield Row(number=number, trace_id=trace_id, kind=kind, head=head, check=check, body=body)

    def decided(self) -> Iterator[tuple[bytes, int] | None]:
        """Yield key and time of the decisions that are only remembered, in order; None for one that is damaged."""
        for key, unix_ns, check in self._connection.execute(sql.DECIDED):
            whole = isinstance(key, bytes) and isinstance(unix_ns, int) and check == sql.check_of(key, unix_ns)
            yield (key, unix_ns) if whole else None

    def change(self, *statements: sql.Statement) -> None:
        """Run statements, each for all its rows of values, in one transaction; all of it, or nothing, is in the file afterwards.

        On a disk without room the log is written back, which empties it, and they are run once more: it may be the log that fills the disk.
        """
        try:
            self._change(statements)
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode != sqlite3.SQLITE_FULL:
                raise
            (busy, _, _) = self._run("PRAGMA wal_checkpoint(TRUNCATE)")[0]
            if busy:
                raise
            self._change(statements)

    def _change(self, statements: Sequence[sql.Statement]) -> None:
        connection = self._connection
        try:
            connection.execute("BEGIN IMMEDIATE")
            for sql, values in statements:
                connection.executemany(sql, values)
            connection.execute("COMMIT")
        except FAULTS:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            raise

    def give_back_room(self) -> None:
        """Give some of the room of rows that are gone back to the file system, if it is worth it."""
        (pages,), (free,) = (self._run(f"PRAGMA {name}")[0] for name in ("page_count", "freelist_count"))
        if free > max(_FREE_PAGES_KEPT, pages // 4):
            # as a script: sqlite3 steps a statement without columns once, and each step gives one page back
            self._connection.executescript(f"PRAGMA incremental_vacuum({_VACUUM_PAGES})")

    def sync(self) -> None:
        """Have what was committed so far written to the disk itself; raises OSError if it can't be."""
        if self._wal is not None:
            os.fsync(self._wal)

    def close(self) -> None:
        """Close the file; what was committed is in it, without the log beside it, if the disk allows."""
        wal, self._wal = self._wal, None
        if wal is not None:
            os.close(wal)
        try:
            self._connection.close()
        except FAULTS as error:
            _logger.warning("the journal could not be closed; it is read from its log at the next start", extra={"reason": str(error)})

    def _run(self, sql: str) -> list[Any]:
        return self._connection.execute(sql).fetchall()
