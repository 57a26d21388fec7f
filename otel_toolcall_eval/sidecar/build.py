"""Builds a sidecar from settings.

Needs the ``sidecar`` extra, so this module is imported only when a sidecar is built.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final

from otel_toolcall_eval.engine.admission import AdmissionController
from otel_toolcall_eval.engine.binding import BoundTraces
from otel_toolcall_eval.engine.counters import CombinedCounters
from otel_toolcall_eval.engine.worker import Worker
from otel_toolcall_eval.exporters.events.attributes import explain_of, explanation
from otel_toolcall_eval.exporters.events.batched_events import BatchedEvents
from otel_toolcall_eval.exporters.metrics.count_sources import CriteriaInfo, CriteriaReloads, ProcessMemory
from otel_toolcall_eval.exporters.metrics.emitter import MetricsEmitter
from otel_toolcall_eval.exporters.otlp import ExportSignal, OtlpSettings
from otel_toolcall_eval.model.errors import CriteriaError
from otel_toolcall_eval.receivers.http.pages import health_page, json_page, metrics_page
from otel_toolcall_eval.receivers.intake import OtlpIntake
from otel_toolcall_eval.settings.build_pipeline import build_pipeline, own_version
from otel_toolcall_eval.settings.criteria_file import load_criteria
from otel_toolcall_eval.sidecar.admin.status.history import History
from otel_toolcall_eval.sidecar.admin.status.recent import RecentReports
from otel_toolcall_eval.sidecar.admin.status.rows import ReportDetail
from otel_toolcall_eval.sidecar.admin.status.site import StatusSite
from otel_toolcall_eval.sidecar.admin.status.store import HistoryStore
from otel_toolcall_eval.sidecar.build_forwarding import build_client, build_forwarder
from otel_toolcall_eval.sidecar.build_receivers import build_receivers
from otel_toolcall_eval.sidecar.build_telemetry import build_telemetry
from otel_toolcall_eval.sidecar.journal.sqlite_journal import SqliteJournal
from otel_toolcall_eval.sidecar.journal.store import Sync
from otel_toolcall_eval.sidecar.zstandard import zstandard_packer

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from otel_toolcall_eval.engine.buffer.snapshot import OpenTracesSnapshot
    from otel_toolcall_eval.engine.pipeline import Pipeline
    from otel_toolcall_eval.engine.ports import Emitter
    from otel_toolcall_eval.exporters.console import ConsoleEmitter
    from otel_toolcall_eval.exporters.forward.forwarder import Forwarder
    from otel_toolcall_eval.exporters.telemetry import Telemetry
    from otel_toolcall_eval.model.criteria import CriteriaSet
    from otel_toolcall_eval.receivers.http.pages import PageSource
    from otel_toolcall_eval.settings.criteria_file import LoadedCriteria
    from otel_toolcall_eval.settings.service import Settings
    from otel_toolcall_eval.sidecar.build_receivers import Receivers


MAX_SHOWN: Final = 1_000
"""Traces of each kind on /debug/traces: half a megabyte."""

ANSWER_SECONDS: Final = 5.0

_TRANSPORTS: Final = ("grpc", "http/protobuf", "http/json")


@dataclass(frozen=True, slots=True, kw_only=True)
class SidecarParts:
    """Everything that a running sidecar consists of."""

    worker: Worker
    receivers: Receivers
    telemetry: Telemetry
    criteria: LoadedCriteria
    reloads: CriteriaReloads
    forwarder: Forwarder | None = None
    journal: SqliteJournal | None = None
    site: StatusSite | None = None

    @property
    def page_loaders(self) -> Sequence[Callable[[], object]]:
        """Return what loads what pages need and nothing else does: a tenth of a second of work, which may raise anything."""
        return [self.telemetry.page, *([] if self.site is None else [self.site.load])]


def build_sidecar(
    settings: Settings, *, console: ConsoleEmitter | None, problems: Callable[[], Sequence[str]], alive: Callable[[], Sequence[str]]
) -> SidecarParts:
    """Build a sidecar; nothing listens and nothing runs yet.

    Args:
        settings: with the sidecar's defaults.
        console: also gets each report.
        problems: why the sidecar is not ready, for ``/readyz``; empty if it is.
        alive: what has died for good, for ``/livez``; empty if nothing has.

    Raises:
        SettingsError: settings, criteria or files of the listeners can't be used.
    """
    criteria = load_criteria(settings.criteria)
    client = build_client(settings, version=own_version())  # before the telemetry: if it can't be built, no threads are left behind
    telemetry = _telemetry(settings)
    metrics = MetricsEmitter(telemetry.aggregator, flush=telemetry.flush_metrics) if settings.emit.metrics else None
    forwarder = build_forwarder(client, settings, on_delivered=metrics.passed_on if metrics else None)
    recent = _recent(settings)
    pipeline = _pipeline(settings, criteria, name_unbound=console is not None)
    events = BatchedEvents(
        telemetry.outlets.get(ExportSignal.LOGS),
        telemetry.outlets.get(ExportSignal.TRACES),
        resource=telemetry.resource,
        explain=explain_of(settings),
    )
    emitters: list[Emitter] = [emitter for emitter in (metrics, events, console, recent) if emitter is not None]
    journal = _journal(settings, emitters)
    worker = Worker(
        pipeline,
        emitters,
        queue_bytes=settings.intake.queue_bytes,
        on_late_span=metrics.late_span if metrics else None,
        journal=journal,
        brake=AdmissionController(_TRANSPORTS),
    )
    reloads, in_force = CriteriaReloads(), CriteriaInfo(lambda: pipeline.criteria)
    telemetry.aggregator.source = CombinedCounters(worker, forwarder, metrics, in_force, reloads, ProcessMemory(), *telemetry.counting)
    intake = OtlpIntake(sink=worker, projection=lambda: pipeline.projection, logs=worker, forward=forwarder, shedder=worker)
    site = None if recent is None else _site(recent, worker)
    pages = {"/livez": health_page(alive), "/readyz": health_page(problems), **_pages(telemetry, worker)}
    return SidecarParts(
        worker=worker,
        receivers=build_receivers(settings, worker=worker, intake=intake, pages=pages, site=site),
        telemetry=telemetry,
        criteria=criteria,
        reloads=reloads,
        forwarder=forwarder,
        journal=journal,
        site=site,
    )


def _telemetry(settings: Settings) -> Telemetry:
    export, emit = settings.export, settings.emit
    return build_telemetry(
        version=own_version(),
        otlp=OtlpSettings(endpoint=export.endpoint, protocol=None if export.protocol is None else export.protocol.value),
        export=export.enabled,
        logs=emit.events,
        traces=emit.spans,
        listening=[(listener.address.host, listener.address.port) for listener in settings.listen.listeners.values()],
    )


def _pipeline(settings: Settings, criteria: LoadedCriteria, *, name_unbound: bool) -> Pipeline:
    pipeline = build_pipeline(
        settings,
        criteria,
        bindings=None if settings.listen.control is None else BoundTraces(),
        name_unbound=name_unbound,
    )
    if (packer := zstandard_packer()) is not None:
        pipeline.traces.pack_by(packer)
    return pipeline


def _journal(settings: Settings, emitters: Sequence[Emitter]) -> SqliteJournal | None:
    """Open the journal, if there is to be one; raises SettingsError if its file can't be had."""
    if settings.journal.path is None:
        return None
    return SqliteJournal(
        settings.journal.path,
        Sync(settings.journal.sync.value),
        limits=settings.buffer,
        late_window_ns=settings.completion.late_span_window_ns,
        flush=lambda timeout_seconds: all(emitter.flush(timeout_seconds) for emitter in emitters),
    )


def _recent(settings: Settings) -> RecentReports | None:
    """Return what remembers reports; None if nobody wants it.

    Raises:
        SettingsError: its file can't be had.
    """
    status = settings.status
    if not status.enabled:
        return None
    store = HistoryStore(status.path, traces=status.traces, limit_bytes=status.limit_bytes, max_age_ns=status.max_age_ns)
    explain = explain_of(settings)
    return RecentReports(store, tell=ReportDetail(explain=partial(explanation, explain=explain), redact=explain.redactor.in_text))


def _site(recent: RecentReports, worker: Worker) -> StatusSite:
    return StatusSite(recent=recent, history=History(recent.store), sidecar=_Running(worker=worker), version=own_version())


@dataclass(frozen=True, slots=True, kw_only=True)
class _Running:
    """What the status page asks of a running sidecar."""

    worker: Worker

    def waiting(self, *, limit: int) -> OpenTracesSnapshot:
        """Return what is open."""
        return self.worker.waiting(limit=limit, timeout_seconds=ANSWER_SECONDS)

    def criteria(self) -> Sequence[CriteriaSet]:
        """Return what is loaded."""
        return self.worker.pipeline.criteria


def _pages(telemetry: Telemetry, worker: Worker) -> dict[str, PageSource]:
    def render(accept: str) -> tuple[bytes, str]:
        page = telemetry.page().render(accept)
        return page.body, page.content_type

    return {
        "/metrics": metrics_page(render),
        "/debug/traces": json_page(lambda: worker.waiting(limit=MAX_SHOWN, timeout_seconds=ANSWER_SECONDS).document()),
    }


def reload_criteria(settings: Settings, pipeline: Pipeline) -> LoadedCriteria:
    """Load the criteria again; they apply from the next trace on.

    Raises:
        CriteriaError: they can't be used; the old ones stay in force.
    """
    if not settings.criteria:
        raise CriteriaError(where="criteria", what="no criteria are configured", fix="name files with --criteria or in the settings")
    loaded = load_criteria(settings.criteria)
    pipeline.replace_criteria(loaded.sets)
    return loaded
