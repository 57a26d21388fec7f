"""What one span records about one call, before spans of the same call are merged."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from otel_toolcall_eval.extraction.decoding import Decoded, decode_arguments, decode_output
from otel_toolcall_eval.model.tool_call import CallKind, CallPhase, CallStatus, Content, ContentState, Evidence, Payload

if TYPE_CHECKING:
    from otel_toolcall_eval.extraction.reading import Found
    from otel_toolcall_eval.model.trace import Span, Value


class Recorded(Payload):
    """Arguments or an output of a candidate, which become those of the call. Decoded when someone asks."""

    __slots__ = ("_decoded", "_others", "found", "is_arguments", "nothing_means_empty")

    def __init__(self, found: Found | None, *, is_arguments: bool, nothing_means_empty: bool = False) -> None:
        """Keep what was found. Of ``Payload``'s slots only that of the content is used."""
        self.found = found
        self.is_arguments = is_arguments
        self.nothing_means_empty = nothing_means_empty
        self._decoded: Decoded | None = None
        self._content: Content | None = None
        self._others: list[Recorded] | tuple[()] = ()  # none of which has others of its own

    @classmethod
    def among(cls, founds: list[Found], *, is_arguments: bool, nothing_means_empty: bool = False) -> Recorded:
        """Keep several values of one field, the best first."""
        first = cls(founds[0] if founds else None, is_arguments=is_arguments, nothing_means_empty=nothing_means_empty)
        if len(founds) > 1:
            first._others = [cls(other, is_arguments=is_arguments, nothing_means_empty=nothing_means_empty) for other in founds[1:]]
        return first

    @classmethod
    def known(cls, content: Content, *, is_arguments: bool) -> Recorded:
        """Wrap content that is decoded already."""
        recorded = cls(None, is_arguments=is_arguments)
        recorded._decoded = Decoded(content=content)
        return recorded

    def also(self, other: Recorded) -> None:
        """Fall back on what another span recorded of the same call, where this one has nothing whole; ``other`` is of no use from then on.

        Flat, since a call may be tried any number of times: of one that fell back on others itself and is decoded, the result stays.
        """
        if not other.is_there:
            return
        known, more = self._content, other._content
        self._content = None if known is None or more is None else _better(known, more)
        if not self._others:
            self._others = []
        if more is None:
            self._others += (other, *other._others)
            other._others = ()
        else:
            self._others.append(Recorded.known(more, is_arguments=self.is_arguments) if other._others else other)

    @property
    def recorded(self) -> Value:
        """Return what this span itself has."""
        return None if self.found is None else self.found.value

    @property
    def decided_by(self) -> tuple[str, object, object] | None:
        """Return the text, its source and its dialect, if neither another span nor another attribute has a say."""
        found = self.found
        if found is None or found.cut or found.names is not None or self._others:
            return None
        text = found.value
        return (text, found.source, found.dialect) if isinstance(text, str) else None

    @property
    def decoded(self) -> Decoded:
        """Return what this span itself recorded, decoded."""
        if self._decoded is None:
            if self.is_arguments:
                self._decoded = decode_arguments(self.found, nothing_means_empty=self.nothing_means_empty)
            else:
                self._decoded = decode_output(self.found, nothing_means_empty=self.nothing_means_empty)
        return self._decoded

    @property
    def content(self) -> Content:
        """Return the first content that is whole, else the first that was recorded at all, else that there is none."""
        if self._content is None:
            best = self.decoded.content
            for other in self._others:
                if _is_whole(best):
                    break
                best = _better(best, other.decoded.content)
            self._content = best
        return self._content

    @property
    def is_there(self) -> bool:
        """Tell whether anything was recorded, without decoding it where possible."""
        if self._is_own() or self.nothing_means_empty:
            return True
        return any(other.is_there for other in self._others)

    def _is_own(self) -> bool:
        """Tell whether this span itself recorded anything."""
        if self._decoded is None and (self.found is None or not self.found.source.path):
            return self.found is not None
        return self.decoded.content.state is not ContentState.ABSENT and (self.found is not None or not self.nothing_means_empty)


def _is_whole(content: Content) -> bool:
    return content.state is ContentState.FULL and not content.nothing


def _better(content: Content, other: Content) -> Content:
    """Return the content that counts of two: the first if it is whole, or if the other is no better."""
    if _is_whole(content):
        return content
    is_better = other.state is ContentState.FULL or (content.state is ContentState.ABSENT and other.state is not ContentState.ABSENT)
    return other if is_better else content


@dataclass(slots=True, kw_only=True, eq=False)
class Candidate:
    """One reading of one call. Mutable, and lives only while one trace is read.

    Attributes:
        index: position among several calls of the same span; 0 for an ordinary tool span.
        explicit_ok: True if the span's status is OK, so an error further in was dealt with inside.
        aliases: other spellings of the name, in order.
        merged: IDs of spans that were folded into this one, in any order.
        absorbed: set once this candidate was folded into another one.
        from_message: True if it stood in a message, so that no span of its own shows it.
        is_part: True for a piece of the call above it.
        rank: start of the model call that asked for it, and its place in the message; (-1, -1) if no request is known.
        fingerprint: kept by ``sameness.fingerprint`` as soon as ``has_fingerprint``.
    """

    span: Span
    name: str
    arguments: Recorded
    output: Recorded
    index: int = 0
    aliases: dict[str, None] = field(default_factory=dict)
    kind: CallKind | None = None
    phase: CallPhase = CallPhase.EXECUTED
    call_id: str | None = None
    status: CallStatus = CallStatus.UNKNOWN
    status_from: str | None = None
    error_type: str | None = None
    error_message: str | None = None
    start_unix_ns: int = 0
    end_unix_ns: int = 0
    duration_known: bool = True
    own_agent: str | None = None
    attempts: int = 1
    failed_attempts: int = 0
    from_cache: bool = False
    nested_in: bytes | None = None
    merged: list[bytes] = field(default_factory=list)
    dialects: list[str] = field(default_factory=list)
    absorbed: bool = False
    from_message: bool = False
    evidence: Evidence = Evidence.SPAN
    event_unix_ns: int | None = None
    event_duration_ns: int | None = None
    conversation_id: str | None = None
    is_part: bool = False
    rank: tuple[int, int] = (-1, -1)
    fingerprint: str | None = None
    has_fingerprint: bool = False

    @property
    def ran(self) -> tuple[int, int]:
        """Return from when to when the call ran; that of an event as the event tells, since its span holds many calls."""
        if self.event_unix_ns is None:
            return self.start_unix_ns, self.end_unix_ns
        return self.event_unix_ns - (self.event_duration_ns or 0), self.event_unix_ns

    @property
    def explicit_ok(self) -> bool:
        """Tell whether the producer recorded that the call succeeded."""
        return self.span.status == 1
