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
    from otel_toolcall_eval.model.criteria import CriteriaSet
    from otel_toolcall_eval.settings.service import Settings
    from otel_toolcall_eval.worker import Worker


def build_store(settings: Settings) -> Store | None:
    """Return where reports are remembered; None if nobody wants it.

    Raises:
        SettingsError: its file can't be had.
    """
    status = settings.status
    if not status.enabled:
        return None
    return Store(status.path, traces=status.traces, limit_bytes=status.limit_bytes, max_age_ns=status.max_age_ns)


def build_recent(store: Store | None, explain: Explain) -> Recent | None:
    """Return what makes rows of reports, as far as ``explain`` shows them; None if nobody takes them."""
    if store is None:
        return None
    return Recent(store, tell=Telling(explain=partial(explanation, explain=explain), redact=explain.redactor.in_text))


def build_site(recent: Recent, store: Store, worker: Worker, *, version: str, answer_seconds: float) -> StatusSite:
    """Return the pages; ``answer_seconds`` is how long the worker is waited for."""
    running = _Running(worker=worker, answer_seconds=answer_seconds)
    return StatusSite(recent=recent, history=History(store), sidecar=running, version=version)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Running:
    """What the pages ask of a running sidecar."""

    worker: Worker
    answer_seconds: float

    def waiting(self, *, limit: int) -> Waiting:
        """Return what is open."""
        return self.worker.waiting(limit=limit, timeout_seconds=self.answer_seconds)

    def criteria(self) -> Sequence[CriteriaSet]:
        """Return what is loaded."""
        return self.worker.pipeline.criteria
