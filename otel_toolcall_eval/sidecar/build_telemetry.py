"""Builds the exporters of the sidecar's own telemetry from settings."""

from __future__ import annotations

import logging
import os
from typing import TYPE_CHECKING

from otel_toolcall_eval.exporters.forward.downstream import Downstream
from otel_toolcall_eval.exporters.forward.forwarder import OtlpEventSender
from otel_toolcall_eval.exporters.forward.grpc_client import GrpcClient
from otel_toolcall_eval.exporters.forward.http_client import HttpClient
from otel_toolcall_eval.exporters.metrics.aggregator import Aggregator
from otel_toolcall_eval.exporters.metrics.export_plan import ExportPlan
from otel_toolcall_eval.exporters.otlp import ExportSignal, OtlpSettings, client_options, find_target, metric_exporter
from otel_toolcall_eval.exporters.telemetry import Telemetry, own_resource
from otel_toolcall_eval.otlp.replies import Signal
from otel_toolcall_eval.settings.endpoint import OtlpProtocol, is_own_address

if TYPE_CHECKING:
    from collections.abc import Collection

    from otel_toolcall_eval.exporters.forward.downstream import Client
    from otel_toolcall_eval.exporters.otlp import ExportTarget

_logger = logging.getLogger(__name__)

_WIRE_SIGNALS = {ExportSignal.LOGS: Signal.LOGS, ExportSignal.TRACES: Signal.TRACES}


def build_telemetry(
    *,
    version: str,
    otlp: OtlpSettings | None = None,
    export: bool = True,
    logs: bool = True,
    traces: bool = True,
    listening: Collection[tuple[str, int]] = (),
) -> Telemetry:
    """Build where our telemetry goes; it begins to be sent.

    Args:
        version: ours; becomes ``service.version``.
        otlp: what the service file says of OTLP.
        export: False sends nothing, whatever is named; ``/metrics`` remains.
        logs: whether log events are wanted.
        traces: whether our span with the span events is wanted.
        listening: host and port of our own receivers, to warn of a loop.

    Raises:
        SettingsError: an endpoint, protocol or other ``OTEL_EXPORTER_OTLP_*`` variable can't be used; nothing is left running.
    """
    wanted = {ExportSignal.METRICS: export, ExportSignal.LOGS: export and logs, ExportSignal.TRACES: export and traces}
    found = {signal: find_target(signal, otlp or OtlpSettings(), os.environ) for signal, on in wanted.items() if on}
    targets = {signal: target for signal, target in found.items() if target is not None}
    for target in targets.values():
        if is_own_address(target.endpoint, target.protocol, listening):
            _logger.warning(
                "OTLP endpoint is our own listener, so what we send goes nowhere; name a collector", extra={"setting": target.origin}
            )
    # All clients before anything that has threads.
    plan = ExportPlan.of(os.environ)
    clients = {signal: _client(target, version) for signal, target in targets.items() if signal is not ExportSignal.METRICS}
    exporter = None
    if ExportSignal.METRICS in targets:
        options = client_options(ExportSignal.METRICS, os.environ)  # refuses what the exporter would only log
        exporter = metric_exporter(targets[ExportSignal.METRICS], timeout_seconds=options.timeout_seconds)
    return Telemetry(
        aggregator=Aggregator(own_resource(version)),
        exporter=exporter,
        plan=plan,
        outlets={signal: OtlpEventSender(client, _WIRE_SIGNALS[signal]) for signal, client in clients.items()},
        targets=targets,
    )


def _client(target: ExportTarget, version: str) -> Client:
    options = client_options(target.signal, os.environ)
    downstream = Downstream(
        endpoint=target.endpoint,
        headers=options.headers,
        gzip=options.gzip,
        ca_file=options.ca_file,
        cert_file=options.cert_file,
        key_file=options.key_file,
        timeout_seconds=options.timeout_seconds,
        user_agent=f"otel-toolcall-eval/{version}",
        is_whole=True,
        by_proxy=True,
        named=("OTEL_EXPORTER_OTLP_CERTIFICATE", "OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE", "OTEL_EXPORTER_OTLP_CLIENT_KEY"),
    )
    return GrpcClient(downstream) if target.protocol is OtlpProtocol.GRPC else HttpClient(downstream)
