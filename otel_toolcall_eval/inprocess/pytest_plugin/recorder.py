"""Keeps the spans that began in a test.

One recorder for each tracer provider, registered once: the SDK has no way to take a processor away, and one more for each test would
make every span dearer than the one before.
"""

from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from opentelemetry import trace
from opentelemetry.sdk.trace import SpanProcessor, TracerProvider

from otel_toolcall_eval.model.errors import SettingsError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from opentelemetry.context import Context
    from opentelemetry.sdk.trace import ReadableSpan, Span

MAX_OUTSIDE = 100_000
"""Spans of earlier tests that are remembered, so that their late children are kept apart from this test's: ten megabytes."""


class Recording:
    """The spans of one test.

    A span belongs to the test in which it began, unless its parent belongs to another: a background task of an earlier test goes on in
    its own trace. The span that was current when the test began, as that of a harness that traces tests, is no such parent.
    """

    def __init__(self, provider: object, lock: threading.RLock) -> None:
        """Record nothing yet."""
        self.provider = provider
        self.around = trace.get_current_span().get_span_context().span_id
        self.foreign = 0
        self._lock = lock
        self._open: dict[int, Span] = {}
        self._ended: list[ReadableSpan] = []

    def begin(self, span: Span) -> None:
        """Take in a span that began; the lock is held."""
        self._open[span.get_span_context().span_id] = span

    def end(self, span: ReadableSpan) -> None:
        """Take in a span that ended, if it belongs here; the lock is held."""
        context = span.get_span_context()
        if context is not None and self._open.pop(context.span_id, None) is not None:
            self._ended.append(span)

    @property
    def ended(self) -> tuple[ReadableSpan, ...]:
        """Return the spans that have ended, in that order."""
        with self._lock:
            return tuple(self._ended)

    @property
    def still_open(self) -> Sequence[str]:
        """Return the names of the spans that still run and may call tools yet: all but those that whoever asks is in."""
        current = trace.get_current_span().get_span_context().span_id
        with self._lock:
            others = dict(self._open)
        while current in others:
            parent = others.pop(current).parent
            current = 0 if parent is None else parent.span_id
        return [span.name for span in others.values()]

    @property
    def span_ids(self) -> Sequence[int]:
        """Return the IDs of all its spans; the lock is held."""
        contexts = (span.get_span_context() for span in self._ended)
        return [*self._open, *(context.span_id for context in contexts if context is not None)]


class SpanRecorder(SpanProcessor):
    """Hands the spans of a provider to the recording that is under way."""

    def __init__(self) -> None:
        """Record nothing yet."""
        self._lock = threading.RLock()  # a signal handler or a finaliser may end a span while this thread is in here
        self._recording: Recording | None = None  # guarded by _lock
        self._outside: dict[int, None] = {}  # IDs of spans that no later test's recording takes in; guarded by _lock

    def start(self, provider: object) -> Recording:
        """Begin a recording."""
        recording = Recording(provider, self._lock)
        with self._lock:
            self._recording = recording
        return recording

    def stop(self) -> None:
        """End the recording that is under way."""
        with self._lock:
            if self._recording is not None:
                for span_id in self._recording.span_ids:
                    self._leave_out(span_id)
            self._recording = None

    def on_start(self, span: Span, parent_context: Context | None = None) -> None:  # noqa: ARG002 - the span knows its parent
        """Note where the span belongs."""
        parent = span.parent
        with self._lock:
            recording = self._recording
            if recording is None:
                self._leave_out(span.get_span_context().span_id)
            elif parent is None or parent.span_id == recording.around or parent.span_id not in self._outside:
                recording.begin(span)
            else:
                recording.foreign += 1
                self._leave_out(span.get_span_context().span_id)

    def on_end(self, span: ReadableSpan) -> None:
        """Keep the span if it belongs to the recording."""
        with self._lock:
            if self._recording is not None:
                self._recording.end(span)

    def _leave_out(self, span_id: int) -> None:
        self._outside[span_id] = None
        if len(self._outside) > MAX_OUTSIDE:
            del self._outside[next(iter(self._outside))]


_recorders: WeakKeyDictionary[object, SpanRecorder] = WeakKeyDictionary()


def recorder_of(provider: object) -> SpanRecorder:
    """Return the recorder of a provider, registered now if need be.

    Raises:
        SettingsError: the provider takes no span processor.
    """
    if not hasattr(provider, "add_span_processor"):
        raise SettingsError(
            where="tool_calls_tracer_provider",
            what=f"a {type(provider).__name__} takes no span processor",
            fix="let this fixture return the TracerProvider of the SDK that the agent's spans are made by",
        )
    if provider not in _recorders:
        _recorders[provider] = SpanRecorder()
        provider.add_span_processor(_recorders[provider])
    return _recorders[provider]


def provider_in_force() -> object:
    """Return the global provider; if there is none yet, set one up, so that tracers which were made before turn to it."""
    found = trace.get_tracer_provider()
    if isinstance(found, trace.ProxyTracerProvider):
        trace.set_tracer_provider(TracerProvider(shutdown_on_exit=False))
        found = trace.get_tracer_provider()
    return found


def why_no_span(recording: Recording) -> Sequence[str]:
    """Return what may have kept spans from being recorded, likeliest last word first."""
    reasons = []
    if os.environ.get("OTEL_SDK_DISABLED", "").strip().lower() == "true":
        reasons.append("OTEL_SDK_DISABLED is set, so the SDK makes no span")
    sampler = getattr(recording.provider, "sampler", None)
    sampled = "" if sampler is None else sampler.get_description()
    if sampled.startswith(("AlwaysOff", "ParentBased{root:AlwaysOff", "TraceIdRatio", "ParentBased{root:TraceIdRatio")):
        reasons.append(f"the provider's sampler drops spans ({sampled.removeprefix('ParentBased{root:').partition(',')[0]})")
    if recording.foreign:
        spans, part = ("1 span was", "it is") if recording.foreign == 1 else (f"{recording.foreign} spans were", "they are")
        reasons.append(f"{spans} left out, since what {part} part of began before this test")
    if recording.provider is not trace.get_tracer_provider():
        reasons.append("the global provider is another one than that of the fixture tool_calls_tracer_provider; does the agent use that?")
    elif not reasons:
        reasons.append("is the agent instrumented, and is its provider the global one? If not, override tool_calls_tracer_provider")
    return reasons
