"""Runs that are spread over several traces: counted and shown, not joined.

A run that pauses for an approval, or hands work to a queue, goes on under another trace ID; a span link or the ID of the
conversation is all that they share. Rejected: joining them, since neither says that the other part is still to come.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from otel_toolcall_eval.model.trace import Span, Trace

CONVERSATION_KEYS: Final = ("gen_ai.conversation.id", "session.id")
"""Where the ID of a conversation stands, in the order in which they are tried. Origin: semantic conventions, OpenInference."""

MAX_ID_CHARS = 255
MAX_REMEMBERED = 10_000


def conversation_of(trace: Trace) -> str | None:
    """Return the ID of the conversation that a trace belongs to: the root's, else that of the earliest span that has one."""
    key, other = CONVERSATION_KEYS
    telling = [span for span in trace.spans if key in span.attributes or other in span.attributes]
    if not telling:
        return None
    found = min(((_rank(span, trace.root), named) for span in telling if (named := _conversation(span))), default=None)
    return found[1][:MAX_ID_CHARS] if found else None


def _rank(span: Span, root: Span | None) -> tuple[bool, int, bytes]:
    return span is not root, span.start_unix_ns, span.span_id


def _conversation(span: Span) -> str | None:
    for key in CONVERSATION_KEYS:
        value = span.attributes.get(key)
        if isinstance(value, str) and value:
            return value
    return None


class Conversations:
    """Counts the traces that have to do with another one. Remembers the last conversations, 2 MB of them at most.

    Attributes:
        linked: traces with a link to another trace, or with the conversation of another trace.
    """

    def __init__(self) -> None:
        """Start with none."""
        self.linked = 0
        self._known: OrderedDict[str, bytes] = OrderedDict()  # the trace that each conversation was last seen in

    def note(self, trace: Trace, conversation: str | None) -> None:
        """Take notice of a trace that is decided for the first time."""
        shared = False
        if conversation is not None:
            earlier = self._known.pop(conversation, trace.trace_id)
            shared = earlier != trace.trace_id
            self._known[conversation] = trace.trace_id
            if len(self._known) > MAX_REMEMBERED:
                self._known.popitem(last=False)
        self.linked += shared or any(span.linked for span in trace.spans)
