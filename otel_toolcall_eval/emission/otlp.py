"""Where our telemetry goes by OTLP, and the exporters that take it there.

The variables ``OTEL_EXPORTER_OTLP_*`` keep their meaning and go before the service file. Unlike an SDK, we send nothing unless an
endpoint is named: the default, port 4317 of this host, would be ourselves.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from otel_toolcall_eval.endpoint import OtlpProtocol, protocol_of
from otel_toolcall_eval.errors import SettingsError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from opentelemetry.sdk._logs.export import LogRecordExporter
    from opentelemetry.sdk.metrics.export import MetricExporter
    from opentelemetry.sdk.trace.export import SpanExporter

_FILE: Final = "export.otlp"


class Signal(StrEnum):
    """A kind of telemetry; the value is its word in paths and, in capitals, in variables."""

    TRACES = "traces"
    METRICS = "metrics"
    LOGS = "logs"


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """Where one signal goes.

    Attributes:
        endpoint: as exporters take it: a URL, for HTTP with the signal's path; for gRPC ``host:port`` will do.
        origin: variable or setting that named it, for messages.
    """

    signal: Signal
    endpoint: str
    protocol: OtlpProtocol
    origin: str


@dataclass(frozen=True, slots=True, kw_only=True)
class OtlpSettings:
    """What the service file says.

    Attributes:
        endpoint: base URL for all signals; None if the file names none.
        protocol: ``grpc`` or ``http/protobuf``; None leaves it to the endpoint: HTTP on port 4318, else gRPC.
    """

    endpoint: str | None = None
    protocol: str | None = None


def find_target(signal: Signal, settings: OtlpSettings, environ: Mapping[str, str]) -> Target | None:
    """Find out where a signal goes; None if nowhere.

    The first that is set of ``OTEL_EXPORTER_OTLP_<SIGNAL>_ENDPOINT``, ``OTEL_EXPORTER_OTLP_ENDPOINT`` and the file;
    ``OTEL_<SIGNAL>_EXPORTER=none`` and ``OTEL_SDK_DISABLED=true`` switch it off. The protocol likewise.
    Source: OpenTelemetry specification, "OTLP Exporter".

    Raises:
        SettingsError: the endpoint is no URL, or the protocol is none that we speak.
    """
    name = signal.value.upper()
    if environ.get(f"OTEL_{name}_EXPORTER", "").strip().lower() == "none" or environ.get("OTEL_SDK_DISABLED", "").strip().lower() == "true":
        return None
    own = f"OTEL_EXPORTER_OTLP_{name}_ENDPOINT"
    found = _first((own, "OTEL_EXPORTER_OTLP_ENDPOINT"), environ, f"{_FILE}.endpoint", settings.endpoint)
    if found is None:
        return None
    origin, endpoint = found
    wanted = _first((f"OTEL_EXPORTER_OTLP_{name}_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL"), environ, f"{_FILE}.protocol", settings.protocol)
    protocol = protocol_of(origin, endpoint, _protocol(*wanted) if wanted else None)
    if protocol is OtlpProtocol.HTTP and origin != own:  # only the signal's own variable is taken as it is
        endpoint = f"{endpoint.removesuffix('/')}/v1/{signal.value}"
    return Target(signal=signal, endpoint=endpoint, protocol=protocol, origin=origin)


def span_exporter(target: Target) -> SpanExporter:
    """Build the exporter of spans; raises SettingsError if the environment forbids it."""
    # Imported late, here and below: each pulls in its own client library, and only one of them is needed.
    try:
        if target.protocol is OtlpProtocol.GRPC:
            from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter as GrpcExporter  # noqa: PLC0415

            return GrpcExporter(endpoint=target.endpoint)
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter as HttpExporter  # noqa: PLC0415

        return HttpExporter(endpoint=target.endpoint)
    except Exception as error:
        raise _unusable(target, error) from error


def metric_exporter(target: Target) -> MetricExporter:
    """Build the exporter of metrics; raises SettingsError if the environment forbids it."""
    try:
        if target.protocol is OtlpProtocol.GRPC:
            from opentelemetry.exporter.otlp.proto.grpc.metric_exporter import OTLPMetricExporter as GrpcExporter  # noqa: PLC0415

            return GrpcExporter(endpoint=target.endpoint)
        from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter as HttpExporter  # noqa: PLC0415

        return HttpExporter(endpoint=target.endpoint)
    except Exception as error:
        raise _unusable(target, error) from error


def log_exporter(target: Target) -> LogRecordExporter:
    """Build the exporter of log records; raises SettingsError if the environment forbids it."""
    try:
        if target.protocol is OtlpProtocol.GRPC:
            from opentelemetry.exporter.otlp.proto.grpc._log_exporter import OTLPLogExporter as GrpcExporter  # noqa: PLC0415

            return GrpcExporter(endpoint=target.endpoint)
        from opentelemetry.exporter.otlp.proto.http._log_exporter import OTLPLogExporter as HttpExporter  # noqa: PLC0415

        return HttpExporter(endpoint=target.endpoint)
    except Exception as error:
        raise _unusable(target, error) from error


def _first(variables: Iterable[str], environ: Mapping[str, str], setting: str, value: str | None) -> tuple[str, str] | None:
    """Return name and text of what is set first; empty variables count as unset, as the specification says."""
    for variable in variables:
        if text := environ.get(variable, "").strip():
            return variable, text
    return (setting, value.strip()) if value and value.strip() else None


def _protocol(origin: str, text: str) -> OtlpProtocol:
    try:
        return OtlpProtocol(text)
    except ValueError:
        raise SettingsError(where=origin, what=f"{text!r} is no protocol that we speak", fix="use grpc or http/protobuf") from None


def _unusable(target: Target, error: Exception) -> SettingsError:
    return SettingsError(
        where=f"OTLP exporter of {target.signal.value} ({target.origin})",
        what=f"it can't be built: {type(error).__name__}: {error}",
        fix="check the OTEL_EXPORTER_OTLP_* variables",
    )
