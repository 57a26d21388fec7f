"""The canonical tool call: what every dialect is read into."""

from __future__ import annotations

from dataclasses import field
from enum import StrEnum
from typing import TYPE_CHECKING, TypeAlias

from otel_toolcall_eval.model.values import value_class

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from otel_toolcall_eval.model.trace import IncompletenessReason, Value

Json: TypeAlias = "bool | int | float | str | Sequence[Json] | Mapping[object, Json] | None"
"""A decoded payload. Keys are text, except where a Python literal had others. Tuples count as lists."""


class ContentState(StrEnum):
    """How much of a recorded value can be used."""

    FULL = "full"
    ABSENT = "absent"  # never recorded
    REDACTED = "redacted"  # a mask stands in its place
    TRUNCATED = "truncated"  # cut off; its whole members may still count
    UNPARSED = "unparsed"  # text that is no object, where an object was due


@value_class
class Content:
    """A decoded payload.

    Attributes:
        state: how much of it can be used.
        value: the decoded value. For arguments an object when ``state`` is FULL; otherwise None. For an output any value.
        text: the recorded text, letter by letter, if text was recorded.
        partial: the members of a cut object that are whole; None unless ``state`` is TRUNCATED.
        nothing: True if nothing was recorded *and* that means "nothing to record" (the guides' own convention),
            so that the state is FULL all the same.
        positional: names of the arguments that were passed without one and got their number as name.
        names_from: attribute whose schema gave positional arguments their names.
    """

    state: ContentState
    value: Json = None
    text: str | None = None
    partial: Mapping[str, Json] | None = None
    nothing: bool = False
    positional: tuple[str, ...] = ()
    names_from: str | None = None


class Payload:
    """Arguments or output as recorded, decoded at first use and then kept.

    Most payloads are never looked at (no criteria ask for them), and decoding is the dearest part of a verdict.
    Owned by the worker's thread.
    """

    __slots__ = ("_content", "_decode", "_recorded")

    def __init__(self, recorded: Value, decode: Callable[[Value], Content]) -> None:
        """Keep ``recorded`` until someone asks for its content."""
        self._recorded = recorded
        self._decode = decode
        self._content: Content | None = None

    @classmethod
    def of(cls, content: Content) -> Payload:
        """Wrap content that is decoded already."""
        return Payload(content.text, lambda _: content)

    @property
    def recorded(self) -> Value:
        """Return what the call's own span has, as it stands there; None, too, if that is nothing."""
        return self._recorded

    @property
    def decided_by(self) -> tuple[str, object, object] | None:
        """Return the text and the two rules that alone decide the content: equal text under the same rules has equal content.

        None if there is more to it.
        """
        return None

    @property
    def content(self) -> Content:
        """Return the decoded content."""
        if self._content is None:
            self._content = self._decode(self.recorded)
        return self._content

    @property
    def state(self) -> ContentState:
        """Return how much of the payload can be used."""
        return self.content.state


class CallKind(StrEnum):
    """What ran."""

    FUNCTION = "function"
    MCP = "mcp"
    PROVIDER = "provider"  # run by the model's vendor
    AGENT = "agent"  # an agent used as a tool
    CONTROL = "control"  # final answer, output function, handoff: steers the loop


class CallPhase(StrEnum):
    """How far the call came."""

    EXECUTED = "executed"
    REQUESTED = "requested"  # a model asked for it; nothing shows that it ran
    REJECTED = "rejected"  # stopped by validation or permission
    DEFERRED = "deferred"  # waits for approval


class CallStatus(StrEnum):
    """How the call ended."""

    OK = "ok"
    ERROR = "error"
    UNKNOWN = "unknown"  # it never ran, or nothing says


class Evidence(StrEnum):
    """What shows the call."""

    SPAN = "span"
    SPAN_EVENT = "span_event"
    LOG_RECORD = "log_record"
    MESSAGE_HISTORY = "message_history"  # what a model asked for, or was told of


@value_class
class ToolCall:
    """One tool call of a trace.

    Attributes:
        name: exact, case and blanks included; never empty.
        aliases: other spellings of the name (with a server or plugin prefix, say); criteria match these too.
        call_id: the ID that the model or producer gave the call.
        arguments: always an object once decoded.
        output: any value once decoded.
        status_from: what the status was read from: ``span_status``, ``attribute``, ``event`` or ``output``.
        start_unix_ns: Unix time from the producer's clock.
        duration_known: False if the times were made up by the producer.
        agent: name of the nearest agent above the call.
        agent_path: names of the agents above it, outermost first; the innermost hundred, if there are more.
        parallel_group: equal numbers mark calls of one agent that overlap in time; None if nothing overlaps.
        merged_span_ids: other spans that recorded the same call.
        dialects: names of the dialects that read it.
        evidence: what shows the call.
        conversation_id: the conversation, session or thread that the producer says it belongs to.
        event_unix_ns: when the event that shows the call was recorded, at the call's end; None if no event shows it.
        event_duration_ns: how long the event says that the call took; None if it does not. The times of the call are then still
            those of the span that the event is on.
    """

    name: str
    aliases: tuple[str, ...] = ()
    kind: CallKind = CallKind.FUNCTION
    phase: CallPhase = CallPhase.EXECUTED
    call_id: str | None = None
    arguments: Payload
    output: Payload
    status: CallStatus = CallStatus.UNKNOWN
    status_from: str | None = None
    error_type: str | None = None
    error_message: str | None = None
    start_unix_ns: int = 0
    end_unix_ns: int = 0
    duration_known: bool = True
    agent: str | None = None
    agent_path: tuple[str, ...] = ()
    parallel_group: int | None = None
    attempts: int = 1
    failed_attempts: int = 0
    from_cache: bool = False
    nested_in: bytes | None = None
    trace_id: bytes = b""
    span_id: bytes = b""
    parent_span_id: bytes | None = None
    merged_span_ids: tuple[bytes, ...] = ()
    dialects: tuple[str, ...] = ()
    evidence: Evidence = Evidence.SPAN
    conversation_id: str | None = None
    event_unix_ns: int | None = None
    event_duration_ns: int | None = None

    @property
    def positional(self) -> tuple[str, ...]:
        """Return the names, which are numbers, of arguments that were passed without a name. Decodes the arguments."""
        return self.arguments.content.positional

    @property
    def args_names_from(self) -> str | None:
        """Return the attribute whose schema gave positional arguments their names. Decodes the arguments."""
        return self.arguments.content.names_from


@value_class
class CallLog:
    """The calls that criteria are applied to.

    Attributes:
        calls: in order of start, then end, then arrival.
        open_ended: True if the trace may hold more calls than these, at any place, so that "it did not happen" can't be
            concluded.
        clocks: for each call the number of the clock that its times come from, if not all clocks agree; else empty. Calls of
            different clocks have no known order, unless one runs inside the other.
    """

    calls: tuple[ToolCall, ...]
    open_ended: bool = False
    clocks: tuple[int, ...] = ()
    _by_name: dict[str, list[int]] | None = field(default=None, init=False, repr=False, compare=False)

    @property
    def by_name(self) -> dict[str, list[int]]:
        """Map each name and alias to the ascending positions of its calls in ``calls``; made once, and not to be changed."""
        index = self._by_name
        if index is None:
            index = self._indexed()
            self._by_name = index  # type: ignore[misc]
        return index

    def _indexed(self) -> dict[str, list[int]]:
        index: dict[str, list[int]] = {}
        for position, call in enumerate(self.calls):
            if call.name in index:
                index[call.name].append(position)
            else:
                index[call.name] = [position]
            if call.aliases:
                for alias in dict.fromkeys(call.aliases):
                    if alias != call.name:
                        index.setdefault(alias, []).append(position)
        return index


@value_class
class IgnoredSpan:
    """A span that is no tool call of its own, and why."""

    span_id: bytes
    name: str
    reason: str
    dialect: str | None = None


@value_class
class Extraction:
    """What was read out of a trace.

    Attributes:
        calls: every call, of any kind and phase, ordered.
        ignored: every other span with the reason.
        hints: what a user should know, such as a producer that writes no tool spans and the cure.
        doubts: why calls may be missing from it although no span is, such as NO_TOOL_SPANS.
    """

    calls: tuple[ToolCall, ...]
    ignored: Sequence[IgnoredSpan] = ()
    hints: tuple[str, ...] = ()
    doubts: tuple[IncompletenessReason, ...] = ()
