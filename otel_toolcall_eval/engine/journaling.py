"""What the worker asks of a journal, and the one that keeps nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from otel_toolcall_eval.engine.counters import Counts
    from otel_toolcall_eval.engine.pipeline import Pipeline
    from otel_toolcall_eval.engine.work_items import WorkItem
    from otel_toolcall_eval.model.decision import Decision
    from otel_toolcall_eval.model.score import TraceReport


class Journal(Protocol):
    """Keeps what is taken in and what is decided, so that it survives the process. Called by the worker's thread alone.

    Attributes:
        keeps_senders_waiting: a request is answered only when it is written.
    """

    keeps_senders_waiting: bool

    def replay(self, pipeline: Pipeline, *, now_ns: int) -> Iterable[TraceReport]:
        """Take up what an earlier process left; yields reports that are to be emitted again. Comes first."""
        ...

    def write(self, items: Sequence[WorkItem], pipeline: Pipeline, *, now_ns: int) -> Sequence[WorkItem]:
        """Write requests and return what is to be taken in; the others have been refused."""
        ...

    def decided(self, decisions: Sequence[Decision], reports: Sequence[TraceReport]) -> Sequence[TraceReport]:
        """Write decisions and return the reports that may be emitted now."""
        ...

    def tend(self, pipeline: Pipeline, *, now_ns: int, last: bool = False) -> Sequence[TraceReport]:
        """Keep the file in order, if it is time; returns reports that had to wait."""
        ...

    def next_ns(self) -> int | None:
        """Return when ``tend`` is wanted; None if there is nothing to do."""
        ...

    def counts(self) -> Counts:
        """Return its counts; any thread."""
        ...


class NoJournal:
    """Keeps nothing."""

    keeps_senders_waiting = False

    def replay(self, pipeline: Pipeline, *, now_ns: int) -> Iterable[TraceReport]:  # noqa: ARG002 - the protocol's signature, here and below
        """Return nothing: nothing was kept."""
        return ()

    def write(self, items: Sequence[WorkItem], pipeline: Pipeline, *, now_ns: int) -> Sequence[WorkItem]:  # noqa: ARG002
        """Return the requests."""
        return items

    def decided(self, decisions: Sequence[Decision], reports: Sequence[TraceReport]) -> Sequence[TraceReport]:  # noqa: ARG002
        """Return the reports."""
        return reports

    def tend(self, pipeline: Pipeline, *, now_ns: int, last: bool = False) -> Sequence[TraceReport]:  # noqa: ARG002
        """Return nothing: no report had to wait."""
        return ()

    def next_ns(self) -> int | None:
        """Return None: there is nothing to do."""
        return None

    def counts(self) -> Counts:
        """Return nothing."""
        return {}
