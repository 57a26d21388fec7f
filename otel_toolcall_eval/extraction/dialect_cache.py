"""Caches which dialects read a span, by everything that dialects test in it: the span's *look*.

A process makes a few kinds of spans over and over, with the same attributes and the same values where a dialect compares them.
Spans of one look are read by the same dialects, and finding the look costs a tenth of running the tests. A value counts only as
the text that a dialect tests for, so that names of tools, of which there is no end, make no looks of their own.

A span is classified when it arrives and again when its trace is evaluated, so the cache entry is noted on the span.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from otel_toolcall_eval.extraction.conversations import tells_conversation
from otel_toolcall_eval.extraction.dialect import Dialect, MatchOperator, Role, Subject, Test, tests_within
from otel_toolcall_eval.extraction.lookup_plan import LookupPlan
from otel_toolcall_eval.extraction.matching import DialectIndex, fulfils, present, spelled

if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence

    from otel_toolcall_eval.model.trace import Span

MAX_ENTRIES = 5_000
"""Looks that are cached, some 600 bytes each. The cache is cleared when there are more: a sender may invent looks without end."""

MAX_KEYS = 100
MAX_KEY_CHARS = 5_000
MAX_SCOPE_CHARS: Final = 200
"""A span with more or longer attributes is not cached, or a sender could fill the cache with text."""

_TELLING = frozenset({Role.TOOL, Role.PART, Role.MODEL, Role.AGENT})
_PLANNED = frozenset({Role.TOOL, Role.AGENT})
_WANT_TEXTS = frozenset({MatchOperator.EQUALS, MatchOperator.IN, MatchOperator.NOT_EQUALS})


@dataclass(frozen=True, slots=True, kw_only=True)
class SpanClassification:
    """What the dialects make of spans of one look.

    A dialect that says "ignore" comes before all others, so a span that is a call by a second convention stays ignored. Otherwise the
    first dialect decides what the span is, and those that agree with it read it together. Dialects that read events apply beside all
    others: what an event shows does not change what its span is.

    Attributes:
        dialects: those that read the span, in the order in which they are asked.
        candidates: those of them that may say what the span is.
        deciding_dialects: those that do say it; None if that depends on the span above, as with parts of a call.
        by_event: those that read calls from its events.
        is_relevant: the span could matter to extraction.
        is_call: the deciding dialects say that it stands for a call.
        is_model: the deciding dialects say that it asked a model.
        is_agent: an agent ran in the span.
        tells_conversation: it may name its conversation.
        content_hint: how content is switched on, if one of ``dialects`` tells; else empty.
        plan: what the deciding dialects look for, if they stand for a call or an agent; None, too, if it depends on the span above.
    """

    dialects: tuple[Dialect, ...]
    candidates: tuple[Dialect, ...]
    deciding_dialects: tuple[Dialect, ...] | None
    by_event: tuple[Dialect, ...]
    is_relevant: bool
    is_call: bool
    is_model: bool
    is_agent: bool
    tells_conversation: bool
    content_hint: str
    plan: LookupPlan | None

    @classmethod
    def of(cls, matching: Sequence[Dialect], span: Span) -> SpanClassification:
        """Decide what dialects that match a span make of it: those that a higher one supersedes are not asked."""
        superseding = [dialect for dialect in matching if dialect.supersedes]
        asked = tuple(dialect for dialect in matching if not any(_supersedes(other, dialect) for other in superseding))
        ignoring = tuple(dialect for dialect in asked if dialect.role is Role.IGNORE)
        by_event = () if ignoring else tuple(dialect for dialect in asked if dialect.role is Role.EVENT)
        telling = tuple(dialect for dialect in asked if dialect.role in _TELLING) if by_event else ()
        candidates = ignoring or telling or asked
        first = next((dialect.role for dialect in candidates if dialect.role is not Role.PART), None)
        settled = all(dialect.role is not Role.PART for dialect in candidates)
        deciding_dialects = of_role(candidates, first) if settled else None
        return cls(
            dialects=asked,
            candidates=candidates,
            deciding_dialects=deciding_dialects,
            plan=LookupPlan.of(deciding_dialects, span) if deciding_dialects and first in _PLANNED else None,
            by_event=by_event,
            is_relevant=any(dialect.role is not Role.IGNORE for dialect in asked),
            is_call=settled and first is Role.TOOL,
            is_model=settled and first is Role.MODEL,
            is_agent=first is Role.AGENT,
            tells_conversation=tells_conversation(span.attributes),
            content_hint=next((dialect.content_hint for dialect in asked if dialect.content_hint), ""),
        )


def of_role(dialects: Sequence[Dialect], role: Role | None) -> tuple[Dialect, ...]:
    """Return the dialects of one role."""
    return tuple(dialect for dialect in dialects if dialect.role is role)


def _supersedes(one: Dialect, other: Dialect) -> bool:
    """Tell whether a dialect silences another one; never itself, whatever it names."""
    return one is not other and not one.supersedes.isdisjoint((other.name, other.family))


@dataclass(slots=True, kw_only=True)
class Layout:
    """Spans with the same attributes in the same order.

    Attributes:
        compared: attributes of which the value matters, each with the texts that tests want.
        present: attributes of which it only matters that they are there.
        prefix_tests: attributes of which it matters how they begin, each with the prefixes of a test.
        uncached_tests: tests whose outcome is found out for each span.
        entries: by the rest of the look.
    """

    compared: tuple[tuple[str, frozenset[str]], ...]
    present: tuple[str, ...]
    prefix_tests: tuple[tuple[str, tuple[str, ...]], ...]
    uncached_tests: tuple[Test, ...]
    entries: dict[Hashable, CacheEntry] = field(default_factory=dict)


class CacheEntry:
    """What is noted on spans of one look: their classification, and the cache that it is from.

    A span may outlive the entry in the cache: the classification is None then, which bounds how many there are.
    """

    __slots__ = ("cache", "classification")

    def __init__(self, cache: DialectCache, classification: SpanClassification) -> None:
        """Keep both."""
        self.cache = cache
        self.classification: SpanClassification | None = classification

    def __reduce__(self) -> tuple[type[None], tuple[()]]:
        """Leave the entry out of copied and pickled spans."""
        return type(None), ()


class DialectCache:
    """Classifies spans.

    Attributes:
        remembered: how many layouts and looks are kept.
    """

    def __init__(self, dialects: Sequence[Dialect]) -> None:
        """Collect what ``dialects`` test; they stand in order of priority."""
        self._index = DialectIndex(dialects)
        tests = [test for dialect in dialects for condition in dialect.conditions for test in tests_within(condition)]
        attributes = [test for test in tests if test.subject is Subject.ATTR]
        self._asked_for = frozenset(test.key for test in attributes)
        self._compared: defaultdict[str, set[str]] = defaultdict(set)
        for test in attributes:
            if test.operator in _WANT_TEXTS and not test.path:
                self._compared[test.key].update(test.values)
        self._prefix_tests = [test for test in attributes if test.operator is MatchOperator.PREFIX and not test.path]
        self._found_out = [test for test in attributes if test.path or test.operator is MatchOperator.REGEX]
        named = [test for test in tests if test.subject is Subject.SPAN_NAME and not test.path]
        self._names = frozenset(value for test in named if test.operator in _WANT_TEXTS for value in test.values)
        self._prefixed = tuple(test for test in named if test.operator is MatchOperator.PREFIX)
        self._prefixes = tuple(value for test in self._prefixed for value in test.values)
        self._events = frozenset(test.key for test in tests if test.subject is Subject.EVENT)
        covered = {Subject.ATTR, Subject.SCOPE, Subject.EVENT}
        self._uncached_tests = tuple(
            test
            for test in tests
            if test.subject not in covered and not (test in named and test.operator in {*_WANT_TEXTS, MatchOperator.PREFIX})
        )
        self._layouts: dict[tuple[str, ...], Layout] = {}
        self._entries: list[CacheEntry] = []
        self.remembered = 0

    def classify(self, span: Span) -> SpanClassification:
        """Return what the dialects make of a span. Cost: a look-up for each attribute that a dialect asks for, at the first time."""
        entry = span.cache_entry
        if isinstance(entry, CacheEntry) and entry.cache is self:
            classification = entry.classification  # asked once: another thread may forget it
            if classification is not None:
                return classification
        return self._found(span)

    def _found(self, span: Span) -> SpanClassification:
        """Return the classification of a span that has no entry yet, or whose entry was cleared."""
        keys = tuple(span.attributes)
        layout = self._layouts.get(keys) or self._laid_out(keys)
        look = None if layout is None or len(span.scope.name) > MAX_SCOPE_CHARS else self._look(span, layout)
        if layout is None or look is None:
            return self._read(span)
        entry = layout.entries.get(look)
        if entry is None:
            entry = CacheEntry(self, self._read(span))
            self._remember_one_more()
            layout.entries[look] = entry
            self._entries.append(entry)
        span.cache_entry = entry  # type: ignore[misc]  # frozen for everyone else
        return entry.classification or self._read(span)

    def _look(self, span: Span, layout: Layout) -> Hashable | None:
        """Return what tells a span from others of its layout; None if that is more than should be remembered."""
        attributes, scope, name = span.attributes, span.scope.name, span.name
        look: list[Hashable] = [scope]
        for key, wanted in layout.compared:
            value = attributes[key]
            text = value if isinstance(value, str) else spelled(value)
            if text is None:
                look.append((present(value),))
            else:
                look.append(text if text in wanted else text != "")
        for key in layout.present:
            if not attributes[key]:  # empty counts as missing, 0 does not: left to those who know
                return None
        for key, prefixes in layout.prefix_tests:
            text = spelled(attributes[key])
            look.append(text is not None and text.startswith(prefixes))
        if name in self._names:
            look.append((name,))
        if name.startswith(self._prefixes):
            look.append(tuple([name.startswith(test.values) for test in self._prefixed]))
        if span.events:
            look.append(frozenset(event.name for event in span.events) & self._events)
        if layout.uncached_tests:
            look.extend([fulfils(test, span) for test in layout.uncached_tests])
        return tuple(look)

    def _remember_one_more(self) -> None:
        if self.remembered >= MAX_ENTRIES:
            self._layouts.clear()
            for entry in self._entries:
                entry.classification = None
            self._entries.clear()
            self.remembered = 0
        self.remembered += 1

    def _read(self, span: Span) -> SpanClassification:
        return SpanClassification.of(self._index.matching(span), span)

    def _laid_out(self, keys: tuple[str, ...]) -> Layout | None:
        """Return a new layout; None for a span with too many or too long keys."""
        if len(keys) > MAX_KEYS or sum(map(len, keys)) > MAX_KEY_CHARS:
            return None
        self._remember_one_more()
        asked = [key for key in keys if key in self._asked_for]
        layout = self._layouts[keys] = Layout(
            compared=tuple((key, frozenset(self._compared[key])) for key in asked if key in self._compared),
            present=tuple(key for key in asked if key not in self._compared),
            prefix_tests=tuple((test.key, test.values) for test in self._prefix_tests if test.key in keys),
            uncached_tests=(*self._uncached_tests, *(test for test in self._found_out if test.key in keys)),
        )
        return layout
