"""Traces that merge, repeat, nest and grow, again and again: every verdict is right, and memory stays where it was."""

from __future__ import annotations

import gc
import json
import resource
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.sdk._logs import LoggerProvider
from opentelemetry.sdk._logs.export import InMemoryLogRecordExporter, SimpleLogRecordProcessor
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import set_span_in_context

from otel_toolcall_eval import ToolCallEvalSpanProcessor, evaluate
from otel_toolcall_eval.engine.binding import CRITERIA_ATTRIBUTE
from tests.patience import PATIENCE_SECONDS
from tests.sidecar_process import post, running_sidecar

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from opentelemetry.sdk.trace import ReadableSpan

SIZES: Final = (2, 12, 33, 120, 600)
ROUNDS: Final = 120
LARGEST_EVERY: Final = 6
MOST_MIB: Final = 30

pytestmark = pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="memory is read from /proc")


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A trace of so many tool spans.

    Attributes:
        ids: ``same``, ``some`` (every third span has it), ``no`` or ``own`` call IDs.
        nested: each span is the parent of the next, in place of siblings that follow each other.
    """

    size: int
    ids: str
    nested: bool

    @property
    def name(self) -> str:
        return f"{self.ids}-{self.size}-{'nested' if self.nested else 'flat'}"

    @property
    def calls(self) -> int:
        """Return how many calls the spans show: those with one ID are one."""
        shared = {"same": self.size, "some": len(range(0, self.size, 3)), "no": 0, "own": 0}[self.ids]
        return self.size - shared + bool(shared)

    @property
    def criteria(self) -> dict[str, dict[str, object]]:
        return {
            "ToolCallCountEvaluator": {"tool_calls_count": {"search": ["=", self.calls]}},
            "ToolCallOrderEvaluator": {"tool_calls_order": ["search"] * self.calls},
        }

    def play(self, provider: TracerProvider) -> None:
        tracer = provider.get_tracer("agent")
        root = tracer.start_span("root", start_time=1, attributes={CRITERIA_ATTRIBUTE: self.name})
        context, open_spans = set_span_in_context(root), [root]
        for number in range(self.size):
            is_shared = self.ids == "same" or (self.ids == "some" and number % 3 == 0)
            texts = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "search", "gen_ai.tool.call.result": "[1]"}
            texts["gen_ai.tool.call.arguments"] = json.dumps({"q": 0 if is_shared else number})
            if is_shared or self.ids == "own":
                texts["gen_ai.tool.call.id"] = "one" if is_shared else f"call {number}"
            span = tracer.start_span("execute_tool search", context, start_time=10 * number + 2, attributes=texts)
            if self.nested:
                context = set_span_in_context(span)
                open_spans.append(span)
            else:
                span.end(10 * number + 7)
        for later, span in enumerate(reversed(open_spans)):
            span.end(10 * self.size + 10 + later)


CASES: Final = [Case(size=size, ids=ids, nested=False) for size in SIZES for ids in ("same", "some", "no", "own")]
CASES.extend(Case(size=size, ids=ids, nested=True) for size in SIZES for ids in ("same", "no", "own"))


def recorded(case: Case) -> Sequence[ReadableSpan]:
    spans, provider = InMemorySpanExporter(), TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(spans))
    case.play(provider)
    return spans.get_finished_spans()


def criteria_file(folder: Path) -> Path:
    evaluations = [{"id": case.name, "match": "named", "evaluation_criterias": case.criteria} for case in CASES]
    path = folder / "criteria.json"
    path.write_text(json.dumps({"evaluations": evaluations}), encoding="utf-8")
    return path


def mib(process: int | str = "self") -> float:
    return int(Path(f"/proc/{process}/statm").read_text(encoding="ascii").split()[1]) * resource.getpagesize() / 2**20


def hammer(judge: Callable[[Case], set[tuple[str, float, str]]], *, process: int | str = "self") -> None:
    """Evaluate each case again and again, in alternating order, the largest every sixth time; a third of the rounds is the warm-up."""
    warm = 0.0
    for turn in range(ROUNDS):
        if turn == ROUNDS // 3:
            gc.collect()
            warm = mib(process)
        for case in CASES[:: 1 if turn % 2 else -1]:
            if case.size == max(SIZES) and turn % LARGEST_EVERY:  # most of all spans are theirs
                continue
            assert judge(case) == {(name, 1.0, "pass") for name in case.criteria}, (turn, case)
    gc.collect()
    assert mib(process) - warm < MOST_MIB


@pytest.mark.slow
def test_the_library_is_right_each_time() -> None:
    spans = {case: recorded(case) for case in CASES}
    hammer(lambda case: {(name, one.score, one.label.value) for name, one in evaluate(spans[case], case.criteria).items()})


@pytest.mark.slow
def test_the_span_processor_is_right_each_time(tmp_path: Path) -> None:
    logs = InMemoryLogRecordExporter()  # type: ignore[no-untyped-call]  # the SDK left it without types
    logger_provider, meter_provider = LoggerProvider(shutdown_on_exit=False), MeterProvider(shutdown_on_exit=False)
    logger_provider.add_log_record_processor(SimpleLogRecordProcessor(logs))
    provider = TracerProvider(shutdown_on_exit=False)
    processor = ToolCallEvalSpanProcessor(
        criteria_file(tmp_path), meter_provider=meter_provider, logger_provider=logger_provider, tracer_provider=provider
    )
    provider.add_span_processor(processor)

    def judge(case: Case) -> set[tuple[str, float, str]]:
        case.play(provider)
        assert processor.force_flush()
        told = [one.log_record.attributes or {} for one in logs.get_finished_logs()]
        logs.clear()
        assert {one["toolcall_eval.criteria"] for one in told} == {case.name}
        keys = ("gen_ai.evaluation.name", "gen_ai.evaluation.score.value", "gen_ai.evaluation.score.label")
        return {(str(name), float(str(score)), str(label)) for name, score, label in ([one[key] for key in keys] for one in told)}

    try:
        hammer(judge)
    finally:
        for one in (provider, meter_provider, logger_provider):
            one.shutdown()


@pytest.mark.slow
def test_the_sidecar_is_right_each_time(tmp_path: Path) -> None:
    requests = {case: encode_spans(recorded(case)) for case in CASES}
    sent = 0
    with running_sidecar("--criteria", str(criteria_file(tmp_path)), quiet="1ms") as sidecar:

        def judge(case: Case) -> set[tuple[str, float, str]]:
            nonlocal sent
            sent += 1
            for block in requests[case].resource_spans:
                for group in block.scope_spans:
                    for span in group.spans:
                        span.trace_id = sent.to_bytes(16, "big")
            assert post(sidecar.http, requests[case].SerializeToString(), content_type="application/x-protobuf")[0] == 200
            told = [sidecar.verdicts.get(timeout=PATIENCE_SECONDS) for _ in case.criteria]
            assert {(one["trace_id"], one["criteria"]) for one in told} == {(f"{sent:032x}", case.name)}
            return {(one["evaluator"], one["score"], one["label"]) for one in told}

        hammer(judge, process=sidecar.process.pid)


class Judging:
    """Judges a trace while it is torn down."""

    def __init__(self, spans: Sequence[ReadableSpan], case: Case, scores: list[float]) -> None:
        self.spans, self.case, self.scores = spans, case, scores

    def __del__(self) -> None:
        self.scores.extend(one.score for one in evaluate(self.spans, self.case.criteria).values())


@pytest.mark.parametrize("case", [case for case in CASES if case.size == 120], ids=lambda case: case.name)
def test_a_finaliser_deep_inside_of_what_is_torn_down_gets_the_right_verdict(case: Case) -> None:
    spans = recorded(case)
    scores: list[float] = []
    depths = range(40, 61)  # CPython puts off what is torn down more than 50 levels deep
    for depth in depths:
        torn: object = Judging(spans, case, scores)
        for level in range(depth):
            torn = (torn,) if level % 2 else [torn]
        del torn
    gc.collect()
    assert scores == [1.0] * 2 * len(depths)
