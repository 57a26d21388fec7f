"""The disk is full, the file is damaged, somebody else has it: what is told to whom, and how it ends."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
from concurrent.futures import Future
from typing import TYPE_CHECKING

import pytest

from otel_toolcall_eval.engine.buffer.completion import CompletionPolicy, Unit
from otel_toolcall_eval.engine.buffer.trace_buffer import BufferLimits
from otel_toolcall_eval.engine.work_items import BindRequest, LogRequest
from otel_toolcall_eval.model.criteria import BoundCriteria
from otel_toolcall_eval.model.errors import OverloadedError, SettingsError
from otel_toolcall_eval.model.log_record import LogRecord
from otel_toolcall_eval.model.trace import IncompletenessReason
from otel_toolcall_eval.sidecar.journal import statements as sql
from otel_toolcall_eval.sidecar.journal.retention import LOG_WINDOW_NS, Retention
from otel_toolcall_eval.sidecar.journal.store import APPLICATION_ID, FORMAT_VERSION, JournalStore, Sync
from tests.fakes import SECOND_NS, span
from tests.sidecar.journal.lives import Life, copy_of, next_life, request, verdicts
from tests.sidecar.journal.test_replay import AGENT, labels, tool

if TYPE_CHECKING:
    from pathlib import Path

    from otel_toolcall_eval.sidecar.journal.sqlite_journal import SqliteJournal


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "j"


def full(journal: SqliteJournal, *, is_full: bool = True) -> None:
    """Let the file have no more pages than it has, as on a full disk; or again as many as it likes."""
    run = journal._store._run  # noqa: SLF001 - the quota is SQLite's, and the connection is the store's
    (pages,) = run("PRAGMA page_count")[0]
    run(f"PRAGMA max_page_count = {pages if is_full else 2**30}")


def fill(life: Life, first: int) -> list[object]:
    """Send until nothing more goes in; returns what was taken of the last request."""
    taken: list[object] = []
    while not life.journal.counts()["toolcall_eval.journal.failures", ()]:
        life.wait(1)
        taken[:] = life.send(span(1, trace=first, attributes={"gen_ai.tool.call.arguments": "x" * 5000}))
        first += 1
    return taken


def test_full_disk_refuses_requests_before_any_effect_and_recovers_by_itself(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    life = Life(path, Sync.ACK)
    life.send(span(1), tool(2))
    full(life.journal)
    assert not life.journal.has_problem()
    assert fill(life, 100) == []
    received, was_open = life.pipeline.counts.total("received"), life.pipeline.open_traces
    asked, logs = request(span(1, trace=7)), LogRequest(records=(), transport="grpc", received=0, size_bytes=1, done=Future())
    bind = BindRequest(trace_id=span(1, trace=8).trace_id, bound=BoundCriteria(names=("faults",)))
    assert life.turn(asked, bind) == [bind]
    assert asked.done is not None
    refusal = asked.done.exception()
    assert isinstance(refusal, OverloadedError)
    assert (refusal.http_status, refusal.grpc_code, refusal.retry_after_seconds) == (503, "UNAVAILABLE", 1)
    assert (life.pipeline.counts.total("received"), life.pipeline.open_traces) == (received, was_open)
    assert life.journal.has_problem()
    assert life.turn(logs) == [logs]  # nothing of it had to be written
    life.wait(30)
    assert life.emitted == []  # what falls due is decided when it can be written
    full(life.journal, is_full=False)
    life.wait(2)
    assert not life.journal.has_problem()
    assert len(life.emitted) == was_open
    life.send(span(1, trace=7))
    assert [record.levelname for record in caplog.records if "can't be written" in record.message] == ["ERROR"]
    life = next_life(life)
    life.wait(30)
    assert len({verdict[0] for verdict in verdicts(life.emitted)}) == was_open + 1
    assert len(set(verdicts(life.emitted))) == was_open + 1
    life.die()


@pytest.mark.parametrize("sync", [Sync.NONE, Sync.INTERVAL])
@pytest.mark.parametrize("unit", Unit)
def test_full_disk_lets_judging_go_on_and_what_is_missing_is_written_later(path: Path, sync: Sync, unit: Unit) -> None:
    life = Life(path, sync, policy=CompletionPolicy(unit=unit))
    life.send(span(1, attributes=AGENT))
    full(life.journal)
    fill(life, 100)
    assert not life.journal.has_problem()
    life.send(tool(2))
    life.send(span(1, trace=50, attributes=AGENT), tool(2, trace=50))
    life.wait(12)
    judged = len(life.emitted)
    assert judged > 2
    life.send(span(1, trace=60, attributes=AGENT), tool(2, trace=60))
    full(life.journal, is_full=False)
    life.wait(2)
    life = next_life(life, emitted=[])
    assert not [report for report in life.emitted if report.trace_id[-1] in {1, 50}]  # given while it could not be written
    life.send(tool(3), tool(4, trace=60))
    life.wait(12)
    assert {report.trace_id[-1]: labels([report]) for report in life.emitted} == {1: [(1, "fail")], 60: [(0, "fail")]}
    life.die()


def test_end_on_a_full_disk_emits_what_had_to_wait(path: Path) -> None:
    life = Life(path, Sync.ACK)
    life.send(span(1), tool(2))
    full(life.journal)
    fill(life, 100)
    life.end()
    assert [report.trace_id[-1] for report in life.emitted] == [1]


def test_file_that_breaks_while_it_is_open_is_moved_aside_and_written_anew(path: Path) -> None:
    life = Life(path, Sync.ACK)
    life.send(span(1), tool(2))
    life.journal._store._run("DROP TABLE entries")  # noqa: SLF001 - an error of a kind that no full disk makes
    life.journal._writer.failed(sqlite3.DatabaseError("database disk image is malformed"))  # noqa: SLF001
    life.wait(2)
    assert life.journal.counts()["toolcall_eval.journal.discarded", ()] == 1
    assert path.with_name("j.corrupt-1").exists()
    life = next_life(life)
    life.wait(12)
    assert labels(life.emitted) == [(0, "pass")]
    life.die()


def test_failure_to_sync_is_counted(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    life = Life(path, Sync.INTERVAL)

    def fails(_: int) -> None:
        raise OSError

    life.journal._sync_disk()  # noqa: SLF001 - what its thread does
    monkeypatch.setattr(os, "fsync", fails)
    life.journal._sync_disk()  # noqa: SLF001
    assert life.journal.counts()["toolcall_eval.journal.failures", ()] == 1
    life.die()


# --- who may have the file


def test_second_process_on_one_file_is_refused_and_the_first_goes_on(path: Path) -> None:
    store = JournalStore(path, Sync.INTERVAL)
    for _ in range(2):  # the first attempt must not have let go of the lock
        with pytest.raises(SettingsError, match="another process has this journal"):
            JournalStore(path, Sync.ACK)
        code = (
            "import sys, pathlib; from otel_toolcall_eval.sidecar.journal.store import *; JournalStore(pathlib.Path(sys.argv[1]), Sync.ACK)"
        )
        ended = subprocess.run([sys.executable, "-c", code, str(path)], check=False, capture_output=True, text=True)
        assert "another process has this journal" in ended.stderr
    store.change((sql.DELIVER, [(3,)]))
    store.close()


def test_folder_that_is_not_there_is_an_error_with_a_cure(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"can't be opened.*No such file.*journal\.path"):
        JournalStore(tmp_path / "no" / "j", Sync.NONE)


def test_folder_in_place_of_a_file_is_an_error_with_a_cure(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"can't be opened.*journal\.path"):
        JournalStore(tmp_path, Sync.NONE)


def test_database_of_another_program_is_left_alone(path: Path) -> None:
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE precious (one)")
    connection.close()
    path.chmod(0o644)
    before = path.read_bytes()
    with pytest.raises(SettingsError, match="the database of another program"):
        JournalStore(path, Sync.NONE)
    assert (path.read_bytes(), path.stat().st_mode & 0o777) == (before, 0o644)


def test_others_may_not_read_the_files(path: Path) -> None:
    mask = os.umask(0)
    try:
        for sync in Sync:
            store = JournalStore(path, sync)
            store.change((sql.DELIVER, [(1,)]))
            assert {each.name: each.stat().st_mode & 0o777 for each in path.parent.iterdir()} == {"j": 0o600, "j-wal": 0o600}
            store.close()
            path.chmod(0o644)
    finally:
        os.umask(mask)


# --- files that can't be used


def prepared(path: Path, *statements: str) -> None:
    JournalStore(path, Sync.NONE).close()
    connection = sqlite3.connect(path)
    for statement in statements:
        connection.execute(statement)
    connection.commit()
    connection.close()


def test_file_of_a_newer_format_is_moved_aside(path: Path) -> None:
    prepared(path, f"PRAGMA user_version = {FORMAT_VERSION + 1}")
    store = JournalStore(path, Sync.NONE)
    assert store.discarded == 1
    assert path.with_name("j.corrupt-1").exists()
    store.close()


def test_each_file_that_is_moved_aside_gets_a_name_of_its_own(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    for number in (1, 2):
        path.write_bytes(b"this is no database, whatever it was meant to be" * 30)
        JournalStore(path, Sync.NONE).close()
        assert path.with_name(f"j.corrupt-{number}").read_bytes().startswith(b"this is no database")
    assert [record.__dict__["moved_to"] for record in caplog.records] == [f"{path}.corrupt-1", f"{path}.corrupt-2"]


def test_tables_that_are_not_ours_under_our_mark_are_moved_aside_when_they_are_read(path: Path) -> None:
    connection = sqlite3.connect(path)
    connection.executescript(f"PRAGMA application_id = {APPLICATION_ID}; PRAGMA user_version = {FORMAT_VERSION}; CREATE TABLE x (y)")
    connection.close()
    store = JournalStore(path, Sync.NONE)
    assert store.discarded == 1
    store.close()


def flipped(path: Path, offset: int, length: int = 1) -> None:
    data = bytearray(path.read_bytes())
    data[offset : offset + length] = bytes(byte ^ 0xFF for byte in data[offset : offset + length])
    path.write_bytes(bytes(data))


@pytest.mark.parametrize("cut", [0.0, 0.3, 0.6, 0.9, 0.99])
@pytest.mark.parametrize("damage", ["cut", "flip"])
def test_torn_tail_of_the_log_is_cut_and_what_is_before_it_is_there(path: Path, cut: float, damage: str) -> None:
    life = Life(path, Sync.NONE)
    for number in range(1, 31):
        life.send(span(1, trace=number), tool(2, trace=number))
    copy = copy_of(path)
    life.die()
    log = copy.with_name(f"{copy.name}-wal")
    size = log.stat().st_size
    if damage == "cut":
        os.truncate(log, int(size * cut))
    else:
        flipped(log, min(int(size * cut), size - 40), 40)
    again = Life(copy, Sync.NONE)
    found = again.pipeline.open_traces
    again.wait(30)
    assert labels(again.emitted) == [(0, "pass")] * found
    assert sorted(report.trace_id[-1] for report in again.emitted) == list(range(1, found + 1))
    assert found < 30
    assert found or cut < 0.5
    again.die()


@pytest.mark.slow
def test_a_flip_anywhere_in_the_file_never_stops_the_start_nor_makes_a_wrong_verdict(path: Path) -> None:
    life = Life(path, Sync.NONE)
    for number in range(1, 9):
        life.send(span(1, trace=number), tool(2, trace=number))
    life.journal._store._run("PRAGMA wal_checkpoint(TRUNCATE)")  # noqa: SLF001 - so that all of it is in the file
    copy = copy_of(path)
    life.die()
    size = copy.stat().st_size
    whole = copy.read_bytes()
    damaged = discarded = 0
    for offset in range(0, size, 97):
        copy.write_bytes(whole)
        copy.with_name(f"{copy.name}-wal").unlink(missing_ok=True)
        flipped(copy, offset)
        if 68 <= offset < 72:  # the mark by which we know our own files; another program's are left alone
            continue
        again = Life(copy, Sync.NONE)
        again.wait(400)
        counts = again.journal.counts()
        damaged += counts["toolcall_eval.journal.damaged", ()]
        discarded += counts["toolcall_eval.journal.discarded", ()]
        for report in again.emitted:
            assert labels([report]) == [(0, "pass")] or IncompletenessReason.JOURNAL in report.doubts
        again.die()
    assert damaged
    assert discarded


# --- how long rows stay


def test_file_stays_small_however_many_traces_come_and_go(path: Path) -> None:
    life = Life(path, Sync.NONE, limits=BufferLimits(num_traces=50, decisions=100))
    sizes = []
    number = 0
    for _ in range(6):
        for _ in range(60):
            number += 1
            life.send(*(tool(n, trace=number) for n in range(1, 30)), span(40, trace=number))
            life.wait(1)
        sizes.append(life.journal._store.used_bytes)  # noqa: SLF001 - what rows take
    assert max(sizes[2:]) < 1.5 * sizes[1]
    life.wait(4000)
    (rows,), (remembered,) = (life.journal._store._run(f"SELECT count(*) FROM {table}")[0] for table in ("entries", "decided"))  # noqa: S608, SLF001
    assert (rows, remembered) == (0, 100)
    life.die()
    assert life.path.stat().st_size < 2 * max(sizes)


def test_copies_that_a_sender_repeats_for_hours_do_not_pile_up(path: Path) -> None:
    life = Life(path, Sync.NONE, compact_bytes=200_000)
    for number in range(300):
        life.send(*(tool(n) for n in range(2, 30)), *([span(1)] if number == 299 else []))
        life.wait(1)
    assert life.journal._store.used_bytes < 600_000  # noqa: SLF001 - what rows take
    life = next_life(life)
    assert life.pipeline.counts.total("received") < 300 * 29
    life.wait(12)
    (report,) = life.emitted
    assert len(report.extraction.calls) == 28
    life.die()


def test_rows_of_undelivered_verdicts_are_bounded_too(path: Path) -> None:
    life = Life(path, Sync.NONE, limits=BufferLimits(num_traces=10), delivers=False)
    for number in range(1, 100):
        life.send(span(1, trace=number), tool(2, trace=number))
        life.wait(12)
    life.wait(120)
    (rows,) = life.journal._store._run("SELECT count(DISTINCT trace_id) FROM entries")[0]  # noqa: SLF001
    assert rows <= 11
    life.die()


def test_log_records_without_a_trace_have_a_bound_of_their_own() -> None:
    retention = Retention(late_window_ns=SECOND_NS, limits=BufferLimits(), log_bytes=100)
    for number in range(1, 5):
        retention.waits(number, 40, now_ns=number)
    assert retention.removal(lambda _: False, delivered=0, now_ns=5).rows == [1, 2]
    assert retention.removal(lambda _: False, delivered=0, now_ns=LOG_WINDOW_NS + 3).rows == [3]


def test_session_that_begins_again_keeps_its_rows(path: Path) -> None:
    life = Life(path, policy=CompletionPolicy(unit=Unit.AGENT_INVOCATION, late_span_window_ns=5 * SECOND_NS), delivers=False)
    life.send(span(10, parent=1, attributes=AGENT, flags=0x300), tool(11, parent=10))
    life.wait(30)
    life.send(span(20, parent=1, attributes=AGENT, flags=0x300), tool(21, parent=20))
    life.delivers = True
    life.wait(2)
    life.wait(2)
    life = next_life(life)
    life.wait(30)
    ids = [report.evaluated_span and report.evaluated_span.span_id[-1] for report in life.emitted]
    assert ids == [10, 20]
    life.die()


def test_loose_log_records_survive_until_their_time_is_over(path: Path) -> None:
    life = Life(path)
    life.log(LogRecord(trace_id=None, span_id=None, event_name="x", attributes={"call_id": "c"}))
    life = next_life(life)
    assert life.pipeline.logs.counts["received", (("transport", "journal"),)] == 1
    life.wait(3700)
    assert life.journal.next_ns() is None
    life.die()
