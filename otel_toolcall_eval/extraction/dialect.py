"""A dialect: how one producer writes tool calls into spans, as compiled data.

Nothing in a dialect executes code. Everything that a dialect can say is one of the types below, so what a user's file can
make us do is bounded by what stands here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, ClassVar, Protocol, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Iterator

    from otel_toolcall_eval.model.tool_call import CallKind, CallPhase


class PatternMatch(Protocol):
    """What a pattern found."""

    def group(self, index: int, /) -> str | None:
        """Return the text of a group; 0 is all of it."""
        ...


class Pattern(Protocol):
    """A compiled regular expression."""

    def search(self, text: str, /) -> PatternMatch | None:
        """Return the first place where the pattern holds."""
        ...


CompilePattern: TypeAlias = Callable[[str], Pattern]
"""Compiles a pattern for a linear-time engine, or raises ValueError. Handed in, since core code imports no third party."""


class Role(StrEnum):
    """What a span of a dialect is."""

    TOOL = "tool"  # one call, or with batch_from several
    EVENT = "event"  # carries calls in span events
    MODEL = "model"  # asked for calls
    AGENT = "agent"  # ran the calls below it
    PART = "part"  # a piece of the call that its parent is
    WRAPPER = "wrapper"  # stands around calls and is none
    IGNORE = "ignore"  # looks like a call and is none


class Subject(StrEnum):
    """What a test looks at."""

    ATTR = "attr"
    RESOURCE = "resource"
    SPAN_NAME = "span_name"
    SCOPE = "scope"
    KIND = "kind"
    EVENT = "event"


class MatchOperator(StrEnum):
    """How a test compares. All but EXISTS fail where there is no value."""

    EXISTS = "exists"
    EQUALS = "equals"
    NOT_EQUALS = "not_equals"
    IN = "in"
    PREFIX = "prefix"
    REGEX = "regex"


@dataclass(frozen=True, slots=True, kw_only=True)
class Test:
    """One condition on a span.

    Attributes:
        key: name of the attribute or event; empty for the other subjects.
        path: keys that lead into the attribute's value, which is then read as JSON.
        values: texts to compare with, longest prefix first; numbers and booleans are compared as JSON spells them.
        wanted: False turns EXISTS around.
    """

    __test__: ClassVar[bool] = False  # no test case, whatever pytest makes of the name

    subject: Subject
    key: str = ""
    path: tuple[str, ...] = ()
    operator: MatchOperator = MatchOperator.EXISTS
    values: tuple[str, ...] = ()
    pattern: Pattern | None = None
    wanted: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Match:
    """Several conditions: all of ``every``, at least one of ``some`` (if there are any), none of ``none``."""

    every: tuple[Test | Match, ...] = ()
    some: tuple[Test | Match, ...] = ()
    none: tuple[Test | Match, ...] = ()


def tests_within(condition: Test | Match) -> Iterator[Test]:
    """Yield every test of a condition; conditions are nested a few levels at most."""
    if isinstance(condition, Test):
        yield condition
        return
    for inner in (*condition.every, *condition.some, *condition.none):
        yield from tests_within(inner)


class Decode(StrEnum):
    """How text becomes a value."""

    AUTO = "auto"  # containers and quoted text as JSON, repeatedly, else Python literals; bare scalars stay text
    JSON = "json"  # JSON, scalars too
    PYTHON = "python"  # a Python literal
    TEXT = "text"  # as it is
    ONCE = "once"  # the guides' own: JSON, else a Python literal, a single time


class ValueOrigin(StrEnum):
    """Where a source finds its value."""

    ATTR = "attr"
    ATTR_PREFIX = "attr_prefix"  # rebuilt from flattened keys
    EVENT = "event"
    SPAN_NAME = "span_name"
    VALUE = "value"  # a constant


class ReadStep(StrEnum):
    """Which span a source looks at."""

    SELF = "self"
    PARENT = "parent"
    CHILD = "child"


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """Where a field's value is found and how it is read.

    Attributes:
        key: attribute, prefix, name of the event, or the constant.
        field: attribute of the event; ``*`` for all of them, as an object.
        before_last: of a span's name, only what stands before the last occurrence of this.
        path: keys that lead into the decoded value; digits count list items.
        unwrap: names of shapes that may stand around the value; see ``unwrapping.SHAPES``.
        names_from: attribute with the schema that names positional arguments.
        wrap_as: the value becomes an object with this single key.
        refuse_schema: a value that looks like a JSON schema is none.
        cut_when: where this holds, the producer cut the value off.
    """

    origin: ValueOrigin
    key: str = ""
    field: str = ""
    step: ReadStep = ReadStep.SELF
    strip_prefix: str = ""
    strip_suffix: str = ""
    before_last: str = ""
    pattern: Pattern | None = None
    decode: Decode = Decode.AUTO
    path: tuple[str, ...] = ()
    unwrap: tuple[str, ...] = ()
    names_from: str = ""
    wrap_as: str = ""
    refuse_schema: bool = False
    cut_when: Match | None = None
    only_if: Match | None = None
    unless: Match | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageSource:
    """Where the messages of a model span, or the calls of a batch or an event, are found.

    Attributes:
        shape: how they are laid out; see ``messages.SHAPES``.
    """

    source: Source
    shape: str

    def inner(self) -> Source:
        """Return how a value that stands in a message is read: like the source, but without its place and path."""
        return Source(origin=ValueOrigin.VALUE, decode=self.source.decode, unwrap=self.source.unwrap)


@dataclass(frozen=True, slots=True, kw_only=True)
class Dialect:
    """One way in which tool calls are written.

    Attributes:
        name: unique among the loaded dialects.
        family: what ``ToolCall.dialects`` shows; several entries may make up one family.
        priority: higher is asked first; equal ones in order of their names.
        supersedes: names or families of dialects that are not asked when this one matches.
        nothing_means_empty: True if a span without arguments or output means "none" (the guides' convention), not "not recorded".
        reason: why a span of this dialect is no call; for a tool, why one without a name is none.
        part_of: families that a PART has to hang below.
        alias_separators: a name also answers to what follows the last of these.
        placeholders: for ``call_id``, ``arguments``, ``output`` and ``name``: texts that stand for "none"; for ``redacted``,
            texts that stand for a hidden value.
        empty_arguments: texts that stand for "no arguments".
        hidden_pair: a text that means "hidden" if arguments and output both are it.
        hint: shown if the trace has this dialect's spans and no call: the producer writes no tool spans.
        content_hint: shown if a call of this dialect has no content: how to switch it on.
    """

    name: str
    family: str
    priority: int = 50
    role: Role = Role.TOOL
    match: Match
    supersedes: frozenset[str] = frozenset()
    name_from: tuple[Source, ...] = ()
    call_id_from: tuple[Source, ...] = ()
    arguments_from: tuple[Source, ...] = ()
    output_from: tuple[Source, ...] = ()
    agent_from: tuple[Source, ...] = ()
    error_type_from: tuple[Source, ...] = ()
    error_message_from: tuple[Source, ...] = ()
    attempts_from: tuple[Source, ...] = ()
    error_when: tuple[Test | Match, ...] = ()
    cached_when: tuple[Test | Match, ...] = ()
    kind: CallKind | None = None
    kind_when: tuple[tuple[CallKind, Match], ...] = ()
    phase_when: tuple[tuple[CallPhase, Match], ...] = ()
    child_kind_when: tuple[tuple[CallKind, Match], ...] = ()
    child_phase_when: tuple[tuple[CallPhase, Match], ...] = ()
    calls_from: tuple[MessageSource, ...] = ()
    requests_from: tuple[MessageSource, ...] = ()
    responses_from: tuple[MessageSource, ...] = ()
    part_of: frozenset[str] = frozenset()
    alias_separators: tuple[str, ...] = ()
    placeholders: Mapping[str, frozenset[str]] = field(default_factory=dict)
    empty_arguments: frozenset[str] = frozenset()
    hidden_pair: str = ""
    nothing_means_empty: bool = False
    reason: str = ""
    hint: str = ""
    content_hint: str = ""

    @property
    def conditions(self) -> tuple[Test | Match, ...]:
        """Return all that is asked of a span itself, beside what single sources ask: whether it matches, and what is so then."""
        told = (*self.kind_when, *self.phase_when)
        return (self.match, *self.error_when, *self.cached_when, *(match for _, match in told))
