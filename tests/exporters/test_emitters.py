"""What ``emitter`` asks of every back end, held for each that there is, and for one that a newcomer would write."""

from __future__ import annotations

import sqlite3
from typing import TYPE_CHECKING, Protocol, cast

import pytest
from opentelemetry.sdk._logs import LoggerProvider
from opentelemetry.sdk._logs.export import InMemoryLogRecordExporter, SimpleLogRecordProcessor
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider

from otel_toolcall_eval.engine.pipeline import Pipeline
from otel_toolcall_eval.engine.worker import Worker
from otel_toolcall_eval.exporters.console import ConsoleEmitter
from otel_toolcall_eval.exporters.events.attributes import clean_name, explanation
from otel_toolcall_eval.exporters.events.batched_events import BatchedEvents
from otel_toolcall_eval.exporters.events.events import EventsEmitter
from otel_toolcall_eval.exporters.metrics.aggregator import Aggregator
from otel_toolcall_eval.exporters.metrics.collection import Collection
from otel_toolcall_eval.exporters.metrics.emitter import MetricsEmitter
from otel_toolcall_eval.model.score import Label
from otel_toolcall_eval.model.trace import IncompletenessReason
from otel_toolcall_eval.sidecar.admin.status.recent import RecentReports
from otel_toolcall_eval.sidecar.admin.status.rows import ReportDetail
from tests.exporters.reports import CANARY, BrokenJustification, evaluated_span, inconclusive, report, score, verdict
from tests.fakes import PlainReader
from tests.patience import PATIENCE_SECONDS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from otel_toolcall_eval.engine.ports import Emitter
    from otel_toolcall_eval.model.score import TraceReport
    from otel_toolcall_eval.sidecar.admin.status.rows import ReportRow, VerdictRow
    from otel_toolcall_eval.sidecar.admin.status.store import HistoryStore

REPORTS = (
    report(verdict()),
    report(),
    report(verdict(Label.PASS), revision=1),
    report(verdict(), span=None, agent=None),
    report(inconclusive(IncompletenessReason.ORPHAN), doubts=[IncompletenessReason.ORPHAN]),
    report(verdict(Label.INCONCLUSIVE, failed=True)),
    report(verdict(given=score(justification=BrokenJustification()))),
    report(verdict(evaluator="\ud800", criteria="x" * 100_000), agent="\ud800" * 300, span=evaluated_span(end_unix_ns=2**70)),
    report(*(verdict(criteria=f"criteria-{number}") for number in range(40))),
)


class NewBackend:
    """Another back end: a table. This is all that it takes."""

    def __init__(self) -> None:
        self._table = sqlite3.connect(":memory:", check_same_thread=False)
        self._table.execute("CREATE TABLE verdicts (id TEXT PRIMARY KEY, criteria TEXT, label TEXT, score REAL, why TEXT)")

    def emit(self, report: TraceReport) -> None:
        rows = [
            (item.evaluation_id, clean_name(item.criteria), item.label.value, item.emitted_score, explanation(item))
            for item in report.verdicts
        ]
        self._table.executemany("INSERT OR REPLACE INTO verdicts VALUES (?, ?, ?, ?, ?)", [tuple(map(_encodable, row)) for row in rows])

    def flush(self, timeout_seconds: float) -> bool:
        del timeout_seconds
        self._table.commit()
        return True

    def shutdown(self, timeout_seconds: float) -> None:
        self.flush(timeout_seconds)

    def said(self) -> str:
        return str(self._table.execute("SELECT * FROM verdicts").fetchall())


def _encodable(value: object) -> object:
    return clean_name(value) if isinstance(value, str) else value


class EventSender:
    """Keeps what is sent."""

    def __init__(self) -> None:
        self.bodies: list[bytes] = []

    def send(self, body: bytes, *, items: int) -> None:
        assert items > 0
        self.bodies.append(body)

    def flush(self, timeout_seconds: float) -> bool:
        return timeout_seconds >= 0


class Table:
    """Keeps the verdicts that the status page remembers; names of tools, which its pages show, too, are not looked at here."""

    def __init__(self) -> None:
        self.verdicts: list[VerdictRow] = []

    def add(self, rows: Sequence[ReportRow], *, now_unix_ns: int) -> None:
        assert now_unix_ns > 0
        self.verdicts += [verdict for row in rows for verdict in row.verdicts]

    def close(self) -> None:
        pass


class Built(Protocol):
    """An emitter, and what it has said."""

    def __call__(self) -> tuple[Emitter, Callable[[], str]]: ...


def _console() -> tuple[Emitter, Callable[[], str]]:
    lines: list[str] = []
    return ConsoleEmitter(lines.append, as_json=True), lambda: "".join(lines)


def _metrics() -> tuple[Emitter, Callable[[], str]]:
    aggregator = Aggregator(Resource({}))
    return MetricsEmitter(aggregator), lambda: str(Collection(aggregator).collect())


def _events() -> tuple[Emitter, Callable[[], str]]:
    exporter = InMemoryLogRecordExporter()  # type: ignore[no-untyped-call]  # the SDK left it without types
    provider = LoggerProvider(shutdown_on_exit=False)
    provider.add_log_record_processor(SimpleLogRecordProcessor(exporter))
    tracer_provider = TracerProvider(shutdown_on_exit=False)
    return EventsEmitter(provider, tracer_provider), lambda: str([entry.log_record.attributes for entry in exporter.get_finished_logs()])


def _batched() -> tuple[Emitter, Callable[[], str]]:
    logs, spans = EventSender(), EventSender()
    return BatchedEvents(logs, spans, resource={}), lambda: str(logs.bodies + spans.bodies)


def _recent() -> tuple[Emitter, Callable[[], str]]:
    table = Table()
    return RecentReports(cast("HistoryStore", table), tell=ReportDetail(explain=explanation)), lambda: str(table.verdicts)


def _new() -> tuple[Emitter, Callable[[], str]]:
    backend = NewBackend()
    return backend, backend.said


@pytest.fixture(
    params=[_console, _metrics, _events, _batched, _recent, _new], ids=["console", "metrics", "events", "batched-events", "status", "new"]
)
def built(request: pytest.FixtureRequest) -> Iterator[tuple[Emitter, Callable[[], str]]]:
    make: Built = request.param
    emitter, said = make()
    yield emitter, said
    emitter.shutdown(PATIENCE_SECONDS)


def test_every_report_is_taken_and_no_users_data_leaves(built: tuple[Emitter, Callable[[], str]]) -> None:
    emitter, said = built
    for item in REPORTS:
        emitter.emit(item)
    assert emitter.flush(PATIENCE_SECONDS)
    assert "weather" in said()
    assert CANARY not in said()


def test_it_stops_twice_and_takes_calls_afterwards(built: tuple[Emitter, Callable[[], str]]) -> None:
    emitter, _ = built
    for _ in range(2):
        emitter.emit(REPORTS[0])
        emitter.shutdown(PATIENCE_SECONDS)
    emitter.emit(REPORTS[0])
    assert isinstance(emitter.flush(0.5), bool)


def test_faulty_one_is_counted_and_costs_the_others_nothing(built: tuple[Emitter, Callable[[], str]]) -> None:
    class Faulty:
        def emit(self, report: TraceReport) -> None:
            raise KeyError(report.trace_id)

        def flush(self, timeout_seconds: float) -> bool:
            raise OSError(timeout_seconds)

        def shutdown(self, timeout_seconds: float) -> None:
            raise OSError(timeout_seconds)

    emitter, said = built
    worker = Worker(Pipeline(reader=PlainReader(), evaluators={}), [Faulty(), emitter])
    worker._reporter.emit(REPORTS, worker.pipeline)  # noqa: SLF001 - as its thread does, with reports that no pipeline makes
    assert worker.counts()["toolcall_eval.internal_errors", ()] == len(REPORTS)
    assert worker.shutdown(PATIENCE_SECONDS)
    assert "weather" in said()
