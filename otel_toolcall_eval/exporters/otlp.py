"""Where our telemetry goes by OTLP, and what takes it there: the SDK's exporter for metrics, clients with these options for events.

The variables ``OTEL_EXPORTER_OTLP_*`` keep their meaning and go before the service file. Unlike an SDK, we send nothing unless an
endpoint is named: the default, port 4317 of this host, would be ourselves.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Final

from opentelemetry.util.re import parse_env_headers

from otel_toolcall_eval.model.errors import SettingsError
from otel_toolcall_eval.settings.endpoint import OtlpProtocol, protocol_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from opentelemetry.sdk.metrics.export import MetricExporter

_FILE: Final = "export.otlp"
_TIMEOUT_SECONDS: Final = 10.0
_MILLISECONDS_FROM: Final = 1000.0
_HEADER: Final = re.compile(r"\s*[^\s=,:;\"]+\s*=[^,]*")


class ExportSignal(StrEnum):
    """A kind of telemetry; the value is its word in paths and, in capitals, in variables."""

    TRACES = "traces"
    METRICS = "metrics"
    LOGS = "logs"


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportTarget:
    """Where one signal goes.

    Attributes:
        endpoint: as exporters take it: a URL, for HTTP with the signal's path; for gRPC ``host:port`` will do.
        origin: variable or setting that named it, for messages.
    """

    signal: ExportSignal
    endpoint: str
    protocol: OtlpProtocol
    origin: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientOptions:
    """How events are sent.

    Attributes:
        headers: names in lower case.
        timeout_seconds: for one try.
        ca_file: certificates that the endpoint's is checked against; None takes the system's.
        cert_file: our own certificate, with ``key_file``.
    """

    headers: Mapping[str, str] = field(repr=False)
    gzip: bool
    timeout_seconds: float
    ca_file: Path | None
    cert_file: Path | None
    key_file: Path | None


@dataclass(frozen=True, slots=True, kw_only=True)
class OtlpSettings:
    """What the service file says.

    Attributes:
        endpoint: base URL for all signals; None if the file names none.
        protocol: ``grpc`` or ``http/protobuf``; None leaves it to the endpoint: HTTP on port 4318, else gRPC.
    """

    endpoint: str | None = None
    protocol: str | None = None


def find_target(signal: ExportSignal, settings: OtlpSettings, environ: Mapping[str, str]) -> ExportTarget | None:
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
    return ExportTarget(signal=signal, endpoint=endpoint, protocol=protocol, origin=origin)


def metric_exporter(target: ExportTarget, *, timeout_seconds: float = _TIMEOUT_SECONDS) -> MetricExporter:
    """Build the exporter of metrics, with a time-out for one export; raises SettingsError if the environment forbids it."""
    try:
        if target.protocol is OtlpProtocol.GRPC:
            from opentelemetry.exporter.otlp.proto.grpc.metric_exporter import OTLPMetricExporter as GrpcExporter  # noqa: PLC0415

            return GrpcExporter(endpoint=target.endpoint, timeout=timeout_seconds)
        from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter as HttpExporter  # noqa: PLC0415

        return HttpExporter(endpoint=target.endpoint, timeout=timeout_seconds)
    except Exception as error:
        raise _unusable(target, error) from error


def client_options(signal: ExportSignal, environ: Mapping[str, str]) -> ClientOptions:
    """Read the variables of one signal; each of them goes before the one for all signals. Empty ones are not set.

    Source: OpenTelemetry specification, "OTLP Exporter". The specification counts a time-out in milliseconds, the Python exporters in
    seconds; nobody waits for a quarter of an hour, so from 1,000 on it is milliseconds.

    Raises:
        SettingsError: a value can't be used.
    """
    name = signal.value.upper()

    def read(word: str) -> tuple[str, str] | None:
        return _first((f"OTEL_EXPORTER_OTLP_{name}_{word}", f"OTEL_EXPORTER_OTLP_{word}"), environ, "", None)

    def file(word: str) -> Path | None:
        found = read(word)
        return None if found is None else Path(found[1])

    headers, compression, timeout = read("HEADERS"), read("COMPRESSION"), read("TIMEOUT")
    known = (
        {"gzip", "none", "deflate"} if signal is ExportSignal.METRICS else {"gzip", "none"}
    )  # the SDK's exporter of metrics takes one more
    if compression is not None and compression[1].lower() not in known:
        raise SettingsError(where=compression[0], what=f"{compression[1]!r} is no compression that we know", fix="use gzip or none")
    try:
        seconds = _TIMEOUT_SECONDS if timeout is None else float(timeout[1])
    except ValueError:
        seconds = math.nan
    if timeout is not None and not 0 < seconds < math.inf:
        raise SettingsError(where=timeout[0], what=f"{timeout[1]!r} is no time-out", fix="give seconds, such as 10")
    if seconds >= _MILLISECONDS_FROM:
        seconds /= 1000
    if headers is not None and not all(_HEADER.fullmatch(part) for part in headers[1].split(",") if part.strip()):
        # Not shown: it is a credential in most cases.
        raise SettingsError(where=headers[0], what="this is no list of headers", fix="write name=value, separated by commas")
    return ClientOptions(
        headers={} if headers is None else parse_env_headers(headers[1], liberal=True),
        gzip=compression is not None and compression[1].lower() == "gzip",
        timeout_seconds=seconds,
        ca_file=file("CERTIFICATE"),
        cert_file=file("CLIENT_CERTIFICATE"),
        key_file=file("CLIENT_KEY"),
    )


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


def _unusable(target: ExportTarget, error: Exception) -> SettingsError:
    return SettingsError(
        where=f"OTLP exporter of {target.signal.value} ({target.origin})",
        what=f"it can't be built: {type(error).__name__}: {error}",
        fix="check the OTEL_EXPORTER_OTLP_* variables",
    )
