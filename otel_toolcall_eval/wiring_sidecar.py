"""Builds a sidecar from settings: one process that does everything, or one that receives before several that judge.

Needs the ``sidecar`` extra, so it is imported when a sidecar is built, and not before.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final, TypeAlias

from otel_toolcall_eval.accounts import AllCounts
from otel_toolcall_eval.emission.criteria_counts import CriteriaInfo, CriteriaReloads
from otel_toolcall_eval.emission.otlp import Signal
from otel_toolcall_eval.emission.process_memory import ProcessMemory
from otel_toolcall_eval.emission.telemetry import own_resource
from otel_toolcall_eval.errors import CriteriaError
from otel_toolcall_eval.journal.left_behind import check_left_behind
from otel_toolcall_eval.processes.crew import DividedError
from otel_toolcall_eval.processes.news import NewsDesk
from otel_toolcall_eval.processes.remembered import SharedRecent, remember_in
from otel_toolcall_eval.processes.shared_intake import SharedIntake
from otel_toolcall_eval.receivers import build_receivers
from otel_toolcall_eval.settings.criteria_file import load_criteria
from otel_toolcall_eval.settings.dialect_file import build_extractor
from otel_toolcall_eval.sources.http_pages import health_page, json_page, metrics_page
from otel_toolcall_eval.sources.otlp_intake import OtlpIntake
from otel_toolcall_eval.wiring import explain_of, own_version
from otel_toolcall_eval.wiring_forwarding import build_client, build_forwarder
from otel_toolcall_eval.wiring_judging import Common, build_worker, fork_crew, metrics_of, telemetry_of
from otel_toolcall_eval.wiring_status import build_recent, build_site, build_store

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from otel_toolcall_eval.accounts import Counting
    from otel_toolcall_eval.emission.console import ConsoleEmitter
    from otel_toolcall_eval.emission.metrics import MetricsEmitter
    from otel_toolcall_eval.emission.telemetry import Telemetry
    from otel_toolcall_eval.forwarding.forwarder import Forwarder
    from otel_toolcall_eval.journal.sqlite_journal import SqliteJournal
    from otel_toolcall_eval.judges import Judges
    from otel_toolcall_eval.processes.crew import Crew
    from otel_toolcall_eval.receivers import Receivers
    from otel_toolcall_eval.settings.criteria_file import LoadedCriteria
    from otel_toolcall_eval.settings.service import Settings
    from otel_toolcall_eval.sources.http_pages import PageSource
    from otel_toolcall_eval.sources.sink import Intake
    from otel_toolcall_eval.status.site import Remembered, StatusSite
    from otel_toolcall_eval.status.store import Store

__all__ = ["Common", "DividedError", "SidecarParts", "build_sidecar", "reload_criteria"]

MAX_SHOWN: Final = 1_000
"""Traces of each kind on /debug/traces: half a megabyte."""

ANSWER_SECONDS: Final = 5.0
NEWS_SECONDS: Final = 2.0
"""For what the processes that judge have told, to be written at the end."""


Health: TypeAlias = "tuple[Callable[[], Sequence[str]], Callable[[], Sequence[str]]]"
"""Why the sidecar is not ready, and what of it has died for good."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SidecarParts:
    """Everything that a running sidecar consists of; ``crew`` is who judges, where that is several processes."""

    judges: Judges
    receivers: Receivers
    telemetry: Telemetry
    criteria: LoadedCriteria
    reloads: CriteriaReloads
    forwarder: Forwarder | None = None
    journal: SqliteJournal | None = None
    crew: Crew | None = None
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
    common = Common(settings=settings, criteria=load_criteria(settings.criteria), console=console, resource=own_resource(own_version()))
    check_left_behind(settings.journal.path, workers=settings.workers)
    crew = fork_crew(common) if settings.workers > 1 else None
    try:
        return _build(common, crew, health=(problems, alive))
    except BaseException:
        if crew is not None:
            crew.abandon()
        raise


@dataclass(frozen=True, slots=True, kw_only=True)
class _Judging:
    """Who judges, and who takes in for them."""

    judges: Judges
    intake: Intake
    recent: Remembered | None
    journal: SqliteJournal | None = None
    counting: Counting | None = None


def _build(common: Common, crew: Crew | None, *, health: Health) -> SidecarParts:
    settings = common.settings
    client = build_client(settings, version=own_version())  # before the telemetry: if it can't be built, no threads are left behind
    telemetry = telemetry_of(common, crew=crew, sends=tuple(Signal) if crew is None else (Signal.METRICS,))
    metrics = metrics_of(settings, telemetry)
    forwarder = build_forwarder(client, settings, on_delivered=metrics.passed_on if metrics else None)
    store = build_store(settings)
    if crew is None:
        judging = _alone(common, telemetry, metrics, forwarder, store=store)
    else:
        judging = _shared(common, crew, telemetry, forwarder, store=store)
    judges = judging.judges
    reloads, in_force = CriteriaReloads(), CriteriaInfo(lambda: judges.criteria)
    telemetry.aggregator.source = AllCounts(
        judges, judging.counting, forwarder, metrics, in_force, reloads, ProcessMemory(), *telemetry.counting
    )
    site = None
    if judging.recent is not None and store is not None:
        site = build_site(judging.recent, store, judges, version=own_version(), answer_seconds=ANSWER_SECONDS)
    receivers = build_receivers(settings, judges=judges, intake=judging.intake, pages=_pages(telemetry, judges, health), site=site)
    return SidecarParts(
        judges=judges,
        receivers=receivers,
        telemetry=telemetry,
        criteria=common.criteria,
        reloads=reloads,
        forwarder=forwarder,
        journal=judging.journal,
        crew=crew,
        site=site,
    )


def _pages(telemetry: Telemetry, judges: Judges, health: Health) -> dict[str, PageSource]:
    def render(accept: str) -> tuple[bytes, str]:
        page = telemetry.page().render(accept)
        return page.body, page.content_type

    problems, alive = health
    return {
        "/livez": health_page(alive),
        "/readyz": health_page(problems),
        "/metrics": metrics_page(render),
        "/debug/traces": json_page(lambda: judges.waiting(limit=MAX_SHOWN, timeout_seconds=ANSWER_SECONDS).document()),
    }


def _alone(
    common: Common, telemetry: Telemetry, metrics: MetricsEmitter | None, forwarder: Forwarder | None, *, store: Store | None
) -> _Judging:
    """Judge in this process."""
    recent = build_recent(store, explain_of(common.settings))
    worker, journal = build_worker(common, telemetry, metrics, recent=recent, forwarder=forwarder)
    intake = OtlpIntake(sink=worker, projection=lambda: worker.pipeline.projection, logs=worker, forward=forwarder, shedder=worker)
    return _Judging(judges=worker, intake=intake, recent=recent, journal=journal)


def _shared(common: Common, crew: Crew, telemetry: Telemetry, forwarder: Forwarder | None, *, store: Store | None) -> _Judging:
    """Judge in processes that are forked already; returns once they are built."""
    desk = NewsDesk(console=common.console, remember=None if store is None else partial(remember_in, store))
    desk.flush_metrics = telemetry.flush_metrics

    def close() -> None:
        desk.close(NEWS_SECONDS)
        if store is not None:
            store.close()

    crew.on_closed = close
    crew.listen(desk.take)
    crew.await_ready()
    intake = SharedIntake(crew, forward=forwarder, asked=build_extractor(common.settings.dialects).projection)
    return _Judging(judges=crew, intake=intake, recent=None if store is None else SharedRecent(crew, desk), counting=desk)


def reload_criteria(settings: Settings, judges: Judges) -> LoadedCriteria:
    """Load the criteria again and judge by them from the next trace on.

    Raises:
        CriteriaError: they can't be used; the old ones stay in force.
    """
    if not settings.criteria:
        raise CriteriaError(where="criteria", what="no criteria are configured", fix="name files with --criteria or in the settings")
    loaded = load_criteria(settings.criteria)
    judges.judge_by(loaded.sets)
    return loaded
