"""The sidecar's events: the same log records and spans as in ``events``, written as OTLP bytes in batches.

The SDK takes 60 us for each verdict as a log record and 45 us as a span event, many times what evaluating it takes. Of a verdict's
attributes only its ID, score and explanation are its own; the bytes of the others are made once for each criterion and answer. Where all
expectations are met, as most are, score and explanation are those of the verdict before, and the ID alone is its own.
"""

from __future__ import annotations

import time
from binascii import unhexlify
from dataclasses import dataclass
from threading import Event, Lock, Thread
from typing import TYPE_CHECKING, Final, Protocol

from otel_toolcall_eval.exporters import names
from otel_toolcall_eval.exporters.events.attributes import (
    EXPLAIN,
    ExplainValues,
    ExplanationPolicy,
    clean_name,
    event_attributes,
    explanation,
    shown_on_span,
    span_attributes,
    span_key,
    time_of,
)
from otel_toolcall_eval.otlp.writing import (
    EVENT_ATTRIBUTE,
    LOG_ATTRIBUTE,
    LOG_RECORD,
    SPAN_ATTRIBUTE,
    SPAN_EVENT,
    AttributeKey,
    Envelope,
    attributes,
    event_moment,
    event_title,
    log_moment,
    log_title,
    span,
    span_title,
    utf8,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from otel_toolcall_eval.exporters.events.attributes import AttributeValue
    from otel_toolcall_eval.model.score import ExpectationOutcome, TraceReport, Verdict
    from otel_toolcall_eval.model.trace import Span

_REMEMBERED: Final = 5_000  # templates, some 300 bytes each; encoded verdicts that are met, some 1,200, or 8,000 at most
_SPAN_ID_DIGITS: Final = 16

_ID_OF_LOG: Final = AttributeKey(names.EVALUATION_ID.name, tag=LOG_ATTRIBUTE)
_ID_OF_EVENT: Final = AttributeKey(names.EVALUATION_ID.name, tag=EVENT_ATTRIBUTE)
_SCORE: Final = AttributeKey(names.SCORE_VALUE.name)
_EXPLANATION: Final = AttributeKey(names.EXPLANATION.name)
_CONVERSATION: Final = AttributeKey(names.CONVERSATION_ID.name)
_VERDICT_TIME: Final = AttributeKey(names.VERDICT_TIME.name, tag=SPAN_ATTRIBUTE)
_VARYING: Final = frozenset({names.EVALUATION_ID.name, names.SCORE_VALUE.name, names.EXPLANATION.name, names.CONVERSATION_ID.name})

TAKEN_BYTES: Final = 512 * 1024
"""What makes a batch full. With a report on top a request has some twice that, far below the 4 MiB that gRPC receivers take by default."""


class EventSender(Protocol):
    """Takes one signal away. Any thread."""

    def send(self, body: bytes, *, items: int) -> None:
        """Take a request that holds so many records or spans; never waits. What there is no room for is dropped, and counted there."""
        ...

    def flush(self, timeout_seconds: float) -> bool:
        """Return True once all that was taken has been delivered; False if that took longer, or some of it was not taken there."""
        ...


class Batch:
    """What waits to be sent of one signal. ``add`` is the worker's; ``send`` comes from any thread."""

    def __init__(self, outlet: EventSender, envelope: Envelope) -> None:
        """Begin without any."""
        self.outlet = outlet
        self._envelope = envelope
        self._sending = Lock()  # held by whoever takes the items away until the outlet has them, so that a flush sees all of them
        self._lock = Lock()
        self._fields: list[bytes] = []
        self._items = 0
        self._bytes = 0

    def add(self, fields: bytes, items: int) -> None:
        """Take so many items, encoded as fields; what has come is sent if it is enough for a request."""
        with self._lock:
            self._fields.append(fields)
            self._items += items
            self._bytes += len(fields)
            is_full = self._bytes >= TAKEN_BYTES
        if is_full:
            self.send()

    def send(self) -> None:
        """Send what has come."""
        with self._sending:
            with self._lock:
                fields, items = self._fields, self._items
                self._fields, self._items, self._bytes = [], 0, 0
            if items:
                self.outlet.send(self._envelope.request(fields), items=items)


@dataclass(frozen=True, slots=True, kw_only=True)
class _EncodedVerdict:
    """A verdict but for its ID: title and attributes, as fields of a log record and of a span event.

    Attributes:
        met: its outcomes, if all expectations are met; else None.
    """

    log: bytes
    event: bytes
    met: Sequence[ExpectationOutcome] | None


class BatchedEvents:
    """Emits a report's verdicts as events. ``emit`` belongs to one thread, the worker's; 5 us for a verdict that is met.

    A thread of its own sends what has come every ``delay_seconds``, so that the last verdict of an evening leaves, too.
    """

    def __init__(
        self,
        logs: EventSender | None,
        spans: EventSender | None,
        *,
        resource: Mapping[str, AttributeValue],
        explain: ExplanationPolicy = EXPLAIN,
        clock: Callable[[], int] = time.time_ns,
        delay_seconds: float = 1.0,
    ) -> None:
        """Start the thread.

        Args:
            logs: takes log records; None for none.
            spans: takes our spans with their events; None for none.
            resource: attributes of our resource.
            explain: what explanations show.
            clock: Unix time in nanoseconds, for the time of the verdicts.
            delay_seconds: longest wait for a batch to become full.
        """
        self._explain = explain
        self._clock = clock
        self._delay_seconds = delay_seconds
        # What a met verdict says of values differs from trace to trace, what it says without them does not; see ``Justification``.
        self._says_values = explain.values is not ExplainValues.OFF
        self._encoded_if_met: dict[tuple[object, ...], _EncodedVerdict] = {}
        self._templates: dict[tuple[object, ...], _Template] = {}
        self._span_templates: dict[tuple[object, ...], bytes] = {}
        self._scores: dict[float, bytes] = {}
        envelope = Envelope(resource=resource, scope_name=names.SCOPE_NAME)
        self._logs = None if logs is None else Batch(logs, envelope)
        self._spans = None if spans is None else Batch(spans, envelope)
        self._batches = [batch for batch in (self._logs, self._spans) if batch is not None]
        self._stopping = Event()
        self._sender = Thread(target=self._run, name="otel-toolcall-eval-events", daemon=True)
        self._sender.start()

    def emit(self, report: TraceReport) -> None:
        """Emit the report's verdicts; nothing for a trace that no criteria apply to."""
        if report.unbound or not self._batches:
            return
        now_unix_ns = self._clock()
        evaluated = report.evaluated_span
        if evaluated is not None and not any(evaluated.span_id):
            evaluated = None
        # Without a evaluated span, as in executions that were put together by hand, our span would be a new trace of its own.
        trace_id, span_id = (b"", b"") if evaluated is None else (evaluated.trace_id, evaluated.span_id)
        encoded = [self._encoded(report, verdict) for verdict in report.verdicts]
        ids = [utf8(verdict.evaluation_id) for verdict in report.verdicts]
        if self._logs is not None:
            moment = log_moment(time_unix_ns=now_unix_ns, trace_id=trace_id, span_id=span_id) + _conversation(LOG_ATTRIBUTE, report)
            _add_records(self._logs, moment, encoded, ids)
        if self._spans is not None and evaluated is not None:
            self._spans.add(self._span(report, evaluated, encoded, ids, now_unix_ns), 1)

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

    def _encoded(self, report: TraceReport, verdict: Verdict) -> _EncodedVerdict:
        """Return a verdict encoded; one that is met shares the encoding of the one before."""
        met = verdict.outcomes_if_met
        if met is None or self._says_values:
            return self._encode(report, verdict, met)
        key = verdict.criteria, verdict.criteria_version, verdict.evaluator, report.trigger, report.revision
        known = self._encoded_if_met.get(key)
        if known is not None and known.met is met:
            return known
        if len(self._encoded_if_met) >= _REMEMBERED:
            self._encoded_if_met.clear()
        encoded = self._encoded_if_met[key] = self._encode(report, verdict, met)
        return encoded

    def _encode(self, report: TraceReport, verdict: Verdict, met: Sequence[ExpectationOutcome] | None) -> _EncodedVerdict:
        """Encode a verdict but for its ID."""
        failure = None if verdict.failure is None else verdict.failure.error_type
        about = verdict.evaluator, verdict.criteria, verdict.label, verdict.completeness, verdict.doubts, failure
        key = *about, report.revision, report.trigger
        template = self._templates.get(key)
        if template is None:
            if len(self._templates) >= _REMEMBERED:
                self._templates.clear()
            template = self._templates[key] = _template(report, verdict)
        own = [b""]
        score = verdict.emitted_score
        if score is not None:
            own.append(self._score(score))
        if text := explanation(verdict, explain=self._explain):
            own.append(_EXPLANATION.with_text(text))
        return _EncodedVerdict(log=_joined(LOG_ATTRIBUTE, template[0], own), event=_joined(EVENT_ATTRIBUTE, template[1], own), met=met)

    def _score(self, score: float) -> bytes:
        encoded = self._scores.get(score)
        if encoded is None:
            if len(self._scores) >= _REMEMBERED:
                self._scores.clear()
            encoded = self._scores[score] = _SCORE.with_value(float(score))
        return encoded

    def _span(
        self, report: TraceReport, evaluated: Span, encoded: Sequence[_EncodedVerdict], ids: Sequence[bytes], now_unix_ns: int
    ) -> bytes:
        """Return a span of ours; its ID follows from that of its first verdict, so that a backend takes one that is sent twice for one."""
        time_unix_ns = time_of(report)
        time, conversation = event_moment(time_unix_ns), _conversation(EVENT_ATTRIBUTE, report)
        moment = time + conversation
        shown, omitted = shown_on_span(report.verdicts)
        pieces: list[bytes] = []
        for position in shown:
            evaluation_id = ids[position]
            SPAN_EVENT.put(pieces, moment, encoded[position].event, _ID_OF_EVENT.text_head(len(evaluation_id)), evaluation_id)
        if omitted is not None:
            pieces.append(SPAN_EVENT.field(time + _SUMMARY_TITLE + attributes(EVENT_ATTRIBUTE, omitted)))
        content = self._span_template(report, encoded) + _conversation(SPAN_ATTRIBUTE, report) + _VERDICT_TIME.with_value(now_unix_ns)
        return span(
            trace_id=evaluated.trace_id,
            span_id=span_id_of(report),
            parent_span_id=evaluated.span_id,
            time_unix_ns=time_unix_ns,
            content=content,
            events=pieces,
        )

    def _span_template(self, report: TraceReport, encoded: Sequence[_EncodedVerdict]) -> bytes:
        """Return title and attributes that spans of reports with equal outcomes have in common."""
        key: tuple[object, ...]
        if all(one.met is not None for one in encoded):  # then their number says it all
            agent = None if report.agent is None else clean_name(report.agent)
            key = len(encoded), agent, report.revision, report.trigger, report.completeness, report.doubts
        else:
            key = span_key(report)
        template = self._span_templates.get(key)
        if template is None:
            if len(self._span_templates) >= _REMEMBERED:
                self._span_templates.clear()
            shared = {name: value for name, value in span_attributes(report).items() if name not in _VARYING}
            template = self._span_templates[key] = _SPAN_TITLE + attributes(SPAN_ATTRIBUTE, shared)
        return template


_Template = tuple[bytes, bytes]
"""What many verdicts share: title and attributes, as fields of a log record and of a span event."""

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


def _conversation(tag: bytes, report: TraceReport) -> bytes:
    """Return the conversation of a report as a field; nothing if it has none."""
    return b"" if report.conversation_id is None else tag + _CONVERSATION.with_text(clean_name(report.conversation_id))


def _add_records(logs: Batch, moment: bytes, encoded: Sequence[_EncodedVerdict], ids: Sequence[bytes]) -> None:
    """Add log records of one moment to a batch, together unless they are large."""
    pieces: list[bytes] = []
    size = waiting = 0
    for one, evaluation_id in zip(encoded, ids, strict=True):
        size += LOG_RECORD.put(pieces, moment, one.log, _ID_OF_LOG.text_head(len(evaluation_id)), evaluation_id)
        waiting += 1
        if size >= TAKEN_BYTES:
            logs.add(b"".join(pieces), waiting)
            pieces = []
            size = waiting = 0
    if waiting:
        logs.add(b"".join(pieces), waiting)


def span_id_of(report: TraceReport) -> bytes:
    """Return the ID of our span in the evaluated trace: the first 8 of the 16 bytes of its first verdict's ID.

    So it is the same whenever the same report is emitted, and another for each trace, unit of one, and revision, as a hash is.
    """
    return unhexlify(report.verdicts[0].evaluation_id[:_SPAN_ID_DIGITS])
