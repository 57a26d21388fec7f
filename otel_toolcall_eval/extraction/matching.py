"""Decides whether a span fulfils a dialect's conditions, and which dialects are worth asking at all."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from otel_toolcall_eval.extraction.dialect import Dialect, Match, MatchOperator, Subject, Test
from otel_toolcall_eval.model.payload.text import UnreadableTextError, read_text

if TYPE_CHECKING:
    from otel_toolcall_eval.model.trace import Attributes, Span, Value

MAX_TESTED_LENGTH = 10_000
"""Longest text that is read as JSON for a test with a path, and that a pattern runs over. Markers are short."""

MAX_SCOPES = 1000
"""For how many scopes the dialects are remembered; senders may invent scopes without end."""

MAX_DIGITS = 6
"""Longest number that is read out of a text: positions in lists, counts of attempts."""

_KINDS = {0: "unspecified", 1: "internal", 2: "server", 3: "client", 4: "producer", 5: "consumer"}


def present(value: Value) -> bool:
    """Tell whether a value counts as recorded for a test: null and empty ones don't."""
    return value is not None and value not in ("", (), b"") and value != {}


def value_of(attributes: Attributes, key: str) -> Value:
    """Return the value of an attribute; None, too, if there is none. A dictionary, as nearly all are, is asked without calling a method."""
    if isinstance(attributes, dict):
        return attributes.get(key)
    return attributes.get(key)


def spelled(value: object) -> str | None:
    """Return a scalar as text, as JSON spells it; None for anything else."""
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (int, float)):
        return repr(value)
    return None


def at_path(value: object, path: Sequence[str]) -> object:
    """Follow keys, and digits as list positions, into a value; None if they lead nowhere."""
    for step in path:
        if isinstance(value, Mapping):
            value = value.get(step)
        elif isinstance(value, (list, tuple)) and step.isdecimal() and len(step) <= MAX_DIGITS and int(step) < len(value):
            value = value[int(step)]
        else:
            return None
    return value


def holds(match: Match, span: Span) -> bool:
    """Tell whether a span fulfils all conditions. Cost: one look-up for each test."""
    for condition in match.every:
        if not fulfils(condition, span):
            return False
    for condition in match.none:
        if fulfils(condition, span):
            return False
    return not match.some or any_holds(match.some, span)


def any_holds(conditions: Iterable[Test | Match], span: Span) -> bool:
    """Tell whether a span fulfils at least one of the conditions."""
    return any(fulfils(condition, span) for condition in conditions)


def fulfils(condition: Test | Match, span: Span) -> bool:
    """Tell whether a span fulfils one condition."""
    if isinstance(condition, Match):
        return holds(condition, span)
    if condition.subject is Subject.EVENT:
        return any(event.name == condition.key for event in span.events) is condition.wanted
    plain = condition.subject is Subject.ATTR and not condition.path  # nearly all are: spared a call
    value = span.attributes.get(condition.key) if plain else _looked_at(condition, span)
    if condition.operator is MatchOperator.EXISTS:
        return present(value) is condition.wanted
    text = spelled(value)
    return text is not None and _compares(condition, text)


def _compares(test: Test, text: str) -> bool:
    if test.operator is MatchOperator.NOT_EQUALS:
        return text not in test.values
    if test.operator is MatchOperator.PREFIX:
        return text.startswith(test.values)
    if test.operator is MatchOperator.REGEX:
        return test.pattern is not None and test.pattern.search(text[:MAX_TESTED_LENGTH]) is not None
    return text in test.values


def _looked_at(test: Test, span: Span) -> Value:
    """Return the value that a test looks at."""
    subject = test.subject
    if subject is Subject.ATTR:
        value = span.attributes.get(test.key)
    elif subject is Subject.RESOURCE:
        value = span.resource.attributes.get(test.key)
    elif subject is Subject.SPAN_NAME:
        value = span.name
    elif subject is Subject.SCOPE:
        value = span.scope.name
    else:
        value = _KINDS.get(span.kind)
    if not test.path:
        return value
    if isinstance(value, str):
        if len(value) > MAX_TESTED_LENGTH:
            return None
        try:
            return spelled(at_path(read_text(value), test.path))
        except UnreadableTextError:
            return None
    return spelled(at_path(value, test.path))


class DialectIndex:
    """Finds the dialects that a span may match by what it has, so that most are never asked.

    Every dialect stands under one condition that it can't hold without: an attribute (with its value where the dialect
    compares it), an event, a scope or a span name. Cost: one look-up for each attribute of the span.
    """

    def __init__(self, dialects: Sequence[Dialect]) -> None:
        """Index ``dialects``, which stand in the order in which they are asked."""
        self._dialects = dialects
        self._by_key: defaultdict[str, list[int]] = defaultdict(list)
        self._by_value: defaultdict[str, defaultdict[str, list[int]]] = defaultdict(lambda: defaultdict(list))
        self._by_event: defaultdict[str, list[int]] = defaultdict(list)
        self._by_name: defaultdict[str, list[int]] = defaultdict(list)
        self._by_scope: defaultdict[str, list[int]] = defaultdict(list)
        self._by_scope_prefix: list[tuple[str, int]] = []
        self._of_scope: dict[str, Sequence[int]] = {}
        self._always: list[int] = []
        rarity = _Rarity(dialects)
        for position, dialect in enumerate(dialects):
            needed = rarity.needed(dialect.match)
            if needed is None:
                self._always.append(position)
            for test in needed or ():
                self._register(test, position)

    def _register(self, test: Test, position: int) -> None:
        """Put a dialect under a test that it can't hold without."""
        if test.subject is Subject.EVENT:
            self._by_event[test.key].append(position)
        elif test.subject is Subject.SPAN_NAME:
            for value in test.values:
                self._by_name[value].append(position)
        elif test.subject is Subject.SCOPE and test.operator is MatchOperator.PREFIX:
            self._by_scope_prefix.extend((value, position) for value in test.values)
        elif test.subject is Subject.SCOPE:
            for value in test.values:
                self._by_scope[value].append(position)
        elif test.operator in {MatchOperator.EQUALS, MatchOperator.IN} and not test.path:
            for value in test.values:
                self._by_value[test.key][value].append(position)
        else:
            self._by_key[test.key].append(position)

    def candidates(self, span: Span) -> Sequence[Dialect]:
        """Return the dialects that may match, in the order in which they are asked."""
        found = set(self._always)
        for key, value in span.attributes.items():
            if key in self._by_key:
                found.update(self._by_key[key])
            if key in self._by_value and (text := spelled(value)) is not None:
                found.update(self._by_value[key].get(text, ()))
        for event in span.events:
            found.update(self._by_event.get(event.name, ()))
        found.update(self._by_name.get(span.name, ()))
        found.update(self._for_scope(span.scope.name))
        return [self._dialects[position] for position in sorted(found)]

    def _for_scope(self, scope: str) -> Sequence[int]:
        """Return the dialects that may match because of a scope. A process has few scopes, so they are looked up once."""
        found = self._of_scope.get(scope)
        if found is None:
            by_prefix = [position for prefix, position in self._by_scope_prefix if scope.startswith(prefix)]
            found = (*self._by_scope.get(scope, ()), *by_prefix)
            if len(self._of_scope) < MAX_SCOPES:
                self._of_scope[scope] = found
        return found

    def matching(self, span: Span) -> Sequence[Dialect]:
        """Return the dialects that match, in the order in which they are asked."""
        return [dialect for dialect in self.candidates(span) if holds(dialect.match, span)]


class _Rarity:
    """Knows how many dialects ask for the same thing, so that each can stand under what the fewest others ask for."""

    def __init__(self, dialects: Sequence[Dialect]) -> None:
        """Count what the dialects ask for."""
        self._counts = Counter(_asked(test) for dialect in dialects for test in _tests(dialect.match))

    def needed(self, match: Match) -> tuple[Test, ...] | None:
        """Return tests of which at least one holds wherever ``match`` does; None if no such tests can be named."""
        options = [needed for condition in match.every if (needed := self._needed_by(condition)) is not None]
        if match.some:
            parts = [self._needed_by(condition) for condition in match.some]
            gathered = [part for part in parts if part is not None]
            if len(gathered) == len(parts):
                options.append(tuple(test for part in gathered for test in part))
        return min(options, key=self._commonness, default=None)

    def _needed_by(self, condition: Test | Match) -> tuple[Test, ...] | None:
        """Return what one condition can't hold without."""
        if isinstance(condition, Match):
            return self.needed(condition)
        if not condition.wanted or condition.subject in {Subject.KIND, Subject.RESOURCE}:
            return None
        compared = (
            {MatchOperator.EQUALS, MatchOperator.IN, MatchOperator.PREFIX}
            if condition.subject is Subject.SCOPE
            else {MatchOperator.EQUALS, MatchOperator.IN}
        )
        if condition.subject in {Subject.SPAN_NAME, Subject.SCOPE} and condition.operator not in compared:
            return None
        return (condition,)

    def _commonness(self, tests: Sequence[Test]) -> int:
        """Return how often the tests are asked for, all together."""
        return sum(self._counts[_asked(test)] for test in tests)


def _asked(test: Test) -> tuple[Subject, str, tuple[str, ...]]:
    return test.subject, test.key, test.values


def _tests(match: Match) -> Iterator[Test]:
    """Yield the tests of a match that have to hold, or some of which have to."""
    for condition in (*match.every, *match.some):
        if isinstance(condition, Match):
            yield from _tests(condition)
        else:
            yield condition
