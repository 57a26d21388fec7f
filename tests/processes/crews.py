"""Crews whose members run on threads of this process: the same code at both ends of a socket, without a fork."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

from opentelemetry.sdk.resources import Resource

from otel_toolcall_eval.accounts import AllCounts
from otel_toolcall_eval.emission.aggregator import Aggregator
from otel_toolcall_eval.emission.export_plan import ExportPlan
from otel_toolcall_eval.emission.metrics import MetricsEmitter
from otel_toolcall_eval.emission.telemetry import Telemetry
from otel_toolcall_eval.pace import NoBrake
from otel_toolcall_eval.pipeline import Pipeline
from otel_toolcall_eval.processes.channel import Channel, pair
from otel_toolcall_eval.processes.crew import Crew
from otel_toolcall_eval.processes.link import Link
from otel_toolcall_eval.processes.member import Member, Parts
from otel_toolcall_eval.processes.news import NewsSender
from otel_toolcall_eval.status.recent import Recent
from otel_toolcall_eval.worker import Worker
from tests.fakes import ListEmitter, ManualClock, PlainReader
from tests.patience import PATIENCE_SECONDS
from tests.status.rows import TELL

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from otel_toolcall_eval.journal.sqlite_journal import SqliteJournal
    from otel_toolcall_eval.processes.channel import Frame

    Reload = Callable[[Sequence[tuple[str, str]]], bool]


class ThreadAsProcess:
    """What a link needs of a process."""

    def __init__(self, run: Callable[[], object]) -> None:
        self.killed = False
        self.pid = 4711
        self.how = "signal 9"
        self._thread = threading.Thread(target=run, daemon=True)
        self._thread.start()

    def wait(self, timeout_seconds: float) -> bool:
        self._thread.join(timeout_seconds)
        return not self._thread.is_alive()

    def kill(self) -> None:
        self.killed = True


class Played:
    """One member, and all that a test wants to look at."""

    def __init__(self, channel: Channel, *, queue_bytes: int, journal: SqliteJournal | None, reload: Reload) -> None:
        self.channel = channel
        self.clock = ManualClock()
        self.emitter = ListEmitter()
        self.telemetry = Telemetry(
            aggregator=Aggregator(Resource.create({})), exporter=None, plan=ExportPlan.of({}), outlets={}, targets={}
        )
        self.metrics = MetricsEmitter(self.telemetry.aggregator)
        self.news = NewsSender(channel)
        self.recent = Recent(self.news, tell=TELL)
        self.worker = Worker(
            Pipeline(reader=PlainReader(), evaluators={}),
            [self.metrics, self.emitter, self.recent],
            clock=self.clock,
            queue_bytes=queue_bytes,
            journal=journal,
            brake=NoBrake(),
        )
        self.telemetry.aggregator.source = AllCounts(self.worker, self.metrics)
        self.parts = Parts(worker=self.worker, telemetry=self.telemetry, journal=journal, recent=self.recent, news=self.news, reload=reload)
        self.member = Member(channel, self.parts)

    def run(self) -> None:
        """Be the process: what it held is let go of at its end."""
        self.member.run()
        self.channel.close()


@contextmanager
def crew_of(
    number: int,
    *,
    limit_bytes: int = 1 << 20,
    queue_bytes: int = 1 << 20,
    journal: SqliteJournal | None = None,
    reload: Reload = lambda _: True,
    on_news: Callable[[Link, Frame], None] = lambda _link, _frame: None,
) -> Iterator[tuple[Crew, list[Played]]]:
    """Play a crew, which is ended in the end."""
    links, played = [], []
    for index in range(number):
        ours, theirs = pair()
        one = Played(Channel(theirs), queue_bytes=queue_bytes, journal=journal, reload=reload)
        process = ThreadAsProcess(one.run)
        links.append(Link(Channel(ours), process, index, limit_bytes=limit_bytes))
        played.append(one)
    crew = Crew(links, criteria=())
    crew.listen(on_news)
    crew.await_ready()
    try:
        yield crew, played
    finally:
        crew.abandon()
        for one in played:
            one.worker.shutdown(PATIENCE_SECONDS)
            one.channel.close()
