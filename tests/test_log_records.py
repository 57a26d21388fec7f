"""Log records from each edge to the verdict: receivers, the processor, files, and the accounting in between."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from opentelemetry.sdk._logs import LoggerProvider
from opentelemetry.sdk._logs.export import InMemoryLogRecordExporter, SimpleLogRecordProcessor
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.trace import TracerProvider

from otel_toolcall_eval import ToolCallEvalSpanProcessor
from otel_toolcall_eval.__main__ import main
from otel_toolcall_eval.engine.buffer.log_correlator import LogCorrelator
from otel_toolcall_eval.engine.pipeline import Pipeline
from otel_toolcall_eval.engine.worker import Worker
from otel_toolcall_eval.extraction.log_joining import LogJoiner
from otel_toolcall_eval.inprocess.log_processor import TRANSPORT, LogSource
from otel_toolcall_eval.model.criteria import (
    ArgsCriteria,
    ArgsExpectation,
    Check,
    CriteriaSet,
    Selector,
    SelectorScope,
)
from otel_toolcall_eval.model.errors import OverloadedError
from otel_toolcall_eval.model.log_record import LogRecord
from otel_toolcall_eval.model.score import Label
from otel_toolcall_eval.model.trace import Projection, Trigger
from otel_toolcall_eval.otlp.decoded_logs import DecodedLogs
from otel_toolcall_eval.receivers.intake import OtlpIntake
from otel_toolcall_eval.settings.criteria_models import evaluators_by_criteria
from otel_toolcall_eval.settings.dialect_file import default_extractor
from tests.fakes import ListEmitter, span
from tests.otlp.test_protobuf_logs import log, request, text, to_json
from tests.patience import PATIENCE_SECONDS
from tests.receivers.receivers import JSON, LOGS, PROTOBUF, Intake, call, otlp, post, running

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from otel_toolcall_eval.model.trace import Span

STRANDS = {
    "gen_ai.operation.name": "execute_tool",
    "gen_ai.system": "strands-agents",
    "gen_ai.tool.name": "get_weather",
    "gen_ai.tool.call.id": "t1",
}
ROOT = span(1, attributes={"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "a"})
TOOL = span(2, parent=1, attributes=STRANDS)
RECORD = LogRecord(
    trace_id=TOOL.trace_id,
    span_id=TOOL.span_id,
    event_name="gen_ai.tool.message",
    time_unix_ns=21,
    body={"content": '{"city": "Paris"}', "id": "t1"},
    size_bytes=100,
)
ASKS = CriteriaSet(
    name="set",
    checks=(
        Check(
            evaluator="Args",
            evaluator_id="tool-call-args",
            criteria=ArgsCriteria(expectations=(ArgsExpectation(tool="get_weather", arguments={"city": "Paris"}),)),
        ),
    ),
    selector=Selector(reach=SelectorScope.EVERY),
)
LATER_NS = 10**12


def pipeline(*sets: CriteriaSet) -> Pipeline:
    extractor = default_extractor()
    return Pipeline(reader=extractor, evaluators=evaluators_by_criteria(), criteria=sets, logs=LogCorrelator(LogJoiner(extractor.asked)))


def counts(pipe: Pipeline) -> dict[str, int]:
    found: dict[str, int] = {}
    for (what, _), number in pipe.logs.counts.items():
        found[what] = found.get(what, 0) + number
    return found


def test_without_its_log_record_a_verdict_is_inconclusive() -> None:
    pipe = pipeline(ASKS)
    pipe.add([TOOL, ROOT], now_ns=0, transport="grpc")
    (report,) = pipe.pop_due(now_ns=LATER_NS)
    assert [verdict.label for verdict in report.verdicts] == [Label.INCONCLUSIVE]


@settings(max_examples=30, deadline=None)
@given(order=st.permutations([TOOL, ROOT, RECORD, RECORD]))
def test_it_does_not_matter_whether_logs_or_spans_come_first(order: list[Span | LogRecord]) -> None:
    pipe = pipeline(ASKS)
    for now_ns, item in enumerate(order):
        if isinstance(item, LogRecord):
            pipe.add_logs([item], received=2, now_ns=now_ns, transport="grpc")
        else:
            pipe.add([item], now_ns=now_ns, transport="grpc")
    (report,) = pipe.pop_due(now_ns=LATER_NS)
    assert [verdict.label for verdict in report.verdicts] == [Label.PASS]
    assert counts(pipe) == {"received": 4, "ignored": 2, "correlated": 2}


def test_records_of_a_trace_that_nothing_judges_are_dropped() -> None:
    pipe = pipeline()
    pipe.add([TOOL, ROOT], now_ns=0, transport="grpc")
    pipe.add_logs([RECORD], received=1, now_ns=0, transport="grpc")
    pipe.pop_due(now_ns=LATER_NS)
    assert counts(pipe) == {"received": 1, "ignored": 0, "correlated": 0, "dropped": 1}


def test_records_are_there_when_everything_is_judged_in_the_end() -> None:
    pipe = pipeline(ASKS)
    pipe.add_logs([RECORD, RECORD], received=2, now_ns=0, transport="grpc")
    pipe.add([TOOL], now_ns=0, transport="grpc")
    (report,) = pipe.drain(now_ns=1, trigger=Trigger.RECORDED)
    assert report.extraction.calls[0].arguments.content.value == {"city": "Paris"}
    assert pipe.logs.size_bytes == 0


def test_the_worker_queues_records_and_counts_them() -> None:
    worker = Worker(pipeline(ASKS), [ListEmitter()], queue_bytes=2000)
    decoded = DecodedLogs(records=(RECORD,), received=3, size_bytes=1500)
    worker.offer_logs(decoded, transport="grpc")
    with pytest.raises(OverloadedError):
        worker.offer_logs(decoded, transport="grpc")
    worker.start()
    assert worker.shutdown(PATIENCE_SECONDS)
    found = worker.counts()
    assert found["toolcall_eval.log_records.received", (("transport", "grpc"),)] == 3
    assert found["toolcall_eval.log_records.dropped", (("reason", "unmatched"),)] == 1


class LogIntake(Intake):
    """Also remembers log records."""

    def __init__(self) -> None:
        super().__init__()
        self.logs: list[tuple[str, DecodedLogs]] = []

    def offer_logs(self, decoded: DecodedLogs, *, transport: str) -> None:
        if self.failure is not None:
            raise self.failure
        self.logs.append((transport, decoded))


KEEP_E = Projection(event_names=frozenset({"e"}))


def with_logs(intake: LogIntake) -> OtlpIntake:
    return OtlpIntake(sink=intake, logs=intake, projection=lambda: KEEP_E)


BODY = request(log(event_name="e"), log(event_name="other")).SerializeToString()


def test_both_receivers_take_log_records() -> None:
    from otel_toolcall_eval.receivers.grpc.receiver import GrpcReceiver  # noqa: PLC0415 - keeps gRPC out of the tests that need none
    from otel_toolcall_eval.receivers.http.receiver import HttpReceiver  # noqa: PLC0415

    intake = LogIntake()
    with running(GrpcReceiver(intake=with_logs(intake), refused=intake.refused)) as port:
        assert (call(port, BODY, LOGS).code, call(port, BODY, LOGS).body) == ("OK", b"")
        assert call(port, b"\xff\xff", LOGS).code == "INVALID_ARGUMENT"
        intake.failure = RuntimeError("secret")
        failed = call(port, BODY, LOGS)
        assert (failed.code, "secret" in failed.details) == ("INTERNAL", False)
        intake.failure = None
    with running(HttpReceiver(intake=with_logs(intake), refused=intake.refused)) as port:
        assert post(port, BODY, path="/v1/logs").body == b""
        answer = post(port, to_json(request(log(event_name="e"))), JSON, path="/v1/logs")
        assert (answer.status, answer.body) == (200, b"{}")
        assert post(port, b"[", JSON, path="/v1/logs").status == 400
        large = request(log(event_name="e", body=text("x" * 200_000))).SerializeToString()  # decoded on a thread of its own
        assert post(port, large, PROTOBUF, path="/v1/logs").status == 200
    assert [(transport, len(decoded.records), decoded.received) for transport, decoded in intake.logs] == [
        ("grpc", 1, 2),
        ("grpc", 1, 2),
        ("http/protobuf", 1, 2),
        ("http/json", 1, 1),
        ("http/protobuf", 1, 1),
    ]
    assert intake.refusals == [("grpc", "undecodable"), ("grpc", "internal"), ("http/json", "undecodable")]


def test_the_sdks_own_exporters_are_understood() -> None:
    from opentelemetry.exporter.otlp.proto.grpc._log_exporter import OTLPLogExporter as Grpc  # noqa: PLC0415 - as above
    from opentelemetry.exporter.otlp.proto.http._log_exporter import OTLPLogExporter as Http  # noqa: PLC0415

    from otel_toolcall_eval.receivers.grpc.receiver import GrpcReceiver  # noqa: PLC0415
    from otel_toolcall_eval.receivers.http.receiver import HttpReceiver  # noqa: PLC0415

    intake = LogIntake()
    grpc_receiver = GrpcReceiver(intake=with_logs(intake), refused=intake.refused)
    http_receiver = HttpReceiver(intake=with_logs(intake), refused=intake.refused)
    with running(grpc_receiver) as grpc_port, running(http_receiver) as http_port:
        provider = LoggerProvider(shutdown_on_exit=False)
        for exporter in (Grpc(endpoint=f"127.0.0.1:{grpc_port}", insecure=True), Http(endpoint=f"http://127.0.0.1:{http_port}/v1/logs")):
            provider.add_log_record_processor(SimpleLogRecordProcessor(exporter))
        with TracerProvider(shutdown_on_exit=False).get_tracer("t").start_as_current_span("s") as current:
            provider.get_logger("x").emit(event_name="e", body={"content": "hi"}, attributes={"a": 1})
        provider.shutdown()
    context = current.get_span_context()
    for _, decoded in intake.logs:
        (record,) = decoded.records
        assert (record.trace_id, record.span_id) == (context.trace_id.to_bytes(16), context.span_id.to_bytes(8))
        assert (record.body, record.attributes) == ({"content": "hi"}, {"a": 1})
    assert [transport for transport, _ in intake.logs] == ["grpc", "http/protobuf"]


def test_receivers_without_a_log_sink_accept_logs_and_ignore_them() -> None:
    from otel_toolcall_eval.receivers.http.receiver import HttpReceiver  # noqa: PLC0415 - as above

    intake = Intake()
    with running(HttpReceiver(intake=otlp(intake), refused=intake.refused)) as port:
        assert post(port, BODY, path="/v1/logs").status == 200


POLICY = """\
evaluations:
  - id: policy
    name: policy
    match: all
    evaluation_criterias:
      ToolCallArgsEvaluator: {tool_calls: [{name: get_weather, args: {city: Paris}}]}
"""


def test_in_process_records_of_the_logger_provider_are_put_on_the_spans(tmp_path: Path) -> None:
    (tmp_path / "policy.yaml").write_text(POLICY, encoding="utf-8")
    exported = InMemoryLogRecordExporter()  # type: ignore[no-untyped-call]  # the SDK left it without types
    logger_provider, tracer_provider = LoggerProvider(shutdown_on_exit=False), TracerProvider(shutdown_on_exit=False)
    meter_provider = MeterProvider(shutdown_on_exit=False)
    logger_provider.add_log_record_processor(SimpleLogRecordProcessor(exported))
    processor = ToolCallEvalSpanProcessor(
        tmp_path / "policy.yaml", meter_provider=meter_provider, logger_provider=logger_provider, tracer_provider=tracer_provider
    )
    tracer_provider.add_span_processor(processor)
    logger_provider.add_log_record_processor(processor.log_record_processor)
    with tracer_provider.get_tracer("strands.telemetry.tracer").start_as_current_span("execute_tool get_weather", attributes=STRANDS):
        logger_provider.get_logger("strands.telemetry.tracer").emit(
            event_name="gen_ai.tool.message", body={"content": '{"city": "Paris"}', "id": "t1"}
        )
    assert processor.log_record_processor.force_flush()
    assert processor.force_flush()
    labels = [(record.log_record.attributes or {}).get("gen_ai.evaluation.score.label") for record in exported.get_finished_logs()]
    assert labels == [None, "pass"]
    processor.log_record_processor.shutdown()
    for provider in (tracer_provider, meter_provider, logger_provider):
        provider.shutdown()


class Sink:
    """Keeps or refuses records."""

    def __init__(self, error: Exception | None = None) -> None:
        self.error = error
        self.decoded: list[DecodedLogs] = []

    def offer_logs(self, decoded: DecodedLogs, *, transport: str) -> None:
        assert transport == TRANSPORT
        if self.error is not None:
            raise self.error
        self.decoded.append(decoded)


@pytest.mark.parametrize(
    "error",
    [
        pytest.param(OverloadedError(where="q", what="full", fix="wait"), id="full"),
        pytest.param(RuntimeError("secret"), id="a fault of ours"),
    ],
)
def test_the_log_processor_never_raises(error: Exception, caplog: pytest.LogCaptureFixture) -> None:
    provider = LoggerProvider(shutdown_on_exit=False)
    refused: list[tuple[str, ...]] = []
    source = LogSource(Sink(error), projection=lambda: KEEP_E, refused=lambda *told: refused.append(told), own_scope="ours")
    provider.add_log_record_processor(source)
    for _ in range(2):
        provider.get_logger("x").emit(event_name="e")
    assert source.dropped == 2
    assert refused == ([(TRANSPORT, "overloaded")] * 2 if isinstance(error, OverloadedError) else [])
    assert source.force_flush()
    assert "secret" not in caplog.text
    assert len(caplog.records) == (0 if isinstance(error, OverloadedError) else 1)
    provider.shutdown()


def test_the_log_processor_passes_over_what_nobody_asks_for_and_our_own() -> None:
    sink = Sink()
    provider = LoggerProvider(shutdown_on_exit=False)
    provider.add_log_record_processor(LogSource(sink, projection=lambda: KEEP_E, refused=lambda *_: None, own_scope="ours"))
    provider.get_logger("ours").emit(event_name="e")
    provider.get_logger("x").emit(body="a message", attributes={"event.name": 3})
    provider.get_logger("x").emit(timestamp=5, attributes={"event.name": "e"}, body={"a": [1]})
    (decoded,) = sink.decoded
    (record,) = decoded.records
    assert (record.trace_id, record.span_id, record.time_unix_ns, record.body) == (None, None, 5, {"a": (1,)})
    provider.shutdown()


def otlp_span(number: int, **attributes: str) -> dict[str, object]:
    return {
        "traceId": f"{1:032x}",
        "spanId": f"{number:016x}",
        "startTimeUnixNano": "10",
        "endTimeUnixNano": "20",
        "attributes": [{"key": key, "value": {"stringValue": value}} for key, value in attributes.items()],
    }


SPANS = {"resourceSpans": [{"scopeSpans": [{"spans": [otlp_span(2, **STRANDS)]}]}]}
LOG_LINE = {
    "timeUnixNano": "15",
    "traceId": f"{1:032x}",
    "spanId": f"{2:016x}",
    "eventName": "gen_ai.tool.message",
    "attributes": [{"key": "content", "value": {"stringValue": '{"city": "Paris"}'}}],
}
LOG_RECORDS = {"resourceLogs": [{"scopeLogs": [{"logRecords": [LOG_LINE]}]}]}


def write(path: Path, *documents: object) -> Path:
    path.write_text("".join(json.dumps(document) + "\n" for document in documents), encoding="utf-8")
    return path


@pytest.mark.parametrize(
    "files",
    [
        pytest.param(lambda at: [write(at / "a.jsonl", LOG_RECORDS, SPANS)], id="lines of one file"),
        pytest.param(lambda at: [write(at / "a.json", {**SPANS, **LOG_RECORDS})], id="one document"),
        pytest.param(lambda at: [write(at / "t.json", SPANS), write(at / "l.json", LOG_RECORDS)], id="two files"),
    ],
)
def test_recorded_log_records_are_read_beside_the_spans(
    files: Callable[[Path], list[Path]], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "policy.yaml").write_text(POLICY, encoding="utf-8")
    paths = [str(path) for path in files(tmp_path)]
    assert main(["calls", *paths, "--format", "json"]) == 0
    (trace,) = json.loads(capsys.readouterr().out)["traces"]
    assert trace["tool_calls"][0]["arguments"] == {"city": "Paris"}
    assert trace["tool_calls"][0]["evidence"] == "span"
    assert main(["evaluate", *paths, "--criteria", str(tmp_path / "policy.yaml")]) == 0


def test_a_damaged_log_line_is_reported_and_the_spans_are_read(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write(tmp_path / "a.jsonl", SPANS, {"resourceLogs": 3})
    assert main(["calls", str(path), "--format", "json"]) == 2
    shown = capsys.readouterr()
    assert len(json.loads(shown.out)["traces"]) == 1
    assert "a.jsonl:2" in shown.err.replace("\n", "")


def test_a_call_that_an_event_shows_says_when_it_ran(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    fields = {"event.name": "codex.tool_result", "tool_name": "shell", "call_id": "c", "duration_ms": "120", "conversation.id": "talk"}
    result = {**LOG_LINE, "eventName": "", "attributes": [{"key": key, "value": {"stringValue": text}} for key, text in fields.items()]}
    path = write(tmp_path / "a.jsonl", SPANS, {"resourceLogs": [{"scopeLogs": [{"logRecords": [result]}]}]})
    assert main(["calls", str(path), "--format", "json"]) == 0
    calls = {call["name"]: call for call in json.loads(capsys.readouterr().out)["traces"][0]["tool_calls"]}
    assert {key: calls["shell"][key] for key in ("evidence", "event_ns", "duration_ms", "conversation_id")} == {
        "evidence": "log_record",
        "event_ns": 15,
        "duration_ms": 120.0,
        "conversation_id": "talk",
    }
    assert {key: calls["get_weather"][key] for key in ("positional", "args_names_from", "event_ns", "duration_ms")} == {
        "positional": [],
        "args_names_from": None,
        "event_ns": None,
        "duration_ms": None,
    }


def test_explanations_name_the_log_record_for_people_and_programs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = str(write(tmp_path / "a.jsonl", LOG_RECORDS, SPANS))
    assert main(["calls", path, "--explain", "--format", "json"]) == 0
    (trace,) = json.loads(capsys.readouterr().out)["traces"]
    (span_explained,) = trace["explain"]
    assert span_explained["outcome"] == "kept"
    assert span_explained["fields"]["arguments"] == {
        "place": "log record gen_ai.tool.message, field content",
        "span_id": f"{2:016x}",
        "dialect": "strands",
    }
    assert main(["calls", path, "--format", "json"]) == 0
    assert "explain" not in json.loads(capsys.readouterr().out)["traces"][0]
    assert main(["calls", path, "--explain"]) == 0
    assert "log record" in " ".join(capsys.readouterr().out.split())
