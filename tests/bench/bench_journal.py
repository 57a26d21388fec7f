"""What a journal costs: the same spans through the worker's turns without one, and with one under each ``sync``."""

from __future__ import annotations

import tempfile
import time
from concurrent.futures import Future
from pathlib import Path
from typing import TYPE_CHECKING

from otel_toolcall_eval.engine.buffer.trace_buffer import BufferLimits
from otel_toolcall_eval.engine.work_items import SpanRequest
from otel_toolcall_eval.model.trace import Resource, Scope, Span
from otel_toolcall_eval.sidecar.journal.sqlite_journal import SqliteJournal
from otel_toolcall_eval.sidecar.journal.store import Sync
from tests.bench.results import Result
from tests.engine.buffer.judged import count, pipeline
from tests.fakes import SECOND_NS

if TYPE_CHECKING:
    from collections.abc import Iterator


RESOURCE = Resource(attributes={f"resource.attribute.{n}": f"some value {n}" for n in range(12)})
SCOPE = Scope(name="bench", version="1")
SPANS_PER_TRACE = 10


def spans_of(number: int) -> list[Span]:
    """Return a trace of an agent, five tool calls with arguments and output of 300 characters, and four model spans."""
    made = []
    for n in range(SPANS_PER_TRACE, 0, -1):
        attributes: dict[str, str] = {"gen_ai.operation.name": "chat"}
        if n % 2:
            attributes = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "search", "gen_ai.tool.call.id": f"c{number}-{n}"}
            attributes |= {"gen_ai.tool.call.arguments": '{"q": "' + "x" * 290 + '"}', "gen_ai.tool.call.result": "y" * 300}
        made.append(
            Span(
                trace_id=number.to_bytes(16, "big"),
                span_id=n.to_bytes(8, "big"),
                parent_span_id=None if n == 1 else (1).to_bytes(8, "big"),
                name="s",
                start_unix_ns=n,
                end_unix_ns=n + 5,
                flags=0x100,
                attributes=attributes,
                resource=RESOURCE,
                scope=SCOPE,
                size_bytes=1500,
            )
        )
    return made


def request(spans: list[Span]) -> SpanRequest:
    return SpanRequest(spans=spans, transport="grpc", rejected={}, open_spans=None, size_bytes=1, done=Future())


def results() -> Iterator[Result]:
    """Measure each ``sync``, for requests of several sizes; so many of them wait in each turn."""
    for traces, together, load in ((50, 1, "500 spans"), (1, 1, "10 spans"), (1, 16, "16 x 10 spans")):
        turns = (20_000 // SPANS_PER_TRACE) // (traces * together)
        with tempfile.TemporaryDirectory() as folder:
            base, _ = run(Path(folder) / "none", None, traces=traces, together=together, turns=turns)
            for sync in Sync:
                cpu, elapsed = run(Path(folder) / f"journal-{sync}", sync, traces=traces, together=together, turns=turns)
                yield Result(
                    name=f"journal, sync {sync.value}",
                    load=load,
                    ours=cpu,
                    yardstick="no journal",
                    theirs=base,
                    more={"by the clock us/span": elapsed},
                )


def run(path: Path, sync: Sync | None, *, traces: int, together: int, turns: int) -> tuple[float, float]:
    pipe = pipeline(count(any=[">=", 1]))
    journal: SqliteJournal | None = None
    if sync is not None:
        journal = SqliteJournal(path, sync, limits=BufferLimits(), late_window_ns=60 * SECOND_NS, flush=lambda _: True)
        pipe.on_decision = journal.on_decision
        list(journal.replay(pipe, now_ns=0))
    work = [
        [
            request([each for trace in range(traces) for each in spans_of((turn * together + n) * traces + trace + 1)])
            for n in range(together)
        ]
        for turn in range(turns)
    ]
    now_ns, judged = 0, 0
    began, began_cpu = time.perf_counter(), time.process_time()
    for requests in [*work, *([[]] * 200)]:
        now_ns += SECOND_NS // 10 if requests else SECOND_NS
        for item in requests if journal is None else journal.write(requests, pipe, now_ns=now_ns):
            pipe.add(item.spans, now_ns=now_ns, transport="t")  # type: ignore[arg-type, union-attr] # all are requests with spans
        reports = pipe.pop_due(now_ns=now_ns)
        judged += len(reports)
        if journal is not None:
            journal.release(reports)
            journal.deliver()
            journal.maintain(pipe, now_ns=now_ns)
    elapsed, cpu = time.perf_counter() - began, time.process_time() - began_cpu
    if journal is not None:
        journal.close(delivered=True, ended=True)
    number = turns * together * traces
    assert judged == number
    return cpu / number / SPANS_PER_TRACE * 1e6, elapsed / number / SPANS_PER_TRACE * 1e6
