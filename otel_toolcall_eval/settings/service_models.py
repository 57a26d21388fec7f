"""What the service file looks like, section by section. Every key may be left out, or be null: then its default holds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from pydantic import AfterValidator, BeforeValidator, Field, WrapValidator

from otel_toolcall_eval.engine.buffer.completion import Unit
from otel_toolcall_eval.engine.buffer.span_kinds import RootCondition
from otel_toolcall_eval.settings.config_model import ConfigModel
from otel_toolcall_eval.settings.criteria_file import CriteriaSource
from otel_toolcall_eval.settings.diagnostics import quoted
from otel_toolcall_eval.settings.endpoint import OtlpProtocol
from otel_toolcall_eval.settings.service import (
    Compression,
    JournalSync,
    LogFormat,
    LogLevel,
    ShownValues,
)
from otel_toolcall_eval.settings.types import (
    ADDRESS_SCHEMA,
    AS_PATHS,
    OFF,
    OFF_SCHEMA,
    AlsoShort,
    Duration,
    Flag,
    GivenNames,
    Headers,
    Hosts,
    ListenAddress,
    LocalPath,
    Mebibytes,
    Name,
    Natural,
    OptionalAddress,
    Origins,
    Patterns,
    Positive,
    RedactedKeys,
    Scalar,
    Size,
    complaint,
    is_off,
    wrong_kind,
)

if TYPE_CHECKING:
    from pydantic import ValidatorFunctionWrapHandler


class CriteriaEntryModel(ConfigModel):
    """An entry of ``criteria`` that says which services it is for."""

    path: LocalPath = Field(description="A criteria file, or a folder that is read with all that lies below it.")
    services: GivenNames = Field(default=None, description="Values of service.name that these criteria are for.")


def _entry(value: object) -> object:
    if isinstance(value, str | dict):
        return {"path": value} if isinstance(value, str) else value
    raise wrong_kind(value, "a path", "write a path, or an object with path and services")


CriteriaEntry = Annotated[
    CriteriaEntryModel,
    BeforeValidator(_entry),
    AfterValidator(lambda entry: CriteriaSource(path=entry.path, services=entry.services or frozenset())),
    AlsoShort({"type": "string", "minLength": 1}),
]


class TlsModel(ConfigModel):
    """Files in PEM form, relative to this file. They are read again when they change."""

    cert_file: LocalPath | None = Field(default=None, description="The certificate, and those between it and the authority.")
    key_file: LocalPath | None = Field(default=None, description="Its private key, not encrypted.")
    client_ca_file: LocalPath | None = Field(default=None, description="Authorities of client certificates, which are then required.")


class CorsModel(ConfigModel):
    """Which scripts in browsers may send."""

    allowed_origins: Origins | None = Field(default=None, description="Web origins, as in https://app.example.com; * is any.")


class ProtectedModel(ConfigModel):
    """The protection of one listener."""

    tls: TlsModel | None = Field(default=None, description="Certificate and key.")
    token_file: LocalPath | None = Field(default=None, description="File of bearer tokens, one a line; each is valid.")


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

    grpc: Annotated[ListenerModel | None, _AS_LISTENER, AlsoShort(ADDRESS_SCHEMA)] = Field(default=None, description="OTLP over gRPC.")
    http: Annotated[HttpListenerModel | None, _AS_LISTENER, AlsoShort(ADDRESS_SCHEMA)] = Field(
        default=None, description="OTLP over HTTP, /metrics, /livez and /readyz."
    )
    control: Annotated[ControlListenerModel | None, _AS_LISTENER, AlsoShort({"anyOf": [ADDRESS_SCHEMA, OFF_SCHEMA]})] = Field(
        default=None, description="Binds criteria to traces by their IDs; off unless it has an address."
    )
    tls: TlsModel | None = Field(default=None, description="Certificate and key of listeners without their own.")
    token_file: LocalPath | None = Field(default=None, description="Tokens of listeners without their own.")
    allowed_hosts: Hosts | None = Field(default=None, description="Further names under which HTTP and control answer; * is any.")
    insecure: Flag | None = Field(default=None, description="Listen also where other machines reach us, without that protection.")


class RootConditionModel(ConfigModel):
    """Spans that are roots although they have a parent; all that is given has to hold."""

    name: Name | None = Field(default=None, description="Exact name of the span.")
    attributes: dict[str, Scalar] = Field(default={}, description="Attributes that the span has to have: text, numbers, true or false.")


AS_CONDITION = AfterValidator(lambda model: model and RootCondition(name=model.name, attributes=tuple(model.attributes.items())))


class CompletionModel(ConfigModel):
    """When a trace is evaluated."""

    decision_wait_after_root_received: Duration | None = Field(default=None, description="Quiet period after the root span.")
    decision_wait_after_root_max: Duration | None = Field(default=None, description="Longest wait after the root span.")
    idle_timeout: Duration | None = Field(default=None, description="Since the last span of a trace without a root.")
    trace_timeout: Duration | None = Field(default=None, description="Since the first span of a trace.")
    late_span_window: Duration | None = Field(default=None, description="How long after a verdict late spans may revise it.")
    max_revisions: Natural | None = Field(default=None, description="Most revisions of one verdict.")
    shutdown_timeout: Duration | None = Field(default=None, description="Most that shutting down may take.")
    root_export_timeout: Duration | None = Field(default=None, description="Longest that the export of a root span waits for its verdict.")
    scope: Unit | None = Field(default=None, description="What is evaluated: a whole trace, or each agent invocation in it.")
    root: Annotated[RootConditionModel | None, AS_CONDITION] = Field(
        default=None, description="Spans that are roots although they have a parent."
    )


class LimitsModel(ConfigModel):
    """Bounds on memory."""

    num_traces: Positive | None = Field(default=None, description="Open traces; beyond it the oldest is evaluated at once.")
    limit_mib: Mebibytes | None = Field(default=None, description="MiB of all open traces; beyond it likewise.")
    maximum_trace_size_bytes: Size | None = Field(default=None, description="Size of one trace; beyond it spans are counted and not kept.")
    span_limit: Positive | None = Field(default=None, description="Spans kept of one trace.")
    decision_cache_size: Positive | None = Field(default=None, description="Trace IDs remembered after their verdict.")
    decision_cache_ttl: Duration | None = Field(default=None, description="How long they are remembered.")
    max_request_bytes: Size | None = Field(default=None, description="Largest request, unpacked.")
    queue_bytes: Size | None = Field(default=None, description="Spans that wait to be grouped; beyond it requests are not taken.")


class JournalModel(ConfigModel):
    """A file in which what was received and decided survives the process."""

    path: LocalPath | None = Field(default=None, description="The file, relative to this one; without it there is no journal.")
    sync: JournalSync | None = Field(
        default=None,
        description="When it is on the disk itself: none, interval (once a second) or ack (before the sender is answered).",
    )


class OtlpModel(ConfigModel):
    """Where our telemetry goes by OTLP."""

    endpoint: Name | None = Field(default=None, description="URL for metrics, logs and traces alike.")
    protocol: OtlpProtocol | None = Field(default=None, description="How OTLP travels; without it http/protobuf on port 4318, else grpc.")


def _otlp(value: object, handler: ValidatorFunctionWrapHandler) -> object:
    if is_off(value):
        return OFF
    if isinstance(value, str):
        raise complaint(what=f"{quoted(value)} is not known here", fix="write off, or an object with an endpoint")
    return handler(value)


class ExportModel(ConfigModel):
    """How our telemetry leaves, beside /metrics."""

    otlp: Annotated[OtlpModel | None, WrapValidator(_otlp), AlsoShort(OFF_SCHEMA)] = Field(
        default=None, description="Where to send it by OTLP, or off."
    )


class ForwardTlsModel(ConfigModel):
    """How the connection to the downstream is encrypted, for an endpoint that begins with https://."""

    ca_file: LocalPath | None = Field(default=None, description="Certificates (PEM) that the downstream's is checked against.")
    cert_file: LocalPath | None = Field(default=None, description="Our certificate (PEM), for a downstream that asks for one.")
    key_file: LocalPath | None = Field(default=None, description="The key of our certificate (PEM), without a password.")


class ForwardModel(ConfigModel):
    """Where received requests are forwarded."""

    endpoint: Name | None = Field(default=None, description="URL of the downstream; without it nothing is forwarded.")
    protocol: OtlpProtocol | None = Field(default=None, description="How to speak to it; without it http/protobuf on port 4318, else grpc.")
    headers: Headers | None = Field(default=None, description="Headers that are sent along.")
    token_file: LocalPath | None = Field(default=None, description="File of bearer tokens, one a line; the first is sent.")
    compression: Compression | None = Field(default=None, description="none or gzip.")
    tls: ForwardTlsModel | None = Field(default=None, description="How the connection is encrypted.")
    timeout: Duration | None = Field(default=None, description="For one try.")
    queue_bytes: Size | None = Field(default=None, description="What may wait to be forwarded; beyond it requests are rejected.")
    max_elapsed: Duration | None = Field(default=None, description="How long one request is tried before it is dropped.")


class StatusModel(ConfigModel):
    """The status page, and what it remembers."""

    enabled: Flag | None = Field(default=None, description="Serve it.")
    traces: Positive | None = Field(default=None, description="Evaluated traces that are remembered, the newest.")
    limit_mib: Mebibytes | None = Field(default=None, description="MiB that they may take.")
    path: LocalPath | None = Field(default=None, description="A file in which they survive the process, relative to this one.")
    max_age: Duration | None = Field(default=None, description="How long they are remembered.")


class EmitModel(ConfigModel):
    """In which forms scores are emitted."""

    metrics: Flag | None = Field(default=None, description="As metrics.")
    events: Flag | None = Field(default=None, description="As gen_ai.evaluation.result log events.")
    spans: Flag | None = Field(default=None, description="As events on a span in the evaluated trace.")


class RedactModel(ConfigModel):
    """What is taken out of all that explanations show."""

    keys: RedactedKeys | None = Field(default=None, description="Keys whose values are taken out, beside those that are built in.")
    patterns: Patterns | None = Field(
        default=None, description="Regular expressions (RE2) for what is taken out wherever it stands, likewise."
    )
    defaults: Flag | None = Field(default=None, description="Whether the rules that are built in hold.")


class ExplainModel(ConfigModel):
    """What explanations tell."""

    values: ShownValues | None = Field(default=None, description="Argument and output values: off, truncate or full.")
    redact: RedactModel | None = Field(default=None, description="What is taken out of them.")


class LogModel(ConfigModel):
    """Our own log lines."""

    level: LogLevel | None = Field(default=None, description="Least severity.")
    format: LogFormat | None = Field(default=None, description="text or json.")


class ServiceModel(ConfigModel):
    """The service file."""

    criteria: Annotated[list[CriteriaEntry] | None, AS_PATHS] = Field(
        default=None, description="Criteria files and folders, relative to this file."
    )
    dialects: Annotated[list[LocalPath] | None, AS_PATHS] = Field(default=None, description="Dialect files, relative to this file.")
    listen: ListenModel | None = Field(default=None, description="Where the receivers listen.")
    completion: CompletionModel | None = Field(default=None, description="When a trace is evaluated.")
    limits: LimitsModel | None = Field(default=None, description="Bounds on memory.")
    journal: JournalModel | None = Field(default=None, description="What survives the process.")
    export: ExportModel | None = Field(default=None, description="How our telemetry leaves, beside /metrics.")
    forward: ForwardModel | None = Field(default=None, description="Where received requests are forwarded.")
    status: StatusModel | None = Field(default=None, description="The status page.")
    emit: EmitModel | None = Field(default=None, description="In which forms scores are emitted.")
    explain: ExplainModel | None = Field(default=None, description="What explanations tell.")
    log: LogModel | None = Field(default=None, description="Our own log lines.")
