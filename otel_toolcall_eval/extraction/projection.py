"""Which parts of a span the dialects read, so that everything else can be dropped while it is decoded."""

from __future__ import annotations

from typing import TYPE_CHECKING

from otel_toolcall_eval.extraction.conversations import CONVERSATION_KEYS
from otel_toolcall_eval.extraction.dialect import Dialect, Source, Subject, Test, ValueOrigin, tests_within
from otel_toolcall_eval.model.trace import Projection

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_ALWAYS_KEYS = frozenset({"error.type", *CONVERSATION_KEYS})
_ALWAYS_EVENTS = frozenset({"exception"})
_SOURCE_FIELDS = (
    "name_from",
    "call_id_from",
    "arguments_from",
    "output_from",
    "agent_from",
    "error_type_from",
    "error_message_from",
    "attempts_from",
)
_CONDITION_FIELDS = ("error_when", "cached_when")
_MESSAGE_FIELDS = ("calls_from", "requests_from", "responses_from")


def projection_of(dialects: Sequence[Dialect]) -> Projection:
    """Return what ``dialects`` read."""
    keys, prefixes, events = set(_ALWAYS_KEYS), set[str](), set(_ALWAYS_EVENTS)
    for dialect in dialects:
        for source in _sources(dialect):
            if source.origin is ValueOrigin.ATTR:
                keys.add(source.key)
            elif source.origin is ValueOrigin.ATTR_PREFIX:
                prefixes.add(source.key)
            elif source.origin is ValueOrigin.EVENT:
                events.add(source.key)
            if source.names_from:
                keys.add(source.names_from)
        for test in _tests(dialect):
            if test.subject is Subject.ATTR:
                keys.add(test.key)
            elif test.subject is Subject.EVENT:
                events.add(test.key)
    return Projection(keys=frozenset(keys), prefixes=tuple(sorted(prefixes)), event_names=frozenset(events))


def events_read(dialect: Dialect) -> frozenset[str]:
    """Return the names of the events that a dialect takes something from; those that it only tests are none."""
    return frozenset(source.key for source in _sources(dialect) if source.origin is ValueOrigin.EVENT)


def _sources(dialect: Dialect) -> Iterator[Source]:
    for name in _SOURCE_FIELDS:
        yield from getattr(dialect, name)
    for name in _MESSAGE_FIELDS:
        for message in getattr(dialect, name):
            yield message.source


def _tests(dialect: Dialect) -> Iterator[Test]:
    yield from tests_within(dialect.match)
    for name in _CONDITION_FIELDS:
        for condition in getattr(dialect, name):
            yield from tests_within(condition)
    for _, match in (*dialect.kind_when, *dialect.child_kind_when, *dialect.phase_when, *dialect.child_phase_when):
        yield from tests_within(match)
    for source in _sources(dialect):
        for guard in (source.only_if, source.unless, source.cut_when):
            if guard is not None:
                yield from tests_within(guard)
