"""Builds the forwarder from settings. Apart from ``build``, since ``check`` needs it where the sidecar's extra is missing."""

from __future__ import annotations

from typing import TYPE_CHECKING

from otel_toolcall_eval.settings.endpoint import OtlpProtocol, protocol_of
from otel_toolcall_eval.settings.service import Compression

if TYPE_CHECKING:
    from collections.abc import Callable

    from otel_toolcall_eval.exporters.forward.downstream import Client
    from otel_toolcall_eval.exporters.forward.forwarder import Forwarder
    from otel_toolcall_eval.settings.service import Settings


def build_client(settings: Settings, *, version: str) -> Client | None:
    """Build the client for the downstream; None if nothing is forwarded.

    Raises:
        SettingsError: a file can't be used.
    """
    from otel_toolcall_eval.exporters.forward.downstream import Downstream  # noqa: PLC0415 - the sidecar's extra is needed from here on only
    from otel_toolcall_eval.exporters.forward.grpc_client import GrpcClient  # noqa: PLC0415
    from otel_toolcall_eval.exporters.forward.http_client import HttpClient  # noqa: PLC0415

    forward = settings.forward
    if forward.endpoint is None:
        return None
    protocol = protocol_of("forward.endpoint", forward.endpoint, forward.protocol)
    downstream = Downstream(
        endpoint=forward.endpoint,
        headers=forward.headers,
        token_file=forward.token_file,
        gzip=forward.compression is Compression.GZIP,
        ca_file=forward.ca_file,
        cert_file=forward.cert_file,
        key_file=forward.key_file,
        timeout_seconds=forward.timeout_ns / 1e9,
        user_agent=f"otel-toolcall-eval/{version}",
    )
    return GrpcClient(downstream) if protocol is OtlpProtocol.GRPC else HttpClient(downstream)


def build_forwarder(client: Client | None, settings: Settings, *, on_delivered: Callable[[float], None] | None) -> Forwarder | None:
    """Build the forwarder; nothing runs yet."""
    from otel_toolcall_eval.exporters.forward.forwarder import Forwarder  # noqa: PLC0415

    if client is None:
        return None
    forward = settings.forward
    return Forwarder(
        client,
        queue_bytes=forward.queue_bytes,
        max_elapsed_seconds=forward.max_elapsed_ns / 1e9,
        on_delivered=on_delivered,
    )
