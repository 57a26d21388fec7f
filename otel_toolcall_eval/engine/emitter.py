"""What the worker hands reports to: the one interface of every back end.

Another back end is one module in ``emission/`` with a class that has these three methods, and one line in ``wiring.build_sidecar`` (or
``in_process.build_in_process``), where it joins the list of emitters; worker, journal and pipeline know no more of emitters than this.
What it has to keep to, and ``tests/exporters/test_emitters.py`` holds it to:

- ``emit`` never waits: what takes time has a thread and a bounded queue of its own, and counts what it drops; see ``forwarding.forwarder``.
- Every report comes: of traces that nothing is bound to (``report.unbound``), without a judged span, again with a higher ``revision`` if
  late spans changed a verdict, and with the same ``evaluation_id`` if an earlier process may not have delivered it.
- Names are cut by ``attributes.clean_name``; reasons are told by ``attributes.explanation`` alone, which takes secrets out. A report holds
  all that was recorded, so what is told of ``report.extraction``, of a span's attributes or of a justification is users' data that got out.
- What ``emit`` raises is counted as a failure, logged once without its message, and passed over: other emitters and the next report go on.

Rejected: loading emitters of others by entry points. They would run on the one thread that judges, where nothing bounds what they take, on
reports whose shape is no promise. Who has a back end of their own reads the lines of ``serve --verdicts json``, or receives OTLP.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from otel_toolcall_eval.model.score import TraceReport


class Emitter(Protocol):
    """Creates telemetry out of reports; see above. ``emit`` is called by the worker's thread alone, the others by any."""

    def emit(self, report: TraceReport) -> None:
        """Emit one report; must not wait for the network."""
        ...

    def flush(self, timeout_seconds: float) -> bool:
        """Send what is emitted; False if that took too long. May be called at any time, after ``shutdown`` too."""
        ...

    def shutdown(self, timeout_seconds: float) -> None:
        """Send what is emitted and let go of everything, within the time-out. May be called again."""
        ...
