"""The settings as the rest of the package sees them, and their defaults in the two places where we run. ``service_file`` loads them."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING

from otel_toolcall_eval.engine.buffer.completion import IN_PROCESS_POLICY, CompletionPolicy
from otel_toolcall_eval.engine.buffer.trace_buffer import BufferLimits
from otel_toolcall_eval.settings.types import MIB, Address

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from otel_toolcall_eval.model.errors import Problem
    from otel_toolcall_eval.settings.criteria_file import CriteriaSource
    from otel_toolcall_eval.settings.endpoint import OtlpProtocol
    from otel_toolcall_eval.settings.patterns import LinearPattern

_SECOND_NS = 1_000_000_000


class Deployment(StrEnum):
    """Where we run."""

    SIDECAR = "sidecar"
    IN_PROCESS = "in_process"


class ShownValues(StrEnum):
    """What explanations show of argument and output values."""

    OFF = "off"
    TRUNCATE = "truncate"
    FULL = "full"


class LogLevel(StrEnum):
    """Least severity of our own log lines."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


class LogFormat(StrEnum):
    """How our own log lines are written."""

    TEXT = "text"
    JSON = "json"


@dataclass(frozen=True, slots=True, kw_only=True)
class TlsFiles:
    """PEM files of a listener's TLS.

    Attributes:
        setting: where they were named, ``listen.tls`` or ``listen.grpc.tls``.
        cert_file: the certificate, followed by those between it and the authority that clients know.
        key_file: its private key, not encrypted.
        client_ca_file: authorities whose certificates clients have to show; None asks for none.
    """

    setting: str
    cert_file: Path
    key_file: Path
    client_ca_file: Path | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenFile:
    """A file of tokens; ``setting`` says where it was named."""

    setting: str
    path: Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Listener:
    """An address and its protection."""

    address: Address
    tls: TlsFiles | None = None
    tokens: TokenFile | None = None

    @property
    def scheme(self) -> str:
        """Return ``http`` or ``https``."""
        return "http" if self.tls is None else "https"


@dataclass(frozen=True, slots=True, kw_only=True)
class Listen:
    """Everything that listens.

    Attributes:
        control: None listens to nobody. It is off by default: most agents are never bound from outside, and several sidecars on
            one machine would need a third port each.
        allowed_origins: web origins whose scripts may send OTLP over HTTP; ``*`` is any, none is none.
        allowed_hosts: further names and addresses under which requests over HTTP are answered; ``*`` is any.
        insecure: an address that other machines can reach is wanted, though what protects it is missing.
    """

    grpc: Listener = field(default=Listener(address=Address(host="127.0.0.1", port=4317)))
    http: Listener = field(default=Listener(address=Address(host="127.0.0.1", port=4318)))
    control: Listener | None = None
    allowed_origins: frozenset[str] = frozenset()
    allowed_hosts: frozenset[str] = frozenset()
    insecure: bool = False

    @property
    def listeners(self) -> Mapping[str, Listener]:
        """Return what listens, by name."""
        named = {"grpc": self.grpc, "http": self.http, "control": self.control}
        return {name: listener for name, listener in named.items() if listener is not None}


@dataclass(frozen=True, slots=True, kw_only=True)
class Intake:
    """Bounds on what is taken in.

    Attributes:
        max_request_bytes: largest message, unpacked.
        queue_bytes: estimated bytes of the spans that wait for the worker; beyond it requests are refused whole.
    """

    max_request_bytes: int = 64 * MIB
    queue_bytes: int = 64 * MIB


@dataclass(frozen=True, slots=True, kw_only=True)
class Export:
    """Where our telemetry goes by OTLP, beside what ``OTEL_EXPORTER_OTLP_*`` say; those are not looked at here.

    Attributes:
        enabled: False sends nothing, whatever is named anywhere.
        endpoint: base URL for all signals; None if the settings name none.
        protocol: None leaves it to the endpoint.
    """

    enabled: bool = True
    endpoint: str | None = None
    protocol: OtlpProtocol | None = None


class Compression(StrEnum):
    """How forwarded requests are compressed."""

    NONE = "none"
    GZIP = "gzip"


@dataclass(frozen=True, slots=True, kw_only=True)
class Forward:
    """Where received requests are forwarded.

    Attributes:
        endpoint: base URL; None passes nothing on.
        protocol: None leaves it to the endpoint.
        headers: names in lower case; not shown, since they may be credentials.
        timeout_ns: for one try.
        queue_bytes: what may wait; beyond it requests are refused.
        max_elapsed_ns: how long one request is tried.
    """

    endpoint: str | None = field(default=None, repr=False)
    protocol: OtlpProtocol | None = None
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    token_file: Path | None = None
    compression: Compression = Compression.NONE
    ca_file: Path | None = None
    cert_file: Path | None = None
    key_file: Path | None = None
    timeout_ns: int = 10 * _SECOND_NS
    queue_bytes: int = 64 * MIB
    max_elapsed_ns: int = 300 * _SECOND_NS


class JournalSync(StrEnum):
    """When what the journal is given is on the disk itself."""

    NONE = "none"
    INTERVAL = "interval"
    ACK = "ack"


@dataclass(frozen=True, slots=True, kw_only=True)
class JournalSettings:
    """Where what was received and decided survives the process; the sidecar's alone.

    Attributes:
        path: of its file; None for no journal. Relative paths are relative to the settings file that named it.
        sync: once a second by default, which costs nearly nothing, and a power cut at most the last second. A killed process loses
            nothing whatever it is.
    """

    path: Path | None = None
    sync: JournalSync = JournalSync.INTERVAL


@dataclass(frozen=True, slots=True, kw_only=True)
class Status:
    """The status page, and what it remembers; the sidecar's alone.

    Attributes:
        enabled: False serves no page and remembers nothing.
        traces: evaluated traces that are remembered, the newest; half of the room is for those that did not pass alone.
        limit_bytes: what they may take.
        path: of a file in which they survive the process; None for none.
        max_age_ns: how long they are remembered.
    """

    enabled: bool = True
    traces: int = 1000
    limit_bytes: int = 16 * MIB
    path: Path | None = None
    max_age_ns: int = 7 * 24 * 3600 * _SECOND_NS


@dataclass(frozen=True, slots=True, kw_only=True)
class Emit:
    """In which forms scores are emitted."""

    metrics: bool = True
    events: bool = True
    spans: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Redact:
    """What is taken out of all that explanations show, as ``model.payload.redaction.Redactor`` has it."""

    keys: tuple[str, ...] = ()
    patterns: tuple[LinearPattern, ...] = ()
    defaults: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Log:
    """Our own log lines; the sidecar's alone."""

    level: LogLevel = LogLevel.INFO
    format: LogFormat = LogFormat.TEXT


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Everything that can be set.

    Attributes:
        criteria: files and folders of criteria; relative paths are relative to the settings file that named them.
        dialects: users' dialect files, likewise.
        shutdown_timeout_ns: most that shutting down may take.
        root_export_timeout_ns: longest wait of the thread that ends a root span for its verdict, where our processor wraps another.
        show_values: what explanations in events show of argument and output values.
        redact: what is taken out of them, and of the explanations themselves.
        warnings: what a user should know about the settings and need not mend.
    """

    criteria: tuple[CriteriaSource, ...] = ()
    dialects: tuple[Path, ...] = ()
    listen: Listen = field(default_factory=Listen)
    completion: CompletionPolicy
    shutdown_timeout_ns: int
    root_export_timeout_ns: int = 50_000_000
    buffer: BufferLimits
    intake: Intake = field(default_factory=Intake)
    journal: JournalSettings = field(default_factory=JournalSettings)
    export: Export = field(default_factory=Export)
    forward: Forward = field(default_factory=Forward)
    status: Status = field(default_factory=Status)
    emit: Emit = field(default_factory=Emit)
    show_values: ShownValues = ShownValues.OFF
    redact: Redact = field(default_factory=Redact)
    log: Log = field(default_factory=Log)
    warnings: tuple[Problem, ...] = field(default=(), compare=False)


DEFAULTS: Mapping[Deployment, Settings] = {
    Deployment.SIDECAR: Settings(completion=CompletionPolicy(), shutdown_timeout_ns=10 * _SECOND_NS, buffer=BufferLimits()),
    # The agent's memory is not ours to fill: a tenth of the traces, and of the remembered decisions, which take 100 bytes each.
    Deployment.IN_PROCESS: Settings(
        completion=IN_PROCESS_POLICY,
        shutdown_timeout_ns=5 * _SECOND_NS,
        buffer=BufferLimits(num_traces=10_000, limit_bytes=64 * MIB, decisions=100_000),
        intake=Intake(queue_bytes=16 * MIB),
    ),
}
