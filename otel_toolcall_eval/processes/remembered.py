"""What the status page remembers, where the rows are made in other processes."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

from otel_toolcall_eval.processes.merging import merged_seen, merged_unbound

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from otel_toolcall_eval.processes.crew import Crew
    from otel_toolcall_eval.processes.news import NewsDesk
    from otel_toolcall_eval.status.condensing import ReportRow
    from otel_toolcall_eval.status.recent import RowSink, Seen, UnboundService

SETTLE_SECONDS: Final = 2.0


class SharedRecent:
    """Asks all processes what they have seen. For threads that may wait."""

    def __init__(self, crew: Crew, desk: NewsDesk) -> None:
        """Ask this crew, whose rows come over this desk."""
        self._crew = crew
        self._desk = desk
        self._told: dict[int, tuple[Seen, Mapping[str, UnboundService]]] = {}

    def settle(self) -> None:
        """Have remembered what waits anywhere; what can't be told in time is as it was told last."""
        self._told = {**self._told, **self._crew.remembered()}
        self._desk.settle(SETTLE_SECONDS)  # rows come before the answer

    @property
    def seen(self) -> Seen:
        """Return what came since the start, as ``settle`` heard it."""
        return merged_seen(seen for seen, _ in self._told.values())

    @property
    def unbound(self) -> Mapping[str, UnboundService]:
        """Return the services whose traces nothing judges, likewise."""
        return merged_unbound(services for _, services in self._told.values())


def remember_in(store: RowSink, rows: Sequence[ReportRow]) -> None:
    """Write rows that came from another process."""
    store.add(rows, now_unix_ns=time.time_ns())
