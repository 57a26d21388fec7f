"""Rows of FAULTS, section A, that the journal answers for."""

from __future__ import annotations

import sqlite3
from typing import TYPE_CHECKING

import pytest

from otel_toolcall_eval.model.trace import IncompletenessReason
from otel_toolcall_eval.sidecar.journal.store import JournalStore, Sync
from tests.fakes import span
from tests.patience import PATIENCE_SECONDS
from tests.sidecar.journal.lives import Life, copy_of, next_life
from tests.sidecar.journal.test_replay import labels, tool
from tests.sidecar.test_sidecar import CRITERIA, otlp, otlp_span
from tests.sidecar_process import get, running_sidecar, send_json

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from otel_toolcall_eval.sidecar.journal.entries import Row


def alter(path: Path, statement: str) -> None:
    connection = sqlite3.connect(path)
    connection.execute(statement)
    connection.commit()
    connection.close()


def left_by(path: Path) -> Path:
    """Leave two traces, of which the first comes in two requests and lacks a call that its criteria count."""
    life = Life(path, Sync.ACK)
    life.send(span(1), tool(2), span(1, trace=2), tool(2, trace=2))
    life.send(tool(3), tool(4))
    copy = copy_of(path)
    life.die()
    return copy


@pytest.mark.parametrize(
    ("statement", "doubted"),
    [
        pytest.param("UPDATE entries SET body = zeroblob(length(body)) WHERE number = 3", {1}, id="body"),
        pytest.param("UPDATE entries SET body = 'text' WHERE number = 3", {1}, id="body-of-another-type"),
        pytest.param("UPDATE entries SET trace_id = zeroblob(16) WHERE number = 3", {1, 2}, id="trace-id"),
        pytest.param("UPDATE entries SET trace_id = 'text' WHERE number = 3", {1, 2}, id="trace-id-of-another-type"),
        pytest.param("UPDATE entries SET kind = 4 WHERE number = 3", {1, 2}, id="kind"),
        pytest.param("UPDATE entries SET kind = 400 WHERE number = 3", {1, 2}, id="kind-that-is-none"),
    ],
)
def test_a10_what_can_not_be_read_back_costs_its_trace_its_completeness(path: Path, statement: str, doubted: set[int]) -> None:
    left = left_by(path)
    alter(left, statement)
    life = Life(left, Sync.ACK)
    assert life.journal.counts()["toolcall_eval.journal.damaged", ()] == 1
    life.wait(12)
    found = {report.trace_id[-1]: report for report in life.emitted}
    assert {number for number, report in found.items() if IncompletenessReason.JOURNAL in report.doubts} == doubted
    assert all(report.verdicts[0].label.value == "inconclusive" for number, report in found.items() if number in doubted)
    assert all(labels([report]) == [(0, "pass")] for number, report in found.items() if number not in doubted)
    life.die()


def test_a10_trace_of_which_nothing_can_be_read_back_is_doubted_when_more_of_it_comes(path: Path) -> None:
    left = left_by(path)
    alter(left, "UPDATE entries SET body = zeroblob(9) WHERE number = 2")
    life = Life(left, Sync.ACK)
    life.send(span(1, trace=2))
    life.wait(12)
    assert IncompletenessReason.JOURNAL in next(report for report in life.emitted if report.trace_id[-1] == 2).doubts
    life.die()


def test_a10_damaged_decision_is_not_taken_a_second_time(path: Path) -> None:
    life = Life(path, Sync.ACK)
    life.send(span(1), tool(2))
    life.wait(12)
    left = copy_of(path)
    life.die()
    alter(left, "UPDATE entries SET body = zeroblob(9) WHERE kind = 4")
    life = Life(left, Sync.ACK, emitted=life.emitted)
    life.wait(400)
    assert labels(life.emitted) == [(0, "pass")]
    life.die()


def test_a10_damaged_memory_of_a_decision_is_counted(path: Path) -> None:
    life = Life(path, Sync.ACK)
    life.send(span(1), tool(2))
    life.wait(400)  # past its late window
    life.end()
    alter(path, "UPDATE decided SET unix_ns = 5")
    life = Life(path, Sync.ACK)
    assert life.journal.counts()["toolcall_eval.journal.damaged", ()] == 1
    life.die()


def test_a10_reading_that_breaks_off_leaves_every_trace_in_doubt_and_a_new_file(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    left = left_by(path)
    read = JournalStore.rows

    def breaks_off(store: JournalStore) -> Iterator[Row]:
        yield next(iter(read(store)))
        message = "database disk image is malformed"
        raise sqlite3.DatabaseError(message)

    monkeypatch.setattr(JournalStore, "rows", breaks_off)
    life = Life(left, Sync.ACK)
    monkeypatch.undo()
    life.send(span(1, trace=5))
    life.wait(2)
    assert life.journal.counts()["toolcall_eval.journal.discarded", ()] == 1
    life.send(span(1, trace=5), tool(2, trace=5))
    life = next_life(life)
    life.wait(12)
    assert {report.trace_id[-1]: (IncompletenessReason.JOURNAL in report.doubts, *labels([report])) for report in life.emitted} == {
        1: (True, (0, "inconclusive")),
        5: (False, (0, "pass")),
    }
    life.die()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "j"


@pytest.mark.parametrize("offset", [0, 30, 4096])
def test_a11_corrupt_file_is_moved_aside_and_the_sidecar_starts_and_is_healthy(tmp_path: Path, offset: int) -> None:
    path, criteria = tmp_path / "j", tmp_path / "policy.yaml"
    criteria.write_text(CRITERIA.format(name="all", operator="="), encoding="utf-8")
    left = left_by(path)
    connection = sqlite3.connect(left)
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    connection.close()
    data = bytearray(left.read_bytes())
    data[offset : offset + 60] = b"\xff" * 60
    left.write_bytes(bytes(data))
    environ = {"OTEL_TOOLCALL_EVAL_JOURNAL_PATH": str(left), "OTEL_TOOLCALL_EVAL_JOURNAL_SYNC": "ack"}
    with running_sidecar("--criteria", str(criteria), environ=environ) as sidecar:
        sidecar.until_ready()
        assert get(sidecar.http, "/livez") == (200, b"ok\n")
        send_json(sidecar.http, otlp(otlp_span(77, 1)))
        assert sidecar.verdicts.get(timeout=PATIENCE_SECONDS)["label"] == "pass"
        page = get(sidecar.http, "/metrics")[1].decode()
        assert sidecar.terminate() == 0
    assert left.with_name(f"{left.name}.corrupt-1").read_bytes() == bytes(data)
    assert any(line.startswith("toolcall_eval_journal_discarded_total") and line.endswith(" 1.0") for line in page.splitlines())
    assert f"{left}.corrupt-1" in "".join(sidecar.log)
