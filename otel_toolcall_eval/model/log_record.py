"""A log record, reduced to what describes a tool call."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from otel_toolcall_eval.model.trace import Resource, Scope, SpanEvent

if TYPE_CHECKING:
    from otel_toolcall_eval.model.trace import Attributes, Projection, Span, Value

SCOPE_EVENT = "{scope}"
"""Stands for every record that is named after its own scope, as ADOT names those that hold the texts which it took off a span."""

BODY = "body"
"""Under this name an event has the body of its record, if that is no object."""

CALL_ID_KEYS = ("gen_ai.tool.call.id", "tool_use_id", "tool_call_id", "call_id", "id")
"""Where a record says which call it is about, the most telling first."""


class LoggedEvent(SpanEvent):
    """What a log record says, as an event on its span. Read like any other event, and told apart where that is shown."""

    __slots__ = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class LogRecord:
    """One log record.

    Attributes:
        trace_id: 16 bytes; None if the record is in no trace.
        span_id: 8 bytes; None if the record is on no span.
        event_name: the name under which dialects ask for it.
        time_unix_ns: Unix time from the producer's clock; when it was observed, if it says no more.
        body: an object in the events of the conventions, else mostly text.
        size_bytes: what the record takes in memory, by the estimate of its decoder.
    """

    trace_id: bytes | None
    span_id: bytes | None
    event_name: str
    time_unix_ns: int = 0
    body: Value = None
    attributes: Attributes = field(default_factory=dict)
    resource: Resource = field(default_factory=Resource)
    scope: Scope = field(default_factory=Scope)
    size_bytes: int = field(default=0, compare=False)

    @property
    def call_id(self) -> str | None:
        """Return the ID of the call that the record is about, if it says."""
        fields = self.fields()
        return next((value for key in CALL_ID_KEYS if isinstance(value := fields.get(key), str) and value), None)

    def fields(self) -> Attributes:
        """Return the attributes and the members of the body together; of equal names the body's, where events have their content."""
        if isinstance(self.body, Mapping):
            return {**self.attributes, **self.body}
        return self.attributes if self.body is None else {**self.attributes, BODY: self.body}

    def event(self) -> LoggedEvent:
        """Return the record as an event."""
        return LoggedEvent(name=self.event_name, time_unix_ns=self.time_unix_ns, attributes=self.fields())


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinedLogs:
    """Spans with the log records on them.

    Attributes:
        spans: those that were given, in their order, then those that only records show.
        used: positions of the records that are on a span now.
    """

    spans: tuple[Span, ...]
    used: frozenset[int]


def event_name_of(projection: Projection, *, names: tuple[Value, ...], scope: str) -> str | None:
    """Return the name under which a dialect reads a record; None if none does.

    Args:
        projection: names of the events that are asked for.
        names: what the record may be named by, the most telling first: its event name, its attribute ``event.name``, its body.
            Codex writes a place in its source as event name, and Claude Code its full name as body.
        scope: name of the scope.
    """
    for name in names:
        if isinstance(name, str) and name in projection.event_names:
            return name
    if SCOPE_EVENT in projection.event_names and scope and scope in names:
        return SCOPE_EVENT
    return None
