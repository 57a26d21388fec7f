"""What the worker tells the operator, once for each episode: its faults, and services that nothing evaluates.

Owned by the worker's thread. Nothing that was recorded is told but names, and these cut.
"""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING

from otel_toolcall_eval.model.trace import Trigger

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from otel_toolcall_eval.model.score import TraceReport

_logger = logging.getLogger(__name__)

_PRESSED = {
    Trigger.MEMORY: "they take more memory than `limits.limit_mib`; raise it",
    Trigger.EVICTION: "more are open than `limits.num_traces`; raise it",
}
_CUT_SHORT = frozenset({*_PRESSED, Trigger.SHUTDOWN})

PRESSED_SECONDS = 600.0
"""After so long it is told again that there is no room, if there is none."""

TOLD_SERVICES = 100
TOLD_NAMES = 100
SHOWN_CHARS = 200


class OperatorLog:
    """Remembers what was told."""

    def __init__(self) -> None:
        """Start with nothing told."""
        self.failures = 0
        self._failing: set[tuple[str, str]] = set()
        self._unbound_services: set[str] = set()
        self._unknown_names: set[str] = set()
        self._pressed_seconds: dict[Trigger, float] = {}  # when it was told last

    def failed(self, part: object, error: Exception) -> None:
        """Count a failure, and log the first one of each part and kind. The message may hold users' data, so it stays out."""
        self.failures += 1
        episode = (type(part).__name__, type(error).__qualname__)
        if episode not in self._failing:
            self._failing.add(episode)
            _logger.error("a part failed and was passed over; please report it", extra={"part": episode[0], "error_type": episode[1]})

    def catching(self, part: object) -> AbstractContextManager[None]:
        """Outlive whatever fails inside: a bug of ours must not end the thread, or every later trace is lost."""
        return _PassingOver(self, part)

    def decided(self, report: TraceReport, *, criteria: int) -> None:
        """Tell what is likely a slip in a name; ``criteria`` is the number of loaded ones."""
        self._unknown(report)
        self._unbound(report, criteria)
        if report.trigger in _PRESSED:
            self._pressed(report.trigger)

    def _pressed(self, trigger: Trigger) -> None:
        """Log, once for each ten minutes, that traces are evaluated early for want of room."""
        now_seconds = time.monotonic()
        told_seconds = self._pressed_seconds.get(trigger)
        if told_seconds is None or now_seconds - told_seconds >= PRESSED_SECONDS:
            self._pressed_seconds[trigger] = now_seconds
            _logger.warning(
                "open traces are judged before they are complete, since %s, or send less; `toolcall_eval.traces.evicted` counts them",
                _PRESSED[trigger],
                extra={"trigger": trigger.value},
            )

    def _unknown(self, report: TraceReport) -> None:
        """Log, once for each name, that a trace asks for criteria that nobody loaded."""
        for name in report.unknown_criteria:
            shown = name[:SHOWN_CHARS]
            if shown not in self._unknown_names and len(self._unknown_names) < TOLD_NAMES:
                self._unknown_names.add(shown)
                _logger.warning(
                    "a trace asks for criteria that are not loaded, %r; mend the name where it is set, or load a file that has it",
                    shown,
                    extra={"asked_for": shown},
                )

    def _unbound(self, report: TraceReport, criteria: int) -> None:
        """Log, once for each service, that nothing evaluates its traces: the likeliest reason is a typo in a name."""
        span = report.evaluated_span
        if not report.unbound or span is None or not criteria or report.trigger in _CUT_SHORT:  # its root may not have come
            return
        service = str(span.resource.attributes.get("service.name", ""))[:SHOWN_CHARS]
        if service in self._unbound_services or len(self._unbound_services) >= TOLD_SERVICES:
            return
        self._unbound_services.add(service)
        _logger.warning(
            "no criteria apply to a trace of the service %r; see `match` and `inputs` of the criteria, and `otel-toolcall-eval check`",
            service,
            extra={"service": service, "root_span": span.name[:SHOWN_CHARS], "criteria": criteria},
        )


class _PassingOver:
    """A class, since a generator takes 1.5 us each time, and every report passes each emitter."""

    __slots__ = ("_notices", "_part")

    def __init__(self, notices: OperatorLog, part: object) -> None:
        self._notices = notices
        self._part = part

    def __enter__(self) -> None:
        pass

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> bool:
        if not isinstance(error, Exception):
            return False
        self._notices.failed(self._part, error)
        return True
