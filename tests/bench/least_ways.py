"""The least that a bound trace takes a program in Python, from the bytes of a request to the bytes of its verdicts.

There are two ways: ``Messages`` reads and writes with the classes of protobuf's C library, as anyone would; ``least_slices`` finds
texts in bytes and joins bytes, which a program may do that knows in which order its sender writes fields, and remembers what passed, as
ours does: the least that we know of. Both do what ``least`` does between, and call only what the interpreter and its libraries have in C.

They could not be used: a trace is taken to be whole when its root comes, all fields to be there and well-formed; there are no dialects,
conditions, limits, late spans, revisions or errors. What they send is what ours sends of the same traces; a test holds them to it.
"""

from __future__ import annotations

from hashlib import sha256
from typing import TYPE_CHECKING, Final

from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.logs.v1.logs_pb2 import LogRecord, SeverityNumber
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from otel_toolcall_eval.emission import names
from tests.bench.least import EVALUATORS, Expected, parse_json

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from google.protobuf.internal.containers import RepeatedCompositeFieldContainer
    from opentelemetry.proto.common.v1.common_pb2 import KeyValue

    from tests.bench.least import Verdict

    Read = tuple[bytes, bytes, int, list[tuple[str, str, str]]]
    """Trace, root span, its end, and name, arguments and output of each call."""

    Judged = tuple[bytes, bytes, int, list[str], list[Verdict]]
    """Trace, root span, its end; IDs and verdicts by evaluator."""

    Given = Mapping[str, str | int | float]
    KeyValues = RepeatedCompositeFieldContainer[KeyValue]
    Templates = dict[tuple[Verdict, ...], tuple[Span, list[LogRecord]]]

CRITERIA: Final = "standard_load"
_VERSION: Final = "0" * 16
RESOURCE: Final = {"service.name": "bench"}
_REASONS: Final = ("counts hold", "expected calls are in order", "expected arguments match", "expected outputs match")
NAME: Final = "gen_ai.tool.name"
ARGUMENTS: Final = "gen_ai.tool.call.arguments"
OUTPUT: Final = "gen_ai.tool.call.result"
_READ: Final = frozenset({NAME, ARGUMENTS, OUTPUT})
NO_ID: Final = "0" * 32
OWN: Final = 8
"""Place of the attribute that is a verdict's own, or a span's; the others are the same wherever the verdicts are."""


class Messages:
    """Reads and writes with protobuf's classes."""

    def __init__(self, expected: Expected) -> None:
        """Expect the same of all traces."""
        self.cells: dict[str, float] = dict.fromkeys(("decided", "delay", "duration"), 0.0)
        self._expected = expected
        self._open: dict[bytes, list[tuple[str, str, str]]] = {}
        self._abouts = [f"\x1f{CRITERIA}\x1f{_VERSION}\x1f{name}\x1f0" for name in EVALUATORS]
        self._of_trace = tuple(self.cells)
        expectations = ([tool for tool, _, _ in expected.counts], *[expected.order] * 3)
        self._of_verdict = [
            (f"{name} evaluations", f"{name} score", [f"{name} {tool}" for tool in tools])
            for name, tools in zip(EVALUATORS, expectations, strict=True)
        ]
        for evaluations, score, tools in self._of_verdict:
            self.cells |= dict.fromkeys((evaluations, score, *tools), 0.0)
        self._templates: Templates = {}

    def read(self, body: bytes) -> list[Read]:
        """Return the traces whose roots are in a request."""
        found, opened, is_read = [], self._open, _READ
        for span in ExportTraceServiceRequest.FromString(body).resource_spans[0].scope_spans[0].spans:
            name = span.name
            if name.startswith("execute_tool"):
                texts = {key: each.value.string_value for each in span.attributes if (key := each.key) in is_read}
                call = texts[NAME], texts[ARGUMENTS], texts[OUTPUT]
                if (trace_id := span.trace_id) in opened:
                    opened[trace_id].append(call)
                else:
                    opened[trace_id] = [call]
            elif name.startswith("invoke_agent"):
                trace_id = span.trace_id
                found.append((trace_id, span.span_id, span.end_time_unix_nano, opened.pop(trace_id)))
        return found

    def judge(self, found: list[Read]) -> list[Judged]:
        """Judge each by all four evaluators."""
        judged = []
        for trace_id, span_id, end, texts in found:
            trace = trace_id.hex()
            ids = [sha256(f"{trace}{about}".encode(), usedforsecurity=False).hexdigest()[:32] for about in self._abouts]
            judged.append((trace_id, span_id, end, ids, self._verdicts(texts)))
        return judged

    def _verdicts(self, texts: list[tuple[str, str, str]]) -> list[Verdict]:
        parse = parse_json
        return self._expected.verdicts([(name, parse(given, 0)[0], parse(returned, 0)[0]) for name, given, returned in texts])

    def settle(self) -> None:
        """Have nothing to add."""

    def record(self, judged: list[Judged]) -> None:
        """Add to the cells of metrics."""
        for _, _, _, _, verdicts in judged:
            self._add(verdicts, 1)

    def _add(self, verdicts: Sequence[Verdict], times: int) -> None:
        cells = self.cells
        for cell in self._of_trace:
            cells[cell] += times
        for (evaluations, total, tools), (score, hits) in zip(self._of_verdict, verdicts, strict=True):
            cells[evaluations] += times
            cells[total] += score * times
            for tool, hit in zip(tools, hits, strict=True):
                cells[tool] += hit * times

    def emit(self, judged: list[Judged], now_unix_ns: int) -> tuple[bytes, bytes]:
        """Return a request with a log record for each verdict, and one with a span for each trace."""
        logs, traces = ExportLogsServiceRequest(), ExportTraceServiceRequest()
        of_logs, of_traces = logs.resource_logs.add(), traces.resource_spans.add()
        for block in (of_logs, of_traces):
            _put(block.resource.attributes, RESOURCE)
        scope_logs, scope_spans = of_logs.scope_logs.add(), of_traces.scope_spans.add()
        scope_logs.scope.name = scope_spans.scope.name = names.SCOPE_NAME
        records, spans = scope_logs.log_records, scope_spans.spans
        for trace_id, span_id, end, ids, verdicts in judged:
            of_span, of_records = self._template(tuple(verdicts))
            span = spans.add()
            span.CopyFrom(of_span)
            span.trace_id, span.span_id, span.parent_span_id = trace_id, span_id_of(ids), span_id
            span.start_time_unix_nano = span.end_time_unix_nano = end
            span.attributes[OWN].value.int_value = now_unix_ns
            for template, event, evaluation_id in zip(of_records, span.events, ids, strict=True):
                event.time_unix_nano = end
                event.attributes[OWN].value.string_value = evaluation_id
                record = records.add()
                record.CopyFrom(template)
                record.time_unix_nano = record.observed_time_unix_nano = now_unix_ns
                record.trace_id, record.span_id = trace_id, span_id
                record.attributes[OWN].value.string_value = evaluation_id
        return logs.SerializeToString(), traces.SerializeToString()

    def _template(self, verdicts: tuple[Verdict, ...]) -> tuple[Span, list[LogRecord]]:
        """Return what the span and the log records of equal verdicts have in common."""
        if (found := self._templates.get(verdicts)) is None:
            found = self._templates[verdicts] = templates_of(verdicts)
        return found


def templates_of(verdicts: Sequence[Verdict]) -> tuple[Span, list[LogRecord]]:
    """Return a span with an event for each verdict, and their log records; IDs and times have no values yet."""
    span, records = Span(name=names.SPAN_NAME, kind=Span.SPAN_KIND_INTERNAL, flags=0x301), []
    passed = sum(score == 1.0 for score, _ in verdicts)
    shared: Given = {names.TRIGGER.name: "root_span", names.COMPLETENESS.name: "complete", names.REVISION.name: 0}
    tally: Given = {names.VERDICTS_FAIL.name: len(verdicts) - passed, names.VERDICTS_INCONCLUSIVE.name: 0, names.VERDICTS_PASS.name: passed}
    least, agent = min(score for score, _ in verdicts), "weather"
    _put(span.attributes, {**tally, **shared, names.LEAST_SCORE.name: least, names.AGENT_NAME.name: agent, names.VERDICT_TIME.name: 0})
    for name, reason, (score, hits) in zip(EVALUATORS, _REASONS, verdicts, strict=True):
        attributes: Given = {
            names.EVALUATION_NAME.name: name,
            names.SCORE_LABEL.name: "pass" if score == 1.0 else "fail",
            names.CRITERIA.name: CRITERIA,
            **shared,
            names.SCORE_VALUE.name: score,
            names.EXPLANATION.name: f"{sum(hits)} of {len(hits)} {reason}",
            names.EVALUATION_ID.name: NO_ID,
        }
        _put(span.events.add(name=names.RESULT_EVENT).attributes, attributes)
        info = SeverityNumber.SEVERITY_NUMBER_INFO
        records.append(LogRecord(event_name=names.RESULT_EVENT, severity_number=info, severity_text="INFO", flags=1))
        _put(records[-1].attributes, attributes)
    return span, records


def _put(attributes: KeyValues, given: Given) -> None:
    for key, value in given.items():
        kept = attributes.add(key=key).value
        if isinstance(value, str):
            kept.string_value = value
        elif isinstance(value, int):
            kept.int_value = value
        else:
            kept.double_value = value


def span_id_of(ids: Sequence[str]) -> bytes:
    return bytes.fromhex(ids[0][:16])
