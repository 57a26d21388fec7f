"""Builds what judges in one process, and forks the processes that do."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Final

from otel_toolcall_eval.accounts import AllCounts
from otel_toolcall_eval.assembly.log_store import LogLimits
from otel_toolcall_eval.emission.aggregator import Aggregator
from otel_toolcall_eval.emission.batched_events import BatchedEvents
from otel_toolcall_eval.emission.metrics import MetricsEmitter
from otel_toolcall_eval.emission.otlp import OtlpSettings, Signal
from otel_toolcall_eval.emission.process_memory import ProcessMemory
from otel_toolcall_eval.errors import SettingsError
from otel_toolcall_eval.journal.left_behind import file_of
from otel_toolcall_eval.journal.sqlite_journal import SqliteJournal
from otel_toolcall_eval.journal.store import Sync
from otel_toolcall_eval.pace import Brake, NoBrake
from otel_toolcall_eval.process_limits import collect_garbage_seldom
from otel_toolcall_eval.processes.channel import TRANSPORTS, Kind, packed
from otel_toolcall_eval.processes.crew import Crew
from otel_toolcall_eval.processes.forking import fork
from otel_toolcall_eval.processes.member import Member, Parts
from otel_toolcall_eval.processes.news import NewsSender
from otel_toolcall_eval.processes.shared_metrics import SharedAggregator
from otel_toolcall_eval.settings.criteria_file import load_criteria
from otel_toolcall_eval.wiring import build_pipeline, explain_of, own_version
from otel_toolcall_eval.wiring_status import build_recent
from otel_toolcall_eval.wiring_telemetry import build_telemetry
from otel_toolcall_eval.worker import Worker
from otel_toolcall_eval.zstandard import zstandard_packer

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from opentelemetry.sdk.resources import Resource

    from otel_toolcall_eval.emission.console import ConsoleEmitter
    from otel_toolcall_eval.emission.telemetry import Telemetry
    from otel_toolcall_eval.emitter import Emitter
    from otel_toolcall_eval.forwarding.forwarder import Forwarder
    from otel_toolcall_eval.processes.channel import Channel
    from otel_toolcall_eval.settings.criteria_file import LoadedCriteria
    from otel_toolcall_eval.settings.service import Settings
    from otel_toolcall_eval.status.recent import Recent

LAST_WORDS_SECONDS: Final = 5.0
"""For what a process says before it ends."""


def telemetry_of(common: Common, *, crew: Crew | None = None, sends: Collection[Signal] = tuple(Signal)) -> Telemetry:
    """Build where our telemetry goes.

    Args:
        common: says where.
        crew: has metrics, too.
        sends: what this process sends itself. The first process also warns of a loop, so one that sends no metrics does not.
    """
    settings = common.settings
    export, emit = settings.export, settings.emit
    listeners = settings.listen.listeners.values() if Signal.METRICS in sends else ()
    return build_telemetry(
        version=own_version(),
        otlp=OtlpSettings(endpoint=export.endpoint, protocol=None if export.protocol is None else export.protocol.value),
        export=export.enabled,
        logs=emit.events,
        traces=emit.spans,
        listening=[(listener.address.host, listener.address.port) for listener in listeners],
        sends=sends,
        aggregator=Aggregator(common.resource) if crew is None else SharedAggregator(common.resource, crew),
    )


def metrics_of(settings: Settings, telemetry: Telemetry, *, flush: Callable[[], bool] | None = None) -> MetricsEmitter | None:
    """Return what records metrics; None if nobody wants them. ``flush`` exports them, if ``telemetry`` does not."""
    return MetricsEmitter(telemetry.aggregator, flush=flush or telemetry.flush_metrics) if settings.emit.metrics else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Common:
    """What all processes of a sidecar are built from.

    Attributes:
        console: also gets each report; None for none.
        resource: of our telemetry.
    """

    settings: Settings
    criteria: LoadedCriteria
    console: ConsoleEmitter | None
    resource: Resource


def build_worker(
    common: Common,
    telemetry: Telemetry,
    metrics: MetricsEmitter | None,
    *,
    recent: Recent | None,
    forwarder: Forwarder | None = None,
    index: int = 0,
) -> tuple[Worker, SqliteJournal | None]:
    """Build what judges in one process, which has its share of all bounds."""
    settings, console = common.settings, common.console
    number = settings.workers
    buffer = replace(
        settings.buffer,
        num_traces=_share(settings.buffer.num_traces, number),
        limit_bytes=_share(settings.buffer.limit_bytes, number),
        decisions=_share(settings.buffer.decisions, number),
    )
    logs = LogLimits()
    pipeline = build_pipeline(
        replace(settings, buffer=buffer),
        common.criteria,
        logs=replace(logs, limit_bytes=_share(logs.limit_bytes, number), records=_share(logs.records, number)),
        keep_unbound=settings.listen.control is not None,
        keep_decisions=settings.journal.path is not None,
        name_unbound=console is not None,
        spans_in_reports=recent is not None,
    )
    if (packer := zstandard_packer()) is not None:
        pipeline.traces.pack_by(packer)
    events = BatchedEvents(
        telemetry.outlets.get(Signal.LOGS),
        telemetry.outlets.get(Signal.TRACES),
        resource=telemetry.resource,
        explain=explain_of(settings),
        roots=forwarder if settings.forward.attach_to_root else None,
    )
    emitters: list[Emitter] = [emitter for emitter in (metrics, events, console, recent) if emitter is not None]
    journal = None
    if settings.journal.path is not None:
        journal = SqliteJournal(
            file_of(settings.journal.path, index=index, workers=number),
            Sync(settings.journal.sync.value),
            limits=buffer,
            late_window_ns=settings.completion.late_span_window_ns,
            flush=lambda timeout_seconds: all(emitter.flush(timeout_seconds) for emitter in emitters),
        )
    worker = Worker(
        pipeline,
        emitters,
        queue_bytes=_share(settings.intake.queue_bytes, number),
        on_late_span=metrics.late_span if metrics else None,
        journal=journal,
        brake=Brake(TRANSPORTS) if number == 1 else NoBrake(),  # of several, the process that receives has it
    )
    return worker, journal


def _share(bound: int, number: int) -> int:
    return -(-bound // number)


def fork_crew(common: Common) -> Crew:
    """Fork the processes that judge; raises SettingsError if they can't be had."""
    links = fork(common.settings.workers, partial(_judge, common), limit_bytes=common.settings.intake.queue_bytes)
    return Crew(links, criteria=common.criteria.sets)


def _judge(common: Common, channel: Channel, index: int) -> bool:
    """Be a process that judges, until the first one ends it."""
    try:
        parts = _parts_of_member(common, channel, index)
    except SettingsError as error:
        channel.send(Kind.READY, 0, packed(error))
        return channel.flush(LAST_WORDS_SECONDS)
    collect_garbage_seldom()
    return Member(channel, parts).run()


def _parts_of_member(common: Common, channel: Channel, index: int) -> Parts:
    settings, news = common.settings, NewsSender(channel)
    if common.console is not None:
        common = replace(common, console=common.console.through(news.line))
    telemetry = telemetry_of(common, sends=(Signal.LOGS, Signal.TRACES))
    metrics = metrics_of(settings, telemetry, flush=news.flush_metrics)
    recent = build_recent(news, explain_of(settings), share=settings.workers) if settings.status.enabled else None
    worker, journal = build_worker(common, telemetry, metrics, recent=recent, index=index)
    telemetry.aggregator.source = AllCounts(worker, metrics, ProcessMemory(), *telemetry.counting)
    return Parts(
        worker=worker,
        telemetry=telemetry,
        journal=journal,
        recent=recent,
        news=news,
        reload=partial(_reload, settings, worker),
    )


def _reload(settings: Settings, worker: Worker, versions: Sequence[tuple[str, str]]) -> bool:
    """Read criteria anew, and judge by them if they are those of these names and versions."""
    found = load_criteria(settings.criteria).sets
    if [(one.name, one.version) for one in found] != list(versions):
        return False
    worker.judge_by(found)
    return True
