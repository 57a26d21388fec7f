"""The tables of the file, and what is said to SQLite about them."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias
from zlib import crc32

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from otel_toolcall_eval.sidecar.journal.entries import Row

Statement: TypeAlias = "tuple[str, Sequence[Sequence[object]]]"
"""SQL, and the rows of values that it is run for."""

TABLES = """
CREATE TABLE entries (number INTEGER PRIMARY KEY, trace_id BLOB NOT NULL, kind INTEGER NOT NULL,
                      head INTEGER NOT NULL, body_check INTEGER NOT NULL, body BLOB NOT NULL);
CREATE INDEX entries_by_trace ON entries (trace_id);
CREATE TABLE decided (number INTEGER PRIMARY KEY, key BLOB NOT NULL, unix_ns INTEGER NOT NULL, row_check INTEGER NOT NULL);
CREATE TABLE delivered (one INTEGER PRIMARY KEY CHECK (one = 1), number INTEGER NOT NULL);
INSERT INTO delivered VALUES (1, 0);
"""

ROWS = "SELECT number, trace_id, kind, head, body_check, body FROM entries ORDER BY number"
DECIDED = "SELECT key, unix_ns, row_check FROM decided ORDER BY number"
INSERT = "INSERT INTO entries VALUES (?, ?, ?, ?, ?, ?)"
REMEMBER = "INSERT INTO decided VALUES (?, ?, ?, ?)"
FORGET = "DELETE FROM decided WHERE number <= ?"
DELIVER = "UPDATE delivered SET number = ?"
DELETE_ROW = "DELETE FROM entries WHERE number = ?"
DELETE_TRACE = "DELETE FROM entries WHERE trace_id = ? AND number <= ?"
# All but kinds LOGS, BIND and SHED, which are not part of how a trace stands.
DELETE_KINDS = "DELETE FROM entries WHERE trace_id = ? AND number <= ? AND kind NOT IN (2, 3, 7)"


def values_of(rows: Iterable[Row]) -> list[tuple[object, ...]]:
    """Return rows as values for ``INSERT``."""
    return [(row.number, row.trace_id, int(row.kind), row.head, row.check, row.body) for row in rows]


def remembered(number: int, key: bytes, unix_ns: int) -> tuple[object, ...]:
    """Return a decision as values for ``REMEMBER``."""
    return number, key, unix_ns, check_of(key, unix_ns)


def check_of(key: bytes, unix_ns: int) -> int:
    """Return the checksum of a decision that is only remembered."""
    return crc32(key, crc32(str(unix_ns).encode()))
