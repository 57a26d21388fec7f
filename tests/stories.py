"""Requests each of whose traces is one of the last few with some small changes: what a short way that compares has to be right about."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue
from opentelemetry.proto.trace.v1.trace_pb2 import Span, Status

from tests.bench import agent_traces, bench_judging

if TYPE_CHECKING:
    import random
    from collections.abc import Callable, Iterator

    from google.protobuf.internal.containers import RepeatedCompositeFieldContainer
    from opentelemetry.proto.common.v1.common_pb2 import KeyValue

GUIDES_CALLS: Final = bench_judging.calls_of(6)


def spans_of(request: ExportTraceServiceRequest) -> list[Span]:
    return [span for block in request.resource_spans for group in block.scope_spans for span in group.spans]


BASES: Final = [
    ExportTraceServiceRequest.FromString(body)
    for body in (
        agent_traces.request_of(1, 1),
        bench_judging.request_of(GUIDES_CALLS),
        *(agent_traces.request_of(number, 1, lifelike=True) for number in range(2, 5)),
    )
]
_ATTRIBUTES: Final = [pair for base in BASES for span in spans_of(base) for pair in span.attributes]
_KEYS: Final = sorted({pair.key for pair in _ATTRIBUTES} | {"exception.message", "content", "id", "service.name"})
_ODD_TEXTS: Final = (
    "",
    "x",
    "{}",
    "[]",
    "null",
    "1",
    "1.0",
    "true",
    '"a"',
    "'a'",
    "{'a': 1}",
    '{"a": 1}',
    "é中",
    "\\u00e9",
    "\0",
    "a" * 300,
)
_TEXTS: Final = sorted({pair.value.string_value for pair in _ATTRIBUTES} | {*_ODD_TEXTS})
_NUMBERS: Final = (0, 1, -1, 127, 128, 2**40, 2**63 - 1)
_MEMBERS: Final = ("city", "unit", "days", "day", "content", "more")
_VALUES: Final[tuple[object, ...]] = (1, 1.0, True, None, "Paris", "c", 2, [], {})
_SCOPES: Final = ("", "a", "opentelemetry.instrumentation.openai_agents", "openinference.instrumentation.langchain", "otel_toolcall_eval")


class Story:
    """Makes the requests; the same ones for the same ``chance``."""

    def __init__(self, chance: random.Random) -> None:
        self._chance = chance

    def requests(self, traces: int) -> Iterator[ExportTraceServiceRequest]:
        """Yield requests that hold so many traces together, some with spans of several in one block."""
        made = list(self._traces(traces))
        while made:
            request = ExportTraceServiceRequest()
            for _ in range(min(len(made), self._chance.choice([1, 1, 2, 4]))):
                more = made.pop()
                if request.resource_spans and self._chance.random() < 0.5:
                    request.resource_spans[-1].scope_spans[-1].spans.extend(spans_of(more))
                else:
                    request.MergeFrom(more)
            yield request

    def _traces(self, traces: int) -> Iterator[ExportTraceServiceRequest]:
        last = list(BASES)
        for number in range(traces):
            base = self._chance.choice(BASES if self._chance.random() < 0.3 else last[-4:])
            request = ExportTraceServiceRequest.FromString(base.SerializeToString())
            for _ in range(self._chance.choice([0, 0, 0, 1, 1, 1, 2, 3])):
                self._change(request)
            last.append(request)
            own = ExportTraceServiceRequest.FromString(request.SerializeToString())
            trace_id = self._chance.randbytes(8) + number.to_bytes(8, "big")
            for span in spans_of(own):
                span.trace_id = trace_id
            yield own

    def _change(self, request: ExportTraceServiceRequest) -> None:
        block = self._chance.choice(request.resource_spans)
        group = self._chance.choice(block.scope_spans)
        if not group.spans:
            return
        span = self._chance.choice(group.spans)
        match self._chance.randrange(16):
            case 0:
                self._change_attributes(block.resource.attributes)
            case 1:
                group.scope.name = self._chance.choice(_SCOPES)
            case 2:
                self._change_spans(group.spans)
            case 3:
                event = span.events.add(name=self._chance.choice(["exception", "gen_ai.choice", "gen_ai.tool.message", "x"]))
                event.time_unix_nano = span.end_time_unix_nano
                self._change_attributes(event.attributes)
            case 4 | 5 | 6 | 7:
                self._change_head(span, self._chance.choice(group.spans))
            case _:
                self._change_attributes(span.attributes)

    def _change_head(self, span: Span, other: Span) -> None:
        match self._chance.randrange(6):
            case 0:
                span.name = self._chance.choice([other.name, span.name + "x", "", "execute_tool get_forecast", "execute_tool"])
            case 1:
                span.kind = Span.SpanKind.ValueType(self._chance.randrange(6))
            case 2:
                span.start_time_unix_nano = self._chance.choice([other.start_time_unix_nano, span.start_time_unix_nano + 10**7, 1])
            case 3:
                span.end_time_unix_nano = self._chance.choice([other.end_time_unix_nano, span.end_time_unix_nano + 10**7, 1])
            case 4:
                span.parent_span_id = self._chance.choice([b"", other.span_id, b"another!"])
            case _:
                span.flags = self._chance.choice([0, 1, 0x100, 0x101, 0x300])
                span.status.code = Status.StatusCode.ValueType(self._chance.randrange(3))
                span.status.message = self._chance.choice(["", "failed", "x" * 200])

    def _change_spans(self, spans: RepeatedCompositeFieldContainer[Span]) -> None:
        match self._chance.randrange(3):
            case 0:
                del spans[self._chance.randrange(len(spans))]
            case 1:
                self._shuffle(spans)
            case _:
                twin = spans.add()
                twin.CopyFrom(self._chance.choice(spans[:-1]))
                twin.span_id = self._chance.choice([twin.span_id, self._chance.randbytes(8)])

    def _change_attributes(self, pairs: RepeatedCompositeFieldContainer[KeyValue]) -> None:
        how = self._chance.randrange(9)
        if not pairs or how == 0:
            pairs.add(key=self._chance.choice(_KEYS)).value.string_value = self._chance.choice(_TEXTS)
            return
        pair = self._chance.choice(pairs)
        match how:
            case 1:
                pairs.remove(pair)
            case 2:
                twin = pairs.add()
                twin.CopyFrom(pair)
                self._change_value(twin.value)
            case 3:
                pair.key = self._chance.choice(_KEYS)
            case 4:
                self._shuffle(pairs)
            case _:
                self._change_value(pair.value)

    def _shuffle(self, members: RepeatedCompositeFieldContainer[Any]) -> None:
        kept = [type(member).FromString(member.SerializeToString()) for member in members]
        self._chance.shuffle(kept)
        del members[:]
        members.extend(kept)

    def _change_value(self, value: AnyValue) -> None:
        text = value.string_value
        match self._chance.randrange(12):
            case 0:
                value.int_value = self._chance.choice(_NUMBERS)
            case 1:
                value.double_value = self._chance.choice([0.0, 1.0, 18.0, 1e300])
            case 2:
                value.bool_value = self._chance.random() < 0.5
            case 3:
                value.bytes_value = text.encode()
            case 4:
                value.CopyFrom(AnyValue())
                value.array_value.values.add(string_value=text)
            case 5:
                value.CopyFrom(AnyValue())
                value.kvlist_value.values.add(key=self._chance.choice(_MEMBERS)).value.string_value = text
            case _ if value.WhichOneof("value") == "int_value":
                value.int_value = min(value.int_value + 1, 2**63 - 1)
            case _:
                value.string_value = self._changed_text(text)

    def _changed_text(self, text: str) -> str:
        at = self._chance.randrange(len(text) + 1)
        before, after = text[:at], text[at:]
        ways: list[Callable[[], str]] = [
            lambda: self._chance.choice(_TEXTS),
            lambda: before + self._chance.choice('"\\{}[]:,0 1aé\n') + after,
            lambda: before + after[1:],
            lambda: before,
            lambda: before + self._chance.choice('0123456789abcXYZ"\\ ') + after[1:],
            text.swapcase,
            lambda: self._rewritten(text),
            lambda: self._rewritten(text),
        ]
        return self._chance.choice(ways)()

    def _rewritten(self, text: str) -> str:
        """Write JSON in another way, or change a member of it."""
        try:
            value = json.loads(text)
        except ValueError:
            return text + " "
        ways: list[Callable[[], str]] = [
            lambda: json.dumps(value, separators=(",", ":")),
            lambda: json.dumps(value, indent=1),
            lambda: json.dumps(value, sort_keys=True),
            lambda: json.dumps(text),
            lambda: repr(value),
            lambda: json.dumps([value]),
        ]
        if isinstance(value, dict):
            members = {**value, self._chance.choice(_MEMBERS): self._chance.choice(_VALUES)}
            kept = self._chance.sample([*members], k=len(members) - self._chance.randrange(2))
            ways += 4 * [lambda: json.dumps({name: members[name] for name in kept})]
        return self._chance.choice(ways)()
