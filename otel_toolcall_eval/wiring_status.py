"""Builds the status page and what it remembers."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from otel_toolcall_eval.emission.attributes import explanation
from otel_toolcall_eval.status.condensing import Telling
from otel_toolcall_eval.status.history import History
from otel_toolcall_eval.status.recent import Recent
from otel_toolcall_eval.status.site import StatusSite
from otel_toolcall_eval.status.store import Store

if TYPE_CHECKING:
    from collections.abc import Sequence

    from otel_toolcall_eval.assembly.waiting import Waiting
    from otel_toolcall_eval.emission.attributes import Explain
    from otel_toolcall_eval.judges import Judges
    from otel_toolcall_eval.model.criteria import CriteriaSet
    from otel_toolcall_eval.settings.service import Settings
    from otel_toolcall_eval.status.recent import RowSink
    from otel_toolcall_eval.status.site import Remembered


def build_store(settings: Settings) -> Store | None:
    """Return where reports are remembered; None if nobody wants it.

    Raises:
        SettingsError: its file can't be had.
    """
    status = settings.status
    if not status.enabled:
        return None
    return Store(status.path, traces=status.traces, limit_bytes=status.limit_bytes, max_age_ns=status.max_age_ns)


def build_recent(store: RowSink | None, explain: Explain, *, share: int = 1) -> Recent | None:
    """Return what makes rows of reports, as far as ``explain`` shows them; None if nobody takes them. ``share`` as in ``Recent``."""
    if store is None:
        return None
    return Recent(store, tell=Telling(explain=partial(explanation, explain=explain), redact=explain.redactor.in_text), share=share)


def build_site(recent: Remembered, store: Store, judges: Judges, *, version: str, answer_seconds: float) -> StatusSite:
    """Return the pages; ``answer_seconds`` is how long who judges is waited for."""
    running = _Running(judges=judges, answer_seconds=answer_seconds)
    return StatusSite(recent=recent, history=History(store), sidecar=running, version=version)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Running:
    """What the pages ask of a running sidecar."""

    judges: Judges
    answer_seconds: float

    def waiting(self, *, limit: int) -> Waiting:
        """Return what is open."""
        return self.judges.waiting(limit=limit, timeout_seconds=self.answer_seconds)

    def criteria(self) -> Sequence[CriteriaSet]:
        """Return what is loaded."""
        return self.judges.criteria
