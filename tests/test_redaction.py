"""Secrets in arguments and outputs, with ``explain.values: full``: they leave unless redaction takes them out, and then nowhere.

Held where explanations go: log events, events on a span of ours, lines on the console, and the root that carries its verdicts; in the
sidecar and in the agent's own process.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from opentelemetry.sdk._logs import LoggerProvider
from opentelemetry.sdk._logs.export import InMemoryLogRecordExporter, SimpleLogRecordProcessor
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from otel_toolcall_eval import ToolCallEvalSpanProcessor
from tests.exporters.sinks import Sink, grpc_sink
from tests.patience import PATIENCE_SECONDS
from tests.sidecar.test_sidecar import otlp, otlp_span
from tests.sidecar_process import running_sidecar, send_json

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

WORD = "tell-tale"
PLAIN = f"{WORD}-plain"
SHOWN: dict[str, Any] = {"explain": {"values": "full", "redact": {"defaults": False}}}
REDACTED: dict[str, Any] = {"explain": {"values": "full", "redact": {"keys": ["iban"], "patterns": ["KD-[a-z0-9-]+"]}}}
JUDGED = {
    "ToolCallArgsEvaluator": {"tool_calls": [{"name": "pay", "args": {"password": f"{WORD}-expected", "q": PLAIN}}]},
    "ToolCallOutputEvaluator": {"tool_outputs": [{"name": "pay", "output": {"session_token": f"{WORD}-expected"}}]},
}
ARGUMENTS = {
    "q": PLAIN,
    "password": f"{WORD}-1",
    "nested": {"deep": [{"apiKey": f"{WORD}-2"}, {"X-Auth-Token": [f"{WORD}-3", {"a": f"{WORD}-4"}]}]},
    "body": json.dumps({"client_secret": f"{WORD}-5", "inner": json.dumps({"Cookie": f"{WORD}-6"})}),
    "cut": json.dumps({"secret": f"{WORD}-7" * 3})[:30],
    "headers": f"Accept: x\nAuthorization: Basic {WORD}-8\nHost: y",
    "url": f"https://me:{WORD}-9@host/?access_token={WORD}-10&q=1",
    "note": f"send it with Bearer {WORD}-11-abcdef please, to KD-{WORD}-12",
    "customerIBAN": f"{WORD}-13",
    "key": "-----BEGIN PRIVATE KEY-----\n" + f"{WORD}-14\n",
}
OUTPUT = {"session_token": f"{WORD}-15", "paid": True}
SECRETS = 15


@pytest.fixture
def sink() -> Iterator[Sink]:
    yield from grpc_sink()


def write(folder: Path, settings: dict[str, Any]) -> Path:
    judged = {"evaluations": [{"id": "set", "name": "set", "match": "all", "evaluation_criterias": JUDGED}]}
    (folder / "set.yaml").write_text(json.dumps(judged), encoding="utf-8")
    file = folder / "settings.yaml"
    file.write_text(json.dumps({"criteria": ["set.yaml"], **settings}), encoding="utf-8")
    return file


def hold(said: dict[str, str], *, shown: bool) -> None:
    """Hold that all secrets stand in each of the places, or none in any; what is none stands there in either case."""
    for where, text in said.items():
        missing = [number for number in range(1, SECRETS + 1) if f"{WORD}-{number}" not in text]
        assert PLAIN in text, where
        if shown:
            assert (where, missing) == (where, [])
        else:
            assert text.replace(PLAIN, "").count(WORD) == 0, f"{where}: {text}"
            assert "[REDACTED]" in text


def traced() -> dict[str, object]:
    """Return a trace whose tool was called with secrets, and returned one."""
    attributes = {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": "pay",
        "gen_ai.tool.call.arguments": json.dumps(ARGUMENTS),
        "gen_ai.tool.call.result": json.dumps(OUTPUT),
    }
    tool = {**otlp_span(1, 2, parent=1), "attributes": [{"key": key, "value": {"stringValue": text}} for key, text in attributes.items()]}
    return otlp(otlp_span(1, 1), tool)


@pytest.mark.parametrize("shown", [True, False], ids=["without-rules", "with-rules"])
def test_the_sidecar_shows_secrets_only_without_rules(sink: Sink, tmp_path: Path, *, shown: bool) -> None:
    environ = {"OTEL_EXPORTER_OTLP_ENDPOINT": sink.endpoint}
    with running_sidecar("--config", str(write(tmp_path, SHOWN if shown else REDACTED)), environ=environ) as sidecar:
        send_json(sidecar.http, traced())
        lines = [json.dumps(sidecar.verdicts.get(timeout=PATIENCE_SECONDS)) for _ in JUDGED]
        assert sidecar.terminate() == 0
    records = "".join(str(record) for _, record in sink.received.records())
    ((_, span),) = sink.received.spans()
    hold({"console": "".join(lines), "log events": records, "span events": str(span)}, shown=shown)
    assert WORD not in "".join(sidecar.log)


@pytest.mark.parametrize("shown", [True, False], ids=["without-rules", "with-rules"])
@pytest.mark.parametrize("wrapping", [True, False], ids=["wrapping", "beside"])
def test_the_processor_shows_secrets_only_without_rules(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, shown: bool, wrapping: bool
) -> None:
    monkeypatch.setenv("OTEL_TOOLCALL_EVAL_COMPLETION_ROOT_EXPORT_TIMEOUT", f"{PATIENCE_SECONDS:g}s")  # on a busy machine 50 ms pass unseen
    spans, logs = InMemorySpanExporter(), InMemoryLogRecordExporter()  # type: ignore[no-untyped-call]  # the SDK left it without types
    logger_provider = LoggerProvider(shutdown_on_exit=False)
    logger_provider.add_log_record_processor(SimpleLogRecordProcessor(logs))
    provider = TracerProvider(shutdown_on_exit=False)
    exporting = SimpleSpanProcessor(spans)
    processor = ToolCallEvalSpanProcessor(
        next=exporting if wrapping else None,
        settings_file=write(tmp_path, SHOWN if shown else REDACTED),
        logger_provider=logger_provider,
        tracer_provider=provider,
    )
    provider.add_span_processor(processor)
    if not wrapping:
        provider.add_span_processor(exporting)
    tracer = provider.get_tracer("agent")
    with tracer.start_as_current_span("root"):
        attributes = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "pay", "gen_ai.tool.call.result": json.dumps(OUTPUT)}
        tracer.start_span("execute_tool pay", attributes={**attributes, "gen_ai.tool.call.arguments": json.dumps(ARGUMENTS)}).end()
    assert processor.force_flush(int(PATIENCE_SECONDS * 1000))
    provider.shutdown()
    (carrier,) = [span for span in spans.get_finished_spans() if span.events]
    assert carrier.name == ("root" if wrapping else "evaluate_tool_calls")
    events = "".join(str(dict(event.attributes or {})) for event in carrier.events)
    records = "".join(str(dict(entry.log_record.attributes or {})) for entry in logs.get_finished_logs())
    hold({"span events": events, "log events": records}, shown=shown)
