"""Builds what passes requests on from settings, for ``wiring``."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from otel_toolcall_eval.assembly.completion import Unit
from otel_toolcall_eval.endpoint import OtlpProtocol, protocol_of
from otel_toolcall_eval.pipeline import OWN_SCOPE
from otel_toolcall_eval.settings.service import Compression

if TYPE_CHECKING:
    from collections.abc import Callable

    from otel_toolcall_eval.forwarding.delivery import Client
    from otel_toolcall_eval.forwarding.forwarder import Forwarder
    from otel_toolcall_eval.settings.service import Settings

LATE_NS = 30_000_000_000
"""How much longer than the longest wait after a root a root is held: judging may be behind."""

ROOTS_SHARE = 2
"""Roots that are held take this part of the queue's bound at most."""


def build_client(settings: Settings, *, version: str) -> Client | None:
    """Build what speaks to the downstream; None if nothing is passed on.

    Raises:
        SettingsError: a file can't be used.
    """
    from otel_toolcall_eval.forwarding.downstream import Downstream  # noqa: PLC0415 - the sidecar's extra is needed from here on only
    from otel_toolcall_eval.forwarding.grpc_client import GrpcClient  # noqa: PLC0415
    from otel_toolcall_eval.forwarding.http_client import HttpClient  # noqa: PLC0415

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
    """Build what passes requests on to a client; nothing runs yet."""
    from otel_toolcall_eval.forwarding.forwarder import Forwarder  # noqa: PLC0415
    from otel_toolcall_eval.forwarding.held_roots import HeldRoots  # noqa: PLC0415

    if client is None:
        return None
    forward, completion = settings.forward, settings.completion
    roots = HeldRoots(
        limit_bytes=forward.queue_bytes // ROOTS_SHARE,
        longest_ns=completion.wait_after_root_max_ns + LATE_NS,
        by_unit=completion.unit is Unit.AGENT_INVOCATION,
        own_scope=OWN_SCOPE,
        clock=time.monotonic_ns,
    )
    return Forwarder(
        client,
        queue_bytes=forward.queue_bytes,
        max_elapsed_seconds=forward.max_elapsed_ns / 1e9,
        roots=roots if forward.attach_to_root else None,
        on_delivered=on_delivered,
    )
