"""The whole way of a trace by stage, beside protobuf's own parser on the same bytes.

Of the stages ``record`` puts scores and counts into the cells of the metrics, and ``emit`` writes log events and spans.
"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from otel_toolcall_eval.exporters.events.batched_events import BatchedEvents
from otel_toolcall_eval.exporters.metrics.aggregator import Aggregator
from otel_toolcall_eval.exporters.metrics.emitter import MetricsEmitter
from otel_toolcall_eval.exporters.telemetry import own_resource
from otel_toolcall_eval.otlp import protobuf_traces
from otel_toolcall_eval.settings.build_pipeline import build_pipeline
from otel_toolcall_eval.settings.criteria_file import CriteriaSource, load_criteria
from otel_toolcall_eval.settings.service import Deployment
from otel_toolcall_eval.settings.service_file import load_settings
from otel_toolcall_eval.sidecar.process_limits import collect_garbage_seldom
from tests.bench.agent_traces import SPANS_OF_TRACE
from tests.bench.agent_traces import request_of as traces_of
from tests.bench.bench_growth import LATER_NS, Nowhere
from tests.bench.loads import TRACES_OF_BATCH, criteria
from tests.bench.results import Result, middle
from tests.fakes import SECOND_NS

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

SERVICES: Final = {"bound": "weather-agent", "unbound": "another-agent", "lifelike": "weather-agent"}
"""Kinds of traces, and which service the criteria are for. Lifelike ones are bound, too, and no two say the same."""
STAGES: Final = ("decode", "group", "judge", "record", "emit")
PARSE: Final = "parse"
"""The yardstick: protobuf's own parser in C on the same bytes, with the classes that protobuf makes."""
WHOLE: Final = "the whole way"
WARM: Final = 3
"""Passes that are not measured: they fill the caches, and the interpreter learns which types come."""
REQUESTS: Final = 2
PASSES: Final = 20
TRACES: Final = REQUESTS * TRACES_OF_BATCH


def measure(kind: str, folder: Path, *, passes: int = PASSES) -> Mapping[str, Sequence[float]]:
    """Take traces the whole way that a sidecar takes them, but for the servers, the queue and the exports.

    Returns:
        Microseconds of CPU for each span, by stage and of the yardstick, one for each pass.
    """
    file = folder / f"{kind}.json"
    file.write_text(criteria(SERVICES[kind]), encoding="utf-8")
    settings, loaded = load_settings(None, {}, Deployment.SIDECAR), load_criteria([CriteriaSource(path=file)])
    pipe = build_pipeline(settings, loaded, name_unbound=False)  # as in a sidecar that shows nothing on its console
    resource, logs = own_resource("0"), Nowhere()
    metrics = MetricsEmitter(Aggregator(resource))
    # Its own thread would send whenever its time has come, in any stage.
    events = BatchedEvents(logs, Nowhere(), resource={"service.name": "bench"}, delay_seconds=10_000.0)
    found: dict[str, list[float]] = {name: [] for name in (*STAGES, PARSE)}
    now_ns, first, judged = SECOND_NS, 1, 0
    for number in range(WARM + passes):
        begins = [first + batch * TRACES_OF_BATCH for batch in range(REQUESTS)]
        bodies = [traces_of(begin, TRACES_OF_BATCH, lifelike=kind == "lifelike") for begin in begins]
        first, now_ns = first + TRACES, now_ns + LATER_NS
        times = [time.thread_time()]
        decoded = [protobuf_traces.decode_traces(body, pipe.projection).spans for body in bodies]
        times.append(time.thread_time())
        for spans in decoded:
            pipe.add(spans, now_ns=now_ns, transport="grpc")
        times.append(time.thread_time())
        reports = pipe.pop_due(now_ns=now_ns + LATER_NS)
        times.append(time.thread_time())
        for report in reports:
            metrics.emit(report)
        times.append(time.thread_time())
        for report in reports:
            events.emit(report)
        events.flush(1.0)
        times.append(time.thread_time())
        for body in bodies:
            ExportTraceServiceRequest.FromString(body)
        times.append(time.thread_time())
        judged += sum(len(report.verdicts) == 4 for report in reports)
        assert len(reports) == TRACES
        if number >= WARM:
            for name, began, ended in zip(found, times, times[1:], strict=False):
                found[name].append((ended - began) / TRACES / SPANS_OF_TRACE * 1e6)
    events.shutdown(1.0)
    assert judged == logs.taken / 4 == (0 if kind == "unbound" else first - 1)
    return found


def results() -> Iterator[Result]:
    """Measure each kind of traces, with the garbage collector as a sidecar has it."""
    collect_garbage_seldom()
    with tempfile.TemporaryDirectory() as folder:
        for kind in SERVICES:
            yield from told(kind, measure(kind, Path(folder)))


def told(kind: str, found: Mapping[str, Sequence[float]]) -> Iterator[Result]:
    """Tell what each stage takes, and all of them."""
    whole = [sum(each) for each in zip(*(found[stage] for stage in STAGES), strict=True)]
    for stage, taken in {**{stage: found[stage] for stage in STAGES}, WHOLE: whole}.items():
        yield Result(
            name=f"{kind} trace", load=stage, ours=middle(taken), yardstick="protobuf parser on the same bytes", theirs=middle(found[PARSE])
        )
