"""What is remembered: within bounds, over a restart, and whatever the file is."""

from __future__ import annotations

import logging
import sqlite3
import stat
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING

import pytest

from otel_toolcall_eval.model.errors import SettingsError
from otel_toolcall_eval.model.score import Label
from otel_toolcall_eval.sidecar.admin.status.history import History
from otel_toolcall_eval.sidecar.admin.status.store import SCHEMA_VERSION, HistoryStore
from tests.sidecar.status.rows import NOW_NS, row, trace_id

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from tests.sidecar.status.rows import ReportRow

HOUR_NS = 3600 * 10**9


@contextmanager
def stored(path: Path | None = None, *, traces: int = 100, limit_bytes: int = 1 << 20, max_age_ns: int = HOUR_NS) -> Iterator[HistoryStore]:
    store = HistoryStore(path, traces=traces, limit_bytes=limit_bytes, max_age_ns=max_age_ns)
    try:
        yield store
    finally:
        store.close()


def add(store: HistoryStore, *rows: ReportRow, now_ns: int = NOW_NS) -> None:
    store.add(rows, now_unix_ns=now_ns)


def numbers(store: HistoryStore) -> Sequence[int]:
    found = store.ask("SELECT trace_id FROM reports ORDER BY number")
    return [int.from_bytes(traced) for (traced,) in found if isinstance(traced, bytes)]


def test_the_oldest_go_when_there_are_too_many() -> None:
    with stored(traces=3) as store:
        for number in range(5):
            add(store, row(number))
        assert numbers(store) == [2, 3, 4]
        assert store.ask("SELECT count(*) FROM verdicts") == [(3,)]


def test_passing_traces_do_not_push_the_others_out_nor_the_others_them() -> None:
    with stored(traces=4) as store:
        add(store, *(row(number, Label.FAIL) for number in range(3)))
        add(store, *(row(number) for number in range(10, 30)))
        assert numbers(store) == [1, 2, 28, 29]
        add(store, *(row(number, Label.PASS, Label.INCONCLUSIVE) for number in range(40, 60)))
        assert numbers(store) == [28, 29, 58, 59]


def test_one_kind_may_take_what_the_other_does_not_need() -> None:
    with stored(traces=4) as store:
        add(store, row(1, Label.FAIL), *(row(number) for number in range(10, 20)))
        assert numbers(store) == [1, 17, 18, 19]


def test_the_oldest_go_when_they_take_too_much() -> None:
    with stored(limit_bytes=5_000) as store:
        for number in range(50):
            add(store, row(number))
        kept = numbers(store)
        assert 1 < len(kept) < 20
        assert kept == list(range(50 - len(kept), 50))
        ((size,),) = store.ask("SELECT sum(size) FROM reports")
        assert isinstance(size, int)
        assert 0 < size <= 5_000


def test_what_is_too_old_goes_with_the_next_batch() -> None:
    with stored(max_age_ns=HOUR_NS) as store:
        add(store, row(1, at_ns=NOW_NS), row(2, at_ns=NOW_NS + 1))
        add(store, row(3, at_ns=NOW_NS + HOUR_NS), now_ns=NOW_NS + HOUR_NS + 1)
        assert numbers(store) == [2, 3]


def test_a_file_survives_its_process_and_is_its_owners_alone(tmp_path: Path) -> None:
    path = tmp_path / "status.db"
    with stored(path) as store:
        add(store, row(7, Label.FAIL))
        assert [stat.S_IMODE(part.stat().st_mode) for part in tmp_path.iterdir()] == [0o600] * len(list(tmp_path.iterdir()))
    with stored(path) as store:
        (report,) = History(store).reports(trace_id(7))
        assert (report.agent, report.verdicts[0]["label"], report.document["trigger"]) == ("refunds", "fail", "root_span")
        add(store, row(8))
        assert numbers(store) == [7, 8]


def test_a_file_that_others_could_read_is_closed_to_them(tmp_path: Path) -> None:
    path = tmp_path / "status.db"
    path.touch(0o644)
    with stored(path):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_the_bounds_hold_for_what_an_earlier_process_wrote(tmp_path: Path) -> None:
    with stored(tmp_path / "status.db") as store:
        add(store, *(row(number) for number in range(20)))
    with stored(tmp_path / "status.db", traces=3) as store:
        add(store, row(20))
        assert numbers(store) == [18, 19, 20]


@pytest.mark.parametrize(
    "content",
    [
        pytest.param(b"this is no database " * 100, id="something else"),
        pytest.param(b"SQLite format 3\x00" + b"\xff" * 5000, id="a header and rubbish"),
    ],
)
def test_a_file_that_cant_be_read_is_moved_aside_and_said(tmp_path: Path, content: bytes, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "status.db"
    path.write_bytes(content)
    (tmp_path / "status.db.corrupt-1").touch()
    with caplog.at_level(logging.ERROR), stored(path) as store:
        add(store, row(1))
        assert numbers(store) == [1]
    assert (tmp_path / "status.db.corrupt-2").read_bytes() == content
    assert "moved aside" in caplog.text


def test_a_damaged_page_is_found_at_the_start(tmp_path: Path) -> None:
    path = tmp_path / "status.db"
    with stored(path) as store:
        add(store, *(row(number) for number in range(50)))
    content = bytearray(path.read_bytes())
    content[8192:12288] = b"\x55" * 4096
    path.write_bytes(content)
    with stored(path) as store:
        assert numbers(store) == []
    assert (tmp_path / "status.db.corrupt-1").exists()


def test_a_file_that_lacks_a_table_is_moved_aside(tmp_path: Path) -> None:
    path = tmp_path / "status.db"
    with stored(path):
        pass
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("DROP TABLE verdicts")
    with stored(path) as store:
        add(store, row(1))
        assert numbers(store) == [1]
    assert (tmp_path / "status.db.corrupt-1").exists()


def test_a_file_of_a_newer_version_is_refused_and_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "status.db"
    with stored(path):
        pass
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION + 1}")
    before = path.read_bytes()
    with pytest.raises(SettingsError, match=f"it is of format {SCHEMA_VERSION + 1}, and this version reads up to format {SCHEMA_VERSION}"):
        HistoryStore(path, traces=1, limit_bytes=1, max_age_ns=1)
    assert path.read_bytes() == before


def test_the_database_of_another_program_is_refused_and_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "status.db"
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE theirs (a)")
    before = path.read_bytes()
    with pytest.raises(SettingsError, match="the database of another program"):
        HistoryStore(path, traces=1, limit_bytes=1, max_age_ns=1)
    assert path.read_bytes() == before


def test_a_second_sidecar_on_the_same_file_does_not_start(tmp_path: Path) -> None:
    with stored(tmp_path / "status.db") as store:
        with pytest.raises(SettingsError, match="another process has this file"):
            HistoryStore(tmp_path / "status.db", traces=1, limit_bytes=1, max_age_ns=1)
        add(store, row(1))
        assert numbers(store) == [1]


def test_a_folder_that_is_not_there_is_a_setting_to_mend(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"status\.path"):
        HistoryStore(tmp_path / "missing" / "status.db", traces=1, limit_bytes=1, max_age_ns=1)


def test_what_the_disk_refuses_is_counted_and_said_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING), stored(tmp_path / "status.db") as store:
        add(store, row(1))
        store.ask("PRAGMA max_page_count = 1")
        add(store, *(row(number) for number in range(2, 200)))
        add(store, *(row(number) for number in range(200, 400)))
        assert store.failures == 2
        assert numbers(store) == [1]
        store.ask("PRAGMA max_page_count = 100000")
        add(store, row(400))
        assert numbers(store) == [1, 400]
    assert caplog.text.count("the file of the status page failed") == 1


def test_room_that_is_free_is_given_back(tmp_path: Path) -> None:
    path = tmp_path / "status.db"
    with stored(path, traces=3000, limit_bytes=1 << 30) as store:
        add(store, *(row(number, Label.FAIL) for number in range(3000)))
        store.ask("PRAGMA wal_checkpoint(TRUNCATE)")
        full = path.stat().st_size
    with stored(path, traces=10) as store:
        for number in range(10):
            add(store, row(number))
        store.ask("PRAGMA wal_checkpoint(TRUNCATE)")
        assert path.stat().st_size < full / 2


def test_a_question_that_fails_has_no_answer_and_is_counted() -> None:
    with stored() as store:
        assert store.ask("SELECT nothing FROM nowhere") == []
        assert store.failures == 1


def test_after_the_end_nothing_is_remembered_and_nothing_breaks() -> None:
    with stored() as store:
        store.close()
        add(store, row(1))
        assert store.ask("SELECT 1") == []


def test_a_report_larger_than_all_the_room_is_not_kept_and_nothing_breaks() -> None:
    with stored(limit_bytes=1) as store:
        add(store, row(1), row(2, Label.FAIL))
        assert numbers(store) == []


def test_a_folder_that_cant_be_moved_in_is_a_setting_to_mend(tmp_path: Path) -> None:
    (tmp_path / "status.db").mkdir()
    with pytest.raises(SettingsError, match="can't be opened"):
        HistoryStore(tmp_path / "status.db", traces=1, limit_bytes=1, max_age_ns=1)


def test_a_verdict_that_is_emitted_again_is_remembered_once() -> None:
    with stored() as store:
        add(store, row(1, Label.FAIL), row(2))
        add(store, row(1, Label.FAIL))
        assert numbers(store) == [2, 1]
        assert store.ask("SELECT count(*) FROM verdicts") == [(2,)]
