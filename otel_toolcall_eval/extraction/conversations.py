"""Finds the conversation that a call belongs to."""

from __future__ import annotations

from typing import TYPE_CHECKING

from otel_toolcall_eval.extraction.matching import spelled

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from otel_toolcall_eval.extraction.span_tree import SpanTree
    from otel_toolcall_eval.model.trace import Attributes

CONVERSATION_KEYS = ("gen_ai.conversation.id", "session.id")
"""Attributes that name the conversation, in the semantic conventions and in OpenInference; Strands has the second one too."""

_KEYS = frozenset(CONVERSATION_KEYS)

EVENT_KEYS = (*CONVERSATION_KEYS, "conversation.id")
"""The same for events and log records; the last one is Codex's."""

MAX_LENGTH = 1000
"""Longest ID that is kept, in characters."""


def tells_conversation(attributes: Attributes) -> bool:
    """Tell whether a span with these attributes may name its conversation."""
    return not _KEYS.isdisjoint(attributes)


def conversations_of(tree: SpanTree) -> Mapping[bytes, str]:
    """Return the conversation of each span that tells one, or that has a span above it that does. Cost: linear in the spans."""
    found: dict[bytes, str] = {}
    for span in tree.parents_first:
        own = conversation_in(span.attributes, CONVERSATION_KEYS)
        parent = None if own is not None else tree.parent(span)
        if own is None and parent is not None:
            own = found.get(parent.span_id)
        if own is not None:
            found[span.span_id] = own
    return found


def conversation_in(attributes: Attributes, keys: Sequence[str]) -> str | None:
    """Return the first ID under ``keys`` that is of bearable length."""
    told = (spelled(attributes.get(key)) for key in keys)
    return next((text for text in told if text and len(text) <= MAX_LENGTH), None)
