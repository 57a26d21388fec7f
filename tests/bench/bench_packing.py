"""What it costs to pack a trace that waits, beside ``marshal``, which is the least that it can cost; and what is left of its size.

Traces that differ by their IDs alone, as those of the standard load, flatter a compressor that was shown one of them. Hence those that are
lifelike, too. A sidecar packs by Zstandard where there is one; zlib is what is left without it.
"""

from __future__ import annotations

import time
from functools import partial
from itertools import product
from typing import TYPE_CHECKING, Final

from otel_toolcall_eval.engine.buffer.compression import CompressorPool, ZlibPacker
from otel_toolcall_eval.engine.buffer.packing import PackedSpans, StoredSpanWriter
from otel_toolcall_eval.otlp.protobuf_traces import decode_traces
from otel_toolcall_eval.settings.dialect_file import default_extractor
from otel_toolcall_eval.sidecar.zstandard import zstandard_packer
from tests.bench.agent_traces import request_of
from tests.bench.results import Result

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from otel_toolcall_eval.engine.buffer.compression import Compressor
    from otel_toolcall_eval.model.trace import Span

TRACES: Final = 400
ROUNDS: Final = 15
KINDS: Final = {"traces that differ by their IDs": False, "lifelike traces": True}

Trace = dict[bytes, "Span"]


def traces_of(*, lifelike: bool) -> list[Trace]:
    """Return traces as they wait: by span ID, with the attributes that criteria may ask about."""
    found: dict[bytes, Trace] = {}
    for span in decode_traces(request_of(1, TRACES, lifelike=lifelike), default_extractor().projection).spans:
        found.setdefault(span.trace_id, {})[span.span_id] = span
    return list(found.values())


def packed(traces: Sequence[Trace], make: Callable[[memoryview | None], Compressor]) -> list[PackedSpans]:
    compressors = CompressorPool(make)
    return [PackedSpans(next(iter(spans.values())).trace_id, spans, compressors) for spans in traces]


def marshalled(traces: Sequence[Trace]) -> list[bytes]:
    """Write them as the journal does, uncompressed."""
    writer = StoredSpanWriter()
    return [writer.write(spans.values()) for spans in traces]


def least(*parts: Callable[[], object]) -> list[float]:
    """Return the shortest time of each part in seconds; they take turns, so that a busy minute hits all of them."""
    times: list[list[float]] = [[] for _ in parts]
    for _ in range(ROUNDS):
        for part, taken in zip(parts, times, strict=True):
            began = time.perf_counter()
            part()
            taken.append(time.perf_counter() - began)
    return [min(taken) for taken in times]


def results() -> Iterator[Result]:
    packers = {"zstandard": zstandard_packer(), "zlib": ZlibPacker}
    for (load, lifelike), (name, make) in product(KINDS.items(), packers.items()):
        if make is None:
            continue
        traces = traces_of(lifelike=lifelike)
        made = packed(traces, make)
        assert [one.unpack() for one in made] == traces
        sizes = [one.size_bytes for one in made[1:]]
        plain = [len(data) for data in marshalled(traces)[1:]]
        parts = partial(packed, traces, make), partial(marshalled, traces)
        ours, theirs = (seconds / TRACES * 1e6 for seconds in least(*parts))
        yield Result(
            name=f"packing, {name}",
            load=load,
            ours=ours,
            yardstick="marshal alone",
            theirs=theirs,
            unit="us/trace",
            more={"bytes": sum(sizes) / len(sizes), "marshalled bytes": sum(plain) / len(plain)},
        )
