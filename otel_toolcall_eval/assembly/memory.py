"""The books on what open and settled traces weigh, and which of them are packed to weigh less.

Choice: pack the least recently touched first, and only once what is unpacked exceeds a bound, so that packing costs nothing
while memory is plenty. Rejected: packing after a time (costs the same at any load), packing all (a trace that grows span by
span would be packed and unpacked for each of them).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from otel_toolcall_eval.assembly.compressing import Compressors

if TYPE_CHECKING:
    from otel_toolcall_eval.assembly.open_trace import OpenTrace


class Memory:
    """Owned by the buffer.

    Attributes:
        size_bytes: estimated bytes of all traces that are on the books.
    """

    def __init__(self, warm_limit_bytes: int) -> None:
        """Start empty; ``warm_limit_bytes`` is what unpacked traces may take before the first are packed."""
        self.size_bytes = 0
        self._limit = warm_limit_bytes
        self._warm_bytes = 0
        self._compressors = Compressors()
        self._warm: dict[int, tuple[OpenTrace, int]] = {}  # by identity, least recently touched first, each with its size then

    def take_on(self, trace: OpenTrace) -> None:
        """Put a trace on the books."""
        self.size_bytes += trace.size_bytes
        self.touch(trace)

    def write_off(self, trace: OpenTrace) -> None:
        """Take a trace off the books."""
        self.size_bytes -= trace.size_bytes
        self._drop(trace)

    def changed(self, trace: OpenTrace, before_bytes: int) -> None:
        """Note that a trace on the books weighs something else now."""
        self.size_bytes += trace.size_bytes - before_bytes

    def touch(self, trace: OpenTrace) -> None:
        """Note that a trace is in use now."""
        self._drop(trace)
        if trace.is_packed:  # a span of its trace ID came, and went elsewhere
            return
        self._warm[id(trace)] = (trace, trace.size_bytes)
        self._warm_bytes += trace.size_bytes

    def chill(self) -> None:
        """Pack traces, least recently touched first, until the others are within the bound. The last one is left alone."""
        while self._warm_bytes > self._limit and len(self._warm) > 1:
            trace, _ = next(iter(self._warm.values()))
            self._drop(trace)
            before = trace.size_bytes
            trace.pack(self._compressors)
            self.changed(trace, before)

    def clear(self) -> None:
        """Close the books."""
        self.size_bytes = self._warm_bytes = 0
        self._warm.clear()

    def _drop(self, trace: OpenTrace) -> None:
        known = self._warm.pop(id(trace), None)
        if known is not None:
            self._warm_bytes -= known[1]
