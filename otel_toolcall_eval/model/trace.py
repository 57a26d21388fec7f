"""Resource, scope, span and trace, reduced to what evaluating tool calls needs (the *projection*)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum, StrEnum
from typing import TypeAlias

from otel_toolcall_eval.model.values import value_class

Value: TypeAlias = "bool | int | float | str | bytes | tuple[Value, ...] | Mapping[str, Value] | None"
"""An OTLP AnyValue. A kvlist is a mapping, an array a tuple, an empty AnyValue None."""

Attributes: TypeAlias = Mapping[str, Value]

# opentelemetry-proto, trace.proto, SpanFlags: bit 8 says that bit 9 is known; bit 9, that the parent is in another process.
FLAG_PARENT_LOCALITY_KNOWN = 0x100
FLAG_PARENT_IS_REMOTE = 0x200
_PARENT_IN_ANOTHER_PROCESS = FLAG_PARENT_LOCALITY_KNOWN | FLAG_PARENT_IS_REMOTE


class StatusCode(IntEnum):
    """Status of a span, numbered as in OTLP."""

    UNSET = 0
    OK = 1
    ERROR = 2


STATUS_CODES: Mapping[int, StatusCode] = {code.value: code for code in StatusCode}
"""By number; senders may send others, which count as UNSET."""


@value_class
class Resource:
    """The entity that produced spans."""

    attributes: Attributes = field(default_factory=dict)


@value_class
class Scope:
    """The instrumentation scope that produced spans."""

    name: str = ""
    version: str = ""


@value_class
class SpanEvent:
    """An event on a span."""

    name: str
    time_unix_ns: int
    attributes: Attributes = field(default_factory=dict)


@value_class
class Span:
    """One ended span.

    Attributes:
        trace_id: 16 bytes, never all zero.
        span_id: 8 bytes, unique within the trace.
        parent_span_id: 8 bytes; None if the span has no parent.
        start_unix_ns: Unix time from the producer's clock; never compared with ours.
        end_unix_ns: the same; may lie before the start if that clock was set back.
        flags: OTLP span flags; 0 from old SDKs, which leaves the parent's locality unknown.
        attributes: the projection; keys that no dialect reads were left out.
        dropped_attributes: how many attributes the producer left out, so a missing key may be a dropped one.
        linked: a link of the span leads to another trace.
        size_bytes: what the span takes in memory, by the estimate of its decoder.
        cache_entry: set by ``extraction.dialect_cache`` alone, which notes here what kind of span it is; no part of the span's content.
    """

    trace_id: bytes
    span_id: bytes
    parent_span_id: bytes | None = None
    name: str = ""
    start_unix_ns: int
    end_unix_ns: int
    flags: int = 0
    kind: int = 0
    status: StatusCode = StatusCode.UNSET
    status_message: str = ""
    attributes: Attributes = field(default_factory=dict)
    events: tuple[SpanEvent, ...] = ()
    dropped_attributes: int = 0
    resource: Resource = field(default_factory=Resource)
    scope: Scope = field(default_factory=Scope)
    linked: bool = False
    size_bytes: int = field(default=0, compare=False)
    cache_entry: object = field(default=None, init=False, compare=False, repr=False)

    @property
    def is_root(self) -> bool:
        """True for a span without a parent, and for the first span of its process in a trace."""
        return self.parent_span_id is None or self.flags & _PARENT_IN_ANOTHER_PROCESS == _PARENT_IN_ANOTHER_PROCESS


@dataclass(frozen=True, slots=True, kw_only=True)
class Projection:
    """Which attributes of a span are kept. Everything else is dropped while it is decoded.

    Attributes:
        keys: attribute keys to keep, exactly as written.
        prefixes: also keep every key that starts with one of these.
        event_names: names of the span events to keep, with all their attributes.
    """

    keys: frozenset[str] = frozenset()
    prefixes: tuple[str, ...] = ()
    event_names: frozenset[str] = frozenset()

    def __or__(self, other: Projection) -> Projection:
        """Return the projection that keeps what either keeps."""
        return Projection(
            keys=self.keys | other.keys,
            prefixes=tuple(sorted({*self.prefixes, *other.prefixes})),
            event_names=self.event_names | other.event_names,
        )

    def keeps(self, key: str) -> bool:
        """Tell whether an attribute of this name is kept."""
        return key in self.keys or (bool(self.prefixes) and key.startswith(self.prefixes))


class Trigger(StrEnum):
    """Why a trace was evaluated when it was."""

    ROOT_SPAN = "root_span"
    IDLE_TIMEOUT = "idle_timeout"
    TRACE_TIMEOUT = "trace_timeout"
    SPAN_LIMIT = "span_limit"
    MEMORY = "memory"
    EVICTION = "eviction"
    SHUTDOWN = "shutdown"
    LATE_SPAN = "late_span"  # a revision: a span that matters came after the verdict
    RECORDED = "recorded"  # read from a file, or handed over as a finished execution


class IncompletenessReason(StrEnum):
    """Why a verdict may be inconclusive."""

    NO_ROOT = "no_root"
    ORPHAN = "orphan"
    OPEN_SPANS = "open_spans"
    SPAN_LIMIT = "span_limit"
    EVICTED = "evicted"
    OVERLOAD = "overload"  # spans or log records were forwarded without being evaluated, because evaluation was behind
    SHUTDOWN = "shutdown"
    JOURNAL = "journal"  # spans were written to the journal and could not be read back after a restart
    VALUE_TRUNCATED = "value_truncated"
    VALUE_REDACTED = "value_redacted"
    CONTENT_NOT_CAPTURED = "content_not_captured"
    NO_TOOL_SPANS = "no_tool_spans"
    CLOCK_SKEW = "clock_skew"  # the order of calls depends on clocks that provably disagree


@value_class
class Trace:
    """All that is known of one trace when it is evaluated.

    Attributes:
        spans: distinct by span ID, in order of arrival.
        root: the span that the verdict is attached to: the root, else the earliest of the top-most spans; None
            only if there is no span at all.
        doubts: why spans may be missing; empty means that the trace is complete.
        revision: 0 for the first evaluation, then 1, 2, ... for each later one that late spans made necessary.
        note: what was attached to the trace at its last evaluation; None at the first.
        unit_span_id: the agent span that ``spans`` is the subtree of, where agent invocations are evaluated one by one; None if
            the whole trace is evaluated.
        decided_after_ns: from the arrival of the root (of the first span, if there is no root) to the decision.
    """

    trace_id: bytes
    spans: tuple[Span, ...]
    root: Span | None
    trigger: Trigger
    doubts: tuple[IncompletenessReason, ...] = ()
    revision: int = 0
    note: object = None
    decided_after_ns: int = 0
    unit_span_id: bytes | None = None

    @property
    def key(self) -> bytes:
        """Return what tells this trace, or this part of one, from all others."""
        return self.trace_id if self.unit_span_id is None else self.trace_id + self.unit_span_id
