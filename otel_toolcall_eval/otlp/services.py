"""The names under which OTLP's three services are reached. Source: OTLP specification; opentelemetry-proto, collector services."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from otel_toolcall_eval.otlp.replies import Signal

if TYPE_CHECKING:
    from collections.abc import Mapping

GRPC_SERVICES: Final[Mapping[Signal, str]] = {
    Signal.TRACES: "opentelemetry.proto.collector.trace.v1.TraceService",
    Signal.METRICS: "opentelemetry.proto.collector.metrics.v1.MetricsService",
    Signal.LOGS: "opentelemetry.proto.collector.logs.v1.LogsService",
}
"""Each has one method, ``Export``."""

HTTP_PATHS: Final[Mapping[Signal, str]] = {Signal.TRACES: "/v1/traces", Signal.METRICS: "/v1/metrics", Signal.LOGS: "/v1/logs"}
