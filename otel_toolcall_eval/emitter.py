"""What the worker hands reports to."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from otel_toolcall_eval.model.score import TraceReport


class Emitter(Protocol):
    """Creates telemetry out of reports. Called by the worker's thread alone."""

    def emit(self, report: TraceReport) -> None:
        """Emit one report; must not wait for the network."""
        ...

    def flush(self, timeout_seconds: float) -> bool:
        """Send what is emitted; False if that took too long."""
        ...

    def shutdown(self, timeout_seconds: float) -> None:
        """Send what is emitted and let go of everything, within the time-out."""
        ...
