"""Remembers which dialects read spans that look alike, so that they are asked once for a kind of span and not for every span.

A process makes a few kinds of spans, over and over: the same attributes, and the same values where a dialect compares them. What
dialects look at, and nothing else, makes up a span's *look*; spans of one look are read by the same dialects. Finding a look costs
a tenth of asking the dialects. Of a value counts which of the texts it is that a dialect wants, if any: names of tools and such, of which
there is no end, don't make looks of their own.

A span is asked for twice or more, when it arrives and when its trace is judged. So its reading is noted on the span, whose content never
changes.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from otel_toolcall_eval.extraction.conversations import tells_conversation
from otel_toolcall_eval.extraction.dialect import Dialect, Role, Subject, Test, TestOperator, tests_within
from otel_toolcall_eval.extraction.lookup_plan import LookupPlan
from otel_toolcall_eval.extraction.matching import DialectIndex, fulfils, present, spelled

if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence

    from otel_toolcall_eval.model.trace import Span

MAX_LOOKS = 5_000
"""Looks that are remembered, some 600 bytes each. All are forgotten when there are more: a sender may invent looks without end."""

MAX_KEYS = 100
MAX_KEY_CHARS = 5_000
MAX_SCOPE_CHARS: Final = 200
"""Of a span with more or longer attributes than these the look is not remembered, or it would hold what a sender likes."""

_TELLING = frozenset({Role.TOOL, Role.PART, Role.MODEL, Role.AGENT})
_PLANNED = frozenset({Role.TOOL, Role.AGENT})
_WANT_TEXTS = frozenset({TestOperator.EQUALS, TestOperator.IN, TestOperator.NOT_EQUALS})


@dataclass(frozen=True, slots=True, kw_only=True)
class SpanClassification:
    """What the dialects make of spans of one look.

    One that says "ignore" is heard before all others, so nothing that looks like a call by a second convention gets past it.
    Else the first one asked decides what the span is, and those that agree with it read it together. Those that look at events
    are heard beside all others: what an event shows does not change what its span is.

    Attributes:
        dialects: those that read the span, in the order in which they are asked.
        candidates: those of them that may say what the span is.
        speakers: those that do say it; None if that hangs on the span above, as with parts of a call.
        by_event: those that read calls from its events.
        is_relevant: the span could matter to extraction.
        is_call: its speakers say that it stands for a call.
        is_model: its speakers say that it asked a model.
        is_agent: an agent ran in the span.
        tells_conversation: it may name its conversation.
        content_hint: how content is switched on, if one of ``dialects`` tells; else empty.
        plan: what the speakers look for, if they stand for a call or an agent; None, too, if it hangs on the span above.
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
        begun: attributes of which it matters how they begin, each with the prefixes of a test.
        asides: tests whose outcome is found out for each span.
        marks: by the rest of the look.
    """

    compared: tuple[tuple[str, frozenset[str]], ...]
    present: tuple[str, ...]
    begun: tuple[tuple[str, tuple[str, ...]], ...]
    asides: tuple[Test, ...]
    marks: dict[Hashable, Mark] = field(default_factory=dict)


class Mark:
    """What is noted on spans of one look: their reading, and who found it.

    A span may wait for long after its look was forgotten: then the reading is None, so that readings are bounded whatever spans there are.
    """

    __slots__ = ("looks", "reading")

    def __init__(self, looks: DialectCache, reading: SpanClassification) -> None:
        """Take what is noted."""
        self.looks = looks
        self.reading: SpanClassification | None = reading

    def __reduce__(self) -> tuple[type[None], tuple[()]]:
        """Let a span that is copied, or sent to another process, take no note along."""
        return type(None), ()


class DialectCache:
    """Finds the reading of a span.

    Attributes:
        remembered: how many layouts and looks are kept.
    """

    def __init__(self, dialects: Sequence[Dialect]) -> None:
        """Find out what ``dialects`` look at; they stand in the order in which they are asked."""
        self._index = DialectIndex(dialects)
        tests = [test for dialect in dialects for condition in dialect.conditions for test in tests_within(condition)]
        attributes = [test for test in tests if test.subject is Subject.ATTR]
        self._asked_for = frozenset(test.key for test in attributes)
        self._compared: defaultdict[str, set[str]] = defaultdict(set)
        for test in attributes:
            if test.operator in _WANT_TEXTS and not test.path:
                self._compared[test.key].update(test.values)
        self._begun = [test for test in attributes if test.operator is TestOperator.PREFIX and not test.path]
        self._found_out = [test for test in attributes if test.path or test.operator is TestOperator.REGEX]
        named = [test for test in tests if test.subject is Subject.SPAN_NAME and not test.path]
        self._names = frozenset(value for test in named if test.operator in _WANT_TEXTS for value in test.values)
        self._prefixed = tuple(test for test in named if test.operator is TestOperator.PREFIX)
        self._prefixes = tuple(value for test in self._prefixed for value in test.values)
        self._events = frozenset(test.key for test in tests if test.subject is Subject.EVENT)
        covered = {Subject.ATTR, Subject.SCOPE, Subject.EVENT}
        self._asides = tuple(
            test
            for test in tests
            if test.subject not in covered and not (test in named and test.operator in {*_WANT_TEXTS, TestOperator.PREFIX})
        )
        self._layouts: dict[tuple[str, ...], Layout] = {}
        self._marks: list[Mark] = []
        self.remembered = 0

    def reading(self, span: Span) -> SpanClassification:
        """Return what the dialects make of a span. Cost: a look-up for each attribute that a dialect asks for, at the first time."""
        mark = span.look
        if isinstance(mark, Mark) and mark.looks is self:
            reading = mark.reading  # asked once: another thread may forget it
            if reading is not None:
                return reading
        return self._found(span)

    def _found(self, span: Span) -> SpanClassification:
        """Return the reading of a span that was not asked for before, or whose look was forgotten."""
        keys = tuple(span.attributes)
        layout = self._layouts.get(keys) or self._laid_out(keys)
        look = None if layout is None or len(span.scope.name) > MAX_SCOPE_CHARS else self._look(span, layout)
        if layout is None or look is None:
            return self._read(span)
        mark = layout.marks.get(look)
        if mark is None:
            mark = Mark(self, self._read(span))
            self._remember_one_more()
            layout.marks[look] = mark
            self._marks.append(mark)
        span.look = mark  # type: ignore[misc]  # frozen for everyone else
        return mark.reading or self._read(span)

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
        for key, prefixes in layout.begun:
            text = spelled(attributes[key])
            look.append(text is not None and text.startswith(prefixes))
        if name in self._names:
            look.append((name,))
        if name.startswith(self._prefixes):
            look.append(tuple([name.startswith(test.values) for test in self._prefixed]))
        if span.events:
            look.append(frozenset(event.name for event in span.events) & self._events)
        if layout.asides:
            look.extend([fulfils(test, span) for test in layout.asides])
        return tuple(look)

    def _remember_one_more(self) -> None:
        if self.remembered >= MAX_LOOKS:
            self._layouts.clear()
            for mark in self._marks:
                mark.reading = None
            self._marks.clear()
            self.remembered = 0
        self.remembered += 1

    def _read(self, span: Span) -> SpanClassification:
        return SpanClassification.of(self._index.matching(span), span)

    def _laid_out(self, keys: tuple[str, ...]) -> Layout | None:
        """Return a new layout; None for a span that is too odd to be remembered."""
        if len(keys) > MAX_KEYS or sum(map(len, keys)) > MAX_KEY_CHARS:
            return None
        self._remember_one_more()
        asked = [key for key in keys if key in self._asked_for]
        layout = self._layouts[keys] = Layout(
            compared=tuple((key, frozenset(self._compared[key])) for key in asked if key in self._compared),
            present=tuple(key for key in asked if key not in self._compared),
            begun=tuple((test.key, test.values) for test in self._begun if test.key in keys),
            asides=(*self._asides, *(test for test in self._found_out if test.key in keys)),
        )
        return layout
