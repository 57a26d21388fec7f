"""What spans that look alike have in common, and whether a span looks like an earlier one.

The spans of one name look alike, nearly always: so each is compared with the last one of its name before its look is put together, which
takes four times as long.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Hashable

    from otel_toolcall_eval.extraction.dialect import Test
    from otel_toolcall_eval.extraction.looks import Looks, Reading
    from otel_toolcall_eval.model.trace import Span

MAX_NAMES: Final = 256
MAX_NAME_CHARS: Final = 200
"""Names of spans whose last mark is remembered. All are forgotten when there are more; longer ones are not remembered."""


class Layout:
    """Spans with the same attributes in the same order.

    Attributes:
        keys: of the attributes.
        compared: attributes of which the value matters, each with the texts that tests want.
        present: attributes of which it only matters that they are there.
        begun: attributes of which it matters how they begin, each with the prefixes of a test.
        asides: tests whose outcome is found out for each span.
        marks: by the rest of the look.
    """

    __slots__ = ("asides", "begun", "compared", "keys", "marks", "present")

    # No dataclass: compiled, such a module imports what its types name, and `Looks` imports this one.
    def __init__(
        self,
        keys: list[str],
        *,
        compared: tuple[tuple[str, frozenset[str]], ...],
        present: tuple[str, ...],
        begun: tuple[tuple[str, tuple[str, ...]], ...],
        asides: tuple[Test, ...],
    ) -> None:
        """Begin without marks."""
        self.keys = keys
        self.compared = compared
        self.present = present
        self.begun = begun
        self.asides = asides
        self.marks: dict[Hashable, Mark] = {}


class Likeness:
    """By what a span is told to look like one before it, by the place of each attribute. All values that count have to be text.

    Attributes:
        keys: of all attributes.
        scope: the name of the scope.
        same: texts that tests want, which have to be the same.
        others: texts, none of them empty, that must be none of those that tests want.
        begun: prefixes, and whether the text begins with one of them.
        present: what must not be empty.
    """

    __slots__ = ("begun", "keys", "others", "present", "same", "scope")

    def __init__(self, layout: Layout, span: Span) -> None:
        """Note what counts of a span that has this layout, no asides and no events, and text wherever a value counts."""
        attributes = span.attributes
        self.keys = layout.keys
        self.scope = span.scope.name
        self.same: list[tuple[int, str]] = []
        self.others: list[tuple[int, frozenset[str]]] = []
        self.begun: list[tuple[int, tuple[str, ...], bool]] = []
        self.present: list[int] = [layout.keys.index(key) for key in layout.present]
        for key, wanted in layout.compared:
            text = str(attributes[key])
            if text in wanted:
                self.same.append((layout.keys.index(key), text))
            else:
                self.others.append((layout.keys.index(key), wanted))
        for key, prefixes in layout.begun:
            self.begun.append((layout.keys.index(key), prefixes, str(attributes[key]).startswith(prefixes)))

    @classmethod
    def of(cls, layout: Layout, span: Span) -> Likeness | None:
        """Return by what others are told to look like a span; None if that can't be told so."""
        if layout.asides or span.events:
            return None
        values = [span.attributes[key] for key, _ in (*layout.compared, *layout.begun)]
        return cls(layout, span) if all(isinstance(value, str) and value != "" for value in values) else None

    def has(self, span: Span) -> bool:
        """Tell whether a span of the same name surely looks like the one before. Cost: a comparison for each attribute."""
        attributes = span.attributes
        if span.scope.name != self.scope or span.events or not isinstance(attributes, dict) or list(attributes.keys()) != self.keys:
            return False
        values: list[object] = list(attributes.values())
        for place, text in self.same:
            value = values[place]
            if not isinstance(value, str) or value != text:
                return False
        for place, wanted in self.others:
            value = values[place]
            if not isinstance(value, str) or not value or value in wanted:
                return False
        for place, prefixes, begins in self.begun:
            value = values[place]
            if not isinstance(value, str) or value.startswith(prefixes) is not begins:
                return False
        for place in self.present:  # noqa: SIM110 - compiled, a generator is dear
            if not values[place]:
                return False
        return True


class Mark:
    """What is noted on spans of one look: their reading, and who found it.

    A span may wait for long after its look was forgotten: then the mark is empty, so that readings are bounded whatever spans there are.
    """

    __slots__ = ("likeness", "looks", "reading")

    def __init__(self, looks: Looks, reading: Reading, likeness: Likeness | None) -> None:
        """Take what is noted."""
        self.looks = looks
        self.reading: Reading | None = reading
        self.likeness = likeness

    def forget(self) -> None:
        """Be empty."""
        self.reading = self.likeness = None

    def __reduce__(self) -> tuple[type[None], tuple[()]]:
        """Let a span that is copied, or sent to another process, take no note along."""
        return type(None), ()
