"""The least way of a bound trace that we know of: texts are found in bytes, and bytes are joined. See ``least_ways``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from opentelemetry.proto.trace.v1.trace_pb2 import Span

from otel_toolcall_eval.emission import names
from otel_toolcall_eval.wire.otlp_writing import EVENT_ATTRIBUTE, LOG_ATTRIBUTE, SPAN_ATTRIBUTE, AttributeKey, Envelope
from otel_toolcall_eval.wire.schema import parse_down_to_spans
from otel_toolcall_eval.wire.varint import varint
from tests.bench.least_ways import ARGUMENTS, NAME, NO_ID, OUTPUT, OWN, RESOURCE, Messages, span_id_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from opentelemetry.proto.logs.v1.logs_pb2 import LogRecord

    from tests.bench.least import Expected, Verdict
    from tests.bench.least_ways import Judged, Read


class Slices(Messages):
    """Finds texts in bytes, and joins bytes; does not parse again what passed before, nor touch cells for the same verdicts again."""

    def __init__(self, expected: Expected) -> None:
        """Expect the same of all traces."""
        super().__init__(expected)
        self._envelope = Envelope(resource=RESOURCE, scope_name=names.SCOPE_NAME)
        self._fronts: dict[tuple[Verdict, ...], tuple[bytes, list[tuple[bytes, bytes]]]] = {}
        self._passed: Expected | None = None
        self._noted: dict[tuple[Verdict, ...], int] = {}

    def read(self, body: bytes) -> list[Read]:
        """Return the traces whose roots are in a request."""
        found, opened, text_of = [], self._open, _text_of
        for span in parse_down_to_spans(body).resource_spans[0].scope_spans[0].spans:
            assert isinstance(span, bytes)
            # 16 bytes from 2 on are the trace's ID, 8 from 20 on the span's, then come the parent's, if there is one, and the name.
            if span.startswith(b"execute_tool", 40):
                call = text_of(span, _NAME_BYTES), text_of(span, _ARGUMENTS_BYTES), text_of(span, _OUTPUT_BYTES)
                if (trace_id := span[2:18]) in opened:
                    opened[trace_id].append(call)
                else:
                    opened[trace_id] = [call]
            elif span.startswith(b"invoke_agent", 30):
                trace_id, end = span[2:18], 30 + span[29] + 12  # behind the name, kind and start, and the tag of the end
                found.append((trace_id, span[20:28], int.from_bytes(span[end : end + 8], "little"), opened.pop(trace_id)))
        return found

    def record(self, judged: list[Judged]) -> None:
        """Note what is to be added to the cells."""
        noted = self._noted
        for _, _, _, _, verdicts in judged:
            key = tuple(verdicts)
            noted[key] = noted.get(key, 0) + 1

    def settle(self) -> None:
        """Add to the cells what was noted, as a reader of them does."""
        while self._noted:
            self._add(*self._noted.popitem())

    def _verdicts(self, texts: list[tuple[str, str, str]]) -> list[Verdict]:
        if self._passed is not None:
            verdicts = self._passed.verdicts(texts)
            if sum([score for score, _ in verdicts]) == len(verdicts):
                return verdicts
        verdicts = super()._verdicts(texts)
        if sum([score for score, _ in verdicts]) == len(verdicts):
            self._passed = self._expected.in_texts(texts)
        return verdicts

    def emit(self, judged: list[Judged], now_unix_ns: int) -> tuple[bytes, bytes]:
        """Return a request with a log record for each verdict, and one with a span for each trace."""
        records, spans = [], []
        time, verdict_time = now_unix_ns.to_bytes(8, "little"), _VERDICT_TIME.with_value(now_unix_ns)
        for trace_id, span_id, end, ids, verdicts in judged:
            key = tuple(verdicts)
            if (fronts := self._fronts.get(key)) is None:
                fronts = self._fronts[key] = _fronts(*self._template(key), len(verdict_time))
            front, of_verdicts = fronts
            ended = end.to_bytes(8, "little")
            span = [front, trace_id, b"\x12\x08", span_id_of(ids), b"\x22\x08", span_id, b"\x39", ended, b"\x41", ended]
            span += SPAN_ATTRIBUTE, verdict_time
            of_records: list[bytes] = []
            for (of_record, of_event), evaluation_id in zip(of_verdicts, ids, strict=True):
                own = evaluation_id.encode()
                span += of_event, own, b"\x09", ended
                of_records += of_record, own, b"\x09", time, b"\x59", time, b"\x4a\x10", trace_id, b"\x52\x08", span_id
            records.append(b"".join(of_records))
            spans.append(b"".join(span))
        return self._envelope.request(records), self._envelope.request(spans)


WAYS: Final[Mapping[str, type[Messages]]] = {"messages": Messages, "slices": Slices}


def _fronts(span: Span, records: Sequence[LogRecord], verdict_time: int) -> tuple[bytes, list[tuple[bytes, bytes]]]:
    """Return the bytes up to the trace's ID in a span, and those up to the verdict's ID in its log record and its event.

    Args:
        span: with the events; what is written anew each time is taken out.
        records: their log records.
        verdict_time: length of the time of a verdict as an attribute, tag left out.
    """
    fronts, of_events = [], 0
    for record, event in zip(records, span.events, strict=True):
        parts = []
        for message, tag, attribute, rest in ((record, b"\x12", LOG_ATTRIBUTE, 9 + 9 + 18 + 10), (event, b"\x5a", EVENT_ATTRIBUTE, 9)):
            shared = type(message).FromString(message.SerializeToString())
            del shared.attributes[OWN]
            content = shared.SerializeToString() + attribute + _ID.with_text(NO_ID)
            parts.append((tag + varint(len(content) + rest) + content).removesuffix(NO_ID.encode()))
        of_events += len(parts[1]) + len(NO_ID) + 9
        fronts.append((parts[0], parts[1]))
    shared_span = Span.FromString(span.SerializeToString())
    del shared_span.attributes[OWN], shared_span.events[:]
    content = shared_span.SerializeToString() + b"\x0a\x10"
    size = len(content) + 16 + 2 * 10 + 2 * 9 + len(SPAN_ATTRIBUTE) + verdict_time + of_events
    return b"\x12" + varint(size) + content, fronts


def _text_of(span: bytes, key: bytes) -> str:
    """Return the text of an attribute. Behind the key come the lengths of the value and of the text in it, of one byte or two each."""
    at = span.index(key) + len(key)
    if (size := span[at]) < 0x80:
        return span[at + 3 : at + 1 + size].decode()
    size = size & 0x7F | span[at + 1] << 7
    return span[at + 5 : at + 2 + size].decode()


def _found(key: str) -> bytes:
    return bytes([0x0A, len(key)]) + key.encode() + b"\x12"


_NAME_BYTES: Final = _found(NAME)
_ARGUMENTS_BYTES: Final = _found(ARGUMENTS)
_OUTPUT_BYTES: Final = _found(OUTPUT)
_ID: Final = AttributeKey(names.EVALUATION_ID.name)
_VERDICT_TIME: Final = AttributeKey(names.VERDICT_TIME.name)
