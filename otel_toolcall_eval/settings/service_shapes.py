"""What the service file looks like, section by section. Every key may be left out, or be null: then its default holds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from pydantic import BeforeValidator, Field

from otel_toolcall_eval.assembly.completion import Unit
from otel_toolcall_eval.endpoint import OtlpProtocol
from otel_toolcall_eval.settings.config_model import ConfigModel
from otel_toolcall_eval.settings.forward_shape import ForwardModel
from otel_toolcall_eval.settings.profile import JournalSync, LogFormat, LogLevel, ShownValues
from otel_toolcall_eval.settings.redact_shape import RedactModel  # noqa: TC001 - pydantic reads the annotations at run time
from otel_toolcall_eval.settings.types import (
    AnyValue,
    Duration,
    Flag,
    GivenNames,
    Hosts,
    ListenAddress,
    Mebibytes,
    Name,
    Natural,
    Object,
    OptionalAddress,
    Origins,
    Positive,
    Size,
    Workers,
    choice,
    schema_of,
    wrong_kind,
)

if TYPE_CHECKING:
    from collections.abc import Mapping


class CriteriaEntryModel(ConfigModel):
    """An entry of ``criteria`` that says which services it is for."""

    path: Name = Field(description="A criteria file, or a folder that is read with all that lies below it.")
    services: GivenNames = Field(default=None, description="Values of service.name that these criteria are for.")


class TlsModel(ConfigModel):
    """Files in PEM form, relative to this file. They are read again when they change."""

    cert_file: Name | None = Field(default=None, description="The certificate, and those between it and the authority.")
    key_file: Name | None = Field(default=None, description="Its private key, not encrypted.")
    client_ca_file: Name | None = Field(default=None, description="Authorities of client certificates, which are then required.")


class CorsModel(ConfigModel):
    """Which scripts in browsers may send."""

    allowed_origins: Origins | None = Field(default=None, description="Web origins, as in https://app.example.com; * is any.")


class ProtectedModel(ConfigModel):
    """The protection of one listener."""

    tls: TlsModel | None = Field(default=None, description="Certificate and key.")
    token_file: Name | None = Field(default=None, description="File of bearer tokens, one a line; each is valid.")


class ListenerModel(ProtectedModel):
    """A listener with protection of its own."""

    address: ListenAddress | None = Field(default=None, description="host:port.")


class HttpListenerModel(ListenerModel):
    """The listener for OTLP over HTTP."""

    cors: CorsModel | None = Field(default=None, description="Which scripts in browsers may send.")


class ControlListenerModel(ProtectedModel):
    """The control listener."""

    address: OptionalAddress | None = Field(default=None, description="host:port, or off.")


def _listener(value: object) -> object:
    """Take an address alone for a listener."""
    if isinstance(value, str) or value is False:
        return {"address": value}
    if value is None or isinstance(value, dict):
        return value
    raise wrong_kind(value, "a listener", "write host:port, or an object with address, tls and token_file")


_AS_LISTENER = BeforeValidator(_listener)


class ListenModel(ConfigModel):
    """Where the receivers listen, and what protects them."""

    grpc: Annotated[ListenerModel | None, _AS_LISTENER] = Field(default=None, description="OTLP over gRPC.")
    http: Annotated[HttpListenerModel | None, _AS_LISTENER] = Field(
        default=None, description="OTLP over HTTP, /metrics, /livez and /readyz."
    )
    control: Annotated[ControlListenerModel | None, _AS_LISTENER] = Field(
        default=None, description="Binds criteria to traces by their IDs; off unless it has an address."
    )
    tls: TlsModel | None = Field(default=None, description="Certificate and key of listeners without their own.")
    token_file: Name | None = Field(default=None, description="Tokens of listeners without their own.")
    allowed_hosts: Hosts | None = Field(default=None, description="Further names under which HTTP and control answer; * is any.")
    insecure: Flag | None = Field(default=None, description="Listen also where other machines reach us, without that protection.")


class RootModel(ConfigModel):
    """Spans that are roots although they have a parent; all that is given has to hold."""

    name: Name | None = Field(default=None, description="Exact name of the span.")
    attributes: Object = Field(default={}, description="Attributes that the span has to have: text, numbers, true or false.")


class CompletionModel(ConfigModel):
    """When a trace is judged."""

    decision_wait_after_root_received: Duration | None = Field(default=None, description="Quiet period after the root span.")
    decision_wait_after_root_max: Duration | None = Field(default=None, description="Longest wait after the root span.")
    idle_timeout: Duration | None = Field(default=None, description="Since the last span of a trace without a root.")
    trace_timeout: Duration | None = Field(default=None, description="Since the first span of a trace.")
    late_span_window: Duration | None = Field(default=None, description="How long after a verdict late spans may revise it.")
    max_revisions: Natural | None = Field(default=None, description="Most revisions of one verdict.")
    shutdown_timeout: Duration | None = Field(default=None, description="Most that shutting down may take.")
    root_budget: Duration | None = Field(default=None, description="Longest wait of a wrapped root for its verdict.")
    unit: Annotated[Unit, choice(Unit), schema_of(Unit)] | None = Field(
        default=None, description="What is judged: a trace, or each agent run."
    )
    root: RootModel | None = Field(default=None, description="Spans that are roots although they have a parent.")


class LimitsModel(ConfigModel):
    """Bounds on memory."""

    num_traces: Positive | None = Field(default=None, description="Open traces; beyond it the oldest is judged at once.")
    limit_mib: Mebibytes | None = Field(default=None, description="MiB of all open traces; beyond it likewise.")
    maximum_trace_size_bytes: Size | None = Field(default=None, description="Size of one trace; beyond it spans are counted and not kept.")
    span_limit: Positive | None = Field(default=None, description="Spans kept of one trace.")
    decision_cache_size: Positive | None = Field(default=None, description="Trace IDs remembered after their verdict.")
    decision_cache_ttl: Duration | None = Field(default=None, description="How long they are remembered.")
    max_request_bytes: Size | None = Field(default=None, description="Largest request, unpacked.")
    queue_bytes: Size | None = Field(default=None, description="Spans that wait to be grouped; beyond it requests are not taken.")


class JournalModel(ConfigModel):
    """A file in which what was taken in and decided survives the process."""

    path: Name | None = Field(default=None, description="The file, relative to this one; without it there is no journal.")
    sync: Annotated[JournalSync, choice(JournalSync), schema_of(JournalSync)] | None = Field(
        default=None,
        description="When it is on the disk itself: none, interval (once a second) or ack (before the sender is answered).",
    )


class OtlpModel(ConfigModel):
    """Where our telemetry goes by OTLP."""

    endpoint: Name | None = Field(default=None, description="URL for metrics, logs and traces alike.")
    protocol: Annotated[OtlpProtocol, choice(OtlpProtocol), schema_of(OtlpProtocol)] | None = Field(
        default=None,
        description="How OTLP travels; without it http/protobuf on port 4318, else grpc.",
    )


class ExportModel(ConfigModel):
    """How our telemetry leaves, beside /metrics."""

    otlp: AnyValue = Field(default=None, description="Where to send it by OTLP, or off.")


class StatusModel(ConfigModel):
    """The status page, and what it remembers."""

    enabled: Flag | None = Field(default=None, description="Serve it.")
    traces: Positive | None = Field(default=None, description="Judged traces that are remembered, the newest.")
    limit_mib: Mebibytes | None = Field(default=None, description="MiB that they may take.")
    path: Name | None = Field(default=None, description="A file in which they survive the process, relative to this one.")
    max_age: Duration | None = Field(default=None, description="How long they are remembered.")


class EmitModel(ConfigModel):
    """In which forms scores are emitted."""

    metrics: Flag | None = Field(default=None, description="As metrics.")
    events: Flag | None = Field(default=None, description="As gen_ai.evaluation.result log events.")
    spans: Flag | None = Field(default=None, description="As events on a span in the judged trace.")


class ExplainModel(ConfigModel):
    """What explanations tell."""

    values: Annotated[ShownValues, choice(ShownValues), schema_of(ShownValues)] | None = Field(
        default=None,
        description="Argument and output values: off, clip or full.",
    )
    redact: RedactModel | None = Field(default=None, description="What is taken out of them.")


class LogModel(ConfigModel):
    """Our own log lines."""

    level: Annotated[LogLevel, choice(LogLevel), schema_of(LogLevel)] | None = Field(default=None, description="Least severity.")
    format: Annotated[LogFormat, choice(LogFormat), schema_of(LogFormat)] | None = Field(default=None, description="text or json.")


class ServiceModel(ConfigModel):
    """The service file."""

    criteria: list[AnyValue] | None = Field(default=None, description="Criteria files and folders, relative to this file.")
    dialects: list[Name] | None = Field(default=None, description="Dialect files, relative to this file.")
    workers: Workers | None = Field(default=None, description="Processes that judge; traces are shared out among them by their IDs.")
    listen: ListenModel | None = Field(default=None, description="Where the receivers listen.")
    completion: CompletionModel | None = Field(default=None, description="When a trace is judged.")
    limits: LimitsModel | None = Field(default=None, description="Bounds on memory.")
    journal: JournalModel | None = Field(default=None, description="What survives the process.")
    export: ExportModel | None = Field(default=None, description="How our telemetry leaves, beside /metrics.")
    forward: ForwardModel | None = Field(default=None, description="Where what is received is passed on to.")
    status: StatusModel | None = Field(default=None, description="The status page.")
    emit: EmitModel | None = Field(default=None, description="In which forms scores are emitted.")
    explain: ExplainModel | None = Field(default=None, description="What explanations tell.")
    log: LogModel | None = Field(default=None, description="Our own log lines.")


SECTIONS: Mapping[str, type[ConfigModel]] = {
    "listen": ListenModel,
    "completion": CompletionModel,
    "limits": LimitsModel,
    "journal": JournalModel,
    "export": ExportModel,
    "forward": ForwardModel,
    "status": StatusModel,
    "emit": EmitModel,
    "explain": ExplainModel,
    "log": LogModel,
}
"""The sections by name; ``export`` has ``OtlpModel`` below it, ``forward`` has ``ForwardTlsModel``."""
