"""Bounds the values of an attribute of metrics, so that neither a hostile span nor a mistake makes series without end."""

from __future__ import annotations

from otel_toolcall_eval.exporters.events.attributes import MAX_NAME_CHARS, clean_name
from otel_toolcall_eval.exporters.names import OTHER


class BoundedNames:
    """The values that one attribute may take: the first ``limit`` that come, then ``_OTHER``. Owned by the emitting thread."""

    def __init__(self, limit: int) -> None:
        """Start empty."""
        self._limit = limit
        self._known: dict[str, str] = {}

    def admit(self, value: str) -> str:
        """Return the value, or ``_OTHER`` if there are too many others already."""
        key = value[:MAX_NAME_CHARS]  # a name of megabytes is not kept
        known = self._known.get(key)
        if known is not None:
            return known
        if len(self._known) >= self._limit:
            return OTHER
        self._known[key] = clean_name(key)
        return self._known[key]
