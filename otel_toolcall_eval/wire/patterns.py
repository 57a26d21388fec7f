"""What stood in earlier spans of one name, which the next one is compared with before anything in it is looked up.

A process writes the spans of one name alike: the same attributes in the same order, and most of them with the same values. Those that
stand together and are always the same are compared in one step, and their names and values are there; of one whose value varies the
key is compared. A span that differs is read as if there were no pattern, and after some such spans the pattern is made anew.
Rejected: to go on behind an attribute that differs. Its place in the dictionary would have to be taken back.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from mypy_extensions import i64

    from otel_toolcall_eval.model.trace import Value

MAX_PATTERNS: Final = 256
"""Names of spans of which there is a pattern, of 15 KB at most. All are forgotten when there are more: a sender may invent names."""

MAX_NAME_BYTES: Final = 64
MAX_PLACES: Final = 48
MAX_PATTERN_BYTES: Final = 2048
"""Attributes, and their bytes, that a pattern holds; what comes behind them is looked up."""

MAX_TRUST: Final = 15
MAX_PATIENCE: Final = 63


class Place:
    """An attribute as it stood in a span.

    Attributes:
        head: its encoded key, with tag and length.
        name: empty if it is not kept.
        whole: all of it, with tag and length; empty if its value is not to be compared.
        value: None if that is so, or if it is not kept.
    """

    __slots__ = ("head", "name", "value", "whole")

    def __init__(self, head: bytes, name: str, whole: bytes, value: Value) -> None:
        """Take what there is."""
        self.head = head
        self.name = name
        self.whole = whole
        self.value = value


class Piece:
    """What is compared in one step.

    Attributes:
        encoded: attributes, whole; or the key of one.
        size: of ``encoded``.
        is_whole: the attributes are the same, so there is nothing more to read.
        name: of one whose value has to be read; empty if it is not kept.
    """

    __slots__ = ("encoded", "is_whole", "name", "size")

    def __init__(self, encoded: bytes, *, is_whole: bool, name: str) -> None:
        """Take what is compared."""
        self.encoded = encoded
        self.size: i64 = len(encoded)
        self.is_whole = is_whole
        self.name = name


class Pattern:
    """How spans of one name begin their attributes. Nothing of it changes but for how well it fits, which any thread may write.

    Attributes:
        name: of the spans, which share this text.
        places: the attributes; each name once.
        pieces: the same, as they are compared.
        attributes: what is kept of them, by name, in their order; None for what is still to be read.
        trust: spans that it need not fit before it is made anew.
        patience: the trust that it began with.
        has_fitted: some span was like it.
    """

    __slots__ = ("attributes", "has_fitted", "name", "patience", "pieces", "places", "trust")

    def __init__(self, name: str, places: list[Place], patience: int) -> None:
        """Put attributes that stand together and are compared whole into one piece."""
        self.name = name
        self.places = places
        self.attributes: dict[str, Value] = {place.name: place.value for place in places if place.name}
        self.pieces: list[Piece] = []
        run = b""
        for place in places:
            if place.whole:
                run += place.whole
                continue
            if run:
                self.pieces.append(Piece(run, is_whole=True, name=""))
                run = b""
            self.pieces.append(Piece(place.head, is_whole=False, name=place.name))
        if run:
            self.pieces.append(Piece(run, is_whole=True, name=""))
        self.trust = self.patience = patience
        self.has_fitted = False

    def fits(self) -> None:
        """Note that a span was like it."""
        self.has_fitted = True
        if self.trust < MAX_TRUST:
            self.trust += 1


class Patterns:
    """The patterns of one projection, by encoded name of the span. For any thread; a lost one costs time, and nothing else."""

    __slots__ = ("by_name",)

    def __init__(self) -> None:
        """Start with none."""
        self.by_name: dict[bytes, Pattern] = {}

    def is_due(self, name: bytes, text: str) -> bool:
        """Tell whether a span of this name, which fits no pattern, should become one: none of those whose name comes but once."""
        pattern = self.by_name.get(name)
        if pattern is None:
            if len(name) <= MAX_NAME_BYTES:
                self._put(name, Pattern(text, [], 0))
            return False
        if pattern.trust > 0:
            pattern.trust -= 1
            return False
        return True

    def learn(self, name: bytes, text: str, places: list[Place]) -> None:
        """Make a span the pattern. Of an attribute that has the key that stood there before, and another value, the value varies."""
        before = self.by_name.get(name)
        if before is None:  # forgotten meanwhile
            return
        kept: list[Place] = []
        names: set[str] = set()
        size = 0
        for number, place in enumerate(places):
            size += len(place.head) + len(place.whole)
            # A second one of a name would have to win, wherever it stands.
            if number >= MAX_PLACES or size > MAX_PATTERN_BYTES or place.name in names:
                break
            if place.name:
                names.add(place.name)
            earlier = before.places[number] if number < len(before.places) else place
            varies = earlier.head == place.head and earlier.whole != place.whole
            kept.append(Place(place.head, place.name, b"", None) if varies else place)
        fresh = before.has_fitted or not before.places
        self._put(name, Pattern(text, kept, 0 if fresh else min(2 * before.patience + 1, MAX_PATIENCE)))

    def _put(self, name: bytes, pattern: Pattern) -> None:
        if len(self.by_name) >= MAX_PATTERNS and name not in self.by_name:
            self.by_name.clear()
        self.by_name[name] = pattern
