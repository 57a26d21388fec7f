"""Gives the reason why a span is no tool call, on request: explaining a trace needs it, evaluating does not."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, overload

from otel_toolcall_eval.extraction.dialect import Role
from otel_toolcall_eval.model.tool_call import IgnoredSpan

if TYPE_CHECKING:
    from collections.abc import Collection

    from otel_toolcall_eval.extraction.candidate import Candidate
    from otel_toolcall_eval.extraction.span_classification import SpanClassifications
    from otel_toolcall_eval.extraction.span_tree import SpanTree


class IgnoredSpans(Sequence[IgnoredSpan]):
    """Every span that shows no call, with the reason; built at first use. Equal to a tuple of the same."""

    __slots__ = ("_calls", "_classifications", "_found", "_tree", "_used")

    def __init__(self, calls: Sequence[Candidate], tree: SpanTree, classifications: SpanClassifications, used: Collection[bytes]) -> None:
        """Keep what it follows from; ``used`` are the spans that show a call without being one."""
        self._calls = calls
        self._tree = tree
        self._classifications = classifications
        self._used = used
        self._found: tuple[IgnoredSpan, ...] | None = None

    @overload
    def __getitem__(self, index: int) -> IgnoredSpan: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[IgnoredSpan]: ...
    def __getitem__(self, index: int | slice) -> IgnoredSpan | Sequence[IgnoredSpan]:
        """Return one of them, or some."""
        return self._all[index]

    def __len__(self) -> int:
        """Return how many there are."""
        return len(self._all)

    def __eq__(self, other: object) -> bool:
        """Tell whether the other says the same."""
        return isinstance(other, IgnoredSpans | tuple) and self._all == tuple(other)

    def __hash__(self) -> int:
        """Return the same for equal ones."""
        return hash(self._all)

    def __repr__(self) -> str:
        """Return what a tuple would."""
        return repr(self._all)

    @property
    def _all(self) -> tuple[IgnoredSpan, ...]:
        if self._found is None:
            self._found = self._find()
        return self._found

    def _find(self) -> tuple[IgnoredSpan, ...]:
        classifications = self._classifications
        shown = {call.span.span_id for call in self._calls}.union(self._used)
        joined = {span_id for call in self._calls for span_id in call.merged}
        ignored = []
        for span in self._tree.spans:
            span_id, role = span.span_id, classifications.role(span)
            if span_id in shown or (span_id in joined and role is not Role.MODEL):
                continue
            dialects = classifications.dialects(span)
            reason = "its requests were merged into the calls that ran" if span_id in joined else classifications.reason(span)
            ignored.append(IgnoredSpan(span_id=span_id, name=span.name, reason=reason, dialect=dialects[0].family if dialects else None))
        return tuple(ignored)
