"""What ``bench_instructions`` counts: the way of traces, and verdict sets. Under callgrind: ``python -m tests.bench.counted``."""

from __future__ import annotations

import gc
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Final

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from otel_toolcall_eval import pipeline as pipeline_module
from otel_toolcall_eval.emission.aggregator import Aggregator
from otel_toolcall_eval.emission.batched_events import BatchedEvents
from otel_toolcall_eval.emission.metrics import MetricsEmitter
from otel_toolcall_eval.emission.telemetry import own_resource
from otel_toolcall_eval.model.trace import Trace, Trigger
from otel_toolcall_eval.process_limits import collect_garbage_seldom
from otel_toolcall_eval.settings.criteria_file import CriteriaSource, load_criteria
from otel_toolcall_eval.settings.service import Deployment
from otel_toolcall_eval.settings.service_file import load_settings
from otel_toolcall_eval.wire import otlp_protobuf
from otel_toolcall_eval.wiring import build_pipeline
from tests.bench.agent_traces import request_of as traces_of
from tests.bench.bench_growth import LATER_NS, Nowhere
from tests.bench.bench_judging import calls_of, criteria_of, judging, request_of
from tests.bench.callgrind import Sections
from tests.bench.loads import TRACES_OF_BATCH, criteria
from tests.fakes import SECOND_NS

if TYPE_CHECKING:
    from otel_toolcall_eval.pipeline import Pipeline

SERVICES: Final = {"bound": "weather-agent", "unbound": "another-agent", "lifelike": "weather-agent"}
"""Kinds of traces, and which service the criteria are for. Lifelike ones are bound, too, and no two say the same."""
JUDGE: Final = "judge"
STAGES: Final = ("decode", "group", JUDGE, "record", "emit")
PARSE: Final = "parse"
"""The yardstick's section: protobuf's own parser in C on the same bytes, with the classes that protobuf makes."""
COMPILED: Final = "compiled"
SIZES: Final = (4, 20, 100)
WARM: Final = 3
"""Passes and sets that are not counted: they fill the caches, and the interpreter learns which types come."""
REQUESTS: Final = 2
PASSES: Final = 4
TRACES: Final = PASSES * REQUESTS * TRACES_OF_BATCH
SETS: Final = 10


def count_way(sections: Sections, kind: str, folder: Path) -> None:
    """Take traces the whole way that a sidecar takes them, but for the servers, the queue and the exports."""
    file = folder / f"{kind}.json"
    file.write_text(criteria(SERVICES[kind]), encoding="utf-8")
    settings, loaded = load_settings(None, {}, Deployment.SIDECAR), load_criteria([CriteriaSource(path=file)])
    pipe = build_pipeline(settings, loaded, name_unbound=False)  # as in a sidecar that shows nothing on its console
    resource, logs = own_resource("0"), Nowhere()
    aggregator = Aggregator(resource)
    metrics = MetricsEmitter(aggregator)
    # Its own thread would send whenever its time has come, in any section.
    events = BatchedEvents(logs, Nowhere(), resource={"service.name": "bench"}, delay_seconds=10_000.0)
    now_ns, first, judged = SECOND_NS, 1, 0
    for number in range(WARM + PASSES):
        names = {stage: f"{kind} {stage}" if number >= WARM else "" for stage in (*STAGES, PARSE)}
        begins = [first + batch * TRACES_OF_BATCH for batch in range(REQUESTS)]
        bodies = [traces_of(begin, TRACES_OF_BATCH, lifelike=kind == "lifelike") for begin in begins]
        first, now_ns = first + REQUESTS * TRACES_OF_BATCH, now_ns + LATER_NS
        sections.begin(names["decode"])
        decoded = [otlp_protobuf.decode_traces(body, pipe.projection).spans for body in bodies]
        sections.begin(names["group"])
        for spans in decoded:
            pipe.add(spans, now_ns=now_ns, transport="grpc")
        sections.begin(names[JUDGE])
        reports = pipe.pop_due(now_ns=now_ns + LATER_NS)
        sections.begin(names["record"])
        for report in reports:
            metrics.emit(report)
        aggregator.states(take_extremes=False)  # what was only counted goes into the cells when someone reads them
        sections.begin(names["emit"])
        for report in reports:
            events.emit(report)
        events.flush(1.0)
        sections.begin(names[PARSE])
        for body in bodies:
            ExportTraceServiceRequest.FromString(body)
        sections.begin()
        judged += sum(len(report.verdicts) == 4 for report in reports)
        assert len(reports) == REQUESTS * TRACES_OF_BATCH
    events.shutdown(1.0)
    assert judged == logs.taken / 4 == (0 if kind == "unbound" else first - 1)


def count_sets(sections: Sections, size: int) -> None:
    """Judge traces of so many calls by four evaluators, reading the calls included; decoding is not."""
    calls = calls_of(size)
    pipe, body = judging(criteria_of(calls)), request_of(calls)
    for counted in (0, 1):
        traces = [trace_of(pipe, body) for _ in range(SETS if counted else WARM)]
        sections.begin(f"{size} {JUDGE}" if counted else "")
        reports = [pipe.judge(trace) for trace in traces]
        sections.begin(f"{size} {PARSE}" if counted else "")
        for _ in traces:
            ExportTraceServiceRequest.FromString(body)
        sections.begin()
        assert all([verdict.emitted_score for verdict in report.verdicts] == [1.0] * 4 for report in reports)


def trace_of(pipe: Pipeline, body: bytes) -> Trace:
    """Decode a trace anew, so that nothing of it has been read."""
    spans = tuple(otlp_protobuf.decode_traces(body, pipe.projection).spans)
    return Trace(trace_id=spans[0].trace_id, spans=spans, root=spans[0], trigger=Trigger.ROOT_SPAN)


def main() -> None:
    """Do it all once."""
    sections = Sections()
    collect_garbage_seldom()
    with tempfile.TemporaryDirectory() as folder:
        for kind in SERVICES:
            count_way(sections, kind, Path(folder))
    gc.collect()
    for size in SIZES:
        count_sets(sections, size)
    sections.end(core=COMPILED if not pipeline_module.__file__.endswith(".py") else "interpreted")


if __name__ == "__main__":
    main()
