"""Taking reports in passing: what is remembered under pressure, what is counted, and that the judging thread is not held up."""

from __future__ import annotations

import logging
import threading
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from otel_toolcall_eval.exporters.names import OTHER
from otel_toolcall_eval.model.score import Label
from otel_toolcall_eval.sidecar.admin.status import recent as recent_module
from otel_toolcall_eval.sidecar.admin.status.history import History
from otel_toolcall_eval.sidecar.admin.status.recent import (
    MAX_SERVICES,
    OTHERS_WAITING,
    PASSING_A_SECOND,
    PASSING_WAITING,
    WAITING_BYTES,
    RecentReports,
    ReportTotals,
)
from otel_toolcall_eval.sidecar.admin.status.rows import ReportDetail
from otel_toolcall_eval.sidecar.admin.status.store import HistoryStore
from tests.patience import PATIENCE_SECONDS
from tests.sidecar.status.rows import NOW_NS, TELL, judged, trace_id

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from otel_toolcall_eval.model.score import Verdict
    from tests.sidecar.status.rows import ReportRow

PASS, FAIL, UNSURE = Label.PASS, Label.FAIL, Label.INCONCLUSIVE


@pytest.fixture
def recent(monkeypatch: pytest.MonkeyPatch) -> Iterator[RecentReports]:
    monkeypatch.setattr(recent_module, "BATCH_SECONDS", 3600.0)  # so that rows are made when a test asks for them
    found = RecentReports(HistoryStore(None, traces=10_000, limit_bytes=1 << 30, max_age_ns=10**15), tell=TELL, clock=lambda: NOW_NS)
    yield found
    found.shutdown(PATIENCE_SECONDS)


def kept(recent: RecentReports) -> int:
    recent.settle()
    return History(recent.store).count()


def test_a_report_is_remembered_once_someone_asks(recent: RecentReports) -> None:
    recent.emit(judged(1, PASS, FAIL))
    assert History(recent.store).count() == 0
    recent.settle()
    (report,) = History(recent.store).reports(trace_id(1))
    assert (report.evaluated_unix_ns, [verdict["label"] for verdict in report.verdicts]) == (NOW_NS, ["fail", "pass"])
    assert recent.seen == ReportTotals(others=1)


def test_a_report_is_remembered_soon_though_nobody_asks(recent: RecentReports, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recent_module, "BATCH_SECONDS", 0.0)
    written = threading.Semaphore(0)
    add = recent.store.add

    def tell(rows: Sequence[ReportRow], *, now_unix_ns: int) -> None:
        add(rows, now_unix_ns=now_unix_ns)
        written.release()

    monkeypatch.setattr(recent.store, "add", tell)
    for number in (1, 2):  # the thread waits for the second anew
        recent.emit(judged(number, PASS))
        assert written.acquire(timeout=PATIENCE_SECONDS)
        assert History(recent.store).count() == number


def test_a_batch_takes_only_so_many_and_leaves_the_rest_for_the_next(recent: RecentReports) -> None:
    for number in range(5):
        recent.emit(judged(number, FAIL))
    recent.settle(most=3)
    assert History(recent.store).count() == 3
    recent.settle(most=3)
    assert History(recent.store).count() == 5


def test_under_pressure_a_sample_of_what_passes_is_kept_and_all_failures(recent: RecentReports) -> None:
    for number in range(10_000):
        recent.emit(judged(number, *((PASS, FAIL) if number % 50 == 0 else (PASS,))))
    assert kept(recent) == PASSING_WAITING + 200
    assert recent.seen == ReportTotals(passing=9800, others=200, passing_left_out=9800 - PASSING_WAITING)
    assert History(recent.store).verdicts({"label": "fail"}, page=1, until=None).counts == {"fail": 200}


def test_room_for_passing_traces_comes_back_by_time_or_when_someone_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recent_module, "BATCH_SECONDS", 3600.0)
    now_ns = NOW_NS
    recent = RecentReports(HistoryStore(None, traces=10_000, limit_bytes=1 << 30, max_age_ns=10**15), tell=TELL, clock=lambda: now_ns)
    taken = []

    def fill() -> None:
        before = recent.seen
        for number in range(PASSING_WAITING + 5):
            recent.emit(judged(number, PASS))
        taken.append(PASSING_WAITING + 5 - (recent.seen.passing_left_out - before.passing_left_out))
        recent.settle(most=PASSING_WAITING)

    try:
        fill()
        now_ns += 10**15  # hours later
        fill()
        fill()
        now_ns += 10**9
        fill()
        now_ns -= 10**12  # a clock that is set back gives none, and goes on from there
        fill()
        now_ns += 2 * 10**9
        fill()
        recent.settle()
        fill()
        assert taken == [PASSING_WAITING, PASSING_WAITING, 0, PASSING_A_SECOND, 0, 2 * PASSING_A_SECOND, PASSING_WAITING]
        recent.emit(judged(1, FAIL))
        assert recent.seen.others_left_out == 0
    finally:
        recent.shutdown(PATIENCE_SECONDS)


def test_even_failures_are_bounded(recent: RecentReports) -> None:
    for number in range(OTHERS_WAITING + 5):
        recent.emit(judged(number, UNSURE))
    recent.emit(judged(10_000, PASS))
    assert kept(recent) == OTHERS_WAITING + 1
    assert recent.seen == ReportTotals(passing=1, others=OTHERS_WAITING + 5, others_left_out=5)
    recent.emit(judged(10_001, FAIL))
    assert kept(recent) == OTHERS_WAITING + 2, "there is room again"


def test_what_waits_is_bounded_in_bytes_but_for_the_first(recent: RecentReports) -> None:
    heavy = judged(1, PASS)
    heavy = replace(heavy, spans=(replace(heavy.spans[0], size_bytes=WAITING_BYTES),))
    for _ in range(3):
        recent.emit(heavy)
    assert recent.seen.passing_left_out == 2
    assert kept(recent) == 1
    recent.emit(replace(heavy, revision=1))
    assert kept(recent) == 2


def test_unbound_traces_are_counted_by_service_and_not_kept(recent: RecentReports) -> None:
    recent.emit(judged(1, service="a"))
    recent.emit(replace(judged(2, service="a"), unknown_criteria=("typo", "typo2")))
    recent.emit(replace(judged(2, service="a", revision=1), unknown_criteria=("typo",)))
    recent.emit(replace(judged(3), evaluated_span=None))
    assert kept(recent) == 0
    assert recent.seen == ReportTotals(unbound=3)
    found = recent.unbound
    assert (found["a"].traces, found["a"].latest, found["a"].asked_for) == (2, trace_id(2), ("typo", "typo2"))
    assert found[""].traces == 1


def test_services_and_names_are_bounded(recent: RecentReports) -> None:
    for number in range(MAX_SERVICES + 50):
        recent.emit(replace(judged(number, service=f"s{number}"), unknown_criteria=tuple(f"{number}-{each}" for each in range(50))))
    recent.emit(judged(1, service="s0"))
    found = recent.unbound
    assert len(found) == MAX_SERVICES + 1
    assert (found[OTHER].traces, found["s0"].traces) == (50, 2)
    assert len(found[OTHER].asked_for) == 10


def test_a_report_that_cant_be_remembered_costs_no_other_one(recent: RecentReports, caplog: pytest.LogCaptureFixture) -> None:
    for number in (1, 2):
        recent.emit(replace(judged(number, FAIL), extraction=None))  # type: ignore[arg-type]
    recent.emit(judged(3, FAIL))
    with caplog.at_level(logging.ERROR):
        assert kept(recent) == 1
    assert caplog.text.count("could not be remembered") == 1


def test_flush_remembers_what_waits_and_shutdown_ends_the_thread() -> None:
    before = set(threading.enumerate())
    store = HistoryStore(None, traces=10, limit_bytes=1 << 20, max_age_ns=10**15)
    recent = RecentReports(store, tell=TELL)
    recent.emit(judged(1, PASS))
    assert recent.flush(PATIENCE_SECONDS)
    assert History(store).count() == 1
    for _ in range(2):
        recent.shutdown(PATIENCE_SECONDS)
    recent.emit(judged(2, PASS))
    assert set(threading.enumerate()) <= before


def test_the_judging_thread_waits_for_no_explanation() -> None:
    entered, leave = threading.Event(), threading.Event()

    def slow(_: Verdict) -> str:
        entered.set()
        assert leave.wait(PATIENCE_SECONDS)
        return "slow"

    recent = RecentReports(HistoryStore(None, traces=10, limit_bytes=1 << 20, max_age_ns=10**15), tell=ReportDetail(explain=slow))
    try:
        recent.emit(judged(1, PASS))
        assert entered.wait(PATIENCE_SECONDS)
        recent.emit(judged(2, PASS))  # returns, though a row is being made
        assert recent.seen.passing == 2
    finally:
        leave.set()
        recent.shutdown(PATIENCE_SECONDS)
