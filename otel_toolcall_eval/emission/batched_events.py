"""The sidecar's events: the same log records and spans as in ``events``, written as OTLP bytes in batches.

The SDK takes 60 us for each verdict as a log record and 45 us as a span event, many times what judging it takes. Of a verdict's
attributes only its ID, score and explanation are its own; the bytes of the others are made once for each criterion and answer.
"""

from __future__ import annotations

import hashlib
import time
from threading import Event, Lock, Thread
from typing import TYPE_CHECKING, Final, Protocol

from otel_toolcall_eval.emission import names
from otel_toolcall_eval.emission.attributes import (
    EXPLAIN,
    Explain,
    clean_name,
    event_attributes,
    explanation,
    shown_on_span,
    span_attributes,
    span_key,
)
from otel_toolcall_eval.emission.events import settle, time_of
from otel_toolcall_eval.wire.otlp_writing import (
    EVENT_ATTRIBUTE,
    LOG_ATTRIBUTE,
    SPAN_ATTRIBUTE,
    AttributeKey,
    Envelope,
    attributes,
    event_moment,
    event_title,
    log_moment,
    log_record,
    log_title,
    span,
    span_event,
    span_title,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from otel_toolcall_eval.emission.attributes import AttributeValue
    from otel_toolcall_eval.emission.events import JudgedRoots
    from otel_toolcall_eval.model.score import TraceReport, Verdict

_TAKEN_BYTES: Final = 512 * 1024  # far below the 4 MiB that gRPC receivers take by default
_REMEMBERED: Final = 5_000  # templates, some 300 bytes each
_SPAN_ID_BYTES: Final = 8

_ID: Final = AttributeKey(names.EVALUATION_ID.name)
_SCORE: Final = AttributeKey(names.SCORE_VALUE.name)
_EXPLANATION: Final = AttributeKey(names.EXPLANATION.name)
_CONVERSATION: Final = AttributeKey(names.CONVERSATION_ID.name)
_VERDICT_TIME: Final = AttributeKey(names.VERDICT_TIME.name)
_VARYING: Final = frozenset({names.EVALUATION_ID.name, names.SCORE_VALUE.name, names.EXPLANATION.name, names.CONVERSATION_ID.name})


class Outlet(Protocol):
    """Takes one signal away. Any thread."""

    def send(self, body: bytes, *, items: int) -> None:
        """Take a request that holds so many records or spans; never waits. What there is no room for is dropped, and counted there."""
        ...

    def flush(self, timeout_seconds: float) -> bool:
        """Return True once all that was taken has been delivered; False if that took longer, or some of it was not taken there."""
        ...


class BatchedEvents:
    """Emits a report's verdicts as events. ``emit`` belongs to one thread, the worker's; 8 us of CPU for each verdict.

    A thread of its own sends what has come every ``delay_seconds``, so that the last verdict of an evening leaves, too.
    """

    def __init__(
        self,
        logs: Outlet | None,
        spans: Outlet | None,
        *,
        resource: Mapping[str, AttributeValue],
        explain: Explain = EXPLAIN,
        roots: JudgedRoots | None = None,
        clock: Callable[[], int] = time.time_ns,
        delay_seconds: float = 1.0,
    ) -> None:
        """Start the thread.

        Args:
            logs: takes log records; None for none.
            spans: takes our spans with their events; None for none.
            resource: attributes of our resource.
            explain: what explanations show.
            roots: is offered the span events first; what it does not take goes on a span of ours.
            clock: Unix time in nanoseconds, for the time of the verdicts.
            delay_seconds: longest wait for a batch to become full.
        """
        self._roots = roots
        self._explain = explain
        self._clock = clock
        self._delay_seconds = delay_seconds
        self._templates: dict[tuple[object, ...], _Template] = {}
        self._span_templates: dict[tuple[object, ...], bytes] = {}
        self._scores: dict[float, bytes] = {}
        envelope = Envelope(resource=resource, scope_name=names.SCOPE_NAME)
        self._logs = None if logs is None else _Batch(logs, envelope)
        self._spans = None if spans is None else _Batch(spans, envelope)
        self._batches = [batch for batch in (self._logs, self._spans) if batch is not None]
        self._stopping = Event()
        self._sender = Thread(target=self._run, name="otel-toolcall-eval-events", daemon=True)
        self._sender.start()

    def emit(self, report: TraceReport) -> None:
        """Emit the report's verdicts; nothing for a trace that no criteria apply to."""
        if report.unbound or (not self._batches and self._roots is None):
            if self._roots is not None:
                self._roots.settle(report, attributes={}, events=())
            return
        now_unix_ns = self._clock()
        judged = report.judged_span
        # Without a judged span, as in executions that were put together by hand, our span would be a new trace of its own.
        trace_id, span_id = (b"", b"") if judged is None or not any(judged.span_id) else (judged.trace_id, judged.span_id)
        found = [self._written(report, verdict) for verdict in report.verdicts]
        if self._logs is not None:
            moment = log_moment(time_unix_ns=now_unix_ns, trace_id=trace_id, span_id=span_id)
            self._logs.add([log_record(_joined(LOG_ATTRIBUTE, moment + template[0], own)) for template, own in found])
        is_on_root = self._roots is not None and self._settle(self._roots, report, now_unix_ns)
        if self._spans is not None and trace_id and not is_on_root:
            self._spans.add([self._span(report, found, trace_id, span_id, now_unix_ns)])

    def flush(self, timeout_seconds: float) -> bool:
        """Send what was emitted; False if that took longer, or failed."""
        deadline = time.monotonic() + timeout_seconds
        for batch in self._batches:
            batch.send()
        sent = [batch.outlet.flush(max(0.0, deadline - time.monotonic())) for batch in self._batches]
        return all(sent)

    def shutdown(self, timeout_seconds: float) -> None:  # noqa: ARG002 - the emitters' common signature
        """Hand over what is left, and end the thread; the outlets are the caller's, and are shut down after us."""
        self._stopping.set()
        self._sender.join()
        for batch in self._batches:
            batch.send()

    def _run(self) -> None:
        while not self._stopping.wait(self._delay_seconds):
            for batch in self._batches:
                batch.send()

    def _settle(self, roots: JudgedRoots, report: TraceReport, now_unix_ns: int) -> bool:
        found = [event_attributes(report, verdict, explain=self._explain) for verdict in report.verdicts]
        return settle(roots, report, found, now_unix_ns)

    def _written(self, report: TraceReport, verdict: Verdict) -> _Written:
        """Return a verdict's attributes, encoded."""
        failure = None if verdict.failure is None else verdict.failure.error_type
        about = verdict.evaluator, verdict.criteria, verdict.label, verdict.completeness, verdict.doubts, failure
        key = *about, report.revision, report.trigger
        template = self._templates.get(key)
        if template is None:
            if len(self._templates) >= _REMEMBERED:
                self._templates.clear()
            template = self._templates[key] = _template(report, verdict)
        own = [b"", _ID.with_text(verdict.evaluation_id)]
        score = verdict.emitted_score
        if score is not None:
            own.append(self._score(score))
        if text := explanation(verdict, explain=self._explain):
            own.append(_EXPLANATION.with_text(text))
        if report.conversation_id is not None:
            own.append(_CONVERSATION.with_text(clean_name(report.conversation_id)))
        return template, own

    def _score(self, score: float) -> bytes:
        encoded = self._scores.get(score)
        if encoded is None:
            if len(self._scores) >= _REMEMBERED:
                self._scores.clear()
            encoded = self._scores[score] = _SCORE.with_value(float(score))
        return encoded

    def _span(self, report: TraceReport, found: Sequence[_Written], trace_id: bytes, span_id: bytes, now_unix_ns: int) -> bytes:
        """Return a span of ours; its ID follows from that of its first verdict, so that a backend takes one that is sent twice for one."""
        time_unix_ns = time_of(report)
        moment = event_moment(time_unix_ns)
        shown, omitted = shown_on_span(report.verdicts)
        written = [found[position] for position in shown]
        events = [span_event(_joined(EVENT_ATTRIBUTE, moment + template[1], own)) for template, own in written]
        if omitted is not None:
            events.append(span_event(moment + _SUMMARY_TITLE + attributes(EVENT_ATTRIBUTE, omitted)))
        key = span_key(report)
        template = self._span_templates.get(key)
        if template is None:
            if len(self._span_templates) >= _REMEMBERED:
                self._span_templates.clear()
            shared = {name: value for name, value in span_attributes(report).items() if name not in _VARYING}
            template = self._span_templates[key] = _SPAN_TITLE + attributes(SPAN_ATTRIBUTE, shared)
        own = [b"", _VERDICT_TIME.with_value(now_unix_ns)]
        if report.conversation_id is not None:
            own.append(_CONVERSATION.with_text(clean_name(report.conversation_id)))
        return span(
            trace_id=trace_id,
            span_id=span_id_of(report),
            parent_span_id=span_id,
            time_unix_ns=time_unix_ns,
            content=_joined(SPAN_ATTRIBUTE, template, own),
            events=events,
        )


_Template = tuple[bytes, bytes]
"""What many verdicts share: title and attributes, as fields of a log record and of a span event."""

_Written = tuple[_Template, list[bytes]]
"""A verdict's attributes: those that it shares, and its own, without tags and behind a free place; see ``_joined``."""

_LOG_TITLE: Final = log_title(names.RESULT_EVENT)
_EVENT_TITLE: Final = event_title(names.RESULT_EVENT)
_SUMMARY_TITLE: Final = event_title(names.SUMMARY_EVENT)
_SPAN_TITLE: Final = span_title(names.SPAN_NAME)


def _template(report: TraceReport, verdict: Verdict) -> _Template:
    shared = {key: value for key, value in event_attributes(report, verdict).items() if key not in _VARYING}
    return _LOG_TITLE + attributes(LOG_ATTRIBUTE, shared), _EVENT_TITLE + attributes(EVENT_ATTRIBUTE, shared)


def _joined(tag: bytes, shared: bytes, own: list[bytes]) -> bytes:
    """Return shared fields and own attributes, each of these behind the tag; ``own`` begins with a free place, so that no list is made."""
    own[0] = shared
    return tag.join(own)


def span_id_of(report: TraceReport) -> bytes:
    """Return the ID of our span in the judged trace: 8 bytes, the same whenever the same report is emitted."""
    evaluation_id = report.verdicts[0].evaluation_id.encode(errors="surrogatepass")
    return hashlib.blake2b(evaluation_id, digest_size=_SPAN_ID_BYTES, usedforsecurity=False).digest()


class _Batch:
    """What waits to be sent of one signal. ``add`` is the worker's; ``send`` comes from any thread."""

    def __init__(self, outlet: Outlet, envelope: Envelope) -> None:
        self.outlet = outlet
        self._envelope = envelope
        self._sending = Lock()  # held by whoever takes the items away until the outlet has them, so that a flush sees all of them
        self._lock = Lock()
        self._items: list[bytes] = []
        self._bytes = 0

    def add(self, items: list[bytes]) -> None:
        added = 0
        while added < len(items):
            with self._lock:
                while added < len(items) and self._bytes < _TAKEN_BYTES:
                    item = items[added]
                    self._items.append(item)
                    self._bytes += len(item)
                    added += 1
                is_full = self._bytes >= _TAKEN_BYTES
            if is_full:
                self.send()

    def send(self) -> None:
        with self._sending:
            with self._lock:
                items, self._items, self._bytes = self._items, [], 0
            if items:
                self.outlet.send(self._envelope.request(items), items=len(items))
