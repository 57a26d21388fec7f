"""Writes to the file, gives rows their numbers, and knows whether the file can be written at present."""

from __future__ import annotations

import logging
import sqlite3
from typing import TYPE_CHECKING

from otel_toolcall_eval.sidecar.journal import statements as sql
from otel_toolcall_eval.sidecar.journal.entries import numbered
from otel_toolcall_eval.sidecar.journal.store import FAULTS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from otel_toolcall_eval.sidecar.journal.entries import Draft, Row
    from otel_toolcall_eval.sidecar.journal.retention import Compaction, Removal
    from otel_toolcall_eval.sidecar.journal.statements import Statement
    from otel_toolcall_eval.sidecar.journal.store import JournalStore

_logger = logging.getLogger(__name__)

_PROBE = bytes(128 << 10)  # more than the room that an almost full disk has left


class Writer:
    """Owned by the worker's thread. What it is asked to write is in the file afterwards, or nothing of it, and it says which.

    Attributes:
        last: number of the last row.
        failing: the last attempt failed. Nothing but ``try_again`` is attempted then.
        failures: how many attempts failed.
    """

    def __init__(self, store: JournalStore, *, while_failing: str) -> None:
        """Go on after the rows that there are; ``while_failing`` tells the operator what happens as long as the file can't be written."""
        self._store = store
        self._while_failing = while_failing
        self._ruined = False
        self._last_decided = store.last_decided()
        self.last = store.last_number()
        self.failing = False
        self.failures = 0

    def insert(self, drafts: Sequence[Draft]) -> Sequence[Row] | None:
        """Write rows, and return them with their numbers; None if they are not written."""
        rows = numbered(drafts, self.last + 1)
        if not self._change((sql.INSERT, sql.values_of(rows))):
            return None
        self.last += len(rows)
        return rows

    def deliver(self, number: int) -> bool:
        """Note that decisions up to this number have reached whoever listens."""
        return self._change((sql.DELIVER, [(number,)]))

    def remove(self, removal: Removal, *, forget: int) -> bool:
        """Remove rows, and remember the decisions that they held; forget those up to number ``forget``."""
        done = self._change(
            (sql.DELETE_TRACE, removal.traces),
            (sql.DELETE_ROW, [(number,) for number in removal.rows]),
            self._remember(removal.remember),
            (sql.FORGET, [(forget,)]),
        )
        self._last_decided += len(removal.remember) if done else 0
        return done

    def compact(self, made: Compaction) -> bool:
        """Put rows in place of others."""
        rows = numbered(made.drafts, self.last + 1)
        deleted = [(trace_id, self.last) for trace_id in made.deleted]
        done = self._change((sql.DELETE_KINDS, deleted), (sql.INSERT, sql.values_of(rows)), self._remember(made.past))
        if done:
            self.last += len(rows)
            self._last_decided += len(made.past)
        return done

    @property
    def last_decided(self) -> int:
        """Return the number of the last decision that is only remembered."""
        return self._last_decided

    def tidy(self) -> int:
        """Give room back that is not needed; returns how many bytes rows take, 0 if it can't be told."""
        try:
            self._store.give_back_room()
            used_bytes = self._store.used_bytes
        except FAULTS as error:
            self.failed(error)
            return 0
        return used_bytes

    def try_again(self) -> bool:
        """Try whether the file can be written; tells whether it is another file than before, which has nothing in it."""
        probe = self.last + 1
        anew = self._ruined
        try:
            if self._ruined:
                self._store.reset("it could not be read any more")
                self._ruined = False
            self._store.change((sql.INSERT, [(probe, b"", 0, 0, 0, _PROBE)]), (sql.DELETE_ROW, [(probe,)]))
        except (*FAULTS, OSError) as error:
            self.failed(error)
        else:
            self.failing = False
            _logger.info("the journal can be written again")
        return anew

    def failed(self, error: Exception, *, ruined: bool = False) -> None:
        """Count a failure, and log the first of an episode."""
        self.failures += 1
        # Damage has the bare class; a full disk, a lock, a lost device have classes of their own.
        self._ruined |= ruined or type(error) is sqlite3.DatabaseError or isinstance(error, UnicodeDecodeError)
        if not self.failing:
            self.failing = True
            _logger.error(
                "the journal can't be written; look for room on its disk", extra={"until_then": self._while_failing, "reason": str(error)}
            )

    def _remember(self, decided: Sequence[tuple[bytes, int]]) -> Statement:
        return sql.REMEMBER, [sql.remembered(number, key, at) for number, (key, at) in enumerate(decided, self._last_decided + 1)]

    def _change(self, *statements: Statement) -> bool:
        if self.failing:
            return False
        try:
            self._store.change(*statements)
        except FAULTS as error:
            self.failed(error)
            return False
        return True
