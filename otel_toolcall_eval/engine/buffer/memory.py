"""The books on what open and settled traces weigh, and which of them are packed to weigh less.

Choice: once what is unpacked exceeds a bound, what is looked at again last is packed first: decided traces, then those that wait for their
root; and beyond another bound the newest of the others that have been left in peace for a while, since the oldest are due next. So
packing costs nothing while memory is plenty, and where it is short no more is packed than has to be.
Rejected: packing after a time (costs the same at any load), packing all (a trace that grows span by span would be packed and unpacked for
each of them), packing what was touched longest ago (if nine tenths of what waits had room, each would be packed just before it is due).
"""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING

from otel_toolcall_eval.engine.buffer.compression import CompressorPool

if TYPE_CHECKING:
    from collections.abc import Callable

    from otel_toolcall_eval.engine.buffer.compression import Compressor
    from otel_toolcall_eval.engine.buffer.open_trace import OpenTrace


class _Shelf:
    """Unpacked traces by identity, each with its size then, the one that came longest ago first.

    Of a plain dictionary whose first is taken again and again, each look for it goes over all that were taken before: 2 us for 6,000.
    """

    __slots__ = ("size_bytes", "traces")

    def __init__(self) -> None:
        self.traces: OrderedDict[int, tuple[OpenTrace, int]] = OrderedDict()
        self.size_bytes = 0

    def put(self, trace: OpenTrace) -> None:
        self.traces[id(trace)] = (trace, trace.size_bytes)
        self.size_bytes += trace.size_bytes

    def drop(self, trace: OpenTrace) -> bool:
        known = self.traces.pop(id(trace), None)
        if known is None:
            return False
        self.size_bytes -= known[1]
        return True

    def take(self, *, last: bool = False) -> OpenTrace:
        _, (trace, size_bytes) = self.traces.popitem(last=last)
        self.size_bytes -= size_bytes
        return trace

    def clear(self) -> None:
        self.traces.clear()
        self.size_bytes = 0


class Memory:
    """Owned by the buffer.

    Attributes:
        size_bytes: estimated bytes of all traces that are on the books.
    """

    def __init__(self, warm_limit_bytes: int) -> None:
        """Start empty.

        Args:
            warm_limit_bytes: of unpacked traces, before the first are packed that wait for long; half as many more, before others are.
        """
        self.size_bytes = 0
        self._limit = warm_limit_bytes
        self._most_bytes = warm_limit_bytes + warm_limit_bytes // 2
        self._compressors = CompressorPool()
        self._young = _Shelf()  # touched of late, so more may come
        self._soon = _Shelf()  # left in peace since, with a root: due within seconds
        self._long = _Shelf()  # decided, or without a root for a while: nobody may look at them for a minute or more

    def pack_by(self, make: Callable[[memoryview | None], Compressor]) -> None:
        """Pack with other packers from now on; see ``CompressorPool``."""
        self._compressors = CompressorPool(make)

    def track(self, trace: OpenTrace) -> None:
        """Put a trace on the books."""
        self.size_bytes += trace.size_bytes
        self.touch(trace)

    def untrack(self, trace: OpenTrace) -> None:
        """Take a trace off the books."""
        self.size_bytes -= trace.size_bytes
        self._drop(trace)

    def changed(self, trace: OpenTrace, before_bytes: int) -> None:
        """Note that a trace on the books weighs something else now."""
        self.size_bytes += trace.size_bytes - before_bytes

    def touch(self, trace: OpenTrace) -> None:
        """Note that a trace is in use now, or was decided."""
        self._drop(trace)
        if trace.is_packed:  # a span of its trace ID came, and went elsewhere
            return
        (self._young if trace.decided_ns is None else self._long).put(trace)

    def compress_idle(self) -> None:
        """Pack traces until the others are within the bounds. The last one is left alone."""
        young, soon, long = self._young, self._soon, self._long
        while (warm_bytes := young.size_bytes + soon.size_bytes + long.size_bytes) > self._limit:
            if len(young.traces) + len(soon.traces) + len(long.traces) == 1:
                break
            if long.traces:
                trace = long.take()
            elif warm_bytes > self._most_bytes:
                trace = young.take() if self._is_crowded() or not soon.traces else soon.take(last=True)
            else:
                break
            before = trace.size_bytes
            trace.pack(self._compressors)
            self.changed(trace, before)
        while self._is_crowded():
            trace = young.take()
            (long if trace.root_ns is None else soon).put(trace)

    def clear(self) -> None:
        """Close the books."""
        self.size_bytes = 0
        for shelf in (self._young, self._soon, self._long):
            shelf.clear()

    def _is_crowded(self) -> bool:
        """Tell whether those touched of late take half of all room, so that the first of them counts as left in peace."""
        return self._young.size_bytes > self._most_bytes // 2 and len(self._young.traces) > 1

    def _drop(self, trace: OpenTrace) -> None:
        if not self._young.drop(trace) and not self._soon.drop(trace):
            self._long.drop(trace)
