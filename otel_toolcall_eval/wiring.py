"""Builds pipelines, a sidecar or a span processor from settings. The one place that knows every part."""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass, replace
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING

from otel_toolcall_eval.accounts import AllCounts
from otel_toolcall_eval.assembly.completion import CompletionPolicy
from otel_toolcall_eval.assembly.log_desk import LogDesk
from otel_toolcall_eval.assembly.log_store import LogLimits
from otel_toolcall_eval.assembly.trace_buffer import BufferLimits
from otel_toolcall_eval.emission.attributes import Explain, ExplainValues
from otel_toolcall_eval.emission.batched_events import BatchedEvents
from otel_toolcall_eval.emission.console import ConsoleEmitter
from otel_toolcall_eval.emission.criteria_counts import CriteriaInfo, CriteriaReloads
from otel_toolcall_eval.emission.metrics import MetricsEmitter
from otel_toolcall_eval.emission.process_memory import ProcessMemory
from otel_toolcall_eval.errors import CriteriaError, Problem, SettingsError
from otel_toolcall_eval.evaluators.args import ArgsEvaluator
from otel_toolcall_eval.evaluators.count import CountEvaluator
from otel_toolcall_eval.evaluators.order import OrderEvaluator
from otel_toolcall_eval.evaluators.output import OutputEvaluator
from otel_toolcall_eval.extraction.log_joining import LogJoiner
from otel_toolcall_eval.journal.sqlite_journal import SqliteJournal
from otel_toolcall_eval.journal.store import Sync
from otel_toolcall_eval.model.criteria import ArgsCriteria, CountCriteria, OrderCriteria, OutputCriteria
from otel_toolcall_eval.pipeline import Pipeline
from otel_toolcall_eval.settings.criteria_file import LoadedCriteria, load_criteria
from otel_toolcall_eval.settings.criteria_source import CriteriaSource
from otel_toolcall_eval.settings.dialect_file import build_extractor
from otel_toolcall_eval.sources.otlp_intake import OtlpIntake
from otel_toolcall_eval.values.redaction import Redactor
from otel_toolcall_eval.wiring_forwarding import build_client, build_forwarder
from otel_toolcall_eval.worker import Worker

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from otel_toolcall_eval.emission.telemetry import Telemetry
    from otel_toolcall_eval.emitter import Emitter
    from otel_toolcall_eval.forwarding.forwarder import Forwarder
    from otel_toolcall_eval.judging import Evaluators
    from otel_toolcall_eval.receivers import Receivers
    from otel_toolcall_eval.settings.service import Settings

SECOND_NS = 1_000_000_000

MAX_SHOWN = 1_000
"""Traces of each kind on /debug/traces: half a megabyte."""

ANSWER_SECONDS = 5.0

EVALUATORS: Evaluators = {
    CountCriteria: CountEvaluator(),
    OrderCriteria: OrderEvaluator(),
    ArgsCriteria: ArgsEvaluator(),
    OutputCriteria: OutputEvaluator(),
}

_FOREVER_NS = 2**62
_KEEP_EVERYTHING = BufferLimits(num_traces=2**62, limit_bytes=2**62, maximum_trace_size_bytes=2**62, span_limit=2**62)
KEEP_ALL_LOGS = LogLimits(limit_bytes=2**62, records=2**62, trace_bytes=2**62)
_NEVER_DUE = CompletionPolicy(
    wait_after_root_ns=_FOREVER_NS, wait_after_root_max_ns=_FOREVER_NS, idle_timeout_ns=_FOREVER_NS, trace_timeout_ns=_FOREVER_NS
)


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


def own_version() -> str:
    """Return the version of this package; ``0`` in a source tree that was never installed."""
    try:
        return version("otel-toolcall-eval")
    except PackageNotFoundError:
        return "0"


def with_criteria(settings: Settings, paths: Sequence[Path]) -> Settings:
    """Return settings with these criteria in place of their own."""
    return replace(settings, criteria=tuple(CriteriaSource(path=path) for path in paths))


def build_pipeline(
    settings: Settings,
    criteria: LoadedCriteria,
    *,
    logs: LogLimits | None = None,
    keep_unbound: bool = False,
    keep_decisions: bool = False,
    name_unbound: bool = True,
    spans_in_reports: bool = False,
) -> Pipeline:
    """Build the main path; ``logs`` bounds the log records that wait, the others are as in ``Pipeline``."""
    reader = build_extractor(settings.dialects)
    return Pipeline(
        reader=reader,
        evaluators=EVALUATORS,
        criteria=criteria.sets,
        policy=settings.completion,
        limits=settings.buffer,
        logs=LogDesk(LogJoiner(reader.asked), logs),
        stopwatch=time.perf_counter_ns,
        keep_unbound=keep_unbound,
        keep_decisions=keep_decisions,
        name_unbound=name_unbound,
        spans_in_reports=spans_in_reports,
    )


def build_recorded_pipeline(settings: Settings) -> tuple[Pipeline, tuple[Problem, ...]]:
    """Build a main path that keeps everything until it is drained; returns it with what is odd about its criteria.

    Raises:
        SettingsError: dialects or criteria can't be used.
    """
    loaded = load_criteria(settings.criteria)
    pipeline = build_pipeline(replace(settings, completion=_NEVER_DUE, buffer=_KEEP_EVERYTHING), loaded, logs=KEEP_ALL_LOGS)
    return pipeline, (*settings.warnings, *loaded.warnings)


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
        SettingsError: settings, criteria or files of the listeners can't be used, or a part of the ``sidecar`` extra is missing.
    """
    try:
        from otel_toolcall_eval.emission.otlp import OtlpSettings, Signal  # noqa: PLC0415 - the extra is needed from here on only
        from otel_toolcall_eval.receivers import build_receivers  # noqa: PLC0415
        from otel_toolcall_eval.sources.http_pages import health_page, json_page, metrics_page  # noqa: PLC0415
        from otel_toolcall_eval.wiring_status import build_recent, build_site  # noqa: PLC0415
        from otel_toolcall_eval.wiring_telemetry import build_telemetry  # noqa: PLC0415
    except ImportError as error:
        missing = isinstance(error, ModuleNotFoundError)
        what = f"{error.name} is not installed" if missing else f"a library can't be used ({error})"
        raise SettingsError(where="serve", what=what, fix="pip install --upgrade 'otel-toolcall-eval[sidecar]'") from error
    criteria = load_criteria(settings.criteria)
    pipeline = build_pipeline(
        settings,
        criteria,
        keep_unbound=settings.listen.control is not None,
        keep_decisions=settings.journal.path is not None,
        name_unbound=console is not None,
        spans_in_reports=settings.status.enabled,
    )
    client = build_client(settings, version=own_version())  # before the telemetry: if it can't be built, no threads are left behind
    export, emit = settings.export, settings.emit
    listening = [(listener.address.host, listener.address.port) for listener in settings.listen.listeners.values()]
    telemetry = build_telemetry(
        version=own_version(),
        otlp=OtlpSettings(endpoint=export.endpoint, protocol=None if export.protocol is None else export.protocol.value),
        export=export.enabled,
        logs=emit.events,
        traces=emit.spans,
        listening=listening,
    )
    metrics = MetricsEmitter(telemetry.aggregator, flush=telemetry.flush_metrics) if emit.metrics else None
    forwarder = build_forwarder(client, settings, on_delivered=metrics.passed_on if metrics else None)
    events = BatchedEvents(
        telemetry.outlets.get(Signal.LOGS),
        telemetry.outlets.get(Signal.TRACES),
        resource=telemetry.resource,
        explain=explain_of(settings),
        roots=forwarder if settings.forward.attach_to_root else None,
    )
    recent = build_recent(settings, explain_of(settings))
    emitters: list[Emitter] = [emitter for emitter in (metrics, events, console, recent) if emitter is not None]
    journal = build_journal(settings, emitters)
    worker = Worker(
        pipeline,
        emitters,
        queue_bytes=settings.intake.queue_bytes,
        on_late_span=metrics.late_span if metrics else None,
        journal=journal,
    )
    reloads, in_force = CriteriaReloads(), CriteriaInfo(lambda: pipeline.criteria)
    telemetry.aggregator.source = AllCounts(worker, forwarder, metrics, in_force, reloads, ProcessMemory(), *telemetry.counting)
    intake = OtlpIntake(sink=worker, projection=lambda: pipeline.projection, logs=worker, forward=forwarder, shedder=worker)

    def render(accept: str) -> tuple[bytes, str]:
        page = telemetry.page.render(accept)
        return page.body, page.content_type

    pages = {
        "/livez": health_page(alive),
        "/readyz": health_page(problems),
        "/metrics": metrics_page(render),
        "/debug/traces": json_page(lambda: worker.waiting(limit=MAX_SHOWN, timeout_seconds=ANSWER_SECONDS).document()),
    }
    site = None if recent is None else build_site(recent, worker, version=own_version(), answer_seconds=ANSWER_SECONDS)
    receivers = build_receivers(settings, worker=worker, intake=intake, pages=pages, site=site)
    return SidecarParts(
        worker=worker,
        receivers=receivers,
        telemetry=telemetry,
        criteria=criteria,
        reloads=reloads,
        forwarder=forwarder,
        journal=journal,
    )


def explain_of(settings: Settings) -> Explain:
    """Return what explanations show."""
    redact = settings.redact
    redactor = Redactor(keys=redact.keys, patterns=redact.patterns, defaults=redact.defaults)
    return Explain(values=ExplainValues(settings.show_values.value), redactor=redactor)


def build_journal(settings: Settings, emitters: Sequence[Emitter]) -> SqliteJournal | None:
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


def build_console(form: str, settings: Settings) -> ConsoleEmitter | None:
    """Return an emitter that writes to standard output as ``text`` or ``json``; None for ``off``."""
    if form == "off":
        return None
    return ConsoleEmitter(_write_line, as_json=form == "json", explain=explain_of(settings))


def _write_line(line: str) -> None:
    sys.stdout.write(line)
    sys.stdout.flush()


def reload_criteria(settings: Settings, worker: Worker) -> LoadedCriteria:
    """Load the criteria again and judge by them from the next trace on.

    Raises:
        CriteriaError: they can't be used; the old ones stay in force.
    """
    if not settings.criteria:
        raise CriteriaError(where="criteria", what="no criteria are configured", fix="name files with --criteria or in the settings")
    loaded = load_criteria(settings.criteria)
    worker.pipeline.replace_criteria(loaded.sets)
    return loaded
