"""A process that sends recorded runs through the ordinary Python SDK and exporter.

Run by a Python that has nothing but some version of the SDK, so it imports nothing of ours. Its twin is ``node/sender.mjs``.

``python_sender.py OPTIONS``, JSON: ``runs`` (path of the recorded runs), ``endpoint``, ``protocol``, ``gzip``, ``batch`` (most spans of
one request), ``flush_every`` (traces). It sends run after run, over and over, from the start until standard input ends; then it flushes and
prints one line: ``{"sent": {trace ID: [run, number of spans, ID of the root span]}, "given_up": [trace ID]}``. ``most`` bounds the traces.
"""

from __future__ import annotations

import json
import logging
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.trace import SpanContext, Tracer, set_span_in_context

if TYPE_CHECKING:
    from collections.abc import Sequence

    from opentelemetry.sdk.trace import ReadableSpan

TOOL_SECONDS = 0.001
"""A tool takes its time; it also keeps a sender from piling up more than a test has to wait for."""

PATIENCE_SECONDS = 120
"""For one request with all its retries, so that the exporters' own default of 10 s is nothing that a slow machine can meet."""


class Watched(SpanExporter):
    """Notes which traces the exporter gave up."""

    def __init__(self, exporter: SpanExporter) -> None:
        self._exporter = exporter
        self.given_up: set[str] = set()

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        result = SpanExportResult.FAILURE
        try:
            result = self._exporter.export(spans)
        finally:  # the HTTP exporter of older versions raises when there is nobody to connect to
            if result is not SpanExportResult.SUCCESS:
                self.given_up.update(f"{span.context.trace_id:032x}" for span in spans if span.context is not None)
                sys.stderr.write("given up\n")
                sys.stderr.flush()
        return result

    def shutdown(self) -> None:
        self._exporter.shutdown()

    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        return self._exporter.force_flush(timeout_millis)


def exporter(options: dict[str, Any]) -> SpanExporter:
    if options["protocol"] == "grpc":
        from grpc import Compression  # noqa: PLC0415 - as an agent would, only what it needs
        from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter as Grpc  # noqa: PLC0415

        packed = Compression.Gzip if options["gzip"] else Compression.NoCompression
        return Grpc(endpoint=options["endpoint"], insecure=True, timeout=PATIENCE_SECONDS, compression=packed)
    from opentelemetry.exporter.otlp.proto.http import Compression as HttpCompression  # noqa: PLC0415
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter as Http  # noqa: PLC0415

    packing = HttpCompression.Gzip if options["gzip"] else HttpCompression.NoCompression
    return Http(endpoint=options["endpoint"] + "/v1/traces", timeout=PATIENCE_SECONDS, compression=packing)


def replay(run: list[dict[str, Any]], tracer: Tracer) -> SpanContext:
    """Make the spans of a run anew, children ended before their parents, and return the context of the root."""
    root, *children = run
    parent = tracer.start_span(root["name"], attributes=root["attributes"])
    for child in children:
        with tracer.start_as_current_span(child["name"], set_span_in_context(parent), attributes=child["attributes"]):
            time.sleep(TOOL_SECONDS)
    parent.end()
    return parent.get_span_context()


def main() -> None:
    logging.basicConfig(level=logging.INFO, stream=sys.stderr)
    options = json.loads(sys.argv[1])
    recorded = json.loads(Path(options["runs"]).read_text(encoding="utf-8"))
    reading = threading.Thread(target=sys.stdin.read, daemon=True)
    reading.start()

    watched = Watched(exporter(options))
    batches = BatchSpanProcessor(watched, schedule_delay_millis=3_600_000, max_export_batch_size=options["batch"])
    provider = TracerProvider(resource=Resource.create({"service.name": recorded["service"]}), shutdown_on_exit=False)
    provider.add_span_processor(batches)
    tracer = provider.get_tracer(recorded["scope"])
    runs = recorded["runs"]
    sent: dict[str, tuple[int, int, str]] = {}
    while len(sent) < options["most"] and reading.is_alive():
        number = len(sent) % len(runs)
        root = replay(runs[number], tracer)
        sent[f"{root.trace_id:032x}"] = number, len(runs[number]), f"{root.span_id:016x}"
        if len(sent) % options["flush_every"] == 0:
            provider.force_flush(PATIENCE_SECONDS * 1000)
    provider.force_flush(PATIENCE_SECONDS * 1000)
    provider.shutdown()
    sys.stdout.write(json.dumps({"sent": sent, "given_up": sorted(watched.given_up)}) + "\n")


if __name__ == "__main__":
    main()
