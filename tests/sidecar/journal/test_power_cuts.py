"""Power cuts: the disk has what was synced, and of what was written since any part, in sectors, in any order.

What such a disk may hold is made out of copies of the two files before and after one commit. SQLite syncs the header of a log that
begins anew, then the log with the commit, and only then writes it back into the file; so either the log is half written and the file as
it was, or the log is whole and the file half written. Source: SQLite, "Write-Ahead Logging" and "Atomic Commit".
"""

from __future__ import annotations

import random
import sqlite3
from dataclasses import dataclass
from itertools import count
from typing import TYPE_CHECKING, TypeAlias

import pytest

from otel_toolcall_eval.sidecar.journal import statements as sql
from otel_toolcall_eval.sidecar.journal import store as store_module
from otel_toolcall_eval.sidecar.journal.store import JournalStore, Sync

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

SECTOR = 512
WAL_HEADER = 32
COMMITS = 120
TRIES = 6
MOVED_ASIDE = "the journal was moved aside"

Rows: TypeAlias = "dict[int, bytes]"


@dataclass(frozen=True, kw_only=True)
class Disk:
    """The two files of a journal."""

    file: bytes
    log: bytes

    @classmethod
    def of(cls, path: Path) -> Disk:
        return cls(file=path.read_bytes(), log=path.with_name(f"{path.name}-wal").read_bytes())

    def rows(self, folder: Path) -> Rows:
        """Open it, and return what is in it."""
        path = folder / f"cut-{next(_numbers)}"
        path.write_bytes(self.file)
        path.with_name(f"{path.name}-wal").write_bytes(self.log)
        opened = JournalStore(path, Sync.NONE)
        try:
            assert opened.discarded == 0, MOVED_ASIDE
            found = {row.number: row.body for row in opened.rows()}
            opened.change((sql.INSERT, [(1 << 40, bytes(16), 1, 0, 0, b"goes on")]))
        finally:
            opened.close()
        for left in folder.glob(f"{path.name}*"):
            left.unlink()
        return found


_numbers = count(1)


def half_written(before: bytes, after: bytes, chance: random.Random) -> bytes:
    """Return a file of which some sectors are of before and some of after; what was appended may be missing, or zero."""
    made = bytearray(before)
    share = chance.random()
    for start in range(0, len(after), SECTOR):
        if chance.random() < share:
            made[len(made) :] = bytes(max(0, start - len(made)))
            made[start : start + SECTOR] = after[start : start + SECTOR]
    return bytes(made)


def cuts(before: Disk, after: Disk, chance: random.Random) -> Iterator[tuple[Disk, bool]]:
    """Yield what a power cut during one commit may leave, and whether the commit had been acknowledged to SQLite by the disk."""
    synced = before.log
    if before.log[:WAL_HEADER] != after.log[:WAL_HEADER]:
        synced = after.log[:WAL_HEADER] + before.log[WAL_HEADER:]
    for _ in range(TRIES):
        made = half_written(synced, after.log, chance)
        yield Disk(file=before.file, log=after.log[:WAL_HEADER] + made[WAL_HEADER:]), False
        torn = chance.randrange(len(after.log) + 1)
        yield Disk(file=before.file, log=(after.log[:torn] + synced[torn:])), False
        yield Disk(file=half_written(before.file, after.file, chance), log=after.log), True


def commits(store: JournalStore, chance: random.Random) -> Iterator[Rows]:
    """Do what a journal does, a commit at a time; yields what is in it after each."""
    held: Rows = {}
    for number in range(1, COMMITS + 1):
        body = chance.randbytes(chance.choice((20, 900, 9_000)))
        statements: list[sql.Statement] = [(sql.INSERT, [(number, number.to_bytes(16, "big"), 1, 0, 0, body)])]
        held[number] = body
        gone = [old for old in held if old < number and chance.random() < 0.2]
        if gone:
            statements.append((sql.DELETE_ROW, [(old,) for old in gone]))
            held = {old: kept for old, kept in held.items() if old not in gone}
        store.change(*statements)
        yield dict(held)


@pytest.fixture
def small_log(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have the log written back often."""
    monkeypatch.setattr(store_module, "_WAL_PAGES", 40)


@pytest.mark.slow
@pytest.mark.usefixtures("small_log")
@pytest.mark.parametrize("seed", range(3))
def test_a_power_cut_loses_no_commit_that_was_acknowledged_and_halves_none(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)  # noqa: S311 - no secret
    path = tmp_path / "journal"
    store = JournalStore(path, Sync.ACK)
    store.change((sql.INSERT, [(1 << 41, bytes(16), 1, 0, 0, b"first")]), (sql.DELETE_ROW, [(1 << 41,)]))
    before, held = Disk.of(path), dict[int, bytes]()
    written_back, begun_anew, tried, lost = 0, 0, 0, 0
    for now in commits(store, chance):
        after = Disk.of(path)
        written_back += before.file != after.file
        begun_anew += before.log[:WAL_HEADER] != after.log[:WAL_HEADER]
        for disk, is_synced in cuts(before, after, chance):
            found = disk.rows(tmp_path)
            assert found in ([now] if is_synced else [held, now])
            tried += 1
            lost += found != now
        assert after.rows(tmp_path) == now
        before, held = after, now
    store.close()
    assert written_back > 5, "so that files half written back were among them"
    assert begun_anew > 5, "so that logs that begin anew were among them"
    assert 0 < lost < tried, "so that the cuts did cut"


def test_a_log_that_is_cut_anywhere_gives_what_was_committed_at_some_moment(tmp_path: Path) -> None:
    chance = random.Random(7)  # noqa: S311 - no secret
    path = tmp_path / "journal"
    store = JournalStore(path, Sync.INTERVAL)
    history: list[Rows] = [{}]
    for now in commits(store, chance):
        history.append(now)
        disk = Disk.of(path)
        for _ in range(TRIES):
            cut = chance.randrange(WAL_HEADER, len(disk.log) + 1)
            assert Disk(file=disk.file, log=disk.log[:cut]).rows(tmp_path) in history
    store.close()


@pytest.mark.usefixtures("small_log")
def test_a_log_that_is_cut_after_it_was_written_back_harms_nobody(tmp_path: Path) -> None:
    """No power cut does that, since the log was synced; a disk that lies does, or a copy of a file that was being written."""
    chance = random.Random(8)  # noqa: S311 - no secret
    path = tmp_path / "journal"
    store = JournalStore(path, Sync.INTERVAL)
    moved_aside = 0
    for _ in commits(store, chance):
        disk = Disk.of(path)
        cut = chance.randrange(len(disk.log) + 1)
        try:
            Disk(file=disk.file, log=disk.log[:cut]).rows(tmp_path)
        except AssertionError as error:
            assert MOVED_ASIDE in str(error)  # noqa: PT017 - one of the two ways in which it may end
            moved_aside += 1
    store.close()
    assert 0 < moved_aside < COMMITS


def test_the_model_of_a_power_cut_finds_a_file_that_is_not_synced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The counter-proof: parts of a commit that SQLite has to have synced first are told apart from those that it has not."""
    monkeypatch.setattr(store_module, "_WAL_PAGES", 40)
    chance = random.Random(3)  # noqa: S311 - no secret
    path = tmp_path / "journal"
    store = JournalStore(path, Sync.ACK)
    states = [Disk.of(path)]
    wrong = 0
    for now in commits(store, chance):
        states.append(Disk.of(path))
        earlier = states[max(0, len(states) - 12)]
        try:
            wrong += Disk(file=earlier.file, log=states[-1].log).rows(tmp_path) != now  # the file of long ago, as if it had not been synced
        except (sqlite3.Error, AssertionError):
            wrong += 1
    store.close()
    assert wrong
