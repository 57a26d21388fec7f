"""What is wrong with how a processor was registered is said once, and what is right is not."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from opentelemetry.sdk.trace import ConcurrentMultiSpanProcessor, ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from otel_toolcall_eval import ToolCallEvalSpanProcessor
from otel_toolcall_eval.cli.demo_agent.weather_agent import EVALUATIONS
from otel_toolcall_eval.inprocess.registration import Registration
from tests.patience import PATIENCE_SECONDS

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from opentelemetry.sdk.trace import SpanProcessor


def ours(*criteria: object, following: SpanProcessor | None = None) -> ToolCallEvalSpanProcessor:
    return ToolCallEvalSpanProcessor(criteria[0] if criteria else (), next=following)  # type: ignore[arg-type]  # a path, or none


def exporting() -> SpanProcessor:
    return SimpleSpanProcessor(InMemorySpanExporter())


def twice() -> Sequence[SpanProcessor]:
    processor = ours()
    return processor, processor


def wrapped_and_beside() -> Sequence[SpanProcessor]:
    following = BatchSpanProcessor(InMemorySpanExporter())
    return ours(following=following), following


@pytest.mark.parametrize(
    ("processors", "said"),
    [
        pytest.param(lambda: (ours(), exporting()), [], id="before-the-exporter"),
        pytest.param(lambda: (ours(following=exporting()),), [], id="wrapping"),
        pytest.param(lambda: (exporting(), ours(following=exporting())), [], id="wrapping-after-another"),
        pytest.param(lambda: (ours(), ours(EVALUATIONS)), [], id="two-with-other-criteria"),
        pytest.param(lambda: (exporting(), ours()), ["is registered after a processor that exports"], id="after-the-exporter"),
        pytest.param(twice, ["is registered twice"], id="twice"),
        pytest.param(
            lambda: (ours(EVALUATIONS), ours(EVALUATIONS)), ["two ToolCallEvalSpanProcessors judge by the same criteria"] * 2, id="two"
        ),
        pytest.param(wrapped_and_beside, ["spans are exported twice"], id="wrapped-and-beside"),
    ],
)
def test_order_and_repetition(processors: Callable[[], Sequence[SpanProcessor]], said: list[str], caplog: pytest.LogCaptureFixture) -> None:
    # a processor more with every job
    provider = TracerProvider(shutdown_on_exit=False)
    for processor in processors():
        provider.add_span_processor(processor)
    for _ in range(3):
        provider.get_tracer("agent").start_span("root").end()
    provider.shutdown()
    found = [record.getMessage() for record in caplog.records if record.name == "otel_toolcall_eval.inprocess.registration"]
    assert len(found) == len(said)
    assert all(words in text for words, text in zip(said, found, strict=True))


def test_registration_that_comes_later_is_looked_at_too(caplog: pytest.LogCaptureFixture) -> None:
    provider = TracerProvider(shutdown_on_exit=False)
    processor = ours()
    provider.add_span_processor(processor)
    provider.get_tracer("agent").start_span("root").end()
    assert caplog.records == []
    provider.add_span_processor(processor)
    provider.get_tracer("agent").start_span("root").end()
    assert ["registered twice" in record.getMessage() for record in caplog.records] == [True]
    provider.shutdown()


def test_provider_of_another_kind_is_left_alone(caplog: pytest.LogCaptureFixture) -> None:
    provider = TracerProvider(active_span_processor=ConcurrentMultiSpanProcessor(2), shutdown_on_exit=False)
    provider.add_span_processor(ours())
    provider.get_tracer("agent").start_span("root").end()
    provider.shutdown()
    assert caplog.records == []


LATE_METER_PROVIDER = """
import sys
from opentelemetry import metrics
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.trace import TracerProvider
from otel_toolcall_eval import ToolCallEvalSpanProcessor
import logging
logging.basicConfig(format="%(message)s", stream=sys.stdout)

order = sys.argv[1]
if order == "before":
    metrics.set_meter_provider(MeterProvider())
provider = TracerProvider()
provider.add_span_processor(ToolCallEvalSpanProcessor())
if order == "after":
    metrics.set_meter_provider(MeterProvider())
provider.get_tracer("agent").start_span("root").end()
provider.shutdown()
"""


@pytest.mark.parametrize(("order", "warned"), [("before", False), ("after", True), ("never", False)])
def test_meter_provider_that_is_set_too_late_is_told_of(order: str, *, warned: bool) -> None:
    ended = subprocess.run(
        [sys.executable, "-c", LATE_METER_PROVIDER, order], check=True, capture_output=True, text=True, timeout=PATIENCE_SECONDS
    )
    assert ("the MeterProvider was set after" in ended.stdout) is warned


ANOTHER_PROVIDER = """
import sys
from opentelemetry import trace
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import SpanLimits, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor, SpanExporter, SpanExportResult
from otel_toolcall_eval import ToolCallEvalSpanProcessor, expect_tool_calls
import logging
logging.basicConfig(format="%(message)s", stream=sys.stdout)

class Printing(SpanExporter):
    def __init__(self, name):
        self.name = name

    def export(self, spans):
        for span in spans:
            longest = max((len(value) for value in span.attributes.values() if isinstance(value, str)), default=0)
            assert longest <= 30, longest
            sys.stdout.write(f"{self.name} {span.resource.attributes['service.name']} {span.name}\\n")  # at once, since threads do
        return SpanExportResult.SUCCESS

def provider_of(name):
    return TracerProvider(resource=Resource({"service.name": name}), span_limits=SpanLimits(max_span_attribute_length=30))

case = sys.argv[1]
agents, others = provider_of("agents"), provider_of("others")
others.add_span_processor(SimpleSpanProcessor(Printing("others")))
agents.add_span_processor(ToolCallEvalSpanProcessor(tracer_provider=others if case == "given" else None))
if case != "none":
    trace.set_tracer_provider(agents if case == "global" else others)
agents.add_span_processor(SimpleSpanProcessor(Printing("agents")))
for _ in range(2):
    with expect_tool_calls({"ToolCallCountEvaluator": {"tool_calls_count": {"search": ("=", 1)}}}):
        agents.get_tracer("agent").start_span("root").end()
    agents.force_flush()
agents.shutdown()
"""


@pytest.mark.parametrize(
    ("case", "goes_to"), [("global", "agents agents"), ("none", "agents agents"), ("another", "agents agents"), ("given", "others others")]
)
def test_spans_with_verdicts_go_where_the_agents_spans_go(case: str, goes_to: str) -> None:
    ended = subprocess.run(
        [sys.executable, "-c", ANOTHER_PROVIDER, case], check=True, capture_output=True, text=True, timeout=PATIENCE_SECONDS
    )
    assert sorted(ended.stdout.splitlines()) == sorted(["agents agents root", f"{goes_to} evaluate_tool_calls"] * 2)


def test_spans_with_verdicts_go_to_the_global_provider_where_the_agents_can_not_be_found(caplog: pytest.LogCaptureFixture) -> None:
    told: list[object] = []
    registration = Registration(exporting(), criteria=frozenset(), wrapped=None, meter_provider=None, on_provider=told.append)
    registration.look(ReadableSpan("root"))
    assert (told, caplog.records) == ([], [])
