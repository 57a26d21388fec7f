"""The status page's memory, where reports are made in other processes, and metrics that are in several."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import pytest
from opentelemetry.sdk.resources import Resource

from otel_toolcall_eval.assembly.limits import BufferLimits
from otel_toolcall_eval.emission import names
from otel_toolcall_eval.errors import OverloadedError
from otel_toolcall_eval.journal.sqlite_journal import SqliteJournal
from otel_toolcall_eval.journal.store import Sync
from otel_toolcall_eval.model.score import Label
from otel_toolcall_eval.processes.channel import Kind
from otel_toolcall_eval.processes.news import NewsDesk
from otel_toolcall_eval.processes.remembered import SharedRecent, remember_in
from otel_toolcall_eval.processes.shared_metrics import SharedAggregator
from otel_toolcall_eval.status.history import History
from otel_toolcall_eval.status.recent import Seen
from otel_toolcall_eval.status.store import Store
from otel_toolcall_eval.wire.shares import share_spans
from tests.patience import PATIENCE_SECONDS
from tests.processes.crews import crew_of
from tests.processes.test_crew import SPREAD, send
from tests.status.rows import judged, trace_id

if TYPE_CHECKING:
    from pathlib import Path


def test_rows_of_all_are_in_one_store_and_what_all_have_seen_is_told_together() -> None:
    store = Store(None, traces=1_000, limit_bytes=1 << 20, max_age_ns=2**62)
    desk = NewsDesk(console=None, remember=partial(remember_in, store))
    with crew_of(2, on_news=desk.take) as (crew, played):
        recent = SharedRecent(crew, desk)
        assert (recent.seen, recent.unbound) == (Seen(), {})
        for number, one in enumerate(played):
            one.recent.emit(judged(number + 1, Label.PASS))
            one.recent.emit(judged(number + 10, Label.FAIL))
            one.recent.emit(judged(number + 20))
        recent.settle()
        assert recent.seen == Seen(passing=2, others=2, unbound=2)
        assert {name: service.traces for name, service in recent.unbound.items()} == {"order-desk": 2}
        history = History(store)
        assert history.count() == 4
        assert all(history.reports(trace_id(number)) for number in (1, 2, 10, 11))
        crew.abandon()
        recent.settle()
        assert recent.seen == Seen(passing=2, others=2, unbound=2)  # as it was told last
    assert desk.close(PATIENCE_SECONDS)


def test_a_cell_that_is_shown_stays_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("otel_toolcall_eval.processes.merging.MAX_CELLS", 2)
    with crew_of(2) as (crew, played):
        aggregator = SharedAggregator(Resource.create({}), crew)
        for number in (2, 3, 1):
            played[number % 2].telemetry.aggregator.cell(names.TRACES_DECIDED, {"a": str(number)}).record(number)
            found = {key and key[0][1]: state.total for key, state in aggregator.states(take_extremes=False)[names.TRACES_DECIDED.name]}
        assert found == {"2": 2, "3": 3, None: 1}


def test_metrics_are_those_of_all_and_our_own() -> None:
    with crew_of(2) as (crew, played):
        aggregator = SharedAggregator(Resource.create({}), crew)
        for place in (aggregator, *(one.telemetry.aggregator for one in played)):
            place.cell(names.DECISION_DELAY, {}).record(0.5)
        [(key, state)] = aggregator.states(take_extremes=True)[names.DECISION_DELAY.name]
        assert (key, state.total, sum(state.counts)) == ((), 1.5, 3)


def test_a_member_without_a_page_tells_of_nothing() -> None:
    with crew_of(1) as (crew, played):
        played[0].member._parts = replace(played[0].parts, recent=None)  # noqa: SLF001 - as with status.enabled: false
        assert dict(crew.remembered()) == {0: (Seen(), {})}


def test_a_request_is_answered_when_it_is_in_the_journal_of_its_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    journal = SqliteJournal(tmp_path / "journal.db", Sync.ACK, limits=BufferLimits(), late_window_ns=0, flush=lambda _: True)
    with crew_of(1, journal=journal) as (crew, _played):
        taken, _ = crew.offer(Kind.SPANS, share_spans(SPREAD, 1), transport="grpc", may_shed=False)
        assert crew.problems() == ["worker", "journal"]  # it is not taken up yet
        assert not taken.done()
        crew.start()
        assert taken.result(PATIENCE_SECONDS)[0].judged
        monkeypatch.setattr(journal, "_insert", lambda *_: False)  # as if the disk were full
        monkeypatch.setattr(journal, "has_problem", lambda: True)
        with pytest.raises(OverloadedError, match="can't be written"):
            send(crew)
        assert "journal" in crew.problems()
        crew.shutdown(PATIENCE_SECONDS)
