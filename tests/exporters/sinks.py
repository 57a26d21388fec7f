"""Real OTLP receivers on loopback, one over gRPC and one over HTTP, that keep what they get."""

from __future__ import annotations

import gzip
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import TYPE_CHECKING

import grpc
from opentelemetry.proto.collector.logs.v1 import logs_service_pb2, logs_service_pb2_grpc
from opentelemetry.proto.collector.metrics.v1 import metrics_service_pb2, metrics_service_pb2_grpc
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2, trace_service_pb2_grpc

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
    from opentelemetry.proto.logs.v1.logs_pb2 import LogRecord
    from opentelemetry.proto.metrics.v1.metrics_pb2 import Metric
    from opentelemetry.proto.trace.v1.trace_pb2 import Span

    Plain = str | bool | int | float | tuple["Plain", ...] | None


@dataclass(kw_only=True)
class Received:
    """Requests in order of arrival, by signal."""

    traces: list[trace_service_pb2.ExportTraceServiceRequest] = field(default_factory=list)
    metrics: list[metrics_service_pb2.ExportMetricsServiceRequest] = field(default_factory=list)
    logs: list[logs_service_pb2.ExportLogsServiceRequest] = field(default_factory=list)

    def spans(self) -> Sequence[tuple[str, Span]]:
        """Return every span with its scope's name."""
        return [
            (scoped.scope.name, span)
            for request in self.traces
            for resourced in request.resource_spans
            for scoped in resourced.scope_spans
            for span in scoped.spans
        ]

    def records(self) -> Sequence[tuple[str, LogRecord]]:
        """Return every log record with its scope's name."""
        return [
            (scoped.scope.name, record)
            for request in self.logs
            for resourced in request.resource_logs
            for scoped in resourced.scope_logs
            for record in scoped.log_records
        ]

    def newest_metrics(self) -> Mapping[str, Metric]:
        """Return the metrics of the last request, by name; cumulative, so that one says all."""
        return {
            metric.name: metric
            for resourced in self.metrics[-1].resource_metrics
            for scoped in resourced.scope_metrics
            for metric in scoped.metrics
        }

    def exemplars(self, name: str) -> set[tuple[bytes, bytes]]:
        """Return trace and span ID of all exemplars of a histogram or counter, in any request: each is sent once."""
        found = [
            metric.histogram.data_points or metric.sum.data_points
            for request in self.metrics
            for resourced in request.resource_metrics
            for scoped in resourced.scope_metrics
            for metric in scoped.metrics
            if metric.name == name
        ]
        return {(exemplar.trace_id, exemplar.span_id) for points in found for point in points for exemplar in point.exemplars}

    def resources(self) -> Sequence[Mapping[str, Plain]]:
        """Return the resource of every request."""
        found = [resourced.resource for request in self.traces for resourced in request.resource_spans]
        found += [resourced.resource for request in self.metrics for resourced in request.resource_metrics]
        found += [resourced.resource for request in self.logs for resourced in request.resource_logs]
        return [plain(resource.attributes) for resource in found]

    def everything(self) -> bytes:
        """Return all that arrived, as bytes."""
        return b"".join(request.SerializeToString() for request in (*self.traces, *self.metrics, *self.logs))


@dataclass(frozen=True, kw_only=True)
class Sink:
    """A running receiver."""

    endpoint: str
    protocol: str
    received: Received


class _Traces(trace_service_pb2_grpc.TraceServiceServicer):
    def __init__(self, received: Received) -> None:
        self._received = received

    def Export(  # noqa: N802 - the service's name
        self, request: trace_service_pb2.ExportTraceServiceRequest, context: grpc.ServicerContext
    ) -> trace_service_pb2.ExportTraceServiceResponse:
        del context
        self._received.traces.append(request)
        return trace_service_pb2.ExportTraceServiceResponse()


class _Metrics(metrics_service_pb2_grpc.MetricsServiceServicer):
    def __init__(self, received: Received) -> None:
        self._received = received

    def Export(  # noqa: N802 - the service's name
        self, request: metrics_service_pb2.ExportMetricsServiceRequest, context: grpc.ServicerContext
    ) -> metrics_service_pb2.ExportMetricsServiceResponse:
        del context
        self._received.metrics.append(request)
        return metrics_service_pb2.ExportMetricsServiceResponse()


class _Logs(logs_service_pb2_grpc.LogsServiceServicer):
    def __init__(self, received: Received) -> None:
        self._received = received

    def Export(  # noqa: N802 - the service's name
        self, request: logs_service_pb2.ExportLogsServiceRequest, context: grpc.ServicerContext
    ) -> logs_service_pb2.ExportLogsServiceResponse:
        del context
        self._received.logs.append(request)
        return logs_service_pb2.ExportLogsServiceResponse()


def grpc_sink() -> Iterator[Sink]:
    """Serve over gRPC until the caller is done."""
    received = Received()
    with ThreadPoolExecutor(max_workers=3) as pool:
        server = grpc.server(pool)
        trace_service_pb2_grpc.add_TraceServiceServicer_to_server(_Traces(received), server)  # type: ignore[no-untyped-call]
        metrics_service_pb2_grpc.add_MetricsServiceServicer_to_server(_Metrics(received), server)  # type: ignore[no-untyped-call]
        logs_service_pb2_grpc.add_LogsServiceServicer_to_server(_Logs(received), server)  # type: ignore[no-untyped-call]
        port = server.add_insecure_port("127.0.0.1:0")
        server.start()
        yield Sink(endpoint=f"http://127.0.0.1:{port}", protocol="grpc", received=received)
        server.stop(grace=None).wait()


def http_sink() -> Iterator[Sink]:
    """Serve over HTTP until the caller is done."""
    received = Received()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            if self.headers.get("content-encoding") == "gzip":
                body = gzip.decompress(body)
            if self.path == "/v1/traces":
                received.traces.append(trace_service_pb2.ExportTraceServiceRequest.FromString(body))
            elif self.path == "/v1/metrics":
                received.metrics.append(metrics_service_pb2.ExportMetricsServiceRequest.FromString(body))
            elif self.path == "/v1/logs":
                received.logs.append(logs_service_pb2.ExportLogsServiceRequest.FromString(body))
            else:
                self.send_error(404)
                return
            self.send_response(200)
            self.send_header("content-type", "application/x-protobuf")
            self.send_header("content-length", "0")  # an empty response message has no bytes
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield Sink(endpoint=f"http://127.0.0.1:{server.server_port}", protocol="http/protobuf", received=received)
        server.shutdown()
        thread.join()


def plain(attributes: Sequence[KeyValue]) -> Mapping[str, Plain]:
    """Return OTLP attributes as Python values."""
    return {pair.key: _plain(pair.value) for pair in attributes}


def _plain(value: AnyValue) -> Plain:
    match value.WhichOneof("value"):
        case "string_value":
            return value.string_value
        case "bool_value":
            return value.bool_value
        case "int_value":
            return value.int_value
        case "double_value":
            return value.double_value
        case "array_value":
            return tuple(_plain(item) for item in value.array_value.values)
        case _:
            return None
