"""What came before changes nothing: a trace is read, judged and told of as by a process that has seen none.

From bytes to events, the short ways compare what comes with what came last, and remember what was the same. Here a long-lived process and
fresh ones take the same traces, which differ in small ways from each other, so that short ways are taken, and left again at any place.
"""

from __future__ import annotations

import json
import random
import re
from collections import defaultdict
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import pytest
from opentelemetry.sdk.resources import Resource

from otel_toolcall_eval.engine.buffer.trace_buffer import BufferLimits
from otel_toolcall_eval.engine.pipeline import Pipeline
from otel_toolcall_eval.exporters.events.attributes import ExplainValues, ExplanationPolicy
from otel_toolcall_eval.exporters.events.batched_events import BatchedEvents
from otel_toolcall_eval.exporters.metrics.aggregator import Aggregator
from otel_toolcall_eval.exporters.metrics.emitter import MetricsEmitter
from otel_toolcall_eval.otlp import json_traces, protobuf_traces
from otel_toolcall_eval.settings.criteria_check import build_check
from otel_toolcall_eval.settings.criteria_models import evaluators_by_criteria
from otel_toolcall_eval.settings.dialect_file import default_extractor
from otel_toolcall_eval.sidecar.zstandard import zstandard_packer
from tests.bench import bench_judging, loads
from tests.engine.buffer.judged import criteria_set
from tests.exporters.test_batched_events import NOW_UNIX_NS, RESOURCE, EventSender
from tests.fakes import SECOND_NS
from tests.otlp.otlp_requests import expected_spans, to_json
from tests.stories import GUIDES_CALLS, Story

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

    from otel_toolcall_eval.engine.buffer.compression import Compressor
    from otel_toolcall_eval.exporters.metrics.aggregator import Key
    from otel_toolcall_eval.model.criteria import CriteriaSet
    from otel_toolcall_eval.model.score import TraceReport
    from otel_toolcall_eval.model.trace import Projection, Span

TRACES: Final = 40
SHORT_OF_MEMORY: Final = BufferLimits(limit_bytes=400_000)
"""Packing begins at a quarter of it, a fifth of what the traces take, so that most are packed, and none has to be judged early."""

_UNTIL_DUE_NS: Final = 10_000 * SECOND_NS
_ADDRESS: Final = re.compile(r" at 0x[0-9a-f]+")
_TIMES: Final = ("duration", "delay")
"""How instruments are named that measure how long something took: how often is the same in both, how long is not."""


def _criteria(name: str, judged: Mapping[str, Any], *, strict: bool) -> CriteriaSet:
    return criteria_set([build_check(bench_judging.IDS[kind], {"strict": strict}, given) for kind, given in judged.items()], name)


_STANDARD: Final = json.loads(loads.criteria("any"))["evaluations"][0]["evaluation_criterias"]
_GUIDES: Final = bench_judging.criteria_of(GUIDES_CALLS)
CRITERIA: Final = [
    _criteria("standard", _STANDARD, strict=False),
    _criteria("guides", _GUIDES, strict=False),
    _criteria("standard-strict", _STANDARD, strict=True),
    _criteria("guides-strict", _GUIDES, strict=True),
]


class Process:
    """From spans to events and metrics, with the memory of all that."""

    def __init__(self, criteria: Sequence[CriteriaSet], values: ExplainValues, limits: BufferLimits | None = None) -> None:
        self.pipeline = Pipeline(reader=default_extractor(), evaluators=evaluators_by_criteria(), criteria=criteria, limits=limits)
        self._now_ns = SECOND_NS
        self._logs, self._spans = EventSender(), EventSender()
        explain = ExplanationPolicy(values=values)
        self._events = BatchedEvents(
            self._logs, self._spans, resource=RESOURCE, explain=explain, clock=lambda: NOW_UNIX_NS, delay_seconds=3600
        )
        self._aggregator = Aggregator(Resource({}))
        self._metrics = MetricsEmitter(self._aggregator)

    def add(self, spans: Sequence[Span]) -> None:
        self.pipeline.add(spans, now_ns=self._now_ns, transport="grpc")

    def judge(self) -> list[TraceReport]:
        self._now_ns += _UNTIL_DUE_NS
        reports = self.pipeline.pop_due(now_ns=self._now_ns)
        assert not self.pipeline.take_faults()
        return reports

    def tell(self, reports: Iterable[TraceReport]) -> tuple[object, object]:
        """Return the events and the spans that carry them."""
        for report in reports:
            self._metrics.emit(report)
            self._events.emit(report)
        self._events.flush(1.0)
        told = self._logs.logs(), self._spans.spans()
        self._logs.bodies.clear()
        self._spans.bodies.clear()
        return told

    def count_into(self, totals: dict[tuple[str, Key | None, int], float]) -> None:
        """Add up what the metrics hold: the number in each bucket, and the sum where it is not a time."""
        for name, cells in self._aggregator.states(take_extremes=False).items():
            for key, state in cells:
                if not name.endswith(_TIMES):
                    totals[name, key, -1] += round(state.total, 6)
                    for bucket, number in enumerate(state.counts):
                        totals[name, key, bucket] += number
                else:
                    totals[name, key, 0] += sum(state.counts)

    def end(self) -> None:
        self._events.shutdown(1.0)


def seen(reports: Iterable[TraceReport]) -> list[tuple[str, list[str]]]:
    """Return all that is said of traces; payloads as they are decoded."""
    return [
        (
            _ADDRESS.sub("", repr(replace(report, evaluation_seconds=0.0))),
            [repr((call.arguments.content, call.output.content)) for call in report.extraction.calls],
        )
        for report in reports
    ]


def decoded(request: ExportTraceServiceRequest, projection: Projection, *, as_json: bool) -> tuple[Sequence[Span], Sequence[Span]]:
    """Return the spans as we decode them, and as the generated classes do."""
    if as_json:
        ours = json_traces.decode_traces(to_json(request), projection).spans
    else:
        ours = protobuf_traces.decode_traces(request.SerializeToString(), projection).spans
    plain = expected_spans(request, projection)
    theirs = [replace(one, size_bytes=other.size_bytes, linked=other.linked) for one, other in zip(plain, ours, strict=True)]
    assert [repr(span) for span in ours] == [repr(span) for span in theirs]
    return ours, theirs


@pytest.mark.parametrize("seed", range(12))
def test_what_came_before_changes_nothing(seed: int) -> None:
    hold(seed)


def hold(seed: int) -> None:
    chance = random.Random(seed)  # noqa: S311 - no secret, and the same on every machine
    criteria = chance.choice([CRITERIA, CRITERIA[:1], CRITERIA[1:2], CRITERIA[:2]])
    values = chance.choice(list(ExplainValues))
    ours, theirs = defaultdict[Any, float](float), defaultdict[Any, float](float)
    long_lived = Process(criteria, values)
    try:
        for request in Story(chance).requests(TRACES):
            spans, plain = decoded(request, long_lived.pipeline.projection, as_json=chance.random() < 0.2)
            fresh = Process(criteria, values)
            try:
                long_lived.add(spans)
                fresh.add(plain)
                reports, alone = long_lived.judge(), fresh.judge()
                assert seen(reports) == seen(alone)
                assert long_lived.tell(reports) == fresh.tell(alone)
                fresh.count_into(theirs)
            finally:
                fresh.end()
        long_lived.count_into(ours)
    finally:
        long_lived.end()
    assert {key: total for key, total in ours.items() if total} == pytest.approx({key: total for key, total in theirs.items() if total})


@pytest.mark.parametrize("seed", range(100, 104))
@pytest.mark.parametrize("packer", [None, zstandard_packer()], ids=["zlib", "zstandard"])
def test_what_is_packed_while_it_waits_is_judged_as_what_is_not(
    packer: Callable[[memoryview | None], Compressor] | None, seed: int
) -> None:
    plain, short = Process(CRITERIA, ExplainValues.OFF), Process(CRITERIA, ExplainValues.OFF, SHORT_OF_MEMORY)
    if packer is not None:
        short.pipeline.traces.pack_by(packer)
    try:
        for request in Story(random.Random(seed)).requests(TRACES):  # noqa: S311 - as above
            spans, _ = decoded(request, plain.pipeline.projection, as_json=False)
            plain.add(spans)
            short.add(spans)
        assert 2 * short.pipeline.buffered_bytes < plain.pipeline.buffered_bytes
        assert seen(short.judge()) == seen(plain.judge())
    finally:
        plain.end()
        short.end()
