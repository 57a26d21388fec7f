"""What the rest of a sidecar asks of who judges: a ``Worker`` in its own process, or several processes (``processes.Crew``)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from otel_toolcall_eval.assembly.waiting import Waiting
    from otel_toolcall_eval.model.bound import Bound
    from otel_toolcall_eval.model.criteria import CriteriaSet


class Judges(Protocol):
    """Judge. ``start`` and ``shutdown`` belong to one thread, all else to any."""

    @property
    def criteria(self) -> Sequence[CriteriaSet]:
        """Return the criteria sets in force."""
        ...

    @property
    def alive(self) -> bool:
        """Return True while all that is needed to judge runs."""
        ...

    def start(self) -> None:
        """Begin."""
        ...

    def freeze(self) -> None:
        """Let no trace fall due from now on, since nothing more is taken in; what is open waits for ``shutdown``."""
        ...

    def shutdown(self, timeout_seconds: float) -> bool:
        """Take nothing more, judge everything that is open, emit it, and end; False if that took longer than allowed."""
        ...

    def judge_by(self, criteria: Sequence[CriteriaSet]) -> None:
        """Judge by these criteria sets, which were just read from their files, from the next trace on.

        Raises:
            CriteriaError: that can't be done everywhere.
        """
        ...

    def bind(self, trace_id: bytes, bound: Bound) -> None:
        """Judge a trace by these criteria, too; raises OverloadedError if that can't be noted."""
        ...

    def waiting(self, *, limit: int, timeout_seconds: float) -> Waiting:
        """Return what is open and why it waits, at most ``limit`` traces of each kind; raises OverloadedError if that can't be told."""
        ...

    def refuse(self, transport: str, reason: str) -> None:
        """Count a request that a receiver turned away."""
        ...

    def counts(self) -> Mapping[tuple[str, tuple[tuple[str, str], ...]], int | float]:
        """Return what happened since the start."""
        ...
