"""What a span means for the life of its trace, told by whoever builds the buffer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from otel_toolcall_eval.model.trace import Span


def by_parent(span: Span) -> bool:
    """Tell whether a span is a root without any condition of the user's."""
    return span.is_root


def never(_span: Span) -> bool:
    """Tell that a span is none."""
    return False


@dataclass(frozen=True, slots=True, kw_only=True)
class SpanKinds:
    """Cheap tests of a single span.

    Attributes:
        is_relevant: it could matter to the verdict; the others only hold the tree together.
        is_root: its trace is complete a quiet period after it.
        is_agent: an agent ran in it; asked only where agent invocations are evaluated one by one.
    """

    is_relevant: Callable[[Span], bool]
    is_root: Callable[[Span], bool] = by_parent
    is_agent: Callable[[Span], bool] = never


EVERY_SPAN_MATTERS = SpanKinds(is_relevant=lambda _span: True)
"""For spans that are put together without a life in the buffer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RootCondition:
    """What makes a span a root although it has a parent. Both have to hold, where both are given. Setting ``completion.root``.

    Attributes:
        name: the span's exact name; None for any.
        attributes: text, numbers or booleans that attributes of the span have to equal.
    """

    name: str | None = None
    attributes: tuple[tuple[str, str | int | float | bool], ...] = ()

    def __bool__(self) -> bool:
        """Return False if no condition is given."""
        return self.name is not None or bool(self.attributes)

    def __call__(self, span: Span) -> bool:
        """Tell whether the span is a root, by its parent or by this condition."""
        if span.is_root:
            return True
        if not self:
            return False
        return (self.name is None or span.name == self.name) and all(
            key in span.attributes and _same(span.attributes[key], value) for key, value in self.attributes
        )


NO_CONDITION = RootCondition()
"""Only spans without a parent in this process are roots."""


def _same(actual: object, wanted: str | float) -> bool:
    """Compare by value, but ``True`` is not 1."""
    return actual == wanted and isinstance(actual, bool) is isinstance(wanted, bool)
