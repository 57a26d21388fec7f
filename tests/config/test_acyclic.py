"""What the compiled form keeps from the garbage collector may be in no cycle: it would never be freed."""

from __future__ import annotations

import gc
import gzip
import json
from typing import TYPE_CHECKING

import pytest

from compiled_wheel import ACYCLIC, core_of
from otel_toolcall_eval.assembly.limits import BufferLimits
from otel_toolcall_eval.model.tool_call import Payload
from otel_toolcall_eval.wire.otlp_json import decode_document
from tests.assembly.judged import READER, args, count, order, output, pipeline
from tests.extraction.recordings import CORPUS, cases, recordings
from tests.fakes import SECOND_NS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from otel_toolcall_eval.model.trace import Span

ROOT = CORPUS.parents[2]


def requests() -> Iterator[list[Span]]:
    """Decode anew all that is recorded: objects that others keep would not be garbage."""
    for case in cases():
        yield list(decode_document(case["otlp"], READER.projection).spans)
    for name in recordings():
        with gzip.open(CORPUS / f"{name}.otlp.jsonl.gz", "rt", encoding="utf-8") as lines:
            for line in filter(str.strip, lines):
                yield list(decode_document(json.loads(line), READER.projection).spans)


@pytest.fixture
def garbage() -> Iterator[list[object]]:
    """Keep what is only freed by the collector."""
    gc.collect()
    gc.disable()
    gc.set_debug(gc.DEBUG_SAVEALL)
    try:
        yield gc.garbage
    finally:
        gc.set_debug(0)
        gc.garbage.clear()
        gc.enable()


def test_no_object_of_these_classes_is_in_a_cycle_or_held_by_one(garbage: list[object]) -> None:
    judged = packed = 0
    checks = [count(any=1), order("get_weather"), args("get_weather", {"city": "Paris"}), output("get_weather", "sunny")]
    pipe, now_ns = pipeline(*checks, limits=BufferLimits(limit_bytes=100_000)), SECOND_NS
    for spans in requests():
        pipe.add(spans, now_ns=now_ns, transport="grpc")
        now_ns += 20 * SECOND_NS
        reports = pipe.pop_due(now_ns=now_ns)
        packed += any(trace.is_packed for trace in pipe.traces._settled)  # noqa: SLF001 - nothing else tells
        for report in reports:
            judged += 1
            for verdict in report.verdicts:
                assert verdict.score is not None
                repr(verdict.score.justification)
                verdict.score.justification.details()
                list(verdict.score.justification.comparisons())
                verdict.score.justification.explain()
            del report, verdict
        del reports
    del pipe, spans
    assert judged > 300
    assert packed > 50
    assert found(garbage) == set()


def test_such_a_cycle_would_be_found(garbage: list[object]) -> None:
    make_cycle()
    assert found(garbage) == {"Payload"}


def make_cycle() -> None:
    made: list[Payload] = []
    made.append(Payload(None, lambda _: made[0].content))


def found(garbage: list[object]) -> frozenset[str]:
    gc.collect()
    return ACYCLIC & {type(one).__name__ for one in garbage}


def test_each_of_these_classes_is_defined_once_in_the_core() -> None:
    sources = "".join(path.read_text(encoding="utf-8") for path in core_of(ROOT))
    assert {name: sources.count(f"\nclass {name}:") + sources.count(f"\nclass {name}(") for name in ACYCLIC} == dict.fromkeys(ACYCLIC, 1)
